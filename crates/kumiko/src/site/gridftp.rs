//! The packaged GridFTP server beside a personal site: with the site's certificate and mapfile, as the site's owner, from
//! the site's start to its end. Not here: a site for many accounts, where root starts it (docs/guide/site.md).

use crate::fail::{Failure, While};
use crate::home::Home;
use kumiko_linux::{process, this_process};
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const PROGRAM: &str = "globus-gridftp-server";
/// Debian has it there, which is not in everybody's PATH.
const USUALLY: &str = "/usr/sbin/globus-gridftp-server";
/// It says where it listens at once.
const STARTS_WITHIN: Duration = Duration::from_secs(20);
const SIGTERM: i32 = 15;
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A running server.
pub struct GridFtp {
    child: Child,
    record: PathBuf,
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(PROGRAM))
        .find(|program| program.is_file())
        .unwrap_or_else(|| USUALLY.into())
}

impl GridFtp {
    pub async fn start(home: &Home, listen: SocketAddr) -> Result<GridFtp, Failure> {
        let record = record(home);
        // A site that was killed left it; its server ended with it.
        let _ = std::fs::remove_file(&record);
        let log = home.run().join("gridftp.log");
        let errors = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&log)
            .doing(|| format!("opening {}", log.display()))?;
        let host = match listen.ip().is_loopback() {
            true => "localhost".to_owned(),
            false => this_process::host_name(),
        };
        let program = program();
        let mut command = Command::new(&program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env(
                "HOME",
                std::env::var_os("HOME").unwrap_or_else(|| "/".into()),
            )
            .env("X509_CERT_DIR", home.certificates())
            .env("X509_USER_CERT", home.host_certificate())
            .env("X509_USER_KEY", home.host_key())
            .env("GRIDMAP", home.mapfile())
            // Not what the machine's own server is configured with.
            .args(["-c", "/dev/null", "-no-detach", "-log-level", "ERROR,WARN"])
            .arg("-logfile")
            .arg(&log)
            .args(["-hostname", &host, "-p", &listen.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true);
        if !listen.ip().is_unspecified() {
            let ip = listen.ip().to_string();
            command.args(["-control-interface", &ip, "-data-interface", &ip]);
        }
        // The owner of a personal site is who may come; that he is root is his to know.
        if kumiko_linux::is_root() {
            command.arg("-allow-root");
        }
        process::end_with_parent(command.as_std_mut());
        let mut child = command.spawn().doing(|| {
            format!(
                "starting {} (Debian package globus-gridftp-server-progs)",
                program.display()
            )
        })?;
        let Some(words) = child.stdout.take() else {
            return Err(Failure::from_text(
                "the GridFTP server has no output".to_owned(),
            ));
        };
        let mut lines = BufReader::new(words).lines();
        let said = tokio::time::timeout(STARTS_WITHIN, lines.next_line()).await;
        let Some(port) = said
            .ok()
            .and_then(Result::ok)
            .flatten()
            .and_then(|said| port_of(&said))
        else {
            let log = log.display();
            return Err(Failure::from_text(format!(
                "the GridFTP server did not start at {listen}; {log} says why"
            )));
        };
        let url = format!("gsiftp://{host}:{port}");
        crate::home::write_whole(&record, &url)?;
        tracing::info!(%url, "the GridFTP server is up");
        Ok(GridFtp { child, record })
    }

    /// Until it ends by itself, which it should not.
    pub async fn ended(&mut self) {
        let status = self.child.wait().await;
        tracing::error!(
            ?status,
            "the GridFTP server has ended; the site goes on without it"
        );
        let _ = std::fs::remove_file(&self.record);
        std::future::pending::<()>().await;
    }

    /// Ends it with the site. Transfers under way are cut, as by a restart of any server.
    pub async fn stop(mut self) {
        let _ = std::fs::remove_file(&self.record);
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let asked = pid
            .and_then(|pid| process::pidfd(pid).ok())
            .map(|pidfd| process::signal(std::os::fd::AsFd::as_fd(&pidfd), SIGTERM));
        let ended = tokio::time::timeout(ENDS_WITHIN, self.child.wait()).await;
        if asked.is_none() || ended.is_err() {
            // It ends when this is dropped, if it has not.
            let _ = self.child.start_kill();
        }
    }
}

/// Where it serves; None: it does not.
pub fn url(home: &Home) -> Option<String> {
    std::fs::read_to_string(record(home)).ok()
}

fn record(home: &Home) -> PathBuf {
    home.run().join("gridftp")
}

/// `Server listening at HOST:PORT`.
fn port_of(said: &str) -> Option<u16> {
    let (_, port) = said.trim().rsplit_once(':')?;
    port.parse().ok()
}

/// Where to listen when only that it should is said: IANA's port of gsiftp, on the site's address.
pub fn usual(site: SocketAddr) -> SocketAddr {
    SocketAddr::new(site.ip(), 2811)
}
