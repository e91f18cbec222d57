//! What holds for every tree and every size: printing is undone by reading; sizes and runs are those that counting finds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_idl::{
    Binary, Body, Class, ClassItem, Code, Declarator, Dim, Distribution, ElementType, Expr, Formal,
    Idl, Item, Limits, Mode, Name, Opt, Param, ParamOrCallback, Place, Problem, Range, Routine,
    Run, Setting, Signature, SizeProblem, TypeWord, Value, check, parse, parse_expr,
};
use proptest::prelude::*;

const AT: Place = Place {
    file: 0,
    line: 0,
    column: 0,
};

fn name() -> impl Strategy<Value = Name> {
    // Capitals after the first letter only, so that it is no keyword.
    "[a-z_$][A-Z0-9_$]{0,5}".prop_map(|text| Name { text, at: AT })
}

fn text() -> impl Strategy<Value = String> {
    "[a-z \"\\\\'\t\n\r\x01\x7fé漢?/*]{0,12}"
}

fn code() -> impl Strategy<Value = Code> {
    let piece = prop_oneof![
        Just("x = 1;"),
        Just("{ y(); }"),
        Just("\"}\\\"\""),
        Just("'}'"),
        Just("/* } \" */"),
        Just("// it's }\n"),
        Just("\n#include <it's.h>\n"),
        Just("\n# 9 \"f.c\"\n"),
    ];
    proptest::collection::vec(piece, 0..4).prop_map(|pieces| Code {
        text: pieces.concat(),
        at: AT,
    })
}

fn sign() -> impl Strategy<Value = Binary> {
    proptest::sample::select(vec![
        Binary::Add,
        Binary::Subtract,
        Binary::Multiply,
        Binary::Divide,
        Binary::Modulo,
        Binary::Power,
        Binary::Equal,
        Binary::NotEqual,
        Binary::Less,
        Binary::LessOrEqual,
        Binary::Greater,
        Binary::GreaterOrEqual,
    ])
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        (0..=i64::MAX).prop_map(Expr::Integer),
        (0.0..f64::MAX).prop_map(Expr::Real),
        (0.0..1e-300).prop_map(Expr::Real),
        name().prop_map(Expr::Name),
    ];
    leaf.prop_recursive(6, 40, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            4 => (sign(), boxed(), boxed())
                .prop_map(|(sign, left, right)| Expr::Binary { sign, left, right }),
            1 => boxed().prop_map(Expr::Negate),
            1 => boxed().prop_map(|of| Expr::Deref { of, at: AT }),
            1 => (boxed(), boxed()).prop_map(|(of, index)| Expr::Index { of, index, at: AT }),
            1 => (boxed(), boxed(), boxed()).prop_map(|(condition, then, otherwise)| {
                Expr::Choose { condition, then, otherwise }
            }),
        ]
    })
}

fn dim() -> impl Strategy<Value = Dim> {
    let bounds = (
        proptest::option::of(expr()),
        expr(),
        proptest::option::of(expr()),
    );
    let range = bounds.prop_map(|(start, end, step)| Range {
        step: step.filter(|_| start.is_some()),
        start,
        end,
    });
    let parts = (proptest::option::of(expr()), proptest::option::of(range));
    parts.prop_map(|(size, range)| Dim {
        size,
        range,
        at: AT,
    })
}

fn param() -> impl Strategy<Value = Param> {
    let mode = proptest::option::of(proptest::sample::select(Mode::ALL.to_vec()));
    let spread = proptest::option::of(proptest::sample::select(Distribution::ALL.to_vec()));
    let words = proptest::collection::vec(proptest::sample::select(TypeWord::ALL.to_vec()), 1..4);
    let dims = proptest::collection::vec(dim(), 0..3);
    (mode, spread, words, name(), 0..3u32, dims).prop_map(
        |(mode, distribution, words, name, pointers, dims)| Param {
            mode,
            distribution,
            words,
            declarator: Declarator {
                name,
                pointers,
                dims,
            },
        },
    )
}

fn option() -> impl Strategy<Value = Opt> {
    prop_oneof![
        text().prop_map(|text| Opt::Required { text, at: AT }),
        text().prop_map(|text| Opt::Backend { text, at: AT }),
        text().prop_map(|text| Opt::Shrink { text, at: AT }),
        text().prop_map(|text| Opt::Checkpoint { text, at: AT }),
        text().prop_map(|text| Opt::Language { text, at: AT }),
        expr().prop_map(|order| Opt::CalcOrder { order, at: AT }),
    ]
}

