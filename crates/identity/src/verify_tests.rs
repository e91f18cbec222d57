//! Chains that must be refused, made by hand where our own functions would not make them.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::ca::{Authority, Kind, Options};
use crate::proxy::{self, Draft, Language, ProxyInfo, name_below};
use crate::{
    Certificate, Credential, Dn, Key, KeyKind, ProxyKind, Purpose, TrustStore, VerifyError, verify,
};

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3600);

struct Site {
    dir: TempDir,
    ca: Authority,
    alice: Credential,
}

fn site() -> Site {
    let dir = TempDir::new().unwrap();
    let name = Dn::parse("/O=Grid/CN=CA").unwrap();
    let ca = Authority::init(&dir.path().join("ca"), &name, &Options::default()).unwrap();
    ca.install_trust(&dir.path().join("trust")).unwrap();
    let subject = Dn::parse("/O=Grid/CN=Alice").unwrap();
    let alice = ca.enrol(&subject, KeyKind::P256, &Kind::User, DAY).unwrap();
    Site { dir, ca, alice }
}

impl Site {
    fn trust_file(&self, ending: &str) -> PathBuf {
        let hash = self.ca.certificate().subject_hash();
        self.dir
            .path()
            .join("trust")
            .join(format!("{hash}.{ending}"))
    }

    fn judge_at(&self, chain: &[Certificate], at: SystemTime) -> Result<ProxyKind, VerifyError> {
        let trust = TrustStore::load(&self.dir.path().join("trust")).unwrap();
        verify(chain, &trust, at, &Purpose::Client).map(|peer| peer.kind)
    }

    fn judge(&self, credential: &Credential) -> Result<ProxyKind, VerifyError> {
        self.judge_at(credential.chain(), SystemTime::now())
    }

    fn refusal(&self, credential: &Credential) -> String {
        let refusal = refusal(self.judge(credential));
        // A reason left in OpenSSL's queue would be taken for a failure by the next TLS connection on the thread.
        assert!(openssl::error::ErrorStack::get().errors().is_empty());
        refusal
    }
}

/// The variant's name.
fn refusal(outcome: Result<ProxyKind, VerifyError>) -> String {
    match outcome {
        Ok(kind) => format!("accepted as {kind}"),
        Err(error) => {
            let text = format!("{error:?}");
            let end = text.find([' ', '(', '{']).unwrap_or(text.len());
            text[..end].to_owned()
        }
    }
}

/// A proxy with this language and path length, whatever its issuer is.
fn below(issuer: &Credential, language: Language, path_length: Option<u32>) -> Credential {
    named_below(issuer, language, path_length, |subject| {
        name_below(subject, 7).unwrap()
    })
}

fn named_below(
    issuer: &Credential,
    language: Language,
    path_length: Option<u32>,
    name: impl Fn(&[u8]) -> Vec<u8>,
) -> Credential {
    let key = Key::generate(KeyKind::P256).unwrap();
    let now = SystemTime::now();
    let draft = Draft {
        serial: 7,
        subject_der: name(&issuer.leaf().fields().subject_der),
        not_before: now - HOUR,
        not_after: now + HOUR,
        info: ProxyInfo {
            path_length,
            language,
        },
    };
    let mut chain = vec![draft.sign(issuer, &key.public().unwrap()).unwrap()];
    chain.extend(issuer.chain().iter().cloned());
    Credential::assemble(chain, key)
}

#[test]
fn the_language_of_each_proxy_decides_what_a_chain_may_do() {
    use Language::{Independent, InheritAll, Limited, Other};
    let site = site();
    let rows: &[(&[Language], &str)] = &[
        (&[], "accepted as end entity"),
        (&[InheritAll], "accepted as full proxy"),
        (&[InheritAll, InheritAll], "accepted as full proxy"),
        (&[InheritAll, Limited], "accepted as limited proxy"),
        (&[Limited, Limited], "accepted as limited proxy"),
        (&[Independent], "accepted as independent proxy"),
        (&[Limited, Independent], "accepted as independent proxy"),
        (&[Independent, Limited], "accepted as independent proxy"),
        (&[Independent, InheritAll], "accepted as independent proxy"),
        (&[Limited, InheritAll], "BelowLimited"),
        (&[Limited, Independent, InheritAll], "BelowLimited"),
        (&[Other("1.2.3.4".to_owned())], "ProxyLanguage"),
        (&[Other("1.3.6.1.5.5.7.21.0".to_owned())], "ProxyLanguage"),
    ];
    for (languages, expected) in rows {
        let mut credential = site.alice.clone();
        for language in *languages {
            credential = below(&credential, language.clone(), None);
        }
        assert_eq!(site.refusal(&credential), *expected, "{languages:?}");
    }
}

