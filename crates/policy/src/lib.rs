//! Sandbox policy (ring 0): what a guest may see and use, apart from how its system calls are reached.
//! Follows spec/policy. Two notations (TOML, and the one of the 2003 paper on job execution in virtual machines) become
//! one [`Policy`]; [`nest`] lays lower ones over higher ones; [`Policy::explain`] says what is decided for a path.
//! Not here: how a mechanism carries it out (kumiko-sandbox), rates as arithmetic (a later step).

mod amend;
mod amount;
pub mod choice;
mod default;
mod error;
mod explain;
mod follow;
mod layers;
mod narrow;
mod paper;
mod path;
mod reach;
mod toml_format;
mod types;
mod vo;

pub use amend::{
    AmendError, Change, ChangeError, MAX_CHANGE_BYTES, amend, amended, heeded, limits_of,
    parse_amendment, parse_change, text_of,
};
pub use amount::{AmountError, parse_limit};
pub use error::{NarrowError, PolicyError, Problem};
pub use explain::{Decision, Seen};
pub use follow::{Followed, Now, begin, follow, unfollowed};
pub use layers::{Layer, NestError, nest};
pub use narrow::narrow;
pub use paper::parse_paper;
pub use path::{GuestPath, PathError};
pub use reach::{AddressError, Addresses, MAX_ADDRESSES, Reach, Reached, binds, reaches};
pub use toml_format::parse_toml;
pub use types::{
    Access, Limited, Limits, MAX_RULES, MAX_TEXT_BYTES, MechanismKind, Network, NetworkLimiter,
    Origin, Policy, Real, Rule,
};
pub use vo::{MAX_MEMBERS, VoPolicy, parse_vo};

/// Where the job's own directory appears in the guest's view; it is the guest's HOME (P10).
pub const JOB_DIRECTORY: &str = "/job";

/// Reads either notation: the paper's when the first line that says something is a section of it (P2), else TOML.
/// `source` names the text in errors and origins ("site policy /etc/kumiko/policy.toml", "job policy").
pub fn parse(text: &str, source: &str) -> Result<Policy, PolicyError> {
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    match first {
        Some("type:" | "file_path:" | "io_limit:" | "etc:") => parse_paper(text, source),
        _ => parse_toml(text, source),
    }
}
