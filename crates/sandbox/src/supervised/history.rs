//! The limiter of the paper of 2003 (its section 4.2), kept as an option (spec/policy P59): what calls read and write is
//! remembered for a moment, and who asks for more sleeps for sum / limit - moment first. For the whole room, disk and network
//! apart. Not in it: the limiters that take its place (limits/).

use super::caller::Caller;
use super::serve::{Outcome, nr};
use super::view::c_string;
use kumiko_linux::poll::Poll;
use kumiko_linux::supervise::{Errno, calls, memory};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The paper does not tell its own.
const MOMENT: Duration = Duration::from_millis(100);
/// Of one call (IOV_MAX, limits.h).
const MOST_PARTS: usize = 1024;
/// sizeof(struct iovec), and where a struct msghdr has its list of them.
const PART_BYTES: usize = 16;
const LIST_AT: u64 = 16;

/// Of disk or network.
#[derive(Debug)]
struct Past {
    /// Bytes a second.
    rate: u64,
    calls: VecDeque<(Instant, u64)>,
    sum: u64,
}

impl Past {
    /// How long whoever makes a call of so many bytes now has to sleep first.
    fn passes(&mut self, now: Instant, bytes: u64) -> Duration {
        self.calls.push_back((now, bytes));
        self.sum = self.sum.saturating_add(bytes);
        while let Some((at, bytes)) = self.calls.front() {
            if now.saturating_duration_since(*at) < MOMENT {
                break;
            }
            self.sum = self.sum.saturating_sub(*bytes);
            self.calls.pop_front();
        }
        let takes = u128::from(self.sum) * 1_000_000_000 / u128::from(self.rate.max(1));
        let takes = Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX));
        takes.saturating_sub(MOMENT)
    }
}

/// What the guests of a room have moved lately.
#[derive(Debug)]
pub(super) struct History {
    network: Option<Mutex<Past>>,
    disk: Option<Mutex<Past>>,
}

impl History {
    /// Bytes a second; None: no limit.
    pub(super) fn new(network: Option<u64>, disk: Option<u64>) -> History {
        let past = |rate| {
            Mutex::new(Past {
                rate,
                calls: VecDeque::new(),
                sum: 0,
            })
        };
        History {
            network: network.map(past),
            disk: disk.map(past),
        }
    }
}

/// A call that moves data, which is made as it stands when it is time. None: it is no such call, or nothing limits it.
pub(super) fn asked(caller: &Caller<'_>) -> Option<Result<Outcome, Errno>> {
    let history = caller.view.history()?;
    let (reads, bytes): (bool, fn(&Caller<'_>) -> Result<u64, Errno>) = match caller.call.number {
        nr::READ | nr::PREAD64 => (true, |caller| Ok(caller.word(2))),
        nr::READV | nr::PREADV | nr::PREADV2 => {
            (true, |caller| parts(caller, caller.word(1), caller.word(2)))
        }
        nr::WRITE | nr::PWRITE64 | nr::SENDTO => (false, |caller| Ok(caller.word(2))),
        nr::SENDFILE => (false, |caller| Ok(caller.word(3))),
        nr::WRITEV | nr::PWRITEV | nr::PWRITEV2 => (false, |caller| {
            parts(caller, caller.word(1), caller.word(2))
        }),
        nr::SENDMSG => (false, message),
        _ => return None,
    };
    let path = c_string(format!("/proc/{}/fd/{}", caller.tid, caller.int(0)).as_bytes());
    let of = path.and_then(|path| calls::read_link(&path)).ok();
    let past = match of.as_deref() {
        Some(of) if of.starts_with(b"socket:") && !reads => history.network.as_ref(),
        Some(of) if of.starts_with(b"/") && !of.starts_with(b"/dev/") => history.disk.as_ref(),
        _ => None,
    };
    let Some(past) = past else {
        return Some(Ok(Outcome::Native));
    };
    // A call that is none is the kernel's to refuse.
    let bytes = bytes(caller).unwrap_or(0);
    let sleep = past
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .passes(Instant::now(), bytes);
    Some(Ok(match sleep.is_zero() {
        true => Outcome::Native,
        false => Outcome::Slow(Box::new(move || {
            // So that a signal breaks it off.
            let poll = Poll::new()?;
            drop(poll.wait::<1>(Some(sleep))?);
            Ok(Outcome::Native)
        })),
    }))
}

fn message(caller: &Caller<'_>) -> Result<u64, Errno> {
    let mut list = [0; 16];
    memory::read(caller.tid, caller.word(1).wrapping_add(LIST_AT), &mut list)?;
    let (at, count) = list.split_at(8);
    parts(caller, number(at), number(count))
}

fn parts(caller: &Caller<'_>, at: u64, count: u64) -> Result<u64, Errno> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > MOST_PARTS {
        return Err(Errno::EINVAL);
    }
    let mut all = vec![0; count * PART_BYTES];
    memory::read(caller.tid, at, &mut all)?;
    let lengths = all
        .chunks_exact(PART_BYTES)
        .filter_map(|part| part.get(8..));
    Ok(lengths.map(number).fold(0, u64::saturating_add))
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_and_sleeps_as_told_writes_at_the_rate() {
        for (rate, piece) in [
            (1_000_000, 16_384),
            (50_000_000, 16_384),
            (1_000_000, 1_000),
        ] {
            let mut past = Past {
                rate,
                calls: VecDeque::new(),
                sum: 0,
            };
            let begun = Instant::now();
            let (mut at, mut bytes) = (begun, 0);
            while at.duration_since(begun) < Duration::from_secs(20) {
                // A call takes 10 us.
                at += past.passes(at, piece) + Duration::from_micros(10);
                bytes += piece;
            }
            // The paper has it some per cent too high; what a moment holds is let through at first.
            let got = bytes as f64 / 20.0 / rate as f64;
            assert!((0.9..1.15).contains(&got), "{rate} by {piece}: {got}");
        }
    }
}
