//! Files of NumPy against the vectors in spec/idl/vectors: what is read, and why not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_idl::ElementType;
use kumiko_idl::npy::{Npy, header, read};
use std::path::{Path, PathBuf};

fn vector(kind: &str, name: &str, ours: &[u8]) -> Vec<u8> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/idl/vectors")
        .join(kind)
        .join(format!("{name}.npy"));
    if !path.exists() && std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
        std::fs::write(&path, ours).unwrap();
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// As NumPy writes them, but for padding.
fn of(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes()),
        _ => bytes.extend(u32::try_from(header.len()).unwrap().to_le_bytes()),
    }
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn arrays_are_read_with_their_type_and_shape() {
    let check = |name, ours: &[u8], element, shape: &[u64]| {
        let bytes = vector("valid", name, ours);
        let Npy {
            element: found,
            shape: sizes,
            data_at,
        } = read(&bytes, Some(bytes.len() as u64)).unwrap();
        assert_eq!((found, sizes.as_slice()), (element, shape), "{name}");
        assert!(data_at <= bytes.len());
    };
    let plain = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n";
    check(
        "matrix",
        &of(1, plain, &[0; 48]),
        ElementType::Float64,
        &[2, 3],
    );
    let vector = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
    check("bytes", &of(2, vector, &[0; 3]), ElementType::Uint8, &[3]);
    let one = "{'descr': '<c16', 'fortran_order': False, 'shape': (), }";
    check(
        "number",
        &of(3, one, &[0; 16]),
        ElementType::Complex128,
        &[],
    );
    // A vector has one order.
    let column = "{'shape': (1, 2), 'fortran_order': True, 'descr': '<i4'}";
    check(
        "column",
        &of(1, column, &[0; 8]),
        ElementType::Int32,
        &[1, 2],
    );
}

#[test]
fn what_is_no_array_of_numbers_is_refused_with_the_reason() {
    let check = |name, ours: &[u8], expected: &str| {
        let bytes = vector("invalid", name, ours);
        let error = read(&bytes, Some(bytes.len() as u64))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{name}: {error}");
    };
    let with = |header: &str| of(1, header, &[0; 48]);
    check("magic", b"PK\x03\x04", "no .npy file");
    check("version", &of(4, "{}", &[]), "version 4");
    check(
        "cut",
        b"\x93NUMPY\x01\x00\xff\xff{",
        "not complete, or too long",
    );
    check(
        "no-descr",
        &with("{'fortran_order': False, 'shape': (6,)}"),
        "no descr",
    );
    check(
        "big-endian",
        &with("{'descr': '>f8', 'fortran_order': False, 'shape': (6,)}"),
        "type >f8",
    );
    check(
        "objects",
        &with("{'descr': '|O', 'fortran_order': False, 'shape': (6,)}"),
        "type |O",
    );
    check(
        "fortran",
        &with("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3)}"),
        "in Fortran order",
    );
    check(
        "shape",
        &with("{'descr': '<f8', 'fortran_order': False, 'shape': (2, -3)}"),
        "no shape",
    );
    check(
        "huge",
        &with(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551615, 18446744073709551615)}",
        ),
        "no shape",
    );
    check(
        "length",
        &with("{'descr': '<f8', 'fortran_order': False, 'shape': (7,)}"),
        "48 bytes of elements, and by its shape 56",
    );
}

#[test]
fn what_is_written_is_read_as_the_same_and_data_begin_where_they_can_be_mapped() {
    for (element, shape) in [
        (ElementType::Float64, vec![2, 3]),
        (ElementType::Int8, vec![5]),
        (ElementType::Complex64, vec![]),
        (ElementType::Uint64, vec![1; 15]),
    ] {
        let written = header(element, &shape).unwrap();
        assert_eq!(written.len() % 64, 0);
        let found = read(&written, None).unwrap();
        assert_eq!(found.element, element);
        assert_eq!(found.shape, shape);
        assert_eq!(found.data_at, written.len());
    }
    assert!(header(ElementType::String, &[1]).is_none());
}
