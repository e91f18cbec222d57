//! When a life's guest is dumped, and what it does then (spec/checkpoint, K53 and K54).

use super::{Life, token};
use crate::dumps::{Dumps, Printed};
use crate::output::{Output, Pumped};
use crate::verdict::Cause;
use kumiko_linux::spooling;
use kumiko_wire::routine::{self, ASK_BYTES, CALLBACK_BYTES};
use std::io;
use std::time::{Duration, Instant};

const QUESTION_MOST_BYTES: usize = ASK_BYTES + CALLBACK_BYTES as usize;
/// One that is to leave and takes nothing of what it is told is not waited for any longer.
const TAKES_WITHIN: Duration = Duration::from_secs(5);

/// A guest that is to leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vacating {
    grace_ms: u64,
    since: Instant,
    /// It stands still since its last dump was written.
    still: bool,
}

impl Life {
    /// Has the guest dumped as soon as that can be; it does not go on then.
    pub(super) fn vacate(&mut self, grace_ms: u64) {
        if self.cause.is_some() || self.vacating.is_some() {
            return;
        }
        self.vacating = Some(Vacating {
            grace_ms,
            since: Instant::now(),
            still: false,
        });
        self.dumps.as_mut().map(Dumps::hurry);
        self.stop_if_undumped();
    }

    /// Of one that is to leave no dump is made any more, or none is wanted: it ends as it would at a cancel.
    pub(super) fn stop_if_undumped(&mut self) {
        let Some(vacating) = self.vacating else {
            return;
        };
        let waits = self.dump_due().is_some() || self.dumps.as_ref().is_some_and(Dumps::is_at_work);
        if !waits {
            self.stop(Cause::Cancelled, vacating.grace_ms);
        }
    }

    /// It ends for whatever cause, and is to hear of it.
    pub(super) fn vacate_no_more(&mut self) {
        if self.vacating.take().is_some_and(|vacating| vacating.still) {
            self.go_on();
        }
    }

    fn not_dumped(&mut self, why: &str) {
        self.spool.log(&format!("it could not be dumped: {why}"));
        if let Some(vacating) = self.vacating {
            self.stop(Cause::Cancelled, vacating.grace_ms);
        }
    }

    /// Nothing came of a dump for what passes.
    fn try_again(&mut self) {
        match self.vacating {
            Some(vacating) if vacating.since.elapsed() > TAKES_WITHIN => {
                self.not_dumped("it does not take what it is told");
            }
            Some(_) => drop(self.dumps.as_mut().map(Dumps::put_off)),
            None => {}
        }
    }

    /// None for a guest that is to end, or is made to stand still by somebody else.
    pub(super) fn dump_due(&self) -> Option<Instant> {
        let goes_on = self.running() && self.cause.is_none() && !self.facts.suspended;
        self.dumps.as_ref().filter(|_| goes_on)?.due()
    }

    /// What the guest is told may be what it is dumped in the midst of.
    pub(super) fn hand_over(&mut self) -> io::Result<()> {
        if self.dumps.as_ref().is_some_and(Dumps::is_dumping) {
            return Ok(());
        }
        let before = self.feed.input.taken();
        self.feed.hand_over(&self.poll)?;
        if let Some(dumps) = &mut self.dumps {
            if self.feed.input.taken() > before {
                dumps.asked(self.outputs[0].length());
            }
        }
        Ok(())
    }

    /// One that has not taken all of what it was told stands nowhere yet.
    fn is_told(&self) -> bool {
        self.feed.input.pending().is_empty() && self.feed.unread() == 0
    }

    pub(super) fn dump(&mut self) {
        if !self.is_told() {
            if let Some(dumps) = &mut self.dumps {
                dumps.put_off();
            }
            return self.try_again();
        }
        let asks = self.question().is_some();
        let (Some(dumps), Some(room), [guest]) =
            (&mut self.dumps, &mut self.room, &self.guests[..])
        else {
            return;
        };
        if !dumps.is_busy() && !asks {
            return dumps.has_answered();
        }
        if let Err(why) = dumps.begin(&mut **room, guest, &self.poll, token::DUMP) {
            self.not_dumped(&why);
        }
    }

