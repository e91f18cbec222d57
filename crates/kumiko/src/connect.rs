//! From a short name to an open session: which address, which credential, whom to trust.

use crate::config::{Config, SiteEntry};
use crate::fail::{Failure, While};
use crate::home::Home;
use kumiko_client::{Client, SiteAddress};
use kumiko_identity::places::Places;
use kumiko_identity::{Credential, TrustStore};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A proxy with less time left is worth a word before it fails in the middle of something.
const EXPIRES_SOON: Duration = Duration::from_secs(30 * 60);

/// For a goodbye to be sent. A link that takes no more is found out by the session in half a minute only.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// Opens a session with a site.
pub async fn open(site: Option<&str>, home: &Home) -> Result<Client, Failure> {
    let entry = Config::load()?.site(site, home)?;
    let (credential, trust) = resolve(&entry, home)?;
    warn_of_expiry(&credential);
    Ok(Client::connect(&entry.address, &credential, &trust).await?)
}

/// What to show to a site that was named by its address, and whom to trust there.
pub fn identity_for(
    address: &SiteAddress,
    home: &Home,
) -> Result<(Credential, TrustStore), Failure> {
    let entry = Config::load()?.at(address, home)?;
    let (credential, trust) = resolve(&entry, home)?;
    Ok((credential, trust))
}

/// Opens a session for `work` and says goodbye, however that ends: one that is only dropped counts as its owner's until
/// the site gives it up.
pub async fn with<T>(
    site: Option<&str>,
    home: &Home,
    work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let client = open(site, home).await?;
    let done = work(&client).await;
    close(client).await;
    done
}

/// Says goodbye. Best effort: what was asked is done, or has failed already.
pub async fn close(client: Client) {
    let _ = tokio::time::timeout(GOODBYE_WITHIN, client.close()).await;
}

fn resolve(entry: &SiteEntry, home: &Home) -> Result<(Credential, TrustStore), Failure> {
    if entry.certificate.is_none() && entry.trust.is_none() {
        return own_identity(home);
    }
    let credential = match (&entry.certificate, &entry.key) {
        (Some(certificate), Some(key)) => pair(certificate, key)?,
        (Some(proxy), None) => {
            Credential::load(proxy).doing(|| format!("reading {}", proxy.display()))?
        }
        (None, _) => usual_credential()?,
    };
    let trust_directory = match &entry.trust {
        Some(directory) => directory.clone(),
        None => Places::of_this_process()?.trust_dir(|d| d.is_dir()),
    };
    let trust = TrustStore::load(&trust_directory)
        .doing(|| format!("reading the trust directory {}", trust_directory.display()))?;
    Ok((credential, trust))
}

fn pair(certificate: &Path, key: &Path) -> Result<Credential, Failure> {
    Credential::load_pair(certificate, key)
        .doing(|| format!("reading {} and {}", certificate.display(), key.display()))
}

/// What a client here would show: to any site, else to the personal one.
pub fn own_credential(home: &Home) -> Result<Credential, Failure> {
    match (usual_credential(), own_pair(home)?) {
        (Err(_), Some((certificate, key, _))) => pair(&certificate, &key),
        (usual, _) => usual,
    }
}

/// Who you are here, and whom you trust: of the personal site, if there is nothing else.
pub fn own_identity(home: &Home) -> Result<(Credential, TrustStore), Failure> {
    let credential = own_credential(home)?;
    let trust = match (usual_credential(), own_pair(home)?) {
        (Err(_), Some((_, _, trust))) => trust,
        _ => Places::of_this_process()?.trust_dir(|d| d.is_dir()),
    };
    let store = TrustStore::load(&trust)
        .doing(|| format!("reading the trust directory {}", trust.display()))?;
    Ok((credential, store))
}

/// Certificate, key and trust directory of the personal site, whether or not it was ever started.
fn own_pair(home: &Home) -> Result<Option<(PathBuf, PathBuf, PathBuf)>, Failure> {
    let made = || {
        let (certificate, key) = (home.user_certificate(), home.user_key());
        let there = certificate.exists();
        there.then(|| (certificate, key, home.certificates()))
    };
    let contact = home.read_contact()?;
    Ok(contact
        .map(|contact| (contact.certificate, contact.key, contact.trust))
        .or_else(made))
}

/// As Globus tools look for it: X509_USER_PROXY or /tmp/x509up_uUID, then the user's certificate and key.
fn usual_credential() -> Result<Credential, Failure> {
    let places = Places::of_this_process()?;
    let proxy = places.proxy();
    if proxy.exists() || std::env::var_os("X509_USER_PROXY").is_some() {
        return Credential::load(&proxy)
            .doing(|| format!("reading your proxy {}", proxy.display()));
    }
    let advice = || {
        Failure::from_text(format!(
            "you have no proxy in {}, and no certificate: ask a CA for one, then `kumiko identity proxy`",
            proxy.display()
        ))
    };
    let (certificate, key) = places.user_pair().ok_or_else(advice)?;
    if !certificate.exists() {
        return Err(advice());
    }
    pair(&certificate, &key)
}

fn warn_of_expiry(credential: &Credential) {
    let left = credential.remaining(SystemTime::now());
    if left < EXPIRES_SOON {
        eprintln!(
            "kumiko: your credential ends in {} min: renew it with `kumiko identity proxy`",
            left.as_secs() / 60
        );
    }
}
