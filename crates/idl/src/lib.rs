//! Ninf IDL (ring 0, spec/idl): the language in which a numerical routine says what it takes and gives. [`parse()`] reads a
//! text, [`check()`] makes a [`Signature`] of each of its routines, [`Signature::layout`] says how big each argument of a call
//! is before anything is allocated, [`Signature::plan`] where it stands among the bytes that travel, [`stubs`] the program around a routine.
//! Not here: files, preprocessors, compilers.

mod check;
mod error;
mod evaluate;
mod image;
mod layout;
mod lex;
pub mod npy;
mod packed;
mod parse;
mod parse_expr;
mod print;
mod signature;
mod stub;
mod syntax;

pub use check::{Checked, check};
pub use error::{IdlError, Problem};
pub use evaluate::{Fault, Value};
pub use image::{
    ALIGN_BYTES, BadTail, HEAD_BYTES, Head, Place as Placed, Plan, PlanError, Span, file_head,
    number_head, text_head,
};
pub use layout::{Array, Layout, Limits, Run, Section, SizeError, SizeProblem};
pub use packed::{lengths_bytes, pack_lengths, pack_texts};
pub use parse::{MAX_DIMENSIONS, MAX_IDL_BYTES, MAX_NAME_BYTES, MAX_PARAMETERS, parse};
pub use parse_expr::{MAX_DEPTH, MAX_EXPRESSION_NODES, parse_expr};
pub use signature::{
    BadSignature, CALLBACK_MOST, Callback, Dimension, ElementType, Formal, MAX_SIGNATURE_BYTES,
    Parameter, Signature,
};
pub use stub::{Language, Stub, python_generator, stubs};
pub use syntax::{
    Binary, Body, Class, ClassItem, Code, Declarator, Dim, Distribution, Expr, Files, Idl, Item,
    Mode, Name, Opt, Param, ParamOrCallback, Place, Range, Routine, Setting, TypeWord,
};
