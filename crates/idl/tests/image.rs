//! spec/idl I40 to I44: where arguments stand among the bytes that travel.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_idl::{
    ElementType, Head, Limits, Placed, Signature, Span, Value, check, file_head, number_head,
    pack_lengths, pack_texts, parse, text_head,
};

fn signature(formals: &str) -> Signature {
    let text = format!("Module m; Define f({formals}) {{ }}");
    check(&parse(&text).unwrap()).unwrap().routines.remove(0)
}

fn int(value: i128) -> Head {
    number_head(ElementType::Int32, Value::Integer(value)).unwrap()
}

const NOTHING: Head = [0; 16];

/// (at, bytes) of what is given and taken, and the two lengths.
type Told = (Vec<(Option<(u64, u64)>, Option<(u64, u64)>)>, u64, u64);

fn told(formals: &str, heads: &[Head]) -> Result<Told, String> {
    let plan = signature(formals)
        .plan(heads, Limits::WIDEST)
        .map_err(|error| error.to_string())?;
    let span = |span: &Option<kumiko_idl::Span>| span.map(|span| (span.at, span.bytes));
    let places = plan.places.iter().map(|place| match place {
        Placed::Scalar => (None, None),
        Placed::Text { at } => (span(at), None),
        Placed::Array { given, taken, .. } => (span(given), span(taken)),
        Placed::File { given, taken } => (span(given), taken.map(|at| (at, 16))),
        Placed::Many { given, taken, .. } => (span(given), taken.map(|at| (at, 16))),
        Placed::Callback => (None, None),
    });
    Ok((places.collect(), plan.in_bytes, plan.out_bytes))
}

#[test]
fn heads_come_first_and_data_begin_at_multiples_of_64_in_the_order_of_the_formals() {
    let check = |formals: &str, heads: &[Head], expected: Told| {
        assert_eq!(told(formals, heads).unwrap(), expected, "{formals}");
    };
    check("", &[], (vec![], 0, 0));
    check("IN int n", &[int(3)], (vec![(None, None)], 16, 0));
    check(
        "IN int n, IN double a[n], INOUT double b[n], OUT int c[n], WORK double w[n]",
        &[int(3), NOTHING, NOTHING, NOTHING, NOTHING],
        (
            vec![
                (None, None),
                (Some((128, 24)), None),
                (Some((192, 24)), Some((0, 24))),
                (None, Some((64, 12))),
                (None, None),
            ],
            216,
            76,
        ),
    );
    // Of a section only what travels.
    check(
        "IN int n, INOUT double x[n:1,n,2]",
        &[int(10), NOTHING],
        (vec![(None, None), (Some((64, 40)), Some((0, 40)))], 104, 40),
    );
    check(
        "IN string s, IN string t",
        &[text_head(Some(5)), text_head(None)],
        (vec![(Some((64, 6)), None), (None, None)], 70, 0),
    );
    // An array of texts is as long as its head says.
    check(
        "IN int n, IN string a[n], IN double b[n]",
        &[int(2), file_head(30), NOTHING],
        (
            vec![
                (None, None),
                (Some((64, 30)), None),
                (Some((128, 16)), None),
            ],
            144,
            0,
        ),
    );
    // So is one of files; what comes back of either, the result tells in a head.
    check(
        "IN int n, INOUT string a[n], IN filename f[n:1], OUT filename g[2], WORK string w[n]",
        &[int(2), file_head(30), file_head(8), NOTHING, NOTHING],
        (
            vec![
                (None, None),
                (Some((128, 30)), Some((0, 16))),
                (Some((192, 8)), None),
                (None, Some((64, 16))),
                (None, None),
            ],
            200,
            80,
        ),
    );
    // What comes back of a file is known by its routine alone: the result tells it in a head.
    check(
        "OUT int c[1], IN filename a, OUT filename b, INOUT filename d, f(IN int n)",
        &[NOTHING, file_head(100), NOTHING, file_head(0), NOTHING],
        (
            vec![
                (None, Some((0, 4))),
                (Some((128, 100)), None),
                (None, Some((64, 16))),
                (Some((256, 0)), Some((128, 16))),
                (None, None),
            ],
            256,
            144,
        ),
    );
    // What is empty has a place and no bytes.
    check(
        "IN int n, IN double a[n]",
        &[int(0), NOTHING],
        (vec![(None, None), (Some((64, 0)), None)], 64, 0),
    );
}

#[test]
fn files_stand_behind_the_result_as_it_tells_and_nothing_else_is_there() {
    let signature = signature("OUT filename a, OUT filename b");
    let plan = signature.plan(&[NOTHING, NOTHING], Limits::WIDEST).unwrap();
    assert_eq!((plan.out_bytes, plan.has_tail()), (80, true));
    let fixed = |a: u64, b: u64| {
        let mut bytes = vec![0; 80];
        bytes[..8].copy_from_slice(&a.to_le_bytes());
        bytes[64..72].copy_from_slice(&b.to_le_bytes());
        bytes
    };
    let span = |at, bytes| Span { at, bytes };
    assert_eq!(
        plan.tail(&fixed(5, 0), 192).unwrap(),
        [(0, span(128, 5)), (1, span(192, 0))]
    );
    for (fixed, bytes) in [
        (fixed(5, 0), 191),
        (fixed(5, 1), 192),
        (fixed(u64::MAX, 0), 192),
        (fixed(1 << 47, 0), 128 + (1 << 47)),
        (vec![0; 71], 128),
    ] {
        assert!(plan.tail(&fixed, bytes).is_err(), "{bytes}");
    }
}

