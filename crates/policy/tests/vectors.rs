//! spec/policy/vectors: every text gives the policy, or the error, that stands beside it.
//! `KUMIKO_WRITE_VECTORS=1` writes what is missing, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_policy::{Policy, parse};
use std::path::{Path, PathBuf};

fn check(folder: &str, told: impl Fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/policy/vectors")
        .join(folder);
    let is_text = |path: &PathBuf| {
        path.extension()
            .is_some_and(|kind| kind == "toml" || kind == "policy")
    };
    let mut texts: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(is_text)
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
fn valid_texts_give_their_policies() {
    check("valid", |text| {
        let policy = parse(text, "vector").unwrap();
        let json = serde_json::to_string_pretty(&policy).unwrap() + "\n";
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
        json
    });
}

#[test]
fn invalid_texts_give_their_errors() {
    check("invalid", |text| {
        let error = parse(text, "vector").unwrap_err().to_string();
        error.lines().next().unwrap_or_default().to_owned() + "\n"
    });
}
