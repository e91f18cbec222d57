//! From a subject to an account that may be served (spec/monitor, M4): the grid-mapfile, read again when it changes, the
//! accounts of this machine, and the rules that keep root and the system's accounts out.

use kumiko_identity::{Dn, GridMap};
use kumiko_linux::accounts::{self, Account, BadAccountLine};
use kumiko_wire::monitor::NotIntroduced;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Where accounts are looked up.
#[derive(Clone, Debug)]
pub enum Accounts {
    /// In the system's databases (nsswitch.conf(5)).
    System,
    /// In this file, in the format of passwd(5), and nowhere else.
    File(PathBuf),
}

/// Why accounts could not be looked up.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    #[error("the system's accounts cannot be looked up: {cause}")]
    System { cause: io::Error },
    #[error("the accounts in {path} cannot be read: {cause}")]
    File { path: PathBuf, cause: io::Error },
    #[error("the accounts in {path} cannot be used: {cause}")]
    Content {
        path: PathBuf,
        cause: BadAccountLine,
    },
}

impl Accounts {
    /// The account of that name; None: there is none.
    ///
    /// # Errors
    /// They cannot be looked up now.
    pub fn find(&self, name: &str) -> Result<Option<Account>, AccountsError> {
        match self {
            Accounts::System => {
                accounts::find(name).map_err(|cause| AccountsError::System { cause })
            }
            Accounts::File(path) => {
                let path = || path.clone();
                let text =
                    std::fs::read_to_string(path()).map_err(|cause| AccountsError::File {
                        path: path(),
                        cause,
                    })?;
                accounts::find_in(&text, name).map_err(|cause| AccountsError::Content {
                    path: path(),
                    cause,
                })
            }
        }
    }
}

/// Which accounts are never served, whatever a grid-mapfile says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Accounts and groups below it are the system's; at least 1.
    pub least_id: u32,
    /// The front's own account.
    pub front: u32,
}

/// Who is mapped to what now.
#[derive(Debug)]
pub(super) struct Mapping {
    mapfile: PathBuf,
    accounts: Accounts,
    rules: Rules,
    /// With what it was read from. None: it could not be read.
    read: Option<(Seen, GridMap)>,
}

/// Enough of a file to see that it has changed.
type Seen = (u64, u64, i64, i64, u64);

fn seen(metadata: &Metadata) -> Seen {
    (
        metadata.dev(),
        metadata.ino(),
        metadata.ctime(),
        metadata.ctime_nsec(),
        metadata.len(),
    )
}

impl Mapping {
    pub fn new(mapfile: PathBuf, accounts: Accounts, rules: Rules) -> Mapping {
        Mapping {
            mapfile,
            accounts,
            rules,
            read: None,
        }
    }

    /// The subject as it is written here, and the name of its account.
    pub fn map(&mut self, subject: &str) -> Result<(Dn, String), NotIntroduced> {
        let subject = Dn::parse(subject).map_err(|_| NotIntroduced::Unmapped)?;
        let map = self.current()?;
        let first = map.lookup(&subject).first().cloned();
        Ok((subject, first.ok_or(NotIntroduced::Unmapped)?))
    }

    /// The account of that name, if it may be served.
    pub fn account(&self, name: &str) -> Result<Account, NotIntroduced> {
        let found = self.accounts.find(name).map_err(|cause| {
            tracing::error!(account = name, "{cause}");
            NotIntroduced::Unreadable
        })?;
        let judged = found.ok_or("there is none").and_then(|account| {
            self.rules.admit(&account)?;
            Ok(account)
        });
        judged.map_err(|why| {
            tracing::warn!(account = name, "not served: {why}");
            NotIntroduced::NotServed
        })
    }

    /// What is in force at this moment. A file that cannot be used lets nobody in: the one before may have said more.
    fn current(&mut self) -> Result<&GridMap, NotIntroduced> {
        let now = std::fs::metadata(&self.mapfile).map(|m| seen(&m));
        let fresh = match (&self.read, &now) {
            (Some((before, _)), Ok(now)) => before == now,
            _ => false,
        };
        if !fresh {
            let loaded = GridMap::load(&self.mapfile);
            self.read = match (now, loaded) {
                (Ok(now), Ok(map)) => Some((now, map)),
                (Err(cause), _) => {
                    let path = self.mapfile.display();
                    tracing::error!(%cause, "{path} cannot be looked at: nobody is mapped");
                    None
                }
                (_, Err(cause)) => {
                    tracing::error!(%cause, "nobody is mapped");
                    None
                }
            };
        }
        match &self.read {
            Some((_, map)) => Ok(map),
            None => Err(NotIntroduced::Unreadable),
        }
    }
}

