//! What can be wrong with a policy: with its text (by line and column), or with what it asks of the one above it.

use crate::path::{GuestPath, PathError};
use crate::reach::{AddressError, MAX_ADDRESSES};
use crate::types::{MAX_RULES, MAX_TEXT_BYTES};
use crate::vo::MAX_MEMBERS;

/// A policy text that was refused; whoever wrote the text is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{line}:{column}: {problem}")]
pub struct PolicyError {
    /// The `source` given to the parser.
    pub source_name: String,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    pub problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("this is no TOML: {0}")]
    Toml(String),
    #[error("the text is longer than {MAX_TEXT_BYTES} bytes")]
    TooLong,
    #[error("more than {MAX_RULES} path rules: name directories rather than files")]
    TooManyRules,
    #[error("unknown key \"{key}\"; here belong: {expected}")]
    UnknownKey { key: String, expected: &'static str },
    #[error("\"{key}\" is {found}, and must be {expected}")]
    WrongType {
        key: String,
        found: &'static str,
        expected: &'static str,
    },
    #[error("\"{key}\" must be one of {expected}, not \"{found}\"")]
    WrongWord {
        key: String,
        found: String,
        expected: &'static str,
    },
    #[error("\"{key}\" must be a whole number from {least} to {most}, not {found}")]
    OutOfRange {
        key: String,
        found: String,
        least: u64,
        most: u64,
    },
    #[error("the path \"{}\" {problem}", .path.escape_debug())]
    Path { path: String, problem: PathError },
    #[error("the path {path} has a rule already, in line {line}")]
    Twice { path: GuestPath, line: u32 },
    #[error("{path} is made by the sandbox for every guest and takes no rule")]
    Reserved { path: GuestPath },
    #[error("access \"{access}\" takes no \"{key}\"")]
    NotWith {
        access: &'static str,
        key: &'static str,
    },
    #[error("\"access\" is missing: one of read, write, denied, hidden, temporary")]
    NoAccess,
    #[error(
        "\"{line}\" stands before any section; sections are type:, file_path:, io_limit:, etc:"
    )]
    NoSection { line: String },
    #[error("unknown section \"{section}\"; sections are type:, file_path:, io_limit:, etc:")]
    UnknownSection { section: String },
    #[error("the section \"{section}\" stands here a second time")]
    SectionTwice { section: String },
    #[error("\"type:\" must be a number from 0 to 4, as in \"1(ptrace)\", not \"{found}\"")]
    WrongKind { found: String },
    #[error("type {number} is {name}, not \"{found}\"")]
    KindMismatch {
        number: u32,
        name: &'static str,
        found: String,
    },
    #[error("a line of file_path: is \"VIRTUAL REAL FLAG\", not {found} words")]
    PathLine { found: usize },
    #[error("the flag must be 0 (read only) or 1 (read and write), not \"{found}\"")]
    Flag { found: String },
    #[error("a line of {section} is \"NAME VALUE\", not {found} words")]
    PairLine { section: &'static str, found: usize },
    #[error("a line of {section} names {expected}, not \"{found}\"")]
    WrongName {
        section: &'static str,
        found: String,
        expected: &'static str,
    },
    #[error("\"{name}\" is set a second time")]
    SetTwice { name: String },
    #[error("type: stands without a number below it")]
    KindMissing,
    #[error("\"{key}\" is missing")]
    Missing { key: &'static str },
    #[error("\"{}\" {problem}", .word.escape_debug())]
    Address { word: String, problem: AddressError },
    #[error("more than {MAX_ADDRESSES} address rules: name blocks rather than addresses")]
    TooManyAddresses,
    #[error("more than {MAX_MEMBERS} members")]
    TooManyMembers,
}

/// A lower policy asked for more than the higher one gives (P7); whoever wrote the lower one is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NarrowError {
    #[error(
        "{origin}: {path} is mapped to {real}, which the policy above does not show: map to a path that it shows"
    )]
    NotVisible {
        path: GuestPath,
        real: GuestPath,
        origin: String,
    },
    #[error(
        "{origin}: {path} asks to write to {real}, which the policy above shows read only: ask for read"
    )]
    NotWritable {
        path: GuestPath,
        real: GuestPath,
        origin: String,
    },
    #[error(
        "{origin}: {path} is mapped to {real}, which is a temporary place above: only the job's own directory and real \
         paths can be mapped"
    )]
    Temporary {
        path: GuestPath,
        real: GuestPath,
        origin: String,
    },
    #[error("network \"host\" is asked for and the policy above gives none: leave it out")]
    Network,
    #[error("further processes are asked for and the policy above allows none: leave it out")]
    FurtherProcesses,
    #[error("mechanism \"library\" is no wall, and the policy above asks for {above}")]
    Mechanism { above: &'static str },
    #[error(
        "limiter \"{asked}\" is a fence within the guest, and the policy above has \"{above}\": leave it out"
    )]
    Limiter {
        asked: &'static str,
        above: &'static str,
    },
    #[error("more than {MAX_RULES} path rules together")]
    TooManyRules,
    #[error("more than {MAX_ADDRESSES} address rules together")]
    TooManyAddresses,
}

impl PolicyError {
    /// The row of spec/errors.toml.
    pub fn code(&self) -> &'static str {
        "bad_policy"
    }
}

impl NarrowError {
    /// The row of spec/errors.toml.
    pub fn code(&self) -> &'static str {
        "policy_asks_more"
    }
}
