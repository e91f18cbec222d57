//! Functions of the client's as the routine sees them (spec/idl I57): of each a function of its name, which hands on what it is given.
//! Not here: how that travels (`asking.c`).

use super::{c_type, passed};
use crate::signature::{Callback, Dimension, ElementType, Parameter};
use crate::syntax::{Binary, Expr};

/// As C declares it.
pub(super) fn types(callback: &Callback) -> String {
    let types: Vec<String> = callback.parameters.iter().map(passed).collect();
    match types.is_empty() {
        true => "void".to_owned(),
        false => types.join(", "),
    }
}

/// The whole function; `number` is its formal's.
pub(super) fn function(number: usize, callback: &Callback) -> String {
    let declared = |one: &Parameter| format!("{} {}", passed(one), one.name);
    let formals: Vec<String> = callback.parameters.iter().map(declared).collect();
    let formals = match formals.is_empty() {
        true => "void".to_owned(),
        false => formals.join(", "),
    };
    let parts: String = callback.parameters.iter().map(part).collect();
    let parameters = callback.parameters.iter().enumerate();
    let dimensions: String = parameters.map(|(at, one)| dimensions(at, one)).collect();
    let (name, count) = (&callback.name, callback.parameters.len());
    // An array has at least one element in C++ and C before C23.
    let parts = match count {
        0 => "{0, 0, KUMIKO_PART_ARRAY, NULL, 0}".to_owned(),
        _ => parts,
    };
    format!(
        "static void {name}({formals}) {{\n    struct kumiko_part kumiko_parts[] = {{{parts}}};\n{dimensions}    kumiko_ask({number}, kumiko_parts, {count});\n}}"
    )
}

fn part(one: &Parameter) -> String {
    let (name, c) = (&one.name, c_type(one.element));
    let (is_in, is_out) = (u8::from(one.mode.is_in()), u8::from(one.mode.is_out()));
    match (one.element, one.is_scalar()) {
        (ElementType::String, true) => format!(
            "{{{name} != NULL, 0, KUMIKO_PART_TEXT, {name}, {name} ? strlen({name}) + 1 : 0}}, "
        ),
        (ElementType::Filename, true) => {
            format!("{{{is_in}, {is_out}, KUMIKO_PART_FILE, {name}, 0}}, ")
        }
        (_, true) => format!("{{0, 0, KUMIKO_PART_SCALAR, &{name}, sizeof({c})}}, "),
        (ElementType::String, false) => {
            format!("{{{is_in}, {is_out}, KUMIKO_PART_TEXTS, {name}, sizeof(char *)}}, ")
        }
        (ElementType::Filename, false) => {
            format!("{{{is_in}, {is_out}, KUMIKO_PART_FILES, {name}, sizeof(char *)}}, ")
        }
        (_, false) => format!("{{{is_in}, {is_out}, KUMIKO_PART_ARRAY, {name}, sizeof({c})}}, "),
    }
}

/// Those of an array; `at` is its number.
fn dimensions(at: usize, one: &Parameter) -> String {
    let dimension = |dim: &Dimension| {
        let range = dim.range.as_ref();
        let start = range.and_then(|range| range.start.as_ref());
        let step = range.and_then(|range| range.step.as_ref());
        // 0 is "not said" (spec/idl I21).
        let said =
            |expression: Option<&Expr>| expression.map_or("0".to_owned(), |one| text(one, ""));
        let (size, end) = (text(&dim.size, ""), said(range.map(|range| &range.end)));
        let (start, step) = (said(start), said(step));
        format!("    kumiko_dimension(&kumiko_parts[{at}], {size}, {start}, {end}, {step});\n")
    };
    one.dims.iter().map(dimension).collect()
}

/// How many elements an array has, in C, where names are of addresses.
pub(super) fn elements(one: &Parameter) -> String {
    let sizes: Vec<String> = one.dims.iter().map(|dim| text(&dim.size, "*")).collect();
    sizes.join(" * ")
}

/// A size in C, whose names have this before them. The client computes it too, and refuses what has another length.
fn text(size: &Expr, before: &str) -> String {
    match size {
        Expr::Integer(value) => format!("{value}ll"),
        Expr::Name(name) => format!("(long long){before}{}", name.text),
        Expr::Negate(inner) => format!("(-{})", text(inner, before)),
        Expr::Choose {
            condition,
            then,
            otherwise,
        } => format!(
            "({} ? {} : {})",
            text(condition, before),
            text(then, before),
            text(otherwise, before)
        ),
        Expr::Binary {
            sign: Binary::Power,
            left,
            right,
        } => format!(
            "kumiko_power({}, {})",
            text(left, before),
            text(right, before)
        ),
        Expr::Binary { sign, left, right } => {
            format!(
                "({} {} {})",
                text(left, before),
                sign.sign(),
                text(right, before)
            )
        }
        // Checked: none of these stands in a size.
        Expr::Real(_) | Expr::Deref { .. } | Expr::Index { .. } => "0".to_owned(),
    }
}
