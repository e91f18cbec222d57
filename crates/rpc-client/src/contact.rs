//! Where a site is and who calls: a contact.toml, as a personal site writes it. For programs other than the command, which has a
//! configuration of its own. Not here: the connection.

use kumiko_client::SiteAddress;
use kumiko_identity::{Credential, TrustStore};
use kumiko_wire::rpc::Durability;
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};

/// A file's words.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    host: String,
    port: u16,
    certificate: PathBuf,
    key: PathBuf,
    trust: PathBuf,
    #[serde(default)]
    durability: Option<String>,
    #[serde(default)]
    index: Option<String>,
}

#[derive(Debug)]
pub struct Contact {
    pub address: SiteAddress,
    pub credential: Credential,
    pub trust: TrustStore,
    pub durability: Durability,
    /// An info server that knows sites, HOST or HOST:PORT: it is asked for those that have a routine.
    pub index: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ContactError {
    #[error("neither HOME nor KUMIKO_HOME is set: name a contact file")]
    NoHome,
    #[error("{}: {cause}; `kumiko site start` writes one", path.display())]
    Absent { path: PathBuf, cause: io::Error },
    #[error("{}: {cause}", path.display())]
    Unusable { path: PathBuf, cause: String },
}

impl ContactError {
    /// The row of spec/errors.toml.
    pub fn code(&self) -> &'static str {
        "bad_contact"
    }
}

impl Contact {
    /// None: the personal site's.
    ///
    /// # Errors
    /// There is no such file, or what is wrong with it.
    pub fn load(file: Option<&Path>) -> Result<Contact, ContactError> {
        let path = match file {
            Some(path) => path.to_owned(),
            None => home().ok_or(ContactError::NoHome)?.join("contact.toml"),
        };
        let wrong = |cause: &dyn std::fmt::Display| ContactError::Unusable {
            path: path.clone(),
            cause: cause.to_string(),
        };
        let text = std::fs::read_to_string(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => ContactError::Absent {
                path: path.clone(),
                cause,
            },
            _ => wrong(&cause),
        })?;
        let file: File = toml::from_str(&text).map_err(|error| wrong(&error))?;
        let durability = match &file.durability {
            None => Durability::default(),
            Some(name) => durability(name).ok_or_else(|| {
                wrong(&format!(
                    "durability is none, record, full or auto, not {name}"
                ))
            })?,
        };
        Ok(Contact {
            address: SiteAddress {
                host: file.host,
                port: file.port,
            },
            credential: Credential::load_pair(&file.certificate, &file.key)
                .map_err(|error| wrong(&error))?,
            trust: TrustStore::load(&file.trust).map_err(|error| wrong(&error))?,
            durability,
            index: file.index,
        })
    }
}

/// Of this name.
pub fn durability(name: &str) -> Option<Durability> {
    let mut all = Durability::ALL.into_iter();
    all.find(|known| known.name() == name)
}

/// The kumiko folder of who runs this, as the command finds it.
pub fn home() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("KUMIKO_HOME")
        .map(PathBuf::from)
        .or_else(|| set("XDG_DATA_HOME").map(|data| PathBuf::from(data).join("kumiko")))
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".local/share/kumiko")))
}
