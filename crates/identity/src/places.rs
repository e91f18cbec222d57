//! Where credentials, trust directories and grid-mapfiles stand: GT's own places (spec/identity, clauses F1 to F5).
//!
//! Made from the environment, the user and one question to the file system ("is it there?"), so that tests can say all
//! three. Nothing is read here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::key::{KeyError, effective_uid};

const SITE: &str = "/etc/grid-security";

/// The places of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    uid: u32,
    home: Option<PathBuf>,
    proxy: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    trust_dir: Option<PathBuf>,
    gridmap: Option<PathBuf>,
}

impl Places {
    /// From the environment as `env` gives it. Empty variables count as unset, as in GT.
    pub fn new(uid: u32, env: impl Fn(&str) -> Option<OsString>) -> Places {
        let path = |name: &str| {
            env(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        Places {
            uid,
            home: path("HOME"),
            proxy: path("X509_USER_PROXY"),
            certificate: path("X509_USER_CERT"),
            key: path("X509_USER_KEY"),
            trust_dir: path("X509_CERT_DIR"),
            gridmap: path("GRIDMAP").or_else(|| path("GLOBUSMAP")),
        }
    }

    /// Those of this process.
    pub fn of_this_process() -> Result<Places, KeyError> {
        Ok(Places::new(effective_uid()?, |name| std::env::var_os(name)))
    }

    pub fn uid(&self) -> u32 {
        self.uid
    }

    fn dot_globus(&self, name: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|h| h.join(".globus").join(name))
    }

    /// X509_USER_PROXY, else `/tmp/x509up_u<UID>`.
    pub fn proxy(&self) -> PathBuf {
        self.proxy
            .clone()
            .unwrap_or_else(|| format!("/tmp/x509up_u{}", self.uid).into())
    }

    /// Certificate and key of the user: X509_USER_CERT and _KEY, else `~/.globus/usercert.pem` and `userkey.pem`.
    pub fn user_pair(&self) -> Option<(PathBuf, PathBuf)> {
        let certificate = self.certificate.clone();
        let key = self.key.clone();
        Some((
            certificate.or_else(|| self.dot_globus("usercert.pem"))?,
            key.or_else(|| self.dot_globus("userkey.pem"))?,
        ))
    }

    /// Certificate and key of the host.
    pub fn host_pair() -> (PathBuf, PathBuf) {
        let site = Path::new(SITE);
        (site.join("hostcert.pem"), site.join("hostkey.pem"))
    }

    /// The trust directories, in the order in which they are looked for. With X509_CERT_DIR there is only that.
    pub fn trust_dirs(&self) -> Vec<PathBuf> {
        if let Some(dir) = &self.trust_dir {
            return vec![dir.clone()];
        }
        let own = self.dot_globus("certificates");
        let site = Path::new(SITE).join("certificates");
        own.into_iter().chain([site]).collect()
    }

    /// The first trust directory that exists, else the first there could be.
    pub fn trust_dir(&self, exists: impl Fn(&Path) -> bool) -> PathBuf {
        let dirs = self.trust_dirs();
        let found = dirs.iter().find(|dir| exists(dir));
        found.or(dirs.first()).cloned().unwrap_or_default()
    }

    /// GRIDMAP or GLOBUSMAP; else root's is the site's, and anybody else's is `~/.gridmap`.
    pub fn gridmap(&self) -> PathBuf {
        let own = self.home.as_ref().filter(|_| self.uid != 0);
        self.gridmap.clone().unwrap_or_else(|| match own {
            Some(home) => home.join(".gridmap"),
            None => Path::new(SITE).join("grid-mapfile"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(uid: u32, env: &[(&str, &str)]) -> Places {
        Places::new(uid, |name| {
            env.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn without_variables_the_places_are_those_of_gt() {
        let p = places(1000, &[("HOME", "/home/al")]);
        assert_eq!(p.proxy(), Path::new("/tmp/x509up_u1000"));
        let (certificate, key) = p.user_pair().unwrap();
        assert_eq!(certificate, Path::new("/home/al/.globus/usercert.pem"));
        assert_eq!(key, Path::new("/home/al/.globus/userkey.pem"));
        let site = Path::new("/etc/grid-security/certificates");
        assert_eq!(p.trust_dir(|d| d == site), site);
        assert_eq!(
            p.trust_dir(|_| true),
            Path::new("/home/al/.globus/certificates")
        );
        assert_eq!(p.gridmap(), Path::new("/home/al/.gridmap"));
        let root = places(0, &[("HOME", "/root")]);
        assert_eq!(root.gridmap(), Path::new("/etc/grid-security/grid-mapfile"));
    }

    #[test]
    fn variables_go_before_and_empty_ones_do_not_count() {
        let p = places(
            1000,
            &[
                ("HOME", "/home/al"),
                ("X509_USER_PROXY", "/p"),
                ("X509_USER_CERT", "/c"),
                ("X509_USER_KEY", ""),
                ("X509_CERT_DIR", "/t"),
                ("GLOBUSMAP", "/m"),
            ],
        );
        assert_eq!(p.proxy(), Path::new("/p"));
        let (certificate, key) = p.user_pair().unwrap();
        assert_eq!(certificate, Path::new("/c"));
        assert_eq!(key, Path::new("/home/al/.globus/userkey.pem"));
        assert_eq!(p.trust_dirs(), [Path::new("/t")]);
        assert_eq!(p.gridmap(), Path::new("/m"));
    }
}
