//! `info.toml`: what the operator of an info server may set (docs/guide/info.md). Everything has a default.

use kumiko_directory::source::Kind;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The port of MDS.
pub const PORT: u16 = 2135;
/// Every GRIS of MDS is called so.
const UNNAMED: &str = "local";

/// The settings of one server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Its name: its entries lie below `Mds-Vo-name=NAME, o=grid`.
    pub name: String,
    /// How it appears in those above it.
    pub kind: Kind,
    pub listen: SocketAddr,
    /// May those read who show no certificate?
    pub anonymous: bool,
    /// Tell about the host that it runs on (`HostProvider`, given by the program around), and the site there.
    pub host: bool,
    /// The name of that host, if it is not the kernel's.
    pub host_name: Option<String>,
    /// Servers to register with.
    pub register: Vec<Above>,
    /// Who may register here. Nobody but the server's own identity, if there is none.
    pub allow: Vec<Allow>,
    /// Servers of MDS 2 that may register in their manner. None: there is no such manner here.
    pub legacy: Vec<Legacy>,
    #[serde(rename = "provider")]
    pub providers: Vec<External>,
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: UNNAMED.to_owned(),
            kind: Kind::Leaf,
            listen: SocketAddr::from(([127, 0, 0, 1], PORT)),
            anonymous: true,
            host: true,
            host_name: None,
            register: Vec::new(),
            allow: Vec::new(),
            legacy: Vec::new(),
            providers: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// What it is called by others: leaves keep the name that MDS gives each of them to themselves.
    pub fn own_name(&self) -> String {
        match self.name == UNNAMED {
            true => kumiko_linux::this_process::host_name(),
            false => self.name.clone(),
        }
    }
}

/// A server above.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Above {
    /// HOST or HOST:PORT; the certificate must bear HOST.
    pub address: String,
    /// The name there, if it is not the server's own or, of a server that has none, the host's.
    pub name: Option<String>,
    /// How long it is to be kept when it falls silent.
    #[serde(default = "ttl_ms")]
    pub ttl_ms: u64,
    #[serde(default = "heartbeat_ms")]
    pub heartbeat_ms: u64,
}

/// Hosts vanish within 3 s when they die.
fn ttl_ms() -> u64 {
    2500
}

fn heartbeat_ms() -> u64 {
    800
}

/// Who may register, and as what. `*` stands for any text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// The identity of the registrant's certificate, as /C=../CN=..
    pub subject: String,
    #[serde(default = "any")]
    pub name: String,
    /// The hosts that a leaf may tell about.
    #[serde(default = "any")]
    pub hosts: String,
}

/// A server of MDS 2 that may register, and is asked then.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Legacy {
    /// HOST or HOST:PORT, as it names itself.
    pub address: String,
    /// The hosts that it may tell about, if it is none's index.
    #[serde(default = "any")]
    pub hosts: String,
}

fn any() -> String {
    "*".to_owned()
}

/// A program that prints LDIF or JSON.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct External {
    pub name: String,
    pub command: Vec<String>,
    pub every_ms: u64,
    #[serde(default = "limit_ms")]
    pub limit_ms: u64,
    /// How long its values hold where it does not say so itself; 0: until the next reading.
    #[serde(default)]
    pub holds_ms: u32,
    /// Run it inside the sandbox.
    #[serde(default = "yes")]
    pub sandbox: bool,
}

/// As MDS 2 shipped it.
fn limit_ms() -> u64 {
    20_000
}

fn yes() -> bool {
    true
}

/// What strangers can make the server hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub connections: usize,
    /// From one address; a portal asks for many.
    pub connections_per_address: usize,
    /// Most entries of one LDAP answer; 0: no limit but the client's.
    pub entries_of_answer: usize,
    /// For the whole of one LDAP answer.
    pub answer_within_ms: u64,
    /// A client that reads nothing for so long is gone.
    pub write_within_ms: u64,
    /// A client that asks nothing for so long is gone.
    pub idle_ms: u64,
    /// Persistent searches and watches of one connection.
    pub watches: usize,
    pub entries: usize,
    pub entries_of_source: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let bounds = kumiko_directory::Bounds::default();
        Limits {
            connections: 4096,
            connections_per_address: 1024,
            entries_of_answer: 0,
            answer_within_ms: 120_000,
            write_within_ms: 30_000,
            idle_ms: 900_000,
            watches: 16,
            entries: bounds.entries,
            entries_of_source: bounds.entries_of_source,
        }
    }
}

/// What the program around the server gives it besides the settings.
#[derive(Clone, Debug)]
pub struct Place {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub trust: PathBuf,
    /// A folder of its own: identity, warm snapshot.
    pub state: PathBuf,
    /// What is put before the command of an external provider to have it in the sandbox.
    pub sandbox: Vec<std::ffi::OsString>,
}

/// `*` stands for any text, of any length; case does not matter.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "ABC", true),
            ("a*c", "ac", true),
            ("a*c", "acd", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("*.example", "a.example", true),
            ("a*b*c", "a-b-b-c", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn an_empty_file_is_the_default_and_unknown_settings_are_refused() {
        let config: Config = toml::from_str("").unwrap();
        assert_eq!(config.listen.port(), PORT);
        assert!(toml::from_str::<Config>("nmae = 'x'").is_err());
        let text = "[[register]]\naddress = 'top.example'\n[[provider]]\nname = 'x'\ncommand = ['true']\nevery_ms = 1000";
        let config: Config = toml::from_str(text).unwrap();
        assert!(config.providers[0].sandbox && config.register[0].ttl_ms == 2500);
    }
}
