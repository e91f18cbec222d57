//! What a routine's process says: answers among what it prints, and how its end is told (spec/rpc P62 and P64). A guest wrote it.

use super::{Done, Run, Worker};
use crate::callbacks::Asked;
use crate::store::{Held, LOGGED_BYTES};
use bytes::Bytes;
use kumiko_call::event::End;
use kumiko_job::attempt::{AttemptCommand, EngineCause, NO_DUMP, NOT_BEGUN, Outcome, OutputStream};
use kumiko_job::contract::BatchSystem;
use kumiko_linux::spooling;
use kumiko_wire::routine::{self as words, SMALL_BYTES, Said};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What a routine prints, and answers that were read, are freed in pieces of this; a runner holds up one that has printed
/// a few times as much.
const CONSUME_BYTES: u64 = 256 << 10;
/// Of what a routine said last, so much is told when it crashed.
const TAIL_BYTES: u64 = 1024;
/// By which a process says that there is no room for what it makes (EX_TEMPFAIL, sysexits.h).
const NO_ROOM: i32 = 75;
/// Signals that a program brings upon itself (signal(7)): ILL, TRAP, ABRT, BUS, FPE, SEGV, SYS.
const OWN_SIGNALS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];

/// Why a process never began that may begin the next time: what its kernel refused, or who made it was killed.
const PASSING: [&str; 3] = [NOT_BEGUN, "runner_kernel", "sandbox_kernel"];

/// A result of so many bytes; those of a small one.
pub(super) struct Answered {
    out_bytes: u64,
    small: Bytes,
}

pub(super) enum Heard {
    Result(Answered),
    Asks(Asked),
    /// The routine's own error.
    Fails(End),
}

/// For logs and terminals: a guest wrote it.
fn plain(text: &str) -> String {
    let plain = |c: char| match c.is_control() && c != '\n' {
        true => ' ',
        false => c,
    };
    text.chars().map(plain).collect()
}

impl Heard {
    /// With the bytes that it had.
    fn of(said: Said<'_>) -> (Heard, usize) {
        match said {
            Said::Answer {
                out_bytes,
                small,
                whole,
            } => {
                let small = Bytes::copy_from_slice(small);
                (Heard::Result(Answered { out_bytes, small }), whole)
            }
            Said::Asks {
                number,
                formal,
                data,
                whole,
            } => {
                let data = Bytes::copy_from_slice(data);
                let asked = Asked {
                    number,
                    formal,
                    data,
                };
                (Heard::Asks(asked), whole)
            }
            Said::Fails { error, told, whole } => {
                let (error, told) = (plain(error), plain(told));
                (Heard::Fails(End::Raised { error, told }), whole)
            }
        }
    }
}

impl<B: BatchSystem> Worker<B> {
    /// Frees what was read of stdout, and all of stderr but its end.
    pub(super) fn free(&mut self) {
        let read = self.read - self.waiting.len() as u64;
        let heard = self.printed[1].saturating_sub(TAIL_BYTES);
        for (at, stream, upto) in [
            (0, OutputStream::Stdout, read),
            (1, OutputStream::Stderr, heard),
        ] {
            let due = self
                .consumed
                .get(at)
                .is_some_and(|consumed| upto >= consumed + CONSUME_BYTES);
            if due {
                let (shop, id, offset) = (Arc::clone(&self.shop), self.id(), upto);
                let consumed = AttemptCommand::Consumed { stream, offset };
                // Its runner may be out of reach just now: then it hears of it when it can, and nobody waits.
                tokio::spawn(async move { shop.batch.command(id, consumed).await });
                if let Some(consumed) = self.consumed.get_mut(at) {
                    *consumed = upto;
                }
            }
        }
    }

    /// Takes what is new in the spool.
    fn read_more(&mut self) -> io::Result<()> {
        while self.read < self.printed[0] {
            if self.stdout.is_none() {
                let path = self.shop.batch.spool(self.id()).join("stdout");
                self.stdout = Some(File::open(path)?);
            }
            let Some(stdout) = &self.stdout else { break };
            let mut piece = [0; 16 << 10];
            let most = (self.printed[0] - self.read).min(piece.len() as u64);
            let most = usize::try_from(most).unwrap_or(piece.len());
            let piece = piece.get_mut(..most).unwrap_or_default();
            stdout.read_exact_at(piece, self.read)?;
            self.waiting.extend_from_slice(piece);
            self.read += piece.len() as u64;
        }
        Ok(())
    }

