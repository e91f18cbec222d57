//! What a process is told by its stdin, in order, and said again where its runner may not have had it (spec/jobs R23, R25). Whoever
//! says it may stop at any time: it goes on where it was. Not here: what the words are (kumiko-wire), when there are some.

use bytes::Bytes;
use kumiko_job::attempt::AttemptCommand;
use kumiko_job::contract::BatchSystem;
use kumiko_job::id::AttemptId;
use kumiko_wire::runner::STDIN_PIECE_BYTES;
use std::collections::VecDeque;
use std::future::pending;

#[derive(Debug, Default)]
pub(super) struct Words {
    /// Offset behind the last.
    end: u64,
    /// What the process has.
    taken: u64,
    /// What it has not yet, with their offsets: few, for it asks one thing at a time.
    untaken: VecDeque<(u64, Bytes)>,
    /// Up to here its runner was told.
    said: u64,
    /// Its runner may never have had what it was told.
    doubted: bool,
}

impl Words {
    pub fn add(&mut self, words: Vec<u8>) {
        let words = Bytes::from(words);
        let offset = self.end;
        self.end += words.len() as u64;
        self.untaken.push_back((offset, words));
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn are_taken(&self) -> bool {
        self.taken >= self.end
    }

    pub fn take(&mut self, offset: u64) {
        self.taken = offset.max(self.taken);
        while let Some((offset, words)) = self.untaken.front() {
            if offset + words.len() as u64 > self.taken {
                return;
            }
            self.untaken.pop_front();
        }
    }

    /// There is a new connection to its runner.
    pub fn doubt(&mut self) {
        self.doubted = true;
    }

    /// What is doubted is to be said again; false: nothing is.
    pub fn go_back(&mut self) -> bool {
        let doubted = std::mem::take(&mut self.doubted);
        if doubted {
            self.said = self.taken;
        }
        doubted
    }

    /// Says the next piece; waits until the runner has room for it, and for ever when there is nothing to say.
    pub async fn say<B: BatchSystem>(&mut self, batch: &B, id: AttemptId) {
        let Some((offset, data)) = self.next_piece() else {
            return pending().await;
        };
        let behind = offset + data.len() as u64;
        let piece = AttemptCommand::Stdin { offset, data };
        batch.command(id, piece).await;
        self.said = behind;
    }

    fn next_piece(&self) -> Option<(u64, Bytes)> {
        let said = self.said.max(self.taken);
        let unsaid = |(offset, words): &&(u64, Bytes)| offset + words.len() as u64 > said;
        let (offset, words) = self.untaken.iter().find(unsaid)?;
        let from = usize::try_from(said.saturating_sub(*offset)).ok()?;
        let to = words.len().min(from + STDIN_PIECE_BYTES);
        Some((offset + from as u64, words.slice(from..to)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// What is said when a runner has room for all of it.
    fn said(words: &mut Words) -> Vec<(u64, Bytes)> {
        let mut said = Vec::new();
        while let Some((offset, data)) = words.next_piece() {
            words.said = offset + data.len() as u64;
            said.push((offset, data));
        }
        said
    }

    #[test]
    fn words_are_said_once_in_pieces_and_again_from_what_was_taken() {
        let mut words = Words::default();
        let long: Vec<u8> = (0u8..=250).cycle().take(STDIN_PIECE_BYTES + 10).collect();
        words.add(b"ab".to_vec());
        words.add(long.clone());
        let all = [b"ab".to_vec(), long].concat();
        let check = |said: Vec<(u64, Bytes)>, from: usize| {
            let mut at = from;
            for (offset, data) in said {
                assert!(offset == at as u64 && data == all[at..at + data.len()]);
                at += data.len();
            }
            assert_eq!(at, all.len());
        };
        let first = said(&mut words);
        assert_eq!(first.len(), 3);
        check(first, 0);
        assert!(said(&mut words).is_empty() && !words.go_back());
        for taken in [1, 2, 7] {
            words.take(taken);
            words.doubt();
            assert!(words.go_back());
            check(said(&mut words), usize::try_from(taken).unwrap());
        }
        words.take(all.len() as u64);
        words.doubt();
        assert!(words.go_back() && words.are_taken());
        assert!(said(&mut words).is_empty() && words.untaken.is_empty());
    }
}
