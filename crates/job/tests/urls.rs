//! Addresses against spec/staging/vectors: the first line of each is the address, the second what it means, or what is said
//! of it. `KUMIKO_WRITE_VECTORS=1` writes the second lines anew, to be read before they are committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_job::url::{MAX_URL_BYTES, Url, UrlError, encode, looks_like_url};
use std::path::PathBuf;

fn told(text: &str) -> Result<String, UrlError> {
    let url = Url::parse(text)?;
    let server = url.server.as_ref();
    let server = server.map_or("-".to_owned(), |server| {
        format!("{} {}", server.host, server.port)
    });
    let path = url.decoded_path();
    assert_eq!(url.as_str(), text);
    Ok(format!(
        "{} {server} {}",
        url.scheme.name(),
        path.escape_ascii()
    ))
}

fn check(kind: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/staging/vectors")
        .join(kind);
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "url") {
            continue;
        }
        seen += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let (address, expected) = text.split_once('\n').unwrap();
        let said = match (kind, told(address)) {
            ("valid", Ok(said)) => said,
            ("invalid", Err(error)) => format!("it {error}"),
            (_, other) => panic!("{}: {other:?}", path.display()),
        };
        if std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
            std::fs::write(&path, format!("{address}\n{said}\n")).unwrap();
        } else {
            assert_eq!(expected.trim_end(), said, "{}", path.display());
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn addresses_mean_what_the_vectors_say() {
    check("valid");
}

#[test]
fn what_is_no_address_is_refused_with_its_reason() {
    check("invalid");
    let long = format!("https://h/{}", "x".repeat(MAX_URL_BYTES));
    assert!(matches!(Url::parse(&long), Err(UrlError::TooLong { .. })));
}

#[test]
fn any_path_can_be_written_into_an_address_and_read_back() {
    let every: Vec<u8> = (1..=255).collect();
    let path = [b"/".as_slice(), &every].concat();
    let url = Url::parse(&format!("gsiftp://h{}", encode(&path))).unwrap();
    assert_eq!(url.decoded_path(), path);
}

#[test]
fn a_path_is_not_taken_for_an_address() {
    for path in ["/bin/true", "a.out", "./https", "odd:name", "C:"] {
        assert!(!looks_like_url(path), "{path}");
    }
    for url in ["https://h/x", "file:/x", "nonsense://x"] {
        assert!(looks_like_url(url), "{url}");
    }
}
