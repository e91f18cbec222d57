//! The site's folders on hosts that do not have them (spec/jobs/pilots.md, PL50 to PL57). A program of its own on the site's machine
//! ([`serve`]) answers for them and outlives the site; on the host a ferry ([`carry`]) has them stand at the same paths, for what it
//! starts and nobody else, with what it has read before on its own disk (`chunks`); and the site ([`Files`]) says what is to be started.

mod cache;
pub mod carry;
mod chunks;
mod nodes;
pub mod notice;
mod script;
pub mod serve;
mod telling;
mod tree;

pub use script::Others;
pub use tree::Owner;

use crate::{ADDRESS, Address, HERE, LandingError, TRUST, door, options};
use kumiko_identity::ca::Authority;
use kumiko_linux::unix_socket;
use kumiko_session::Options;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// In a place: the credential by which a host has the files.
const TICKET: &str = "files.pem";
/// Among what is its own: the folders that it shows, one after the other, with a NUL after each.
const SHOWN: &str = "folders";
/// How long that is good: nothing on a host lasts longer.
const LIFETIME: Duration = Duration::from_secs(30 * 86_400);
/// Without a connection so long a host has lost its files, and what runs there ends.
const RESUME_WITHIN: Duration = Duration::from_secs(300);
/// One that ended is started again; one that cannot be, after twice as long each time.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MOST: Duration = Duration::from_secs(60);

/// Where what answers for the folders keeps what is its own: beside the spools, and so not among what it shows.
fn own_place(root: &Path) -> PathBuf {
    let mut name = root.file_name().unwrap_or_default().to_owned();
    name.push("-files");
    root.with_file_name(name)
}

fn files_options() -> Options {
    Options {
        resume_within: RESUME_WITHIN,
        ..options()
    }
}

/// What hosts without the site's folders are given. Clones are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files(Arc<Inner>);

#[derive(Debug, PartialEq, Eq)]
struct Inner {
    program: PathBuf,
    root: PathBuf,
    at: Address,
    folders: Vec<PathBuf>,
    /// The program, as a script holds it.
    text: String,
}

impl Files {
    /// `program`: kumiko-ferry; `root`: of the spools; `at`: where hosts reach this machine; `folders`: what they are to have, with `root`,
    /// by absolute paths. It blocks until somebody answers for them.
    ///
    /// # Errors
    /// Nobody can.
    pub fn open(
        program: &Path,
        root: &Path,
        at: &Address,
        folders: Vec<PathBuf>,
    ) -> Result<Files, LandingError> {
        let file = |tried, path: &Path| {
            let path = path.to_owned();
            move |cause| LandingError::File { tried, path, cause }
        };
        for folder in &folders {
            fs::create_dir_all(folder).map_err(file("making", folder))?;
        }
        let text = script::packed(program).map_err(file("reading", program))?;
        let files = Files(Arc::new(Inner {
            program: program.to_owned(),
            root: root.to_owned(),
            at: at.clone(),
            folders,
            text,
        }));
        drop(files.0.reach().map_err(file("starting", program))?);
        Ok(files)
    }

    /// Sees to it that somebody answers, as long as this is there. Needs a tokio runtime around it; once.
    pub fn keep(&self) {
        let inner = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let mut pause = AGAIN;
            while let Some(inner) = inner.upgrade() {
                let reached = tokio::task::spawn_blocking(move || inner.reach()).await;
                match reached {
                    Ok(Ok(there)) => {
                        pause = AGAIN;
                        // Says nothing; it ends when the other does.
                        let there = tokio::net::UnixStream::from_std(there);
                        if let Ok(there) = there {
                            let _ = there.readable().await;
                        }
                    }
                    Ok(Err(error)) => {
                        tracing::error!(%error, "hosts without the site's folders do not get them");
                        pause = (2 * pause).min(AGAIN_MOST);
                    }
                    Err(_) => return,
                }
                tokio::time::sleep(pause).await;
            }
        });
    }

    /// Puts into a place what each of so many hosts is let in by. It blocks, briefly.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn tickets(&self, place: &Path, hosts: u32) -> Result<(), LandingError> {
        let authority = Authority::load(&own_place(&self.0.root).join(crate::AUTHORITY))?;
        door::ticket(&authority, place, TICKET, LIFETIME)?;
        for number in 1..hosts {
            door::ticket_of_host(&authority, place, (number, TICKET), LIFETIME)?;
        }
        Ok(())
    }

    /// A script of a shell that runs `line` on a host, with the site's folders if it has not got `place`, for which there are tickets.
    ///
    /// # Errors
    /// What it is to hold cannot be read.
    pub fn script(
        &self,
        place: &Path,
        line: &[String],
        others: Option<&Others>,
    ) -> io::Result<String> {
        script::script(&self.0, place, line, others)
    }
}

impl Inner {
    /// A connection to what answers, started if it is not there.
    fn reach(&self) -> io::Result<UnixStream> {
        let here = own_place(&self.root).join(HERE);
        let reached = unix_socket::connect(&here).or_else(|_| {
            self.start()?;
            unix_socket::connect(&here)
        })?;
        reached.set_nonblocking(true)?;
        Ok(reached)
    }

    fn start(&self) -> io::Result<()> {
        let mut command = Command::new(&self.program);
        command
            .arg("--files")
            .arg(&self.root)
            .arg(self.at.to_string())
            .args(&self.folders)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut said = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut said)?;
        }
        // It has set itself apart by now, or failed and said why.
        if said.trim_end() == serve::READY {
            std::thread::spawn(move || child.wait());
            return Ok(());
        }
        let output = child.wait_with_output()?;
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(why))
    }
}
