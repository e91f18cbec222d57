//! RSL 1.0, the language in which GRAM's clients describe jobs (spec/rsl): reading, printing, filling in variables, and
//! what a request asks for. Not here: GRAM's messages around it (kumiko-wire).

mod attributes;
mod code;
mod describe;
mod error;
mod evaluate;
mod lex;
mod parse;
mod print;
mod reader;
mod request;
mod subjobs;
mod syntax;

pub use attributes::{ATTRIBUTES, Attribute, Operation};
pub use code::GramCode;
pub use describe::{HOME, REMOTE_IO, scratch_directory};
pub use error::{RslError, RslProblem};
pub use evaluate::{Variables, evaluate};
pub use parse::{MAX_DEPTH, MAX_RSL_BYTES, parse};
pub use request::{
    DEFAULT_EXPIRATION_S, Goes, JobType, Request, Restart, StdioUpdate, Submission, parts, request,
    stdio_update,
};
pub use subjobs::{Subjob, subjobs};
pub use syntax::{Combine, Compare, Place, Relation, Spec, Value, canonical};
