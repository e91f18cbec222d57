//! The rate of a job's network as its programs keep it themselves (spec/policy P92): one page that all of them share, and
//! until when a call waits by it. Pure but for that page, and lock-free: who holds it may be stopped or killed anywhere.
//! Not in it: which calls, and the waiting.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words of the page: by which rule, bytes a second (0: as many as come), then each way's own.
pub const RULE: usize = 0;
pub const RATE: usize = 1;
pub const WAYS: [usize; 2] = [2, 2 + WAY_WORDS];
/// A power of two, and more than [`STEPS`].
const WAY_WORDS: usize = 128;
pub const WORDS: usize = WAYS[1] + WAY_WORDS;

/// Rules: by an instant that moves on, by what was moved lately.
pub const DEADLINE: u64 = 1;
pub const PAPER: u64 = 2;

/// What a job that rested may make up for: without it, a machine that is busy takes 4 to 16 % from the rate.
const KEPT_NS: u64 = 20_000_000;
/// Less is not slept for: it would double what a call costs at 10 Gbit/s, and the next one makes up for it.
const SLACK_NS: u64 = 500_000;
/// The paper's t, in steps.
const STEPS: u64 = 100;
const STEP_NS: u64 = 1_000_000;
/// A word of the paper's rule: which step, and its bytes.
const BYTES_BITS: u32 = 40;
const BYTES: u64 = (1 << BYTES_BITS) - 1;
const STEP: u64 = u64::MAX >> BYTES_BITS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Sent,
    Received,
}

#[derive(Clone, Copy, Debug)]
pub struct Shared<'a>(&'a [AtomicU64; WORDS]);

impl<'a> Shared<'a> {
    pub fn new(words: &'a [AtomicU64; WORDS]) -> Shared<'a> {
        Shared(words)
    }

    fn word(&self, which: usize) -> u64 {
        self.0.get(which).map_or(0, |word| word.load(Relaxed))
    }

    /// Bytes a second; 0: as many as come.
    pub fn rate(&self) -> u64 {
        self.word(RATE)
    }

    /// Until when a call is to wait that has just moved so many bytes, in nanoseconds of the clock that `now` is of;
    /// no later than that: not at all.
    pub fn until(&self, way: Way, bytes: u64, now: u64) -> u64 {
        let begin = WAYS[way as usize];
        let words = self.0.get(begin..begin + WAY_WORDS).unwrap_or_default();
        match (self.rate(), self.word(RULE)) {
            (0, _) => now,
            (rate, PAPER) => now.saturating_add(by_history(words, bytes, now, rate)),
            (rate, _) => by_deadline(words, bytes, now, rate),
        }
    }
}

fn time_ns(bytes: u64, rate: u64) -> u64 {
    // As a float: whole numbers of this size would need a division that is not there without a library.
    (bytes as f64 * 1e9 / rate as f64 + 0.5) as u64
}

fn by_deadline(words: &[AtomicU64], bytes: u64, now: u64, rate: u64) -> u64 {
    let Some(next) = words.first() else {
        return now;
    };
    let time = time_ns(bytes, rate);
    let moved = |next: u64| next.max(now.saturating_sub(KEPT_NS)).saturating_add(time);
    let before = next.fetch_update(Relaxed, Relaxed, |next| Some(moved(next)));
    let until = before.map_or(now, moved);
    match until.saturating_sub(now) {
        ..=SLACK_NS => now,
        _ => until,
    }
}

/// How long: (bytes of the last t) / rate - t.
fn by_history(words: &[AtomicU64], bytes: u64, now: u64, rate: u64) -> u64 {
    let step = (now / STEP_NS) & STEP;
    let since = |word: u64| step.wrapping_sub(word >> BYTES_BITS) & STEP;
    if let Some(word) = words.get(step as usize % WAY_WORDS) {
        let _ = word.fetch_update(Relaxed, Relaxed, |word| {
            // Somebody may have had the time after us, and been here before; what is older has had its time.
            let ahead = (word >> BYTES_BITS).wrapping_sub(step) & STEP;
            let (of, before) = match ahead <= STEPS {
                true => (word >> BYTES_BITS, word & BYTES),
                false => (step, 0),
            };
            Some((of << BYTES_BITS) | before.saturating_add(bytes).min(BYTES))
        });
    }
    let lately = words.iter().map(|word| word.load(Relaxed));
    let lately = lately.filter(|word| since(*word) < STEPS);
    let sum = lately.fold(0, |sum, word| sum + (word & BYTES));
    time_ns(sum, rate).saturating_sub(STEPS * STEP_NS)
}
