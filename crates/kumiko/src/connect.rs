//! From a short name to an open session: which address, which credential, whom to trust.

use crate::config::{Config, SiteEntry};
use crate::fail::{Failure, While};
use crate::home::Home;
use kumiko_client::{Client, SiteAddress};
use kumiko_identity::places::Places;
use kumiko_identity::{Credential, TrustStore};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A proxy with less time left is worth a word before it fails in the middle of something.
const EXPIRES_SOON: Duration = Duration::from_secs(30 * 60);

/// For a goodbye to be sent. A link that takes no more is found out by the session in half a minute only.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// Opens a session with a site.
pub async fn open(site: Option<&str>, home: &Home) -> Result<Client, Failure> {
    let entry = Config::load()?.site(site, home)?;
    let (address, credential, trust) = resolve(&entry)?;
    warn_of_expiry(&credential);
    Ok(Client::connect(&address, &credential, &trust).await?)
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
    // Best effort: what was asked is done, or has failed already.
    let _ = tokio::time::timeout(GOODBYE_WITHIN, client.close()).await;
    done
}

fn resolve(entry: &SiteEntry) -> Result<(SiteAddress, Credential, TrustStore), Failure> {
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
    Ok((entry.address.clone(), credential, trust))
}

fn pair(certificate: &Path, key: &Path) -> Result<Credential, Failure> {
    Credential::load_pair(certificate, key)
        .doing(|| format!("reading {} and {}", certificate.display(), key.display()))
}

/// What a client here would show: to any site, else to the personal one.
pub fn own_credential(home: &Home) -> Result<Credential, Failure> {
    match (usual_credential(), home.read_contact()?) {
        (Err(_), Some(contact)) => pair(&contact.certificate, &contact.key),
        (usual, _) => usual,
    }
}

/// Who you are here, and whom you trust: of the personal site, if there is nothing else.
pub fn own_identity(home: &Home) -> Result<(Credential, TrustStore), Failure> {
    let contact = home.read_contact()?;
    let trust = match (usual_credential(), &contact) {
        (Err(_), Some(contact)) => contact.trust.clone(),
        _ => Places::of_this_process()?.trust_dir(|d| d.is_dir()),
    };
    let store = TrustStore::load(&trust)
        .doing(|| format!("reading the trust directory {}", trust.display()))?;
    Ok((own_credential(home)?, store))
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
