//! spec/policy/vectors: every text gives the policy, or the error, that stands beside it.
//! `KUMIKO_WRITE_VECTORS=1` writes what is missing, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_policy::{parse, parse_vo};
use serde::{Serialize, de::DeserializeOwned};
use std::path::{Path, PathBuf};

fn check(folder: &str, told: impl Fn(&Path, &str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/policy/vectors")
        .join(folder);
    let is_text = |path: &PathBuf| path.extension().is_some_and(|kind| kind != "expected");
    let mut texts: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(is_text)
        .collect();
    texts.sort();
    assert!(!texts.is_empty());
    for text in texts {
        let told = told(&text, &std::fs::read_to_string(&text).unwrap());
        let beside = PathBuf::from(format!("{}.expected", text.display()));
        if !beside.exists() && std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
            std::fs::write(&beside, &told).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(told, expected, "{}", text.display());
    }
}

/// As JSON, which is read again as the same.
fn json<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> String {
    let json = serde_json::to_string_pretty(value).unwrap() + "\n";
    assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *value);
    json
}

/// Texts of virtual organisations (P42).
fn is_vo(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "vo")
}

#[test]
fn valid_texts_give_their_policies() {
    check("valid", |path, text| match is_vo(path) {
        true => json(&parse_vo(text, "vector").unwrap()),
        false => json(&parse(text, "vector").unwrap()),
    });
}

#[test]
fn invalid_texts_give_their_errors() {
    check("invalid", |path, text| {
        let error = match is_vo(path) {
            true => parse_vo(text, "vector").unwrap_err(),
            false => parse(text, "vector").unwrap_err(),
        };
        error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
            + "\n"
    });
}
