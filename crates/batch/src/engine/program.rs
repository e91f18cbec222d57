//! The program kumiko-run on an engine's hosts (spec/jobs/engines.md, E7): where the site has it, or, on hosts that do not have
//! it there, the copy that is kept with the spools. Beside it a ferry, where hosts are not of the site's kernel (PL42). Not here: what it is told.

use super::order::PILOT;
use crate::spool;
use kumiko_ferry::files::{Files, Others};
use kumiko_ferry::{Landing, LandingError};
use kumiko_linux::spooling;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// In the root of the spools.
const COPIES: &str = "programs";
/// And those of the ferry's.
const FERRIES: &str = "ferries";
/// In a spool: the pilot that has the attempt, and when that began; empty: none yet.
pub const GIVEN: &str = "pilot";
/// So many are kept: what waits in an engine's queue was handed over with the one of its time.
const KEPT: usize = 4;
/// Each host decides for itself. What follows the two places goes to whichever it is.
const EITHER: &str =
    r#"own=$1; shift; if [ -x "$own" ]; then shift; exec "$own" "$@"; fi; exec "$@""#;
/// A ferry that is killed is started again, as long as its exec'd parent lives. It is nobody's child, for the runner does not wait
/// for it, and takes no notice of signals by which engines announce an end, as the runner does not (R8). Of the shell, whose number the
/// runner will have, it is told when it began, for the number may be another's later.
const FERRIED: &str = r#"f=$1; [ -x "$f" ] || f=$2; p=$3; shift 3; b=$(cut -d" " -f22 /proc/$$/stat); (trap "" TERM INT HUP; (while "$f" "$p" $$ "$b"; [ $? -gt 128 ]; do sleep 1; done) </dev/null >/dev/null 2>>"$p/ferry.log" &); exec "$@""#;
const PIECE_BYTES: usize = 64 * 1024;

/// Where a host finds kumiko-run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where the site has it.
    own: PathBuf,
    /// For hosts where nothing is there.
    copy: Option<PathBuf>,
    ferry: Option<Ferry>,
}

/// What is started beside it, for hosts to which no socket leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ferry {
    own: PathBuf,
    copy: PathBuf,
    landing: Landing,
    /// For hosts that have none of the site's folders.
    files: Option<Files>,
}

/// One that each host has where the site has it.
impl From<PathBuf> for Program {
    fn from(own: PathBuf) -> Program {
        Program {
            own,
            copy: None,
            ferry: None,
        }
    }
}

impl Program {
    /// Sees to it that there is a copy with the spools. It blocks.
    ///
    /// # Errors
    /// The program cannot be read, or there is no room for a copy.
    pub fn with_copy(own: PathBuf, root: &Path) -> io::Result<Program> {
        let copy = Some(keep(&own, &root.join(COPIES))?);
        Ok(Program {
            own,
            copy,
            ferry: None,
        })
    }

    /// With a ferry beside it, which is let in there. It blocks.
    ///
    /// # Errors
    /// The ferry's program cannot be read, or there is no room for a copy.
    pub fn ferried(mut self, own: PathBuf, root: &Path, landing: Landing) -> io::Result<Program> {
        let copy = keep(&own, &root.join(FERRIES))?;
        self.ferry = Some(Ferry {
            own,
            copy,
            landing,
            files: None,
        });
        Ok(self)
    }

    /// With the site's folders carried to hosts that do not have them, by that ferry.
    #[must_use]
    pub fn carried(mut self, files: Option<Files>) -> Program {
        if let Some(ferry) = &mut self.ferry {
            ferry.files = files;
        }
        self
    }

    fn files(&self) -> Option<&Files> {
        self.ferry.as_ref()?.files.as_ref()
    }

    /// The script that a host is to run in place of `line`, which it may not find; None: each host has the folders.
    ///
    /// # Errors
    /// What it is to hold is not to be had.
    pub fn script(
        &self,
        place: &Path,
        line: &[String],
        others: Option<&Others>,
    ) -> io::Result<Option<String>> {
        let script = self.files().map(|files| files.script(place, line, others));
        script.transpose()
    }

