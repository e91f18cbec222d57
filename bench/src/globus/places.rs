//! The two gatekeepers of a run: a personal site of ours that knows a user with an RSA key and a proxy, as users of the
//! toolkit have them, and the toolkit's own with one of its own (testbeds/globus). Not here: what is asked of them.

use super::way::Way;
use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::guard::{self, Guard};
use crate::peers::free_port;
use crate::site::Site;
use crate::wait;
use kumiko_client::SiteAddress;
use kumiko_identity::{Credential, TrustStore};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SUBJECT: &str = "/O=kumiko/CN=Grid User";
const OTHER: &str = "/O=kumiko/CN=Other User";
const STEP_WITHIN: Duration = Duration::from_secs(30);
/// It may install packages.
const PEER_UP_WITHIN: Duration = Duration::from_secs(300);
/// Nobody: who runs the toolkit's commands, for those of root take host credentials first.
const NOBODY: u32 = 65534;

/// A user of a gatekeeper's, as the toolkit's commands and this program need him.
#[derive(Debug)]
struct User {
    /// Who runs the toolkit's commands, and his copy of the proxy: each reads a file of its own only.
    account: u32,
    his_proxy: PathBuf,
    proxy: PathBuf,
    trust: PathBuf,
}

/// Another user's certificate and key, P-256: his part of a handshake costs little beside a server's.
type Other = (PathBuf, PathBuf);

async fn other_way(
    (certificate, key): &Other,
    trust: &TrustStore,
    site: SiteAddress,
    service: &str,
) -> Result<Arc<Way>, Failure> {
    let credential = Credential::load_pair(certificate, key)
        .map_err(|e| Failure::said("loading a certificate", &e))?;
    Ok(Arc::new(Way::new(&credential, trust, site, service).await?))
}

impl User {
    fn credential(&self) -> Result<(Credential, TrustStore), Failure> {
        let credential = Credential::load(&self.proxy);
        let trust = TrustStore::load(&self.trust);
        Ok((
            credential.map_err(|e| Failure::said("loading a proxy", &e))?,
            trust.map_err(|e| Failure::said("loading a trust directory", &e))?,
        ))
    }
}

/// A gatekeeper that is up.
pub struct Place {
    /// What is asked of it.
    pub way: Arc<Way>,
    /// The same with P-256 keys on the client's side.
    pub other: Arc<Way>,
    user: User,
    contact: String,
    home: PathBuf,
    _end: Vec<Guard>,
    /// None: the toolkit's.
    site: Option<Site>,
}

