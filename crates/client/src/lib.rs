//! The user's side of a gatekeeper: connect, submit, watch, attach (spec/services).
//!
//! One [`Client`] is one session to one site, cheap to clone; a cut link is mended below it. What the session cannot
//! mend (the site was started anew, the link was away for too long) is mended here where it can be done exactly:
//! [`Attached`] and [`Watch`] connect anew and go on from their offset or number.
//!
//! Not here: where the credential comes from (kumiko-identity), what is printed (the command).

mod attach;
mod client;
mod delegation;
mod dial;
mod error;
mod files;
pub mod gram;
mod pump;
mod reading;
mod surely;
mod together;

pub use attach::{Attached, Heard, Input};
pub use client::{Client, fresh_key};
pub use delegation::Rights;
pub use dial::SiteAddress;
pub use error::ClientError;
pub use files::Sent;
pub use reading::{Output, Watch};
pub use surely::NotTaken;
pub use together::{NotTogether, Placed, Subjob, start_together};
