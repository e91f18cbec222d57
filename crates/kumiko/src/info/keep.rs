//! The info server beside a site: a process of its own, since it reads what strangers send; started with the site,
//! started again when it ends unasked, and told to end with the site.

use crate::fail::{Failure, While};
use crate::home::Home;
use crate::site;
use kumiko_linux::process;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A server reads its snapshot before it says that it is up; a million hosts take some seconds.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
const SIGTERM: i32 = 15;
/// It says goodbye to those above and below, and writes its snapshot.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Before one that ended is started again: soon, then twice as long each time.
const AGAIN_LEAST: Duration = Duration::from_millis(50);
const AGAIN_MOST: Duration = Duration::from_secs(30);

/// A server that is kept up.
pub struct Kept {
    home: Home,
    listen: SocketAddr,
    child: Option<Child>,
}

/// Where to listen when only that it should is said.
pub fn usual(gatekeeper: SocketAddr) -> SocketAddr {
    SocketAddr::new(gatekeeper.ip(), kumiko_info::PORT)
}

impl Kept {
    /// # Errors
    /// The first start failed: something in the settings, most often.
    pub async fn start(home: &Home, listen: SocketAddr) -> Result<Kept, Failure> {
        let mut kept = Kept::new(home, listen);
        kept.begin().await?;
        Ok(kept)
    }

    fn new(home: &Home, listen: SocketAddr) -> Kept {
        Kept {
            home: home.clone(),
            listen,
            child: None,
        }
    }

    /// Starts one, and waits until it serves. It is ours to end from its first moment on, whoever gives this up.
    async fn begin(&mut self) -> Result<(), Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("--home")
            .arg(self.home.root())
            .args(["info", "serve", "--listen", &self.listen.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        process::end_with_parent(command.as_std_mut());
        let child = command
            .spawn()
            .doing(|| "starting the info server".to_owned())?;
        let said = match self.child.insert(child).stdout.take() {
            Some(out) => {
                let mut lines = BufReader::new(out).lines();
                tokio::time::timeout(STARTS_WITHIN, lines.next_line()).await
            }
            None => Ok(Ok(None)),
        };
        match said {
            Ok(Ok(Some(said))) => {
                tracing::info!("{said}");
                Ok(())
            }
            _ => {
                self.child = None;
                Err(Failure::from_text(format!(
                    "the info server did not start at {}: what it says stands above",
                    self.listen
                )))
            }
        }
    }

    /// Starts it, again whenever it ends; never answers.
    pub async fn keep(&mut self) {
        let mut pause = AGAIN_LEAST;
        loop {
            let begun = Instant::now();
            if self.child.is_none() {
                if let Err(failure) = self.begin().await {
                    tracing::error!(%failure, "the info server does not start");
                }
            }
            if let Some(child) = &mut self.child {
                let status = child.wait().await;
                tracing::error!(?status, "the info server has ended, and is started again");
                self.child = None;
            }
            pause = match begun.elapsed() > AGAIN_MOST {
                true => AGAIN_LEAST,
                false => (2 * pause).min(AGAIN_MOST),
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Ends it with the site.
    pub async fn stop(mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pidfd) = pid.and_then(|pid| process::pidfd(pid).ok()) {
            // No error when it has ended; then there is nothing to wait for either.
            let _ = process::signal(pidfd.as_fd(), SIGTERM);
        }
        if tokio::time::timeout(ENDS_WITHIN, child.wait())
            .await
            .is_err()
        {
            tracing::warn!("the info server did not end in time and is killed");
            let _ = child.start_kill();
        }
    }
}

/// `kumiko info keep`: the same as a process, at a site for many accounts. As the front's account; told to end by the
/// monitor, or by its death. One that does not start is tried again: the operator may mend it while the site is up.
pub async fn keep(home: &Home, listen: SocketAddr) -> Result<u8, Failure> {
    let mut kept = Kept::new(home, listen);
    tokio::select! {
        () = kept.keep() => {}
        () = site::end_asked() => {}
    }
    kept.stop().await;
    Ok(0)
}