impl Place {
    /// A site of ours.
    pub fn ours(bench: &Bench) -> Result<Place, Failure> {
        let site = Site::prepared(bench, &["identity", "init-ca", "--rsa", "HOME/ca"])?;
        let folder = tempfile::Builder::new()
            .prefix("kumiko-bench-user-")
            .tempdir()
            .doing(|| "making a place for a user")?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let ca = site.home().join("ca").display().to_string();
        let (key, request, certificate, proxy) = (
            path("key.pem"),
            path("req"),
            path("cert.pem"),
            path("proxy"),
        );
        let (other, other_key) = (path("other.pem"), path("other-key.pem"));
        for words in [
            vec![
                "identity",
                "request",
                "--rsa",
                "--subject",
                SUBJECT,
                "--key",
                &key,
                "--out",
                &request,
            ],
            vec![
                "identity",
                "issue",
                "--ca",
                &ca,
                "--out",
                &certificate,
                &request,
            ],
            vec![
                "identity",
                "proxy",
                "--globus",
                "--valid",
                "72h",
                "--cert",
                &certificate,
                "--key",
                &key,
                "--out",
                &proxy,
            ],
            vec!["site", "map", SUBJECT],
            vec![
                "identity",
                "request",
                "--subject",
                OTHER,
                "--key",
                &other_key,
                "--out",
                &request,
            ],
            vec!["identity", "issue", "--ca", &ca, "--out", &other, &request],
            vec!["site", "map", OTHER],
        ] {
            wait::output(&mut site.command(&words), STEP_WITHIN)?;
        }
        let user = User {
            account: NOBODY,
            his_proxy: folder.path().join("proxy.his"),
            proxy: proxy.into(),
            trust: folder.path().join("certificates"),
        };
        copied(site.trust(), &user.trust)?;
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open).doing(|| "making a place for a user")?;
        let (credential, trust) = user.credential()?;
        let address = site.address();
        let contact = format!("{}:{}/jobmanager", address.host, address.port);
        let way =
            bench
                .runtime
                .block_on(Way::new(&credential, &trust, address.clone(), "jobmanager"))?;
        let other = (other.into(), other_key.into());
        let other = bench
            .runtime
            .block_on(other_way(&other, &trust, address, "jobmanager"))?;
        // A site looks at its map once a second.
        let begun = Instant::now();
        let both = || async {
            way.ping().await?;
            other.ping().await
        };
        while let Err(failure) = bench.runtime.block_on(both()) {
            if begun.elapsed() > STEP_WITHIN {
                return Err(failure);
            }
        }
        fs::copy(&user.proxy, &user.his_proxy).doing(|| "copying a proxy")?;
        // Fails for an ordinary user, who has no peer to compare with either.
        let _ = chown(&user.his_proxy, Some(NOBODY), None);
        Ok(Place {
            way: Arc::new(way),
            other,
            user,
            contact,
            home: folder.path().to_owned(),
            _end: vec![removed(folder)],
            site: Some(site),
        })
    }

    /// The toolkit's.
    pub fn toolkit(bench: &Bench) -> Result<Place, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("kumiko-bench-globus-")
            .tempdir()
            .doing(|| "making a place for the toolkit's gatekeeper")?;
        let script = "testbeds/globus/run";
        if !Path::new(script).exists() {
            return Err(Failure::unexpected(format!(
                "{script} is not here: run it where the sources are"
            )));
        }
        let port = free_port()?.to_string();
        let testbed = {
            let (home, kumiko) = (folder.path().to_owned(), bench.kumiko.clone());
            move |what: &str| {
                let mut command = Command::new(script);
                command.arg(what).arg(&home);
                command.env("KUMIKO_BIN", &kumiko).env("GLOBUS_PORT", &port);
                command
            }
        };
        let up = wait::output(&mut testbed("up"), PEER_UP_WITHIN)?;
        let down = guard::on_end(move || {
            let _ = wait::output(&mut testbed("down"), STEP_WITHIN);
        });
        let said = String::from_utf8_lossy(&up.stdout).into_owned();
        let told = |name: &str| {
            said.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
                .ok_or_else(|| Failure::unexpected(format!("{script} does not tell its {name}")))
        };
        let number = |text: &str| {
            text.parse::<u32>()
                .map_err(|e| Failure::said("reading a number", &e))
        };
        let (account, his_proxy) = told("proxy_of_account")?
            .split_once(' ')
            .ok_or_else(|| Failure::unexpected("half a line"))?;
        let user = User {
            account: number(account)?,
            his_proxy: his_proxy.into(),
            proxy: told("proxy")?.into(),
            trust: told("trust")?.into(),
        };
        let contact = told("contact")?.to_owned();
        let (address, service) = contact.split_once('/').unwrap_or((&contact, "jobmanager"));
        let address: SiteAddress = address
            .parse()
            .map_err(|e| Failure::said("reading where the gatekeeper is", &e))?;
        let (credential, trust) = user.credential()?;
        let way =
            bench
                .runtime
                .block_on(Way::new(&credential, &trust, address.clone(), service))?;
        let (certificate, key) = told("other")?
            .split_once(' ')
            .ok_or_else(|| Failure::unexpected("half a line"))?;
        let other = (certificate.into(), key.into());
        let other = bench
            .runtime
            .block_on(other_way(&other, &trust, address, service))?;
        Ok(Place {
            way: Arc::new(way),
            other,
            user,
            contact,
            home: folder.path().to_owned(),
            // In this order.
            _end: vec![down, removed(folder)],
            site: None,
        })
    }

    /// The toolkit's own command for a job that prints a word, to this gatekeeper.
    pub fn command(&self) -> Command {
        let id = self.user.account.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        command
            .args(["globus-job-run", &self.contact, "/bin/echo", "hello"])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("GLOBUS_HOSTNAME", "localhost")
            .env("X509_CERT_DIR", &self.user.trust)
            .env("X509_USER_PROXY", &self.user.his_proxy)
            .current_dir("/");
        command
    }

    /// The process that serves, of a site of ours.
    pub fn pid(&self) -> Result<u32, Failure> {
        self.site()?.pid()
    }

    fn site(&self) -> Result<&Site, Failure> {
        let site = self.site.as_ref();
        site.ok_or_else(|| Failure::unexpected("the toolkit's is no site of ours"))
    }

    /// The certificates of both ends of a link to a site of ours, for bare TLS.
    pub fn ends(&self) -> Result<(Credential, Credential, TrustStore), Failure> {
        let home = self.site()?.home();
        let host = Credential::load_pair(&home.join("hostcert.pem"), &home.join("hostkey.pem"))
            .map_err(|e| Failure::said("loading the host's certificate", &e))?;
        let (credential, trust) = self.user.credential()?;
        Ok((host, credential, trust))
    }
}

fn removed(folder: TempDir) -> Guard {
    guard::on_end(move || {
        let path = folder.path().to_owned();
        if let Err(cause) = folder.close() {
            eprintln!("bench: removing {}: {cause}", path.display());
        }
    })
}

fn copied(from: &Path, to: &Path) -> Result<(), Failure> {
    let doing = || format!("copying {}", from.display());
    fs::create_dir_all(to).doing(doing)?;
    for entry in fs::read_dir(from).doing(doing)? {
        let entry = entry.doing(doing)?;
        fs::copy(entry.path(), to.join(entry.file_name())).doing(doing)?;
    }
    Ok(())
}
