//! Where a site keeps its things. A personal one has one folder, so that a person sees all of it and can remove it; the
//! machine's own has the usual places of a daemon.

use crate::fail::{Failure, While};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The configuration of the machine's own site, if it has one.
const CONFIGURATION: &str = "/etc/kumiko";
const STATE: &str = "/var/lib/kumiko";
const RUN: &str = "/run/kumiko";
const LOGS: &str = "/var/log/kumiko";

/// The folders of a site; every other place is derived from them.
#[derive(Clone, Debug)]
pub struct Home {
    /// Settings, certificates, policy; of a personal site everything.
    root: PathBuf,
    state: PathBuf,
    run: PathBuf,
    logs: PathBuf,
}

/// What a client on this machine needs to reach the personal site; written at each start, where what its user has added stays.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contact {
    pub host: String,
    pub port: u16,
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub trust: PathBuf,
    /// Of calls from C and Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// An info server that knows sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
}

/// Who serves the site now; held together with the lock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    pub pid: u32,
    pub version: String,
    pub address: String,
    /// Unix time, milliseconds.
    pub since_ms: u64,
}

impl Home {
    /// `given` (flag or KUMIKO_HOME), else $XDG_DATA_HOME/kumiko, else ~/.local/share/kumiko.
    pub fn find(given: Option<&Path>) -> Result<Home, Failure> {
        let from_env = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let root = given
            .map(Path::to_path_buf)
            .or_else(|| from_env("XDG_DATA_HOME").map(|d| d.join("kumiko")))
            .or_else(|| from_env("HOME").map(|d| d.join(".local/share/kumiko")))
            .ok_or_else(|| {
                Failure::misuse("neither HOME nor KUMIKO_HOME is set: say --home DIR")
            })?;
        let root = std::path::absolute(&root).doing(|| format!("finding {}", root.display()))?;
        if root == Path::new(CONFIGURATION) {
            return Ok(Home::of_machine());
        }
        Ok(Home {
            state: root.join("state"),
            run: root.join("run"),
            logs: root.clone(),
            root,
        })
    }

    /// The machine's own site, whether or not there is one.
    pub fn of_machine() -> Home {
        Home {
            root: CONFIGURATION.into(),
            state: STATE.into(),
            run: RUN.into(),
            logs: LOGS.into(),
        }
    }

    pub fn is_of_machine(&self) -> bool {
        self.root == Path::new(CONFIGURATION)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
    pub fn ca(&self) -> PathBuf {
        self.root.join("ca")
    }
    pub fn certificates(&self) -> PathBuf {
        self.root.join("certificates")
    }
    pub fn host_certificate(&self) -> PathBuf {
        self.root.join("hostcert.pem")
    }
    pub fn host_key(&self) -> PathBuf {
        self.root.join("hostkey.pem")
    }
    pub fn user_certificate(&self) -> PathBuf {
        self.root.join("user/usercert.pem")
    }
    pub fn user_key(&self) -> PathBuf {
        self.root.join("user/userkey.pem")
    }
    pub fn mapfile(&self) -> PathBuf {
        self.root.join("grid-mapfile")
    }
    pub fn site_toml(&self) -> PathBuf {
        self.root.join("site.toml")
    }
    pub fn policy(&self) -> PathBuf {
        self.root.join("policy.toml")
    }
    pub fn contact(&self) -> PathBuf {
        self.root.join("contact.toml")
    }
    pub fn state(&self) -> PathBuf {
        self.state.clone()
    }
    /// Of its calls of routines.
    pub fn calls(&self) -> PathBuf {
        self.state.join("rpc")
    }
    pub fn run(&self) -> PathBuf {
        self.run.clone()
    }
    pub fn lock(&self) -> PathBuf {
        self.run.join("lock")
    }
    pub fn running(&self) -> PathBuf {
        self.run.join("site.json")
    }
    /// What its info server keeps.
    pub fn info(&self) -> PathBuf {
        match self.is_of_machine() {
            true => self.state.join("info"),
            false => self.root.join("info"),
        }
    }
    /// What the site tells its info server, while it is up.
    pub fn told(&self) -> PathBuf {
        self.run.join("told.json")
    }
    /// While this file is there, no new jobs are taken.
    pub fn draining(&self) -> PathBuf {
        self.run.join("draining")
    }
    /// The hosts of its engine on which nothing more begins, a line each.
    pub fn drained_hosts(&self) -> PathBuf {
        self.root.join("drained-hosts")
    }
    pub fn log(&self) -> PathBuf {
        self.logs.join("site.log")
    }
    /// Of a site for many accounts: one log an account.
    pub fn agent_logs(&self) -> PathBuf {
        self.logs.join("agents")
    }
    /// Of a site for many accounts: one directory an account.
    pub fn accounts(&self) -> PathBuf {
        self.state.join("accounts")
    }
    /// Of a site for many accounts: whose agents have something to do.
    pub fn awake(&self) -> PathBuf {
        self.state.join("awake")
    }

    /// None when no personal site was ever started here.
    pub fn read_contact(&self) -> Result<Option<Contact>, Failure> {
        read_optional(&self.contact())?
            .map(|text| {
                toml::from_str(&text).doing(|| format!("reading {}", self.contact().display()))
            })
            .transpose()
    }

    pub fn read_running(&self) -> Result<Option<Running>, Failure> {
        read_optional(&self.running())?
            .map(|text| {
                serde_json::from_str(&text)
                    .doing(|| format!("reading {}", self.running().display()))
            })
            .transpose()
    }
}

/// The text of a file that need not be there.
pub fn read_optional(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).doing(|| format!("reading {}", path.display())),
    }
}

/// Writes a file so that a reader sees the old one or the new one, whole.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .doing(|| format!("writing {}", path.display()))
}