#[test]
fn the_arguments_of_a_callback_stand_as_those_of_a_call() {
    let signature = signature("IN int n, f(IN int k, IN double x[k], OUT double y[k]), IN int m");
    assert!(signature.callback(0).is_none() && signature.has_callbacks());
    let callback = signature.callback(1).unwrap();
    let plan = callback.plan(&[int(3), NOTHING, NOTHING], Limits::WIDEST);
    let plan = plan.unwrap();
    assert_eq!((plan.in_bytes, plan.out_bytes), (64 + 24, 24));
}

#[test]
fn what_cannot_be_is_said_before_anything_is_allocated() {
    let check = |formals: &str, heads: &[Head], expected: &str| {
        let error = told(formals, heads).unwrap_err();
        assert!(error.contains(expected), "{formals}: {error}");
    };
    check(
        "IN int n, IN double a[n]",
        &[int(-1), NOTHING],
        "a: its size is -1",
    );
    check("IN int n", &[], "takes 1 arguments");
    check(
        "IN long n, IN double a[n]",
        &[
            number_head(ElementType::Int64, Value::Integer(1 << 60)).unwrap(),
            NOTHING,
        ],
        "a: it takes more than",
    );
    check(
        "IN string s",
        &[text_head(Some(u64::MAX - 1))],
        "s: it takes more than",
    );
    check("IN int n", &[[7; 16]], "n: bytes of its head");
    check(
        "IN int n, IN double a[n]",
        &[int(1), int(1)],
        "a: bytes of its head",
    );
    check("f(IN int n)", &[int(1)], "f: bytes of its head");
    check("OUT filename f", &[int(1)], "f: bytes of its head");
    check(
        "IN filename f",
        &[file_head(1 << 50)],
        "f: it takes more than",
    );
    check(
        "IN int n, OUT string a[n]",
        &[int(1), int(1)],
        "a: bytes of its head",
    );
    let parameters = vec!["IN int"; 33];
    let parameters = parameters
        .iter()
        .enumerate()
        .map(|(at, one)| format!("{one} p{at}"));
    check(
        &format!("g({})", parameters.collect::<Vec<_>>().join(", ")),
        &[NOTHING],
        "f, g: a callback has at most 32 parameters",
    );
    check(
        "IN int n, IN string a[n]",
        &[int(1), file_head(1 << 50)],
        "a: it takes more than",
    );
}

#[test]
fn texts_stand_one_behind_the_other_after_their_lengths() {
    let texts = [Some("ab"), None, Some("")];
    let mut expected = Vec::new();
    for length in [2, u64::MAX, 0] {
        expected.extend(length.to_le_bytes());
    }
    expected.extend(b"ab\0\0");
    assert_eq!(pack_texts(&texts).unwrap(), expected);
    assert_eq!(pack_texts::<&str>(&[]).unwrap(), [0; 0]);
    assert!(pack_texts(&[Some("a\0")]).is_none());
}

#[test]
fn what_is_not_as_it_was_packed_is_refused() {
    let signature = signature("OUT string a[2], OUT filename f[2]");
    let plan = signature.plan(&[NOTHING, NOTHING], Limits::WIDEST).unwrap();
    let [texts, files] = plan.places.as_slice() else {
        panic!("{plan:?}");
    };
    let all = [Some("ab"), None];
    let packed = pack_texts(&all).unwrap();
    let came = texts.texts(&packed).unwrap();
    assert_eq!(came, [Some(&b"ab"[..]), None]);
    assert_eq!(files.texts(&packed), None);
    let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packed = packed.clone();
        change(&mut packed);
        assert_eq!(texts.texts(&packed), None, "{packed:?}");
    };
    wrong(&|packed| packed.truncate(15));
    wrong(&|packed| packed.truncate(18));
    wrong(&|packed| packed.push(0));
    wrong(&|packed| packed[0] = 3);
    wrong(&|packed| packed[0] = 1);
    wrong(&|packed| packed[17] = 0);
    wrong(&|packed| packed[8] = 0xfe);
    let span = |at, bytes| Span { at, bytes };
    let lengths = pack_lengths([5, 0]);
    assert_eq!(
        files.files(&lengths, 21),
        Some(vec![span(16, 5), span(21, 0)])
    );
    for bytes in [0, 16, 20, 22] {
        assert_eq!(files.files(&lengths, bytes), None, "{bytes}");
    }
    assert_eq!(files.files(&lengths[..15], 21), None);
    assert_eq!(files.files(&pack_lengths([u64::MAX, 22]), 21), None);
    assert_eq!(texts.files(&lengths, 21), None);
}

#[test]
fn heads_hold_numbers_of_their_types_and_no_others() {
    let check = |element, value, expected: Option<&[u8]>| {
        let head = number_head(element, value);
        let expected = expected.map(|bytes| {
            let mut head = [0; 16];
            head[..bytes.len()].copy_from_slice(bytes);
            head
        });
        assert_eq!(head, expected, "{element:?} {value:?}");
    };
    check(ElementType::Int8, Value::Integer(-1), Some(&[0xff]));
    check(ElementType::Int8, Value::Integer(128), None);
    check(
        ElementType::Uint16,
        Value::Integer(0x1234),
        Some(&[0x34, 0x12]),
    );
    check(ElementType::Uint64, Value::Integer(-1), None);
    check(ElementType::Int32, Value::Real(1.0), None);
    check(
        ElementType::Float64,
        Value::Real(1.0),
        Some(&1f64.to_le_bytes()),
    );
    check(
        ElementType::Float32,
        Value::Integer(2),
        Some(&2f32.to_le_bytes()),
    );
    check(ElementType::Complex64, Value::Real(1.0), None);
}
