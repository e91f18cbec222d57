//! Functions of the client's as the routine sees them (spec/idl I57): of each a function of its name, which hands on what it is given.
//! Not here: how that travels (`runtime.c`).

use super::{c_type, passed};
use crate::signature::{Callback, ElementType, Parameter};
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
    let (name, count) = (&callback.name, callback.parameters.len());
    // An array has at least one element in C++ and C before C23.
    let parts = match count {
        0 => "{0, 0, KUMIKO_PART_ARRAY, NULL, 0}".to_owned(),
        _ => parts,
    };
    format!(
        "static void {name}({formals}) {{\n    struct kumiko_part kumiko_parts[] = {{{parts}}};\n    kumiko_ask({number}, kumiko_parts, {count});\n}}"
    )
}

fn part(one: &Parameter) -> String {
    let (name, c) = (&one.name, c_type(one.element));
    if one.is_scalar() && one.element == ElementType::String {
        return format!(
            "{{{name} != NULL, 0, KUMIKO_PART_TEXT, {name}, {name} ? strlen({name}) + 1 : 0}}, "
        );
    }
    if one.is_scalar() {
        return format!("{{0, 0, KUMIKO_PART_SCALAR, &{name}, sizeof({c})}}, ");
    }
    let times = |bytes: String, size: &Expr| format!("kumiko_times({bytes}, {})", text(size));
    let sizes = one.dims.iter().map(|dim| &dim.size);
    let bytes = sizes.fold(format!("sizeof({c})"), times);
    let (is_in, is_out) = (u8::from(one.mode.is_in()), u8::from(one.mode.is_out()));
    format!("{{{is_in}, {is_out}, KUMIKO_PART_ARRAY, {name}, {bytes}}}, ")
}

/// A size in C. The client computes it too, and refuses what has another length.
fn text(size: &Expr) -> String {
    match size {
        Expr::Integer(value) => format!("{value}ll"),
        Expr::Name(name) => format!("(long long){}", name.text),
        Expr::Negate(inner) => format!("(-{})", text(inner)),
        Expr::Choose {
            condition,
            then,
            otherwise,
        } => format!(
            "({} ? {} : {})",
            text(condition),
            text(then),
            text(otherwise)
        ),
        Expr::Binary {
            sign: Binary::Power,
            left,
            right,
        } => format!("kumiko_power({}, {})", text(left), text(right)),
        Expr::Binary { sign, left, right } => {
            format!("({} {} {})", text(left), sign.sign(), text(right))
        }
        // Checked: none of these stands in a size.
        Expr::Real(_) | Expr::Deref { .. } | Expr::Index { .. } => "0".to_owned(),
    }
}