impl Rules {
    /// Root, the system's accounts and groups, and the front's account are nobody's.
    ///
    /// # Errors
    /// Why the account is never served.
    pub fn admit(&self, account: &Account) -> Result<(), &'static str> {
        let least = self.least_id.max(1);
        // Its name becomes a file's.
        if account.name.starts_with('.') || account.name.contains('/') {
            return Err("its name begins with a dot or has a slash");
        }
        if account.uid < least {
            return Err("it is root's or one of the system's");
        }
        // -1 is "leave it as it is" to setresuid(2).
        if account.uid == u32::MAX || account.gid == u32::MAX {
            return Err("its number is no number of an account");
        }
        if account.uid == self.front {
            return Err("it is the front's");
        }
        if account.gid < least || account.groups.contains(&0) {
            return Err("it has a group of root's or the system's as its own");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        least_id: 1000,
        front: 2000,
    };

    #[test]
    fn root_the_systems_accounts_and_the_fronts_are_nobodys() {
        let check = |name: &str, uid, gid, groups: &[u32], served: bool| {
            let account = Account {
                name: name.to_owned(),
                uid,
                gid,
                groups: groups.to_vec(),
                home: "/".into(),
            };
            let rules = Rules {
                least_id: 0, // even then
                ..RULES
            };
            let got = RULES.admit(&account);
            assert_eq!(got.is_ok(), served, "{account:?} {got:?}");
            if uid == 0 {
                assert!(rules.admit(&account).is_err());
            }
        };
        check("alice", 1000, 1000, &[1000, 27], true);
        check("alice", 999, 1000, &[1000], false);
        check("alice", 1000, 999, &[999], false);
        check("alice", 1000, 1000, &[1000, 0], false);
        check("root", 0, 0, &[0], false);
        check("toor", 0, 1000, &[1000], false);
        check("front", 2000, 2000, &[2000], false);
        check("nobody", u32::MAX, 1000, &[1000], false);
        check("nobody", 1000, u32::MAX, &[u32::MAX], false);
        check("..", 1000, 1000, &[1000], false);
        check("a/b", 1000, 1000, &[1000], false);
    }

    #[test]
    fn a_changed_mapfile_counts_at_once_and_a_broken_one_maps_nobody() {
        let place = tempfile::tempdir().unwrap();
        let (mapfile, accounts) = (place.path().join("map"), place.path().join("accounts"));
        std::fs::write(&accounts, "alice:x:1001:1001::/:\ndaemon:x:1:1::/:\n").unwrap();
        let mut mapping = Mapping::new(mapfile.clone(), Accounts::File(accounts.clone()), RULES);
        let alice = "/O=Grid/CN=Alice";
        let mut check = |text: Option<&str>, expected: Result<u32, NotIntroduced>| {
            if let Some(text) = text {
                // As an editor does it; so two writes within one tick of the clock differ too.
                std::fs::write(place.path().join("new"), text).unwrap();
                std::fs::rename(place.path().join("new"), &mapfile).unwrap();
            }
            let mapped = mapping.map(alice);
            let got = mapped.and_then(|(_, name)| mapping.account(&name));
            assert_eq!(got.map(|account| account.uid), expected, "{text:?}");
        };
        check(None, Err(NotIntroduced::Unreadable));
        check(Some("\"/O=Grid/CN=Alice\" alice\n"), Ok(1001));
        check(None, Ok(1001));
        check(Some("# nobody\n"), Err(NotIntroduced::Unmapped));
        check(Some("\"/O=Grid/CN=Alice\" alice\n"), Ok(1001));
        check(Some("\"/O=Grid/CN=Alice"), Err(NotIntroduced::Unreadable));
        check(
            Some("\"/O=Grid/CN=Alice\" daemon\n"),
            Err(NotIntroduced::NotServed),
        );
        check(
            Some("\"/O=Grid/CN=Alice\" bob\n"),
            Err(NotIntroduced::NotServed),
        );
        std::fs::remove_file(&accounts).unwrap();
        check(
            Some("\"/O=Grid/CN=Alice\" alice\n"),
            Err(NotIntroduced::Unreadable),
        );
    }
}
