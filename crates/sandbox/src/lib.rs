//! The process VM (ring 2): policy above, mechanism below. `choose` picks a mechanism for a policy, `open` gives it,
//! `Mechanism::prepare` checks a policy against this machine and makes a [`Room`], and guests are started in it.
//! `table` says what each mechanism would cost a program, by what `calibrate` measured and [`Measured`] keeps.
//! A [`Limiter`] keeps limits of the whole job; `criu` is what could dump one. Not here: what a guest prints and reads (kumiko-runner).

mod attend;
mod calibrate;
mod choose;
mod contract;
mod criu;
mod error;
mod guest;
#[cfg(target_arch = "x86_64")]
mod library;
mod limits;
mod machine;
mod namespace;
mod probe;
mod profile;
mod record;
mod relay;
mod search;
#[cfg(target_arch = "x86_64")]
mod supervised;

/// Where bare names are looked up when the environment does not say.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

pub use attend::{Ending, Obey, Wishes, attend, run};
pub use calibrate::{CALIBRATION_TIME, CalibrateError, calibrate};
pub use choose::{Choice, choose, choose_by, open, table};
pub use contract::{Cost, Dumps, Launch, Mechanism, Open, Room, Still, Streams};
pub use criu::{Usable, criu};
pub use error::SandboxError;
pub use guest::{Ended, Guest};
pub use limits::{Exceeded, Inside, Kept, Limiter, kept};
pub use machine::{Machine, Obstacle};
pub use namespace::prepare_for_dumps;
pub use probe::{Admission, admissions};
pub use profile::{
    CalibrationError, Evidence, Looked, Measured, Nothing, OfProgram, Program, look,
};
