//! Every file of spec/info/vectors is read, or refused, as its folder says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_directory::{Dn, Filter, delta, expr, ldap, ldif};
use std::path::PathBuf;

/// Ok: read; Err: the words of the refusal.
fn read(kind: &str, bytes: &[u8]) -> Result<(), String> {
    let text = || std::str::from_utf8(bytes).expect("a text");
    let words = |e: &dyn std::fmt::Display| e.to_string();
    match kind {
        "ldap" => match ldap::read(bytes) {
            Ok(Some((_, length))) if length == bytes.len() => Ok(()),
            Ok(other) => panic!("not one message: {other:?}"),
            Err(e) => Err(words(&e)),
        },
        "reply" => match ldap::read_reply(bytes) {
            Ok(Some((_, length))) if length == bytes.len() => Ok(()),
            Ok(other) => panic!("not one message: {other:?}"),
            Err(e) => Err(words(&e)),
        },
        "delta" => {
            let (reached, ops) = delta::read_ops(bytes).map_err(|e| words(&e))?;
            assert_eq!(delta::write_ops(reached, &ops), bytes, "written otherwise");
            Ok(())
        }
        "ldif" => ldif::parse(text()).map(|_| ()).map_err(|e| words(&e)),
        "filter" => Filter::parse(text()).map(|_| ()).map_err(|e| words(&e)),
        "expr" => expr::parse(text()).map(|_| ()).map_err(|e| words(&e)),
        "dn" => Dn::parse(text()).map(|_| ()).map_err(|e| words(&e)),
        other => panic!("no decoder for .{other}"),
    }
}

fn check(folder: &str, expected: bool) {
    let path = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../spec/info/vectors"
    ));
    let mut count = 0;
    for file in std::fs::read_dir(path.join(folder)).unwrap() {
        let file = file.unwrap().path();
        let kind = file.extension().unwrap().to_str().unwrap().to_owned();
        let result = read(&kind, &std::fs::read(&file).unwrap());
        assert_eq!(result.is_ok(), expected, "{}: {result:?}", file.display());
        count += 1;
    }
    assert!(count > 20, "{folder} has only {count} files");
}

#[test]
fn valid_vectors_are_read() {
    check("valid", true);
}

#[test]
fn invalid_vectors_are_refused() {
    check("invalid", false);
}
