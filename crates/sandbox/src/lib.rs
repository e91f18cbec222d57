//! The process VM (ring 2): policy above, mechanism below. `choose` picks a mechanism for a policy, `open` gives it,
//! `Mechanism::prepare` checks a policy against this machine and makes a [`Room`], and guests are started in it.
//! A [`Limiter`] keeps limits of the whole job. Not here: what a guest prints and reads (kumiko-runner).

mod attend;
mod choose;
mod contract;
mod error;
mod guest;
#[cfg(target_arch = "x86_64")]
mod library;
mod limits;
mod machine;
mod namespace;
mod probe;
mod record;
mod relay;
#[cfg(target_arch = "x86_64")]
mod supervised;

pub use attend::{Ending, Wishes, attend, run};
pub use choose::{Choice, choose, open};
pub use contract::{Launch, Mechanism, Room, Streams};
pub use error::SandboxError;
pub use guest::{Ended, Guest};
pub use limits::{Exceeded, Kept, Limiter, kept};
pub use machine::{Machine, Obstacle};
pub use probe::{Admission, admissions};
