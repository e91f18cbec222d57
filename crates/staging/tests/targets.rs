//! Requests of GASS against spec/staging/vectors: the first line is what comes, the second what it means, or what is said of
//! it. `KUMIKO_WRITE_VECTORS=1` writes the second lines anew, to be read before they are committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_staging::gass::target;
use std::path::PathBuf;

fn check(kind: &str, extension: &str, read: impl Fn(&str) -> Result<String, String>) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/staging/vectors")
        .join(kind);
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|of| of != extension) {
            continue;
        }
        seen += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let (given, expected) = text.split_once('\n').unwrap();
        let said = match (kind, read(given)) {
            ("valid", Ok(said)) | ("invalid", Err(said)) => said,
            (_, other) => panic!("{}: {other:?}", path.display()),
        };
        if std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
            std::fs::write(&path, format!("{given}\n{said}\n")).unwrap();
        } else {
            assert_eq!(expected.trim_end(), said, "{}", path.display());
        }
    }
    assert!(seen > 0);
}

fn target(text: &str) -> Result<String, String> {
    let (method, target) = text.split_once(' ').unwrap();
    target::read(method, target)
        .map(|asked| format!("{:?} {:?}", asked.verb, asked.place))
        .map_err(|error| error.to_string())
}

#[test]
fn requests_mean_what_the_vectors_say() {
    check("valid", "target", target);
}

#[test]
fn what_is_no_request_is_refused_with_its_reason() {
    check("invalid", "target", target);
}

#[test]
fn ranges_are_read_or_passed_over() {
    let nothing = || "nothing".to_owned();
    for kind in ["valid", "invalid"] {
        check(kind, "range", |text| {
            let from = target::range_from(text).ok_or_else(nothing)?;
            Ok(from.to_string())
        });
        check(kind, "content-range", |text| {
            let (first, whole) = target::content_range(text).ok_or_else(nothing)?;
            Ok(format!("{first} {whole}"))
        });
    }
}
