//! Live stdin: pieces numbered by offset, in a bounded buffer, out to the guest (spec/jobs/runner.md, R25).
//!
//! Pure: the caller writes what `pending` shows and says how much was taken.

use kumiko_wire::runner::STDIN_WINDOW_BYTES;
use std::collections::VecDeque;

/// The part of stdin between what was taken and what was received.
#[derive(Debug, Default)]
pub struct Input {
    taken: u64,
    pending: VecDeque<u8>,
    /// Where stdin ends, once that is known.
    end: Option<u64>,
}

impl Input {
    /// Keeps what is new of a piece. What was received before, lies behind a gap or passes the window or the end is
    /// left out: the sender goes on from `taken`.
    pub fn receive(&mut self, offset: u64, data: &[u8]) {
        let next = self.taken + self.pending.len() as u64;
        let Some(known) = next.checked_sub(offset) else {
            return;
        };
        let Some(new) = usize::try_from(known).ok().and_then(|k| data.get(k..)) else {
            return;
        };
        let mut room = STDIN_WINDOW_BYTES - self.pending.len();
        if let Some(end) = self.end {
            room = room.min(usize::try_from(end.saturating_sub(next)).unwrap_or(room));
        }
        self.pending.extend(&new[..new.len().min(room)]);
    }

    /// No more stdin after `offset` bytes. The first word holds.
    pub fn end(&mut self, offset: u64) {
        self.end.get_or_insert(offset);
    }

    /// What to write next; empty when there is nothing.
    pub fn pending(&self) -> &[u8] {
        self.pending.as_slices().0
    }

    /// `count` bytes of `pending` were handed to the guest.
    pub fn took(&mut self, count: usize) {
        self.pending.drain(..count);
        self.taken += count as u64;
        if self.pending.is_empty() {
            self.pending = VecDeque::new(); // a runner at rest holds no buffer
        }
    }

    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether all of stdin was handed over and its end is known.
    pub fn finished(&self) -> bool {
        self.pending.is_empty() && self.end.is_some_and(|end| end <= self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(input: &mut Input) -> Vec<u8> {
        let mut all = Vec::new();
        while !input.pending().is_empty() {
            all.extend_from_slice(input.pending());
            input.took(input.pending().len());
        }
        all
    }

    #[test]
    fn what_was_sent_twice_is_taken_once() {
        let mut input = Input::default();
        input.receive(0, b"abc");
        input.receive(0, b"abcd");
        input.receive(2, b"cd");
        input.receive(4, b"e");
        assert_eq!(rest(&mut input), b"abcde");
        input.receive(3, b"def");
        assert_eq!(rest(&mut input), b"f");
        assert_eq!(input.taken(), 6);
    }

    #[test]
    fn a_gap_takes_nothing() {
        let mut input = Input::default();
        input.receive(1, b"b");
        assert_eq!(rest(&mut input), b"");
        input.receive(u64::MAX, b"b");
        assert_eq!(rest(&mut input), b"");
    }

    #[test]
    fn more_than_the_window_is_left_to_the_sender() {
        let mut input = Input::default();
        let piece = vec![7; STDIN_WINDOW_BYTES];
        input.receive(0, &piece);
        input.receive(STDIN_WINDOW_BYTES as u64, b"late");
        assert_eq!(rest(&mut input).len(), STDIN_WINDOW_BYTES);
        input.receive(STDIN_WINDOW_BYTES as u64, b"late");
        assert_eq!(rest(&mut input), b"late");
    }

    #[test]
    fn the_end_holds_even_when_it_comes_before_the_last_bytes() {
        let mut input = Input::default();
        input.end(3);
        assert!(!input.finished());
        input.receive(0, b"abcdef");
        assert!(!input.finished());
        assert_eq!(rest(&mut input), b"abc");
        assert!(input.finished());
        input.receive(3, b"def");
        assert!(input.finished());
    }
}
