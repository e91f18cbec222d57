//! The vectors of spec/identity: each file is read by the decoder that its ending names, and what it says is compared
//! with the file `.expected` beside it. An invalid one's `.expected` is the beginning of the error. And whatever is not
//! among them: no bytes make a decoder do anything but answer.
//!
//! `KUMIKO_WRITE_EXPECTED=1` writes the `.expected` files anew, for a person to read through.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kumiko_identity::{Certificate, Dn, Fields, GridMap, SigningPolicy};
use proptest::prelude::*;

fn name(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let name = Dn::parse(text).map_err(|e| e.to_string())?;
    assert_eq!(Dn::parse(&name.to_string()).unwrap(), name);
    let mut said = format!("{name}\n");
    for (kind, value) in name.attributes() {
        writeln!(said, "{kind} = {value}").unwrap();
    }
    Ok(said)
}

fn mapfile(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let map = GridMap::parse(text).map_err(|e| e.to_string())?;
    let mut lines: Vec<String> = map
        .iter()
        .map(|(name, accounts)| format!("{name} -> {}\n", accounts.join(" ")))
        .collect();
    lines.sort();
    Ok(lines.concat())
}

fn signing_policy(bytes: &[u8]) -> Result<String, String> {
    let policy = SigningPolicy::parse_bytes(bytes).map_err(|e| e.to_string())?;
    let mut said = String::new();
    for (ca, pattern) in policy.rules() {
        writeln!(said, "{ca} may sign {pattern}").unwrap();
    }
    Ok(said)
}

fn describe(fields: &Fields) -> String {
    let mut said = format!("subject {}\nissuer {}\n", fields.subject, fields.issuer);
    let mut add = |label: &str, value: String| writeln!(said, "{label} {value}").unwrap();
    if fields.is_ca {
        add("ca", "yes".to_owned());
    }
    if let Some(bits) = fields.key_usage {
        add("key usage", format!("{bits:#04x}"));
    }
    if let Some(info) = &fields.proxy_info {
        add(
            "proxy",
            format!("{:?} {:?}", info.language, info.path_length),
        );
    }
    if fields.is_draft_proxy {
        add("proxy", "of the GT3 draft".to_owned());
    }
    if fields.is_legacy_proxy() {
        add("proxy", "legacy".to_owned());
    }
    for host in &fields.dns_names {
        add("host", host.clone());
    }
    for address in &fields.addresses {
        add("host", address.to_string());
    }
    said
}

fn der(bytes: &[u8]) -> Result<String, String> {
    let certificate = Certificate::from_der(bytes).map_err(|e| e.to_string())?;
    Ok(describe(certificate.fields()))
}

fn pem(bytes: &[u8]) -> Result<String, String> {
    let bundle = Certificate::bundle_from_pem(bytes).map_err(|e| e.to_string())?;
    let all: Vec<String> = bundle.iter().map(|c| describe(c.fields())).collect();
    Ok(all.join("\n"))
}

fn request(bytes: &[u8]) -> Result<String, String> {
    let subject = kumiko_identity::ca::request_subject(bytes).map_err(|e| e.to_string())?;
    Ok(format!("subject {subject}\n"))
}

type Decoder = fn(&[u8]) -> Result<String, String>;

const DECODERS: &[(&str, Decoder)] = &[
    ("dn", name),
    ("mapfile", mapfile),
    ("signing_policy", signing_policy),
    ("der", der),
    ("pem", pem),
    ("csr", request),
];

fn decode(path: &Path, bytes: &[u8]) -> Result<String, String> {
    let ending = path.extension().unwrap_or_default();
    let decoder = DECODERS.iter().find(|(known, _)| *known == ending);
    let (_, decoder) = decoder.unwrap_or_else(|| panic!("no decoder for {}", path.display()));
    let said = decoder(bytes);
    // A reason left in OpenSSL's queue would be taken for a failure by the next TLS connection on the thread.
    assert!(openssl::error::ErrorStack::get().errors().is_empty());
    said
}

fn vectors(kind: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/identity/vectors")
        .join(kind);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|e| e != "expected"))
        .collect();
    paths.sort();
    assert!(paths.len() > 10);
    paths
}

fn expected(path: &Path, said: &str) -> String {
    let mut name = path.as_os_str().to_owned();
    name.push(".expected");
    if std::env::var_os("KUMIKO_WRITE_EXPECTED").is_some() {
        std::fs::write(&name, said).unwrap();
    }
    std::fs::read_to_string(&name).unwrap_or_else(|e| panic!("{name:?}: {e}"))
}

#[test]
fn what_is_valid_reads_as_it_says() {
    for path in vectors("valid") {
        let said = decode(&path, &std::fs::read(&path).unwrap());
        let said = said.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(said, expected(&path, &said), "{}", path.display());
    }
}

#[test]
fn what_is_invalid_is_refused_for_its_own_reason() {
    for path in vectors("invalid") {
        let said = match decode(&path, &std::fs::read(&path).unwrap()) {
            Err(said) => said,
            Ok(said) => panic!("{} was read as {said}", path.display()),
        };
        let expected = expected(&path, &said);
        assert!(
            said.starts_with(expected.trim_end()),
            "{}: {said}",
            path.display()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (_, decoder) in DECODERS {
            let _ = decoder(&bytes);
        }
    }

    #[test]
    fn any_change_to_a_vector_gets_an_answer(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let paths = vectors("valid");
        let path = which.get(&paths);
        let mut bytes = std::fs::read(path).unwrap();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        let _ = decode(path, &bytes);
    }

    #[test]
    fn a_written_name_reads_back(values in proptest::collection::vec((prop::sample::select(vec!["CN", "O", "emailAddress", "UID", "1.2.3"]), ".{1,20}"), 1..5)) {
        let name = values.iter().fold(Dn::default(), |name, (kind, value)| name.with(kind, value));
        prop_assert_eq!(Dn::parse(&name.to_string()).unwrap(), name.clone());
        let line = GridMap::line(&name, &["al"]);
        let map = GridMap::parse(&line).unwrap();
        prop_assert_eq!(map.lookup(&name), ["al"]);
    }
}