#[test]
fn a_path_length_bounds_the_proxies_below() {
    let site = site();
    for (length, count, expected) in [
        (0, 0, "accepted as full proxy"),
        (0, 1, "ProxyPathLength"),
        (2, 2, "accepted as full proxy"),
        (2, 3, "ProxyPathLength"),
    ] {
        let mut credential = below(&site.alice, Language::InheritAll, Some(length));
        for _ in 0..count {
            credential = below(&credential, Language::InheritAll, None);
        }
        assert_eq!(
            site.refusal(&credential),
            expected,
            "{count} below {length}"
        );
    }
}

#[test]
fn a_proxy_is_named_as_its_issuer_with_one_common_name_added() {
    let site = site();
    let mallory = Dn::parse("/O=Grid/CN=Mallory").unwrap();
    let root = site
        .ca
        .enrol(&mallory, KeyKind::P256, &Kind::User, DAY)
        .unwrap();
    let root = root.leaf().fields().subject_der.clone();
    type Namer<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;
    let names: [Namer<'_>; 3] = [
        &|own| own.to_vec(),
        &|_| name_below(&root, 7).unwrap(),
        &|own| name_below(&name_below(own, 7).unwrap(), 8).unwrap(),
    ];
    for name in names {
        let proxy = named_below(&site.alice, Language::InheritAll, None, name);
        let refused = site.refusal(&proxy);
        assert!(!refused.starts_with("accepted"), "{refused}");
    }
}

#[test]
fn a_ca_and_a_stranger_make_no_proxies() {
    let site = site();
    let dir = site.dir.path().join("ca");
    let ca =
        Credential::load_pair(&dir.join("ca-cert.pem"), &dir.join("private/ca-key.pem")).unwrap();
    let refused = site.refusal(&below(&ca, Language::InheritAll, None));
    assert!(!refused.starts_with("accepted"), "{refused}");
    // Alice's name, another's key.
    let bob = Dn::parse("/O=Grid/CN=Bob").unwrap();
    let bob = site
        .ca
        .enrol(&bob, KeyKind::P256, &Kind::User, DAY)
        .unwrap();
    let forged = Credential::assemble(site.alice.chain().to_vec(), bob.key().clone());
    let proxy = below(&forged, Language::InheritAll, None);
    assert_eq!(site.refusal(&proxy), "BadSignature");
}

#[test]
fn time_is_kept_at_both_ends() {
    let site = site();
    let proxy = below(&site.alice, Language::InheritAll, None);
    let now = SystemTime::now();
    for (at, expected) in [
        (now, "accepted as full proxy"),
        (now + 2 * HOUR, "Expired"),
        (now - 2 * HOUR, "NotYetValid"),
        (SystemTime::UNIX_EPOCH, "NotYetValid"),
        (now + 20_000 * DAY, "Expired"),
    ] {
        assert_eq!(
            refusal(site.judge_at(proxy.chain(), at)),
            expected,
            "{at:?}"
        );
    }
    assert!(matches!(
        proxy::create(
            &below(&site.alice, Language::InheritAll, Some(0)),
            &Default::default()
        ),
        Err(proxy::ProxyError::PathLength { .. })
    ));
}

#[test]
fn a_ca_signs_only_the_names_of_its_policy() {
    let site = site();
    let policy = site.trust_file("signing_policy");
    let text = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, text.replace("/O=Grid/*", "/O=Other/*")).unwrap();
    assert_eq!(site.refusal(&site.alice), "SigningPolicy");
    assert_eq!(
        site.refusal(&below(&site.alice, Language::InheritAll, None)),
        "SigningPolicy"
    );
    std::fs::write(&policy, text.replace("CN=CA", "CN=Another")).unwrap();
    assert_eq!(site.refusal(&site.alice), "NoSigningPolicy");
    std::fs::remove_file(&policy).unwrap();
    assert_eq!(site.refusal(&site.alice), "NoSigningPolicy");
    // A broken file takes the CA out of trust, and says so.
    std::fs::write(&policy, "access_id_CA X509 'unfinished").unwrap();
    assert_eq!(site.refusal(&site.alice), "UnknownIssuer");
    let trust = TrustStore::load(&site.dir.path().join("trust")).unwrap();
    assert_eq!(trust.problems().len(), 1);
}