    /// The guest stands still, unless nothing came of it.
    pub(super) fn dump_written(&mut self) -> io::Result<()> {
        let Some(dumps) = &mut self.dumps else {
            return Ok(());
        };
        match dumps.written(&self.poll) {
            Ok(Some(since)) => {
                for stream in [0, 1] {
                    while self.pump(stream)? == Pumped::More {}
                }
                match self.keep_dump(since) {
                    Ok(true) => {
                        if let Some(vacating) = &mut self.vacating {
                            vacating.still = true;
                            return Ok(());
                        }
                    }
                    Ok(false) => self.try_again(),
                    Err(why) => self.not_dumped(&why),
                }
            }
            Ok(None) => return Ok(()),
            Err(why) => self.not_dumped(&why),
        }
        // One that was suspended meanwhile goes on when whoever did that says so.
        if !self.facts.suspended {
            self.go_on();
        }
        self.hand_over()
    }

    /// CRIU has left all processes stopped, and not only those of the guest's group.
    pub(super) fn go_on(&mut self) {
        let of_dumps = self.room.as_mut().filter(|_| self.dumps.is_some());
        if let Some(dumps) = of_dumps.and_then(|room| room.dumps()) {
            dumps.go_on();
        }
    }

    /// What a routine has asked and waits for an answer to.
    fn question(&self) -> Option<Vec<u8>> {
        let dumps = self.dumps.as_ref().filter(|dumps| !dumps.is_of_job())?;
        let stdout = &self.outputs[0];
        let bytes = stdout.length().checked_sub(dumps.told_at())?;
        let bytes = usize::try_from(bytes)
            .ok()
            .filter(|of| *of <= QUESTION_MOST_BYTES)?;
        let file = self.spool.printed(stdout.stream).ok()?;
        let said = spooling::read_at(&file, dumps.told_at(), bytes).ok()?;
        routine::is_question(&said).then_some(said)
    }

    /// None: it has answered, or was told something before it stood still.
    fn printed(&self, dumps: &Dumps) -> io::Result<Option<Printed>> {
        if dumps.is_of_job() {
            let [stdout, stderr] = [0, 1].map(|stream| {
                let output: &Output = &self.outputs[stream];
                let file = self.spool.printed(output.stream);
                file.map(|file| (file, output.length()))
            });
            return Ok(Some(Printed::All([stdout?, stderr?])));
        }
        if self.feed.unread() > 0 {
            return Ok(None);
        }
        Ok(match dumps.is_busy() {
            true => Some(Printed::Nothing),
            false => self.question().map(Printed::Question),
        })
    }

    /// False: it was told, or said, something too late.
    fn keep_dump(&mut self, since: Instant) -> Result<bool, String> {
        let printed = self.dumps.as_ref().map(|dumps| self.printed(dumps));
        let printed = printed.transpose().map_err(|error| error.to_string())?;
        let Some(printed) = printed.flatten() else {
            if let Some(dumps) = &mut self.dumps {
                dumps.abandon(since);
            }
            return Ok(false);
        };
        match (&mut self.dumps, &mut self.room, &self.guests[..]) {
            (Some(dumps), Some(room), [guest]) => {
                let told = (&self.poll, token::KEPT);
                dumps.keep(&mut **room, guest, printed, since, told)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    pub(super) fn dump_kept(&mut self) {
        let Some(dumps) = &mut self.dumps else {
            return;
        };
        match dumps.kept(&self.poll) {
            Ok(Some((number, cost))) => {
                let ms = cost.as_millis();
                self.spool.log(&format!("dump {number} took {ms} ms"));
                match self.vacating {
                    Some(vacating) if vacating.still => {
                        self.vacating = None; // it does not go on
                        self.kill_for(Cause::Cancelled);
                    }
                    Some(_) => drop(self.dumps.as_mut().map(Dumps::hurry)),
                    None => {}
                }
            }
            Ok(None) => match self.vacating {
                Some(vacating) if vacating.still => self.stop(Cause::Cancelled, vacating.grace_ms),
                Some(_) => drop(self.dumps.as_mut().map(Dumps::hurry)),
                None => {}
            },
            Err(why) => self.not_dumped(&why),
        }
    }
}