    /// The next that it says.
    pub(super) fn hear(&mut self, run: &Run) -> Result<Option<Heard>, End> {
        let unreadable = |error: io::Error| End::Killed {
            cause: format!("its answer cannot be read: {error}"),
        };
        self.read_more().map_err(unreadable)?;
        let said = words::hear(&self.waiting, self.told(run), &run.plan);
        let (heard, whole) = match said {
            Ok(None) => return Ok(None),
            Ok(Some(said)) => Heard::of(said),
            Err(error) => {
                return Err(End::Crashed {
                    cause: error.to_string(),
                    point: 0,
                });
            }
        };
        self.waiting.drain(..whole);
        Ok(Some(heard))
    }

    /// Among answers to calls before, of which there may be pieces.
    pub(super) fn find_answer(&mut self, run: &Run) -> Option<Heard> {
        self.read_more().ok()?;
        let told = self.told(run);
        let begins = [words::answer_to(told), words::error_of(told)];
        let at = self
            .waiting
            .windows(begins[0].len())
            .position(|window| begins.iter().any(|begin| window == begin))?;
        let answer = self.waiting.get(at..)?;
        let said = words::hear(answer, told, &run.plan).ok()??;
        Some(Heard::of(said).0)
    }

    pub(super) async fn result(&self, run: &Run, answered: Answered) -> Done {
        let Answered { out_bytes, small } = answered;
        let beside = out_bytes <= SMALL_BYTES && !run.plan.has_tail();
        if (run.in_memory || out_bytes == 0) && beside {
            return Done::Finished(Held::Memory(small), out_bytes);
        }
        let no_space = |attempt, error: io::Error| {
            tracing::warn!(%attempt, %error, "a result cannot be kept");
            Done::ended(End::NoSpace)
        };
        let (attempt, told) = (run.attempt, self.told(run));
        // What goes to the page cache takes less than to wake another thread for it.
        if beside {
            return match self.shop.store.put_result(attempt, &small) {
                Ok(held) => Done::Finished(held, out_bytes),
                Err(error) => no_space(attempt, error),
            };
        }
        let store = Arc::clone(&self.shop.store);
        let sync = run.sync && out_bytes > LOGGED_BYTES;
        let folder = self.job();
        let take = move || store.take_result(attempt, told, &folder, out_bytes, sync);
        match tokio::task::spawn_blocking(take).await {
            Ok(Ok(held)) => Done::Finished(held, out_bytes),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                let (cause, point) = (error.to_string(), 0);
                Done::ended(End::Crashed { cause, point })
            }
            Ok(Err(error)) => no_space(attempt, error),
            Err(error) => {
                let cause = error.to_string();
                Done::ended(End::Killed { cause })
            }
        }
    }

    pub(super) fn end_of(&self, outcome: &Outcome) -> End {
        let crashed = |cause: String| End::Crashed {
            cause: match self.tail() {
                Some(said) => format!("{cause}: {said}"),
                None => cause,
            },
            point: 0,
        };
        match outcome {
            Outcome::Exited { status: NO_ROOM } => End::NoSpace,
            Outcome::Exited { status } => crashed(format!("it ended with status {status}")),
            Outcome::Signalled { signal } if OWN_SIGNALS.contains(signal) => {
                crashed(format!("it ended by signal {signal}"))
            }
            Outcome::Signalled { signal } => End::Killed {
                cause: format!("signal {signal}"),
            },
            Outcome::OutputQuota { .. } => crashed("it prints too much".to_owned()),
            Outcome::Cancelled => End::Cancelled,
            Outcome::TimeLimit => End::TimeLimit,
            Outcome::NeverStarted { code, .. } if code == NO_DUMP => End::BadCheckpoint,
            Outcome::NeverStarted { code, message } if PASSING.contains(&code.as_str()) => {
                End::Killed {
                    cause: message.clone(),
                }
            }
            Outcome::NeverStarted { message, .. } => End::Refused {
                message: message.clone(),
            },
            Outcome::SpoolFailed { .. } => End::NoSpace,
            Outcome::EngineEnded {
                cause: EngineCause::Preempted | EngineCause::Evicted,
                ..
            } => End::Preempted,
            Outcome::EngineEnded {
                cause: EngineCause::HostLost,
                ..
            } => End::HostLost,
            Outcome::EngineEnded { message, .. }
            | Outcome::Lost { message }
            | Outcome::StagingFailed { message, .. } => End::Killed {
                cause: message.clone(),
            },
        }
    }

    /// The last line that it wrote to stderr.
    fn tail(&self) -> Option<String> {
        let path = self.shop.batch.spool(self.id()).join("stderr");
        let file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        let from = length.saturating_sub(TAIL_BYTES);
        let most = usize::try_from(length - from).ok()?;
        let bytes = spooling::read_at(&file, from, most).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        Some(last.chars().map(plain).collect())
    }
}