#[test]
fn what_is_revoked_is_refused_with_all_proxies_below_it() {
    let site = site();
    let proxy = below(&site.alice, Language::InheritAll, None);
    site.ca
        .revoke(&site.alice.leaf().serial().unwrap())
        .unwrap();
    assert_eq!(
        site.refusal(&proxy),
        "accepted as full proxy",
        "the list is not there yet"
    );
    site.ca
        .install_trust(&site.dir.path().join("trust"))
        .unwrap();
    assert_eq!(site.refusal(&site.alice), "Revoked");
    assert_eq!(site.refusal(&proxy), "Revoked");
    let issued = site.ca.issued().unwrap();
    assert!(issued.iter().all(|i| i.revoked.is_some()));
    let unknown = site.ca.revoke("ABCDEF").unwrap_err();
    assert!(unknown.to_string().contains("ABCDEF"));
}

#[test]
fn an_outdated_or_foreign_revocation_list_refuses_all_of_its_ca() {
    let site = site();
    site.ca.write_crl(Some(HOUR)).unwrap();
    site.ca
        .install_trust(&site.dir.path().join("trust"))
        .unwrap();
    assert_eq!(site.refusal(&site.alice), "accepted as end entity");
    let later = SystemTime::now() + 2 * HOUR;
    assert_eq!(
        refusal(site.judge_at(site.alice.chain(), later)),
        "StaleCrl"
    );
    let name = Dn::parse("/O=Grid/CN=CA").unwrap();
    let other =
        Authority::init(&site.dir.path().join("other"), &name, &Options::default()).unwrap();
    std::fs::write(site.trust_file("r0"), other.crl().unwrap()).unwrap();
    assert_eq!(site.refusal(&site.alice), "UnknownIssuer");
    std::fs::remove_file(site.trust_file("r0")).unwrap();
    assert_eq!(
        refusal(site.judge_at(site.alice.chain(), later)),
        "accepted as end entity"
    );
}

#[test]
fn a_stranger_and_a_self_signed_peer_are_unknown() {
    let (site, elsewhere) = (site(), site());
    // The same names, other keys: the signature tells.
    let refused = site.refusal(&elsewhere.alice);
    assert!(!refused.starts_with("accepted"), "{refused}");
    let dir = TempDir::new().unwrap();
    let name = Dn::parse("/O=Else/CN=CA").unwrap();
    let other = Authority::init(dir.path(), &name, &Options::default()).unwrap();
    let bob = Dn::parse("/O=Else/CN=Bob").unwrap();
    let bob = other.enrol(&bob, KeyKind::P256, &Kind::User, DAY).unwrap();
    assert_eq!(site.refusal(&bob), "UnknownIssuer");
    let shown = [bob.leaf().clone(), other.certificate().clone()];
    assert_eq!(
        refusal(site.judge_at(&shown, SystemTime::now())),
        "UnknownIssuer"
    );
    assert_eq!(
        refusal(site.judge_at(&shown[1..], SystemTime::now())),
        "UnknownIssuer"
    );
    assert_eq!(refusal(site.judge_at(&[], SystemTime::now())), "EmptyChain");
}

#[test]
fn an_end_entity_signs_no_end_entity() {
    let site = site();
    let dir = site.dir.path().join("ca");
    // A CA's directory with Alice's certificate and key in the place of its own.
    site.alice
        .save_pair(&dir.join("ca-cert.pem"), &dir.join("private/ca-key.pem"))
        .unwrap();
    let policy = "access_id_CA X509 '/O=Grid/CN=Alice'\npos_rights globus CA:sign\ncond_subjects globus '\"*\"'\n";
    std::fs::write(dir.join("signing_policy"), policy).unwrap();
    let false_ca = Authority::load(&dir).unwrap();
    let bob = Dn::parse("/O=Grid/CN=Bob").unwrap();
    let bob = false_ca
        .enrol(&bob, KeyKind::P256, &Kind::User, HOUR)
        .unwrap();
    let chain = [bob.leaf().clone(), site.alice.leaf().clone()];
    let refused = refusal(site.judge_at(&chain, SystemTime::now()));
    assert!(!refused.starts_with("accepted"), "{refused}");
}

