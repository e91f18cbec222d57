//! Hosts: each runs an attempt at most once, computes step by step, makes checkpoints, crashes, is killed, is silent.

use crate::net::{Block, Given, Image, Made};
use crate::random::mix;
use kumiko_call::event::End;
use kumiko_call::id::AttemptId;
use kumiko_call::message::{FromHost, ToHost};
use std::collections::{BTreeMap, BTreeSet};

/// What a routine does: a chain of steps over its arguments.
#[derive(Clone, Debug)]
pub struct Routine {
    pub steps: u64,
    pub out_blocks: u64,
    /// None: it makes no checkpoints.
    pub checkpoint_every: Option<u64>,
    /// It always crashes there.
    pub crashes_at: Option<u64>,
}

fn begin(arguments: &[Block]) -> u64 {
    arguments.iter().fold(1, |state, block| mix(state ^ block))
}

impl Routine {
    pub fn result(&self, arguments: &[Block]) -> Vec<Block> {
        let state = (0..self.steps).fold(begin(arguments), |state, _| mix(state));
        self.output(state)
    }

    fn output(&self, state: u64) -> Vec<Block> {
        (0..self.out_blocks)
            .map(|index| mix(state ^ index))
            .collect()
    }
}

#[derive(Debug)]
struct Run {
    routine: usize,
    step: u64,
    state: u64,
    made: u64,
    /// How it ended, and its result; said until it is noted.
    ended: Option<(End, Option<Made>)>,
}

#[derive(Debug, Default)]
pub struct Host {
    /// Until when it is down, or stands still.
    pub down_until: u64,
    pub still_until: u64,
    runs: BTreeMap<AttemptId, Run>,
    /// On its disk: attempts that it ever began.
    seen: BTreeSet<AttemptId>,
    pub full: bool,
    pub fenced: u64,
    pub resumed: u64,
    pub bad_checkpoints: u64,
}

impl Host {
    pub fn die(&mut self, until: u64) {
        self.down_until = until;
        self.runs.clear();
    }

    pub fn is_up(&self, now: u64) -> bool {
        self.down_until <= now
    }

    pub fn works(&self, now: u64) -> bool {
        self.is_up(now) && self.still_until <= now
    }

    pub fn heard(&mut self, message: &ToHost, given: Option<Given>) {
        match message {
            ToHost::Run {
                attempt,
                checkpoint,
            } => {
                let given = given.expect("an attempt is given its arguments");
                let begun = self.seen.contains(attempt);
                assert!(
                    begun || checkpoint.is_some() == given.image.is_some(),
                    "an attempt is given what it begins from"
                );
                self.run(*attempt, given);
            }
            ToHost::Cancel { attempt } => {
                if let Some(run) = self.runs.get_mut(attempt) {
                    run.ended.get_or_insert((End::Cancelled, None));
                }
            }
            ToHost::Leave { attempt } => {
                if let Some(run) = self.runs.get_mut(attempt) {
                    run.ended.get_or_insert((End::Preempted, None));
                }
            }
            ToHost::Fence { attempt } => {
                if self.runs.remove(attempt).is_some() {
                    self.fenced += 1;
                }
            }
            ToHost::Noted {
                attempt,
                ended: true,
            } => {
                self.runs.remove(attempt);
            }
            ToHost::Noted { .. } => {}
        }
    }

    fn run(&mut self, attempt: AttemptId, given: Given) {
        if self.runs.contains_key(&attempt) {
            return;
        }
        let mut run = Run {
            routine: given.routine,
            step: 0,
            state: begin(&given.arguments),
            made: 0,
            ended: None,
        };
        if !self.seen.insert(attempt) {
            // It began before this host died, or was fenced: it does not begin again.
            let cause = "the host began anew".to_owned();
            run.ended = Some((End::Killed { cause }, None));
        } else if self.full {
            run.ended = Some((End::NoSpace, None));
        } else if let Some(image) = given.image {
            if image.readable {
                self.resumed += 1;
                run.step = image.step;
                run.state = image.state;
            } else {
                self.bad_checkpoints += 1;
                run.ended = Some((End::BadCheckpoint, None));
            }
        }
        self.runs.insert(attempt, run);
    }

    /// Somebody ends one of the routines.
    pub fn kill(&mut self, end: &End) {
        for run in self.runs.values_mut() {
            if run.ended.is_none() {
                run.ended = Some((end.clone(), None));
                return;
            }
        }
    }

    /// One step of everything here, and what is said then. `bad` is what makes a checkpoint that is not readable.
    pub fn step(
        &mut self,
        now: u64,
        routines: &[Routine],
        mut bad: impl FnMut() -> bool,
    ) -> Vec<(FromHost, Option<Made>)> {
        let mut said = Vec::new();
        for (attempt, run) in &mut self.runs {
            let attempt = *attempt;
            let routine = &routines[run.routine];
            if run.ended.is_none() {
                if run.step >= routine.steps {
                    let out_bytes = routine.out_blocks * crate::world::BLOCK_BYTES;
                    let output = routine.output(run.state);
                    run.ended = Some((End::Finished { out_bytes }, Some(Made::Result(output))));
                } else if routine.crashes_at == Some(run.step) {
                    let (cause, point) = ("SIGSEGV".to_owned(), run.step);
                    run.ended = Some((End::Crashed { cause, point }, None));
                } else {
                    run.step += 1;
                    run.state = mix(run.state);
                    let every = routine.checkpoint_every;
                    if every.is_some_and(|every| run.step % every == 0) {
                        run.made += 1;
                        let image = Image {
                            step: run.step,
                            state: run.state,
                            readable: !bad(),
                        };
                        let number = run.made;
                        let words = FromHost::Checkpoint { attempt, number };
                        said.push((words, Some(Made::Checkpoint(image))));
                    }
                }
            }
            if now % 2 == 0 {
                said.push(match &run.ended {
                    None => (
                        FromHost::Beat {
                            attempt,
                            recovery: None,
                        },
                        None,
                    ),
                    Some((end, made)) => {
                        let end = end.clone();
                        (FromHost::Ended { attempt, end }, made.clone())
                    }
                });
            }
        }
        said
    }
}
