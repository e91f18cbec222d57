//! What can be wrong with an RSL text or what it asks for: always the caller's fault, told with line and column, and with
//! the number by which GRAM's clients know it.

use super::code::GramCode;
use super::parse::{MAX_DEPTH, MAX_RSL_BYTES};
use super::syntax::Place;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("RSL{}: {problem}", place(at))]
pub struct RslError {
    pub at: Place,
    pub problem: RslProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RslProblem {
    #[error("the text is empty; it begins with & as in &(executable=/bin/true)")]
    Nothing,
    #[error("the text has {bytes} bytes, at most {MAX_RSL_BYTES} are read: send big data as files")]
    TooLong { bytes: usize },
    #[error("a zero byte, which no program can be given")]
    ZeroByte,
    #[error("'!' stands alone: write != or quote it")]
    Exclamation,
    #[error("this quotation does not end: double its delimiter inside it")]
    OpenQuote,
    #[error("this comment does not end: (* is closed by *)")]
    OpenComment,
    #[error("parentheses are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("found {found} where {expected} belongs")]
    Unexpected {
        found: String,
        expected: &'static str,
    },
    #[error("the text ends where {expected} belongs")]
    Ends { expected: &'static str },
    #[error("{found} stands after the end of the request: join parts by & as in &(...)(...)")]
    More { found: String },

    #[error("the variable {name} is not known here: define it in rsl_substitution")]
    UnknownVariable { name: String },
    #[error("{what}")]
    Substitution { what: &'static str },
    #[error("with its variables filled in the request has more than {MAX_RSL_BYTES} bytes")]
    TooLongEvaluated,

    #[error(
        "{sign} makes several requests or alternatives of it; a site takes one: send one joined by &"
    )]
    NotOne { sign: char },
    #[error("{attribute} {sign} ...: an attribute of a job is given by =")]
    Comparison {
        attribute: String,
        sign: &'static str,
    },
    #[error("{attribute} is no attribute that this site knows")]
    UnknownAttribute { attribute: String },
    #[error("{attribute} belongs to {belongs}, not to {operation}")]
    WrongOperation {
        attribute: &'static str,
        code: GramCode,
        belongs: &'static str,
        operation: &'static str,
    },
    #[error("{attribute} is missing")]
    Missing {
        attribute: &'static str,
        code: GramCode,
    },
    #[error("{attribute} was given before, and takes one value")]
    Twice {
        attribute: &'static str,
        code: GramCode,
    },
    #[error("{attribute}: {what}")]
    BadValue {
        attribute: &'static str,
        code: GramCode,
        what: String,
    },
    #[error("{what}")]
    Description { code: GramCode, what: String },
}

/// What concerns the whole text has no place.
fn place(at: &Place) -> String {
    match at.line {
        0 => String::new(),
        _ => format!(", {at}"),
    }
}

impl RslProblem {
    pub fn at(self, at: Place) -> RslError {
        RslError { at, problem: self }
    }
}

impl RslError {
    /// The number by which GRAM's clients know it (spec/gram, "Codes").
    pub fn gram(&self) -> GramCode {
        match &self.problem {
            RslProblem::Nothing => GramCode::EMPTY_RSL,
            RslProblem::UnknownVariable { .. }
            | RslProblem::Substitution { .. }
            | RslProblem::TooLongEvaluated => GramCode::RSL_EVALUATION,
            RslProblem::UnknownAttribute { .. } => GramCode::PARAMETER_NOT_SUPPORTED,
            RslProblem::WrongOperation { code, .. }
            | RslProblem::Missing { code, .. }
            | RslProblem::Twice { code, .. }
            | RslProblem::BadValue { code, .. }
            | RslProblem::Description { code, .. } => *code,
            _ => GramCode::BAD_RSL,
        }
    }
}
