//! The process VM (ring 2): policy above, mechanism below. `choose` picks a mechanism for a policy, `open` gives it,
//! `Mechanism::prepare` checks a policy against this machine and makes a [`Room`], and guests are started in it.
//! Not here: what a guest prints and reads (kumiko-runner), limits of rates (a later step).

mod attend;
mod choose;
mod contract;
mod error;
mod guest;
#[cfg(target_arch = "x86_64")]
mod library;
mod machine;
mod namespace;
mod probe;
mod relay;
#[cfg(target_arch = "x86_64")]
mod record;
mod supervised;

pub use attend::run;
pub use choose::{Choice, choose, open};
pub use contract::{Launch, Mechanism, Room, Streams};
pub use error::SandboxError;
pub use guest::{Ended, Guest};
pub use machine::{Machine, Obstacle};
pub use probe::{Admission, admissions};