/// A CA below the site's, in a directory as `Authority` has it.
fn sub_ca(site: &Site) -> Authority {
    use openssl::x509::extension::{BasicConstraints, KeyUsage};
    let dir = site.dir.path().join("sub");
    let subject = Dn::parse("/O=Grid/CN=Sub CA").unwrap();
    let own = Authority::init(&dir, &subject, &Options::default()).unwrap();
    let root = site.dir.path().join("ca");
    let root =
        Credential::load_pair(&root.join("ca-cert.pem"), &root.join("private/ca-key.pem")).unwrap();
    let own_x509 = own.certificate().x509();
    let mut builder = openssl::x509::X509::builder().unwrap();
    builder.set_version(2).unwrap();
    let serial = openssl::bn::BigNum::from_u32(99)
        .unwrap()
        .to_asn1_integer()
        .unwrap();
    builder.set_serial_number(&serial).unwrap();
    builder.set_subject_name(own_x509.subject_name()).unwrap();
    builder
        .set_issuer_name(root.leaf().x509().subject_name())
        .unwrap();
    builder.set_pubkey(&own_x509.public_key().unwrap()).unwrap();
    builder.set_not_before(own_x509.not_before()).unwrap();
    builder.set_not_after(own_x509.not_after()).unwrap();
    builder
        .append_extension(BasicConstraints::new().critical().ca().build().unwrap())
        .unwrap();
    let usage = KeyUsage::new()
        .critical()
        .key_cert_sign()
        .crl_sign()
        .build()
        .unwrap();
    builder.append_extension(usage).unwrap();
    let id = openssl::x509::extension::SubjectKeyIdentifier::new();
    let id = id.build(&builder.x509v3_context(None, None)).unwrap();
    builder.append_extension(id).unwrap();
    builder
        .sign(&root.key().0, openssl::hash::MessageDigest::sha256())
        .unwrap();
    std::fs::write(dir.join("ca-cert.pem"), builder.build().to_pem().unwrap()).unwrap();
    Authority::load(&dir).unwrap()
}

#[test]
fn each_ca_of_a_chain_needs_its_own_policy_and_list() {
    let site = site();
    let sub = sub_ca(&site);
    let bob = Dn::parse("/O=Grid/CN=Bob").unwrap();
    let bob = sub.enrol(&bob, KeyKind::P256, &Kind::User, DAY).unwrap();
    let whole = [bob.leaf().clone(), sub.certificate().clone()];
    let now = SystemTime::now();
    assert_eq!(refusal(site.judge_at(&whole, now)), "NoSigningPolicy");
    assert_eq!(site.refusal(&bob), "UnknownIssuer");
    let dir = site.dir.path().join("trust");
    sub.install_trust(&dir).unwrap();
    // Now the CA between is known here, and need not be sent.
    assert_eq!(site.refusal(&bob), "accepted as end entity");
    assert_eq!(
        refusal(site.judge_at(&whole, now)),
        "accepted as end entity"
    );
    let trust = TrustStore::load(&dir).unwrap();
    assert_eq!(trust.complete(bob.chain()), [sub.certificate().clone()]);
    assert_eq!(trust.complete(site.alice.chain()), []);
    sub.revoke(&bob.leaf().serial().unwrap()).unwrap();
    sub.install_trust(&dir).unwrap();
    assert_eq!(site.refusal(&bob), "Revoked");
    // The root's policy speaks of the CA below too.
    let policy = site.trust_file("signing_policy");
    let text = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, text.replace("/O=Grid/*", "/O=Grid/CN=A*")).unwrap();
    assert_eq!(site.refusal(&bob), "Revoked");
    let list = format!("{}.r0", sub.certificate().subject_hash());
    std::fs::remove_file(dir.join(list)).unwrap();
    assert_eq!(site.refusal(&bob), "SigningPolicy");
}

#[test]
fn a_trust_directory_is_read_anew_only_when_it_changed() {
    let site = site();
    let trust = TrustStore::load(&site.dir.path().join("trust")).unwrap();
    assert!(trust.reload().unwrap().is_none());
    std::fs::remove_file(site.trust_file("signing_policy")).unwrap();
    let changed = trust.reload().unwrap().unwrap();
    let now = SystemTime::now();
    let chain = site.alice.chain();
    assert!(verify(chain, &changed, now, &Purpose::Client).is_err());
    assert!(verify(chain, &trust, now, &Purpose::Client).is_ok());
}
