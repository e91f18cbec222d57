//! Jobs that are held until they are released (spec/jobs/together.md, T20 to T25): what of their state that is, and what may
//! follow. Not here: who releases them ([`crate::barrier`]).

use crate::event::Event;
use crate::state::{Attempt, Job, Stage};

/// How far a job is that waits to be released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// The last epoch of which an attempt was held.
    pub epoch: u32,
    pub released: bool,
}

impl Hold {
    pub(crate) fn after(self, event: &Event) -> Hold {
        match event {
            Event::Held { epoch } => Hold {
                epoch: *epoch,
                ..self
            },
            Event::Released {} => Hold {
                released: true,
                ..self
            },
            _ => self,
        }
    }
}

impl Job {
    /// For how long one word of its client's holds it on, seconds; None: it was submitted to begin at once.
    pub fn hold_s(&self) -> Option<u64> {
        let together = self.description.together.as_deref();
        together.and_then(|together| together.hold_s)
    }

    /// Its attempt is ready, and waits to be released.
    pub fn is_held(&self) -> bool {
        let planned = matches!(&self.stage, Stage::Planned(one) if one.epoch == self.hold.epoch);
        planned && !self.hold.released
    }

    /// For how long it does without anybody, seconds; None: it needs nobody.
    pub fn needs_somebody_s(&self) -> Option<u64> {
        let hold_s = self.hold_s().filter(|_| !self.hold.released);
        hold_s.or(self.description.attended_s)
    }

    pub(crate) fn may_be_held(&self, attempt: &Attempt, epoch: u32) -> Result<(), &'static str> {
        if epoch != attempt.epoch {
            Err(crate::state::FENCED)
        } else if self.hold_s().is_none() {
            Err(NOT_HELD)
        } else if self.hold.epoch == epoch {
            Err("it is held already")
        } else {
            Ok(())
        }
    }

    pub(crate) fn may_be_released(&self) -> Result<(), &'static str> {
        match self.hold_s().is_none() || self.hold.released {
            true => Err(NOT_HELD),
            false => Ok(()),
        }
    }
}

const NOT_HELD: &str = "the job does not wait to be released";
