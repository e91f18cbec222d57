//! What can be wrong with an IDL text: always the fault of who wrote it, told with file, line and column.

use crate::parse::{MAX_DIMENSIONS, MAX_IDL_BYTES, MAX_NAME_BYTES, MAX_PARAMETERS};
use crate::parse_expr::{MAX_DEPTH, MAX_EXPRESSION_NODES};
use crate::signature::MAX_SIGNATURE_BYTES;
use crate::syntax::{Files, Place};

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}{problem}", place(file, at))]
pub struct IdlError {
    /// As a line marker names it; None: the text itself.
    pub file: Option<String>,
    pub at: Place,
    pub problem: Problem,
}

fn place(file: &Option<String>, at: &Place) -> String {
    match (file, at.line) {
        (_, 0) => "IDL: ".to_owned(),
        (None, _) => format!("IDL, {at}: "),
        (Some(file), _) => format!("IDL, {file}, {at}: "),
    }
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    #[error("the text has {bytes} bytes, at most {MAX_IDL_BYTES} are read: include less")]
    TooLong { bytes: usize },
    #[error("a zero byte: this is no text")]
    ZeroByte,
    #[error("the character {found:?} belongs to no word of the language")]
    Character { found: char },
    #[error(
        "a line that begins with # and is no line marker: run the file through the C preprocessor first"
    )]
    Directive,
    #[error("this comment does not end: /* is closed by */")]
    OpenComment,
    #[error("this quotation does not end")]
    OpenQuote,
    #[error("the escape \\{found} stands for nothing in C")]
    Escape { found: char },
    #[error("this escape stands for no character: codes up to \\177 and \\x7f do")]
    EscapeCode,
    #[error(
        "these braces do not close: braces in C are counted, those in quotes and comments apart"
    )]
    OpenBrace,
    #[error("the number {text} is too big")]
    Number { text: String },
    #[error("{text} is no number: after the digits of a number comes a blank or a sign")]
    NumberEnd { text: String },
    #[error("a name has at most {MAX_NAME_BYTES} bytes")]
    LongName,
    #[error("found {found} where {expected} belongs")]
    Unexpected {
        found: String,
        expected: &'static str,
    },
    #[error("the text ends where {expected} belongs")]
    Ends { expected: &'static str },
    #[error("the expression is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("the expression has more than {MAX_EXPRESSION_NODES} parts")]
    TooMuch,
    #[error("{name} has more than {MAX_PARAMETERS} parameters")]
    Parameters { name: String },
    #[error("{name} has more than {MAX_DIMENSIONS} dimensions")]
    Dimensions { name: String },

    #[error("no Module is named: begin with Module NAME;")]
    NoModule,
    #[error("the module is named twice: a file is one module")]
    SecondModule,
    #[error("no routine is defined: Define NAME(...) ... does it")]
    NoRoutine,
    #[error("{name} is defined before")]
    Again { name: String },
    #[error("{option} is given twice")]
    OptionAgain { option: &'static str },
    #[error("{option} \"{text}\": it takes {takes}")]
    OptionValue {
        option: &'static str,
        text: String,
        takes: &'static str,
    },
    #[error(
        "DefClass {name}: remote objects are not built yet; define routines that take their state as INOUT"
    )]
    Class { name: String },
    #[error("Backend \"{name}\": parallel backends are not built yet")]
    Backend { name: String },
    #[error("{name} is {word}, which belongs to routines with a Backend; those are not built yet")]
    Distributed { name: String, word: &'static str },
    #[error("{words} is no type")]
    Type { words: String },
    #[error(
        "{name} is a pointer to something else than one element: write its dimensions in brackets"
    )]
    Pointer { name: String },
    #[error("{name}: only the first dimension may be empty")]
    EmptyDimension { name: String },
    #[error("{name} is {mode} and no array: give it a length, as in *{name}")]
    ScalarMode { name: String, mode: &'static str },
    #[error("{name} is a name that generated code uses itself")]
    Reserved { name: String },
    #[error("{name} is no parameter of this routine")]
    UnknownName { name: String },
    #[error("{name} stands in a size, and is no IN scalar of an integer type")]
    NotASize { name: String },
    #[error("{name} stands in a CalcOrder, and is no IN scalar that is a number")]
    NotANumber { name: String },
    #[error("{what} cannot stand here: a size is made of whole numbers and IN scalars")]
    NotInSizes { what: &'static str },
    #[error("{what} cannot stand here: a CalcOrder is made of numbers and IN scalars")]
    NotInOrders { what: &'static str },
    #[error("{name} is passed to the function, and is no parameter")]
    Argument { name: String },
    #[error(
        "told to a client, the routine has {bytes} bytes, at most {MAX_SIGNATURE_BYTES} are: shorten its documentation"
    )]
    LongSignature { bytes: usize },
    #[error("{parameter}: {of} {problem}")]
    Size {
        parameter: String,
        of: &'static str,
        problem: crate::evaluate::Fault,
    },
}

impl Problem {
    pub(crate) fn at(self, at: Place) -> Wrong {
        Wrong { at, problem: self }
    }
}

/// An error before the names of files are looked up.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    pub at: Place,
    pub problem: Problem,
}

impl Wrong {
    pub fn told(self, files: &Files) -> IdlError {
        IdlError {
            file: files.name(self.at).map(str::to_owned),
            at: self.at,
            problem: self.problem,
        }
    }
}