    /// Puts into a place what its ferry needs, and what other hosts need for it. It blocks, briefly.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn tickets(&self, place: &Path, hosts: u32) -> Result<(), LandingError> {
        let Some(ferry) = &self.ferry else {
            return Ok(());
        };
        if let Some(files) = &ferry.files {
            files.tickets(place, hosts)?;
        }
        ferry.landing.ticket(place)
    }

    /// Connects to whoever has a socket in the place: by that, or by a ferry.
    ///
    /// # Errors
    /// Nobody can be reached.
    pub async fn connect(&self, place: &Path) -> io::Result<UnixStream> {
        let reached = spool::connect(place);
        let (Err(_), Some(ferry)) = (&reached, &self.ferry) else {
            return reached;
        };
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let given = fs::read_to_string(place.join(GIVEN)).unwrap_or_default();
        // The ferry of the pilot that has it.
        match given.split_once(' ') {
            Some((pilot, _)) => {
                let by = format!("{PILOT}{pilot}");
                ferry.landing.connect(&by, &name).await
            }
            None => ferry.landing.connect(&name, &name).await,
        }
    }

    /// Tells who follows an attempt that the ferry of its pilot is here.
    pub fn ring(&self, place: &Path) {
        if let Some(ferry) = &self.ferry {
            let name = place.file_name().unwrap_or_default().to_string_lossy();
            ferry.landing.ring(&name);
        }
    }

    /// As [`Program::line`], of one that has a socket in the place.
    pub fn line_in(&self, place: &Path, arguments: &[String]) -> Vec<String> {
        let line = self.line(arguments);
        let Some(ferry) = &self.ferry else {
            return line;
        };
        let word = |path: &Path| path.to_string_lossy().into_owned();
        let shell = ["/bin/sh", "-c", FERRIED, "kumiko-run"].map(str::to_owned);
        let places = [word(&ferry.own), word(&ferry.copy), word(place)];
        shell.into_iter().chain(places).chain(line).collect()
    }

    /// The words by which a host starts it.
    pub fn line(&self, arguments: &[String]) -> Vec<String> {
        let word = |path: &Path| path.to_string_lossy().into_owned();
        let start = match &self.copy {
            None => vec![word(&self.own)],
            Some(copy) => {
                let shell = ["/bin/sh", "-c", EITHER, "kumiko-run"].map(str::to_owned);
                let places = [word(&self.own), word(copy)];
                shell.into_iter().chain(places).collect()
            }
        };
        start.into_iter().chain(arguments.iter().cloned()).collect()
    }
}

/// A copy of a program, among others that are named by their SHA-256. One that is there is looked at: it may have been harmed.
fn keep(program: &Path, copies: &Path) -> io::Result<PathBuf> {
    let mut from = File::open(program)?;
    let sum = pass(&mut from, &mut io::sink())?;
    make_private(copies)?;
    // Held while something is put in or goes.
    let lock = private().open(copies.join("lock"))?;
    spooling::wait_for_lock(&lock)?;
    let place = copies.join(&sum);
    let copy = place.join(program.file_name().ok_or(ErrorKind::InvalidInput)?);
    let there = File::open(&copy).and_then(|mut file| pass(&mut file, &mut io::sink()));
    if !there.is_ok_and(|found| found == sum) {
        let new = copies.join("new");
        let put = || -> io::Result<()> {
            let mut file = private().truncate(true).mode(0o700).open(&new)?;
            if pass(&mut File::open(program)?, &mut file)? != sum {
                let words = format!("{} changes while it is read", program.display());
                return Err(io::Error::other(words));
            }
            file.sync_all()?;
            make_private(&place)?;
            fs::rename(&new, &copy)
        };
        put().inspect_err(|_| {
            let _ = fs::remove_file(&new); // the error at hand is the one to tell
        })?;
    }
    File::open(&place)?.set_modified(SystemTime::now())?;
    sweep(copies)?;
    Ok(copy)
}

