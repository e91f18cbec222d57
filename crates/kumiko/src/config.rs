//! A person's configuration: sites by short names ($XDG_CONFIG_HOME/kumiko/kumiko.toml).

use crate::fail::{Failure, While};
use crate::home::{Contact, Home, read_optional};
use kumiko_client::{ClientError, SiteAddress};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The personal site's short name.
pub const LOCAL: &str = "local";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    #[serde(default)]
    pub sites: BTreeMap<String, SiteEntry>,
    /// The site meant when none is named.
    pub default_site: Option<String>,
    /// The index that `--where` asks, HOST or HOST:PORT.
    pub index: Option<String>,
}

/// One site of the configuration. Files left out are looked for in the usual places of a grid user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteEntry {
    /// HOST or HOST:PORT.
    #[serde(deserialize_with = "address")]
    pub address: SiteAddress,
    /// A proxy, or a certificate with `key` beside it.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub trust: Option<PathBuf>,
}

/// $XDG_CONFIG_HOME/kumiko, else ~/.config/kumiko.
pub fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CONFIG_HOME").filter(|v| !v.is_empty());
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".config"));
    let folder = named.map(PathBuf::from).or_else(home)?;
    Some(folder.join("kumiko"))
}

impl Config {
    pub fn load() -> Result<Config, Failure> {
        let Some(path) = folder().map(|f| f.join("kumiko.toml")) else {
            return Ok(Config::default());
        };
        match read_optional(&path)? {
            Some(text) => toml::from_str(&text).doing(|| format!("reading {}", path.display())),
            None => Ok(Config::default()),
        }
    }

    /// A short name, HOST or HOST:PORT; None is the default site, and that the personal one.
    pub fn site(&self, name: Option<&str>, home: &Home) -> Result<SiteEntry, Failure> {
        let name = name.or(self.default_site.as_deref()).unwrap_or(LOCAL);
        if let Some(entry) = self.sites.get(name) {
            return Ok(entry.clone());
        }
        if name == LOCAL {
            let local = home.read_contact()?.map(SiteEntry::local);
            return local.ok_or_else(|| {
                Failure::from_text(format!(
                    "there is no personal site in {}: start one with `kumiko site start`, or name a site with --site",
                    home.root().display()
                ))
            });
        }
        let address = name
            .parse()
            .map_err(|e: ClientError| Failure::misuse(e.to_string()))?;
        self.at(&address, home)
    }

    /// The site that answers at an address: the one of that address here, the personal one, or one that nothing else is
    /// known of.
    pub fn at(&self, address: &SiteAddress, home: &Home) -> Result<SiteEntry, Failure> {
        let local = home.read_contact()?.map(SiteEntry::local);
        let known = self.sites.values().cloned().chain(local);
        let unknown = SiteEntry {
            address: address.clone(),
            certificate: None,
            key: None,
            trust: None,
        };
        let mut same = known.filter(|entry| entry.address == *address);
        Ok(same.next().unwrap_or(unknown))
    }
}

impl SiteEntry {
    fn local(contact: Contact) -> SiteEntry {
        SiteEntry {
            address: SiteAddress {
                host: contact.host,
                port: contact.port,
            },
            certificate: Some(contact.certificate),
            key: Some(contact.key),
            trust: Some(contact.trust),
        }
    }
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SiteAddress, D::Error> {
    String::deserialize(from)?
        .parse()
        .map_err(serde::de::Error::custom)
}
