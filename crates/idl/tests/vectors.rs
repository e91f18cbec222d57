//! spec/idl: vectors of texts and of signatures.
//! `KUMIKO_WRITE_VECTORS=1` writes what is missing, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_idl::{BadSignature, Signature, check, parse};
use std::path::{Path, PathBuf};

fn vectors(folder: &str, kind: &str, told: impl Fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/idl/vectors")
        .join(folder);
    let mut texts: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == kind))
        .collect();
    texts.sort();
    assert!(!texts.is_empty());
    for text in texts {
        let told = told(&std::fs::read_to_string(&text).unwrap());
        let beside = PathBuf::from(format!("{}.expected", text.display()));
        if !beside.exists() && std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
            std::fs::write(&beside, &told).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(told, expected, "{}", text.display());
    }
}

#[test]
fn valid_texts_are_printed_in_one_form_and_have_the_signatures_that_stand_beside_them() {
    vectors("valid", "idl", |text| {
        let idl = parse(text).unwrap();
        let printed = idl.to_string();
        assert_eq!(parse(&printed).unwrap(), idl);
        assert_eq!(parse(&printed).unwrap().to_string(), printed);
        let mut told = printed;
        for signature in check(&idl).unwrap().routines {
            let text = signature.to_text();
            assert_eq!(Signature::from_text(&text).as_ref(), Ok(&signature));
            told.push_str("---\n");
            told.push_str(&text);
        }
        told
    });
}

#[test]
fn invalid_texts_are_refused_with_their_place() {
    vectors("invalid", "idl", |text| {
        let error = parse(text).and_then(|idl| check(&idl)).unwrap_err();
        format!("{error}\n")
    });
}

#[test]
fn texts_that_are_no_signatures_are_refused() {
    vectors("invalid", "signature", |text| {
        format!("{}\n", Signature::from_text(text).unwrap_err())
    });
}

#[test]
fn too_long_texts_are_refused_before_they_are_read() {
    let long = "/".repeat(kumiko_idl::MAX_IDL_BYTES + 1);
    let told = parse(&long).unwrap_err().to_string();
    assert!(
        told.starts_with("IDL: the text has 4194305 bytes"),
        "{told}"
    );
    let long = " ".repeat(kumiko_idl::MAX_SIGNATURE_BYTES + 1);
    let told = Signature::from_text(&long).unwrap_err();
    assert_eq!(told, BadSignature::TooLong { bytes: long.len() });
}