/// Passes all of it on, and tells its SHA-256.
fn pass(from: &mut impl Read, to: &mut impl Write) -> io::Result<String> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE_BYTES]);
    loop {
        match from.read(&mut piece)? {
            0 => break,
            count => {
                let bytes = piece.get(..count).unwrap_or_default();
                hash.update(bytes);
                to.write_all(bytes)?;
            }
        }
    }
    let sum = hash.finalize();
    Ok(sum.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Removes those that were used least recently.
fn sweep(copies: &Path) -> io::Result<()> {
    let mut kept: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(copies)? {
        let entry = entry?;
        let about = entry.metadata()?;
        if about.is_dir() {
            kept.push((about.modified()?, entry.path()));
        }
    }
    kept.sort_unstable();
    let surplus = kept.len().saturating_sub(KEPT);
    kept.into_iter()
        .take(surplus)
        .try_for_each(|(_, place)| fs::remove_dir_all(place))
}

fn make_private(place: &Path) -> io::Result<()> {
    let parent = place.parent().ok_or(ErrorKind::InvalidInput)?;
    match spool::private_dir(parent, place) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A program that says `words`, kept; what the copy says.
    fn kept(top: &Path, words: &str) -> (Program, PathBuf, String) {
        let own = top.join("own");
        fs::write(&own, format!("#!/bin/sh\necho {words} $1\n")).unwrap();
        let program = Program::with_copy(own.clone(), &top.join("spools")).unwrap();
        fs::remove_file(own).unwrap();
        let line = program.line(&["x y".to_owned()]);
        let (name, arguments) = line.split_first().unwrap();
        // What another thread forks while the copy is written holds it open until it is a program of its own; no shell can run it before.
        let run = || {
            let output = std::process::Command::new(name).args(arguments).output();
            std::thread::sleep(std::time::Duration::from_millis(10));
            output.unwrap()
        };
        let busy = |output: &std::process::Output| {
            String::from_utf8_lossy(&output.stderr).contains("Text file busy")
        };
        let mut outputs = std::iter::repeat_with(run).take(500);
        let output = outputs.find(|output| !busy(output)).unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let copy = program.copy.clone().unwrap();
        (program, copy, said)
    }

    #[test]
    fn a_program_that_is_not_there_any_more_runs_from_its_copy() {
        let top = tempfile::tempdir().unwrap();
        let (program, copy, said) = kept(top.path(), "it runs:");
        assert_eq!(said, "it runs: x y\n");
        // What the site has is used wherever it is.
        fs::copy("/bin/echo", top.path().join("own")).unwrap();
        let line = program.line(&["own".to_owned()]);
        let output = std::process::Command::new(&line[0])
            .args(&line[1..])
            .output();
        assert_eq!(output.unwrap().stdout, b"own\n");
        // A copy that was harmed is made again.
        fs::write(&copy, "harmed").unwrap();
        assert_eq!(
            kept(top.path(), "it runs:"),
            (program, copy, "it runs: x y\n".to_owned())
        );
    }

    #[test]
    fn copies_are_kept_of_the_last_few() {
        let top = tempfile::tempdir().unwrap();
        let copies: Vec<PathBuf> = (0..=KEPT)
            .map(|number| kept(top.path(), &number.to_string()).1)
            .collect();
        let there: Vec<bool> = copies.iter().map(|copy| copy.exists()).collect();
        assert_eq!(there, [false, true, true, true, true]);
        // One that is used again is not the oldest any more.
        let (_, second, _) = kept(top.path(), "1");
        assert_eq!(second, copies[1]);
        kept(top.path(), "another");
        let there: Vec<bool> = copies.iter().map(|copy| copy.exists()).collect();
        assert_eq!(there, [false, true, false, true, true]);
    }

    #[test]
    fn what_there_is_no_copy_of_is_started_by_itself() {
        let program = Program::from(PathBuf::from("/opt/it's/kumiko-run"));
        let line = program.line(&["--pilot".to_owned(), "/a b".to_owned()]);
        assert_eq!(line, ["/opt/it's/kumiko-run", "--pilot", "/a b"]);
    }
}
