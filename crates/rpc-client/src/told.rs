//! Sizes that need not be said, because the shape of an array tells them. Pure.

use kumiko_idl::{Expr, Formal, Parameter, Signature};

/// An IN scalar that is the size of an IN array's dimension; indexes of formals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub scalar: usize,
    pub array: usize,
    pub dimension: usize,
}

/// Of each such scalar the first array that tells it, in the order of the formals.
pub fn told(signature: &Signature) -> Vec<Told> {
    let given = |formal: &Formal, is_scalar: bool| match formal {
        Formal::Parameter(one) if one.mode.is_in() && one.is_scalar() == is_scalar => {
            Some(one.clone())
        }
        _ => None,
    };
    let numbered = |is_scalar| {
        let formals = signature.formals.iter().enumerate();
        formals.filter_map(move |(index, one)| Some((index, given(one, is_scalar)?)))
    };
    let dimension = |array: &Parameter, scalar: &Parameter| {
        let by = |size: &Expr| matches!(size, Expr::Name(name) if name.text == scalar.name);
        array.dims.iter().position(|dim| by(&dim.size))
    };
    numbered(true)
        .filter_map(|(scalar, parameter)| {
            numbered(false).find_map(|(array, of)| {
                Some(Told {
                    scalar,
                    array,
                    dimension: dimension(&of, &parameter)?,
                })
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_is_told_by_the_first_array_that_has_it_for_a_size() {
        let check = |formals: &str, expected: &[(usize, usize, usize)]| {
            let text = format!("Module m;\nDefine f({formals}) {{}}");
            let found: Vec<_> = told(&Signature::from_text(&text).unwrap())
                .iter()
                .map(|one| (one.scalar, one.array, one.dimension))
                .collect();
            assert_eq!(found, expected, "{formals}");
        };
        check(
            "IN int n, INOUT double a[n][n], INOUT double b[n]",
            &[(0, 1, 0)],
        );
        check(
            "IN double a[m][k], IN double b[k][n], IN int m, IN int n, IN int k",
            &[(2, 0, 0), (3, 1, 1), (4, 0, 1)],
        );
        // What is computed is not told, nor what only comes back.
        check("IN int n, IN double a[n*n]", &[]);
        check("IN int n, OUT double a[n]", &[]);
        check("IN double x, IN string s", &[]);
    }
}
