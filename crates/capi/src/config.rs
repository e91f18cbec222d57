//! Where the site is and who calls: a contact.toml, as a personal site writes it. Not here: the connection.

use crate::codes::{CONFIGFILE_ERROR, CONFIGFILE_NOT_FOUND, Failed};
use kumiko_client::SiteAddress;
use kumiko_identity::{Credential, TrustStore};
use kumiko_wire::rpc::Durability;
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contact {
    host: String,
    port: u16,
    certificate: PathBuf,
    key: PathBuf,
    trust: PathBuf,
    #[serde(default)]
    durability: Option<String>,
}

pub struct Config {
    pub address: SiteAddress,
    pub credential: Credential,
    pub trust: TrustStore,
    pub durability: Durability,
}

impl Config {
    /// None: the personal site's.
    pub fn load(file: Option<&Path>) -> Result<Config, Failed> {
        let path = match file {
            Some(path) => path.to_owned(),
            None => personal().ok_or_else(|| {
                let what = "neither HOME nor KUMIKO_HOME is set: name a configuration file";
                Failed::new(CONFIGFILE_NOT_FOUND, what)
            })?,
        };
        let shown = path.display();
        let wrong = |cause: &dyn std::fmt::Display| {
            Failed::new(CONFIGFILE_ERROR, format!("{shown}: {cause}"))
        };
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Failed::new(CONFIGFILE_NOT_FOUND, format!("{shown}: {error}"))
            }
            _ => wrong(&error),
        })?;
        let contact: Contact = toml::from_str(&text).map_err(|error| wrong(&error))?;
        let durability = match &contact.durability {
            None => Durability::default(),
            Some(name) => *Durability::ALL
                .iter()
                .find(|known| known.name() == name)
                .ok_or_else(|| wrong(&format!("durability is none, record or full, not {name}")))?,
        };
        Ok(Config {
            address: SiteAddress {
                host: contact.host,
                port: contact.port,
            },
            credential: Credential::load_pair(&contact.certificate, &contact.key)
                .map_err(|error| wrong(&error))?,
            trust: TrustStore::load(&contact.trust).map_err(|error| wrong(&error))?,
            durability,
        })
    }
}

/// As the `kumiko` command finds it.
fn personal() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = set("KUMIKO_HOME")
        .map(PathBuf::from)
        .or_else(|| set("XDG_DATA_HOME").map(|data| PathBuf::from(data).join("kumiko")))
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".local/share/kumiko")))?;
    Some(home.join("contact.toml"))
}
