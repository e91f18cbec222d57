//! Values of expressions (spec/idl I20 to I22): sizes in whole numbers, CalcOrder in real ones. Nothing wraps, and nothing
//! is evaluated that a choice does not choose.

use crate::syntax::{Binary, Expr};

/// A scalar argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Wide enough for every integer type.
    Integer(i128),
    Real(f64),
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("grows beyond what can be counted")]
    Overflow,
    #[error("divides by zero")]
    DivisionByZero,
    #[error("has a negative exponent")]
    NegativeExponent,
    #[error("is no finite number")]
    NotFinite,
    #[error("is negative")]
    Negative,
    #[error("asks for {name}, which has no value here")]
    Unknown { name: String },
}

/// In whole numbers: `/` and `%` as in C, a comparison is 0 or 1.
pub(crate) fn whole(expr: &Expr, value: &dyn Fn(&str) -> Option<i128>) -> Result<i128, Fault> {
    let of = |expr: &Expr| whole(expr, value);
    match expr {
        Expr::Integer(number) => Ok(i128::from(*number)),
        Expr::Name(name) => value(&name.text).ok_or_else(|| unknown(&name.text)),
        Expr::Negate(inner) => of(inner)?.checked_neg().ok_or(Fault::Overflow),
        Expr::Choose {
            condition,
            then,
            otherwise,
        } => of(if of(condition)? != 0 { then } else { otherwise }),
        Expr::Binary { sign, left, right } => {
            let (left, right) = (of(left)?, of(right)?);
            let truth = |holds: bool| Some(i128::from(holds));
            let result = match sign {
                Binary::Add => left.checked_add(right),
                Binary::Subtract => left.checked_sub(right),
                Binary::Multiply => left.checked_mul(right),
                Binary::Divide | Binary::Modulo if right == 0 => return Err(Fault::DivisionByZero),
                Binary::Divide => left.checked_div(right),
                Binary::Modulo => left.checked_rem(right),
                Binary::Power if right < 0 => return Err(Fault::NegativeExponent),
                Binary::Power => u32::try_from(right).ok().and_then(|n| left.checked_pow(n)),
                Binary::Equal => truth(left == right),
                Binary::NotEqual => truth(left != right),
                Binary::Less => truth(left < right),
                Binary::LessOrEqual => truth(left <= right),
                Binary::Greater => truth(left > right),
                Binary::GreaterOrEqual => truth(left >= right),
            };
            result.ok_or(Fault::Overflow)
        }
        // Checked: none of these stands in a size.
        Expr::Real(_) | Expr::Deref { .. } | Expr::Index { .. } => Err(unknown(&expr.to_string())),
    }
}

/// In real numbers, so that `2/3*n^3` is what it says.
pub(crate) fn real(expr: &Expr, value: &dyn Fn(&str) -> Option<f64>) -> Result<f64, Fault> {
    let of = |expr: &Expr| real(expr, value);
    let result = match expr {
        // CalcOrder is an estimate: beyond 2^53 the nearest double does.
        Expr::Integer(number) => *number as f64,
        Expr::Real(number) => *number,
        Expr::Name(name) => value(&name.text).ok_or_else(|| unknown(&name.text))?,
        Expr::Negate(inner) => -of(inner)?,
        Expr::Choose {
            condition,
            then,
            otherwise,
        } => of(if of(condition)? != 0.0 {
            then
        } else {
            otherwise
        })?,
        Expr::Binary { sign, left, right } => {
            let (left, right) = (of(left)?, of(right)?);
            let truth = |holds: bool| f64::from(u8::from(holds));
            match sign {
                Binary::Add => left + right,
                Binary::Subtract => left - right,
                Binary::Multiply => left * right,
                Binary::Divide | Binary::Modulo if right == 0.0 => {
                    return Err(Fault::DivisionByZero);
                }
                Binary::Divide => left / right,
                Binary::Modulo => left % right,
                Binary::Power => left.powf(right),
                Binary::Equal => truth(left == right),
                Binary::NotEqual => truth(left != right),
                Binary::Less => truth(left < right),
                Binary::LessOrEqual => truth(left <= right),
                Binary::Greater => truth(left > right),
                Binary::GreaterOrEqual => truth(left >= right),
            }
        }
        Expr::Deref { .. } | Expr::Index { .. } => return Err(unknown(&expr.to_string())),
    };
    match result.is_finite() {
        true => Ok(result),
        false => Err(Fault::NotFinite),
    }
}

fn unknown(name: &str) -> Fault {
    Fault::Unknown {
        name: name.to_owned(),
    }
}