fn routine() -> impl Strategy<Value = Routine> {
    let parameter = prop_oneof![
        4 => param().prop_map(ParamOrCallback::Param),
        1 => (name(), proptest::collection::vec(param(), 0..3))
            .prop_map(|(name, parameters)| ParamOrCallback::Callback { name, parameters }),
    ];
    let body = prop_oneof![
        code().prop_map(Body::Code),
        (
            proptest::option::of(text()),
            name(),
            proptest::collection::vec(name(), 0..3)
        )
            .prop_map(|(convention, function, arguments)| Body::Calls {
                convention,
                function,
                arguments
            }),
    ];
    let parameters = proptest::collection::vec(parameter, 0..4);
    let options = proptest::collection::vec(option(), 0..3).prop_map(|mut options| {
        options.sort_by_key(Opt::word);
        options.dedup_by_key(|option| option.word());
        options
    });
    (
        name(),
        parameters,
        proptest::option::of(text()),
        options,
        body,
    )
        .prop_map(|(name, parameters, doc, options, body)| Routine {
            name,
            parameters,
            doc,
            options,
            body,
        })
}

fn item() -> impl Strategy<Value = Item> {
    let class_item = prop_oneof![
        code().prop_map(ClassItem::State),
        routine().prop_map(|routine| ClassItem::Method(Box::new(routine))),
    ];
    let class = (
        name(),
        proptest::option::of(text()),
        proptest::collection::vec(class_item, 0..2),
    );
    prop_oneof![
        name().prop_map(Item::Module),
        name().prop_map(Item::FortranStringConvention),
        (proptest::sample::select(Setting::ALL.to_vec()), text()).prop_map(|(setting, text)| {
            Item::Setting {
                setting,
                text,
                at: AT,
            }
        }),
        code().prop_map(Item::Globals),
        routine().prop_map(|routine| Item::Define(Box::new(routine))),
        class.prop_map(|(name, doc, items)| Item::DefClass(Class {
            name,
            doc,
            options: Vec::new(),
            items,
        })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn an_expression_is_read_as_it_was_printed(expr in expr()) {
        prop_assert_eq!(parse_expr(&expr.to_string()), Ok(expr));
    }

    #[test]
    fn a_text_is_read_as_it_was_printed(items in proptest::collection::vec(item(), 0..4)) {
        let idl = Idl { items, ..Idl::default() };
        let printed = idl.to_string();
        prop_assert_eq!(parse(&printed), Ok(idl), "{}", printed);
    }

    #[test]
    fn runs_are_the_bytes_that_counting_finds(
        bounds in proptest::collection::vec((0..5i128, 0..5i128, 0..7i128, 0..4i128), 1..4),
    ) {
        let dims: String = (0..bounds.len()).map(|i| format!("[n{i}:s{i},e{i},t{i}]")).collect();
        let scalars: String = (0..bounds.len())
            .map(|i| format!("IN int n{i}, IN int s{i}, IN int e{i}, IN int t{i}, "))
            .collect();
        let text = format!("Module m; Define f({scalars} INOUT float x{dims}) {{}}");
        let signature = check(&parse(&text).unwrap()).unwrap().routines.remove(0);
        let mut arguments: Vec<Option<Value>> = bounds
            .iter()
            .flat_map(|(n, s, e, t)| [*n, *s, *e, *t])
            .map(|value| Some(Value::Integer(value)))
            .collect();
        arguments.push(None);
        let fits = bounds.iter().all(|(n, s, e, _)| {
            let e = if *e == 0 { n } else { e };
            s <= e && e <= n
        });
        let layout = match signature.layout(&arguments, Limits::WIDEST) {
            Ok(layout) => layout,
            Err(error) => {
                prop_assert!(!fits);
                let outside = matches!(error.problem, SizeProblem::Outside { .. });
                prop_assert!(outside, "{}", error);
                return Ok(());
            }
        };
        prop_assert!(fits);
        // Every element of the whole array, in order of addresses, and whether it is selected.
        let mut selected: Vec<bool> = vec![true];
        for (n, s, e, t) in &bounds {
            let e = if *e == 0 { n } else { e };
            let t = if *t == 0 { &1 } else { t };
            let here = |i: i128| i >= *s && i < *e && (i - s) % t == 0;
            selected = selected
                .iter()
                .flat_map(|outer| (0..*n).map(move |i| *outer && here(i)))
                .collect();
        }
        let array = layout.arrays.last().unwrap().as_ref().unwrap();
        prop_assert_eq!(array.elements as usize, selected.len());
        prop_assert_eq!(array.moved as usize, selected.iter().filter(|one| **one).count());
        prop_assert_eq!(layout.in_bytes, array.moved * 4);
        prop_assert_eq!(layout.out_bytes, array.moved * 4);
        let mut touched = vec![false; selected.len() * 4];
        let mut last_end = 0;
        for Run { offset_bytes, bytes } in array.runs().unwrap() {
            prop_assert!(bytes > 0 && offset_bytes >= last_end);
            last_end = offset_bytes + bytes;
            touched[offset_bytes as usize..last_end as usize].fill(true);
        }
        let wanted: Vec<bool> = selected.iter().flat_map(|one| [*one; 4]).collect();
        prop_assert_eq!(touched, wanted);
    }

    #[test]
    fn no_scalars_make_sizes_wrap_or_panic(
        expr in expr(),
        scalars in proptest::collection::vec(any::<i64>(), 3),
    ) {
        // Names of the expression are replaced by parameters; what cannot stand in a size is refused before.
        let text = format!("Module m; Define f(IN long a, IN long b, IN long c, IN char x[{}]) {{}}",
            renamed(&expr));
        let Ok(checked) = check(&parse(&text).unwrap()) else { return Ok(()) };
        let mut arguments: Vec<Option<Value>> =
            scalars.iter().map(|value| Some(Value::Integer(i128::from(*value)))).collect();
        arguments.push(None);
        if let Ok(layout) = checked.routines[0].layout(&arguments, Limits::WIDEST) {
            prop_assert!(layout.memory_bytes <= Limits::WIDEST.call_bytes);
        }
    }
}

fn renamed(expr: &Expr) -> Expr {
    let of = |inner: &Expr| Box::new(renamed(inner));
    match expr {
        Expr::Name(name) => Expr::Name(Name {
            text: ["a", "b", "c"][name.text.len() % 3].to_owned(),
            at: AT,
        }),
        Expr::Real(_) | Expr::Deref { .. } | Expr::Index { .. } => Expr::Integer(7),
        Expr::Integer(value) => Expr::Integer(*value),
        Expr::Negate(inner) => Expr::Negate(of(inner)),
        Expr::Binary { sign, left, right } => Expr::Binary {
            sign: *sign,
            left: of(left),
            right: of(right),
        },
        Expr::Choose {
            condition,
            then,
            otherwise,
        } => Expr::Choose {
            condition: of(condition),
            then: of(then),
            otherwise: of(otherwise),
        },
    }
}

fn one(text: &str) -> Signature {
    let text = format!("Module m; Define f({text}) {{}}");
    check(&parse(&text).unwrap()).unwrap().routines.remove(0)
}

const fn int(value: i128) -> Option<Value> {
    Some(Value::Integer(value))
}

#[test]
fn sizes_that_cannot_be_are_refused_before_anything_is_allocated() {
    const BIG: i128 = 1 << 40;
    let rows: [(&str, &[Option<Value>], &str); 14] = [
        (
            "IN int n, IN double x[n]",
            &[None, None],
            "f, n: its value is needed for sizes and was not given",
        ),
        (
            "IN int n, IN double x[n]",
            &[int(1)],
            "f, arguments: 1 arguments are given, it takes 2",
        ),
        (
            "IN int n, IN double x[n]",
            &[int(-1), None],
            "f, x: its size is -1",
        ),
        (
            "IN int n, IN double x[n]",
            &[int(1 << 31), None],
            "f, n: 2147483648 does not fit into its type",
        ),
        (
            "IN int n, IN double x[n]",
            &[Some(Value::Real(1.0)), None],
            "f, n: a number with a point is given, and a whole one belongs there",
        ),
        (
            "IN int n, IN double x[6/n]",
            &[int(0), None],
            "f, x: its size divides by zero",
        ),
        (
            "IN int n, IN double x[2^n]",
            &[int(-1), None],
            "f, x: its size has a negative exponent",
        ),
        (
            "IN int n, IN double x[2^n]",
            &[int(127), None],
            "f, x: its size grows beyond what can be counted",
        ),
        (
            "IN int n, IN double x[9:n]",
            &[int(10), None],
            "f, x: its section goes from 0 to 10, and its size is 9",
        ),
        (
            "IN int n, IN double x[9:n,4]",
            &[int(-2), None],
            "f, x: the start of its section is -2",
        ),
        (
            "IN long n, IN double x[n][n]",
            &[int(BIG), None],
            "f, x: it takes more than 70368744177664 bytes: send less, or have the site allow more",
        ),
        (
            "IN long n, IN double x[n]",
            &[int(BIG * 8 + 1), None],
            "f, x: it takes more than 70368744177664 bytes: send less, or have the site allow more",
        ),
        (
            "IN long n, IN double x[n], WORK double y[n]",
            &[int(BIG * 8), None, None],
            "f, y: it takes more than 70368744177664 bytes: send less, or have the site allow more",
        ),
        (
            "IN double x, IN double y[1]",
            &[None, None],
            "f, x: its value is needed for sizes and was not given",
        ),
    ];
    for (parameters, arguments, told) in rows {
        let error = one(parameters)
            .layout(arguments, Limits::WIDEST)
            .unwrap_err();
        assert_eq!(error.to_string(), told);
    }
}

#[test]
fn an_array_with_a_dimension_of_nothing_is_empty_however_long_the_others_are() {
    let signature = one("IN long n, IN long m, OUT dcomplex x[m][n][m]");
    let layout = signature.layout(&[int(0), int(i64::MAX.into()), None], Limits::WIDEST);
    let layout = layout.unwrap();
    assert_eq!(layout.memory_bytes, 0);
    let array = layout.arrays[2].as_ref().unwrap();
    assert_eq!(array.runs().unwrap().count(), 0);
}

#[test]
fn arrays_beyond_four_gibibytes_have_their_size() {
    let signature = one("IN long n, INOUT double x[n][n]");
    let limits = Limits {
        array_bytes: 8 << 32,
        call_bytes: 8 << 32,
    };
    let layout = signature.layout(&[int(1 << 16), None], limits).unwrap();
    assert_eq!((layout.in_bytes, layout.out_bytes), (8 << 32, 8 << 32));
    let runs: Vec<Run> = layout.arrays[1].as_ref().unwrap().runs().unwrap().collect();
    let whole = Run {
        offset_bytes: 0,
        bytes: 8 << 32,
    };
    assert_eq!(runs, [whole]);
    let error = signature.layout(&[int((1 << 16) + 1), None], limits);
    let limit = limits.array_bytes;
    assert_eq!(error.unwrap_err().problem, SizeProblem::TooBig { limit });
}

#[test]
fn operations_are_counted_in_real_numbers() {
    let signature = |order: &str| {
        let text = format!("Module m; Define f(IN int n, IN double t) CalcOrder {order} {{}}");
        check(&parse(&text).unwrap()).unwrap().routines.remove(0)
    };
    let of = |order: &str| {
        let arguments = [int(1000), Some(Value::Real(0.5))];
        signature(order).operations(&arguments)
    };
    assert_eq!(of("2/3*n^3").unwrap().unwrap().round(), 666_666_667.0);
    assert_eq!(of("n/t"), Ok(Some(2000.0)));
    assert_eq!(of("n > 10 ? n : 1/0"), Ok(Some(1000.0)));
    for order in ["0-n", "n^n^n", "n/(t-0.5)"] {
        assert!(of(order).is_err(), "{order}");
    }
    let signature = one("IN int n");
    assert_eq!(signature.operations(&[int(1)]), Ok(None));
}

#[test]
fn a_callbacks_sizes_are_its_own() {
    let signature = one("IN int n, g(IN int k, IN double x[k], OUT int y[2*k])");
    let Formal::Callback(callback) = &signature.formals[1] else {
        panic!("it is a callback")
    };
    let layout = callback
        .layout(&[int(3), None, None], Limits::WIDEST)
        .unwrap();
    assert_eq!((layout.in_bytes, layout.out_bytes), (24, 24));
    let outer = signature.layout(&[int(3), None], Limits::WIDEST).unwrap();
    assert_eq!(outer.memory_bytes, 0);
}

#[test]
fn texts_and_files_have_no_length_before_they_come() {
    let signature = one("IN int n, IN string names[n], IN filename input, OUT filename output");
    let layout = signature.layout(&[int(5), None, None, None], Limits::WIDEST);
    let layout = layout.unwrap();
    let names = layout.arrays[1].as_ref().unwrap();
    assert_eq!((names.element, names.moved), (ElementType::String, 5));
    assert_eq!((names.moved_bytes(), layout.in_bytes), (None, 0));
    assert_eq!(layout.memory_bytes, 40);
}

#[test]
fn what_cannot_be_told_to_a_client_is_refused() {
    let doc = "d".repeat(kumiko_idl::MAX_SIGNATURE_BYTES);
    let idl = parse(&format!("Module m; Define f() \"{doc}\" {{}}")).unwrap();
    let problem = check(&idl).unwrap_err().problem;
    assert!(matches!(problem, Problem::LongSignature { .. }));
}
