//! A throw-away CA in a directory of its own, with the credentials that a test asks for.
//!
//! Real keys, real files, the same code as a site's CA; only the lifetimes are short.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kumiko_identity::ca::{Authority, Kind, Options};
use kumiko_identity::proxy::{self, Options as ProxyOptions};
use kumiko_identity::{Credential, Dn, GridMap, KeyKind, TrustStore};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(86_400);

/// A CA `/O=Grid/OU=Test/CN=CA`, and a trust directory with it. Gone when dropped.
#[derive(Debug)]
pub struct Ca {
    authority: Authority,
    dir: TempDir,
}

impl Default for Ca {
    fn default() -> Self {
        Self::new()
    }
}

impl Ca {
    pub fn new() -> Ca {
        Self::with("/O=Grid/OU=Test/CN=CA", &Options::default())
    }

    /// A CA with another name, key or signing policy.
    pub fn with(subject: &str, options: &Options) -> Ca {
        let dir = TempDir::with_prefix("kumiko-ca-").expect("a temporary directory");
        let subject = Dn::parse(subject).expect("the name of a CA");
        let authority =
            Authority::init(&dir.path().join("ca"), &subject, options).expect("a new CA");
        let ca = Ca { authority, dir };
        ca.refresh();
        ca
    }

    /// The CA itself, to issue or revoke what the methods here do not.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Brings the trust directory up to date, after a revocation.
    pub fn refresh(&self) {
        self.authority
            .install_trust(&self.trust_dir())
            .expect("the CA installed");
    }

    pub fn trust_dir(&self) -> PathBuf {
        self.dir.path().join("certificates")
    }

    /// What trusts this CA.
    pub fn trust(&self) -> TrustStore {
        TrustStore::load(&self.trust_dir()).expect("a trust directory")
    }

    /// The name of a user: `/O=Grid/OU=Test/CN=Alice`.
    pub fn name(&self, common_name: &str) -> Dn {
        self.authority.name_space().with("CN", common_name)
    }

    /// A user's own credential (no proxy), P-256.
    pub fn user(&self, name: &str) -> Credential {
        self.user_with(name, KeyKind::P256, DAY)
    }

    pub fn user_with(&self, name: &str, key: KeyKind, lifetime: Duration) -> Credential {
        self.authority
            .enrol(&self.name(name), key, &Kind::User, lifetime)
            .expect("a user's certificate")
    }

    /// A host's credential. `localhost` gets the loopback addresses too.
    pub fn host(&self, name: &str) -> Credential {
        let mut names = vec![name.to_owned()];
        if name == "localhost" {
            names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
        }
        let subject = self.name(&format!("host/{name}"));
        self.authority
            .enrol(&subject, KeyKind::P256, &Kind::Host { names }, DAY)
            .expect("a host's certificate")
    }

    /// A full proxy of the usual lifetime, or as long as its issuer.
    pub fn proxy(&self, issuer: &Credential) -> Credential {
        proxy::create(issuer, &ProxyOptions::default()).expect("a proxy")
    }

    pub fn limited_proxy(&self, issuer: &Credential) -> Credential {
        let options = ProxyOptions {
            limited: true,
            ..ProxyOptions::default()
        };
        proxy::create(issuer, &options).expect("a limited proxy")
    }

    /// A proxy that is over already: it ended when it was made.
    pub fn expired_proxy(&self, issuer: &Credential) -> Credential {
        let options = ProxyOptions {
            lifetime: Duration::ZERO,
            ..ProxyOptions::default()
        };
        proxy::create(issuer, &options).expect("an expired proxy")
    }

    /// Writes a credential to a file (certificates and key, 0600) in the CA's directory, for programs.
    pub fn save(&self, credential: &Credential, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        credential.save_proxy(&path).expect("a credential's file");
        path
    }

    /// The text of a grid-mapfile: each credential's identity and its account.
    pub fn mapfile(entries: &[(&Credential, &str)]) -> String {
        entries
            .iter()
            .map(|(credential, account)| GridMap::line(credential.identity(), &[account]))
            .collect()
    }

    /// A place for more files of the test.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}
