//! spec/idl I50 to I56: the programs around routines, as text. `stubs/NAME.idl` has beside it, in `NAME.expected`, what of the program
//! is the routine's own, and how it is made.
//! `KUMIKO_WRITE_VECTORS=1` writes what is missing, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_idl::{check, parse, stubs};
use std::fmt::Write;
use std::path::Path;

#[test]
fn programs_have_the_text_that_stands_beside_their_idl() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stubs");
    let mut seen = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "idl") {
            continue;
        }
        seen += 1;
        let idl = parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let routines = check(&idl).unwrap().routines;
        let mut told = String::new();
        for stub in stubs(&idl, &routines).unwrap() {
            let (_, own) = stub.source.split_once("} dcomplex;\n\n").unwrap();
            writeln!(told, "== {} {:?}", stub.signature.name, stub.language).unwrap();
            writeln!(told, "compiler: {:?}", stub.compiler).unwrap();
            writeln!(told, "linker: {:?} {:?}", stub.linker, stub.link).unwrap();
            told.push_str(own);
        }
        let beside = path.with_extension("expected");
        if !beside.exists() && std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
            std::fs::write(&beside, &told).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(told, expected, "{}", path.display());
    }
    assert!(seen >= 3);
}
