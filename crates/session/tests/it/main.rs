//! Sessions over real TCP.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod resume;
mod support;
mod tcp;
mod turns;
