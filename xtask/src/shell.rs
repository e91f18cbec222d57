//! Running other programs: cargo of this toolchain, in the root of the repository, watched line by line.

use crate::fail::Failure;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A program that prints nothing for so long hangs: the longest silent compilation measured took under two minutes.
const SILENCE: Duration = Duration::from_secs(10 * 60);

/// How often a silent program is looked after.
const STEP: Duration = Duration::from_secs(1);

/// Where the repository is and what it is built for.
#[derive(Clone, Debug)]
pub struct Shell {
    pub root: PathBuf,
    /// The host's target triple, as `rustc -vV` names it.
    pub triple: String,
    /// What it runs has the lowest priority, and says nothing.
    humble: bool,
}

impl Shell {
    pub fn find() -> Result<Self, Failure> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .unwrap_or(Path::new("."))
            .to_owned();
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let said = text_of(Command::new(rustc).arg("-vV"))?;
        let triple = said
            .lines()
            .find_map(|l| l.strip_prefix("host: "))
            .ok_or_else(|| Failure::Answer {
                program: "rustc -vV".into(),
                cause: "no host line".into(),
            })?;
        Ok(Shell {
            triple: triple.to_owned(),
            root,
            humble: false,
        })
    }

    /// One whose commands disturb nobody.
    pub fn humble(&self) -> Shell {
        Shell {
            humble: true,
            ..self.clone()
        }
    }

    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.join(below)
    }

    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = match self.humble {
            false => Command::new(program),
            true => {
                let mut nice = Command::new("nice");
                nice.args(["-n", "19"]).arg(program);
                nice.stdout(Stdio::null()).stderr(Stdio::null());
                nice
            }
        };
        command.current_dir(&self.root);
        command
    }

    pub fn cargo<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(arguments);
        command
    }

    /// Cargo for the host's triple by name, so that `flags` reach our code and not build scripts and macros.
    pub fn cargo_flagged<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a str>,
        flags: &str,
    ) -> Command {
        let variable = format!(
            "CARGO_TARGET_{}_RUSTFLAGS",
            self.triple.to_uppercase().replace(['-', '.'], "_")
        );
        let mut command = self.cargo(arguments);
        command
            .args(["--target", &self.triple])
            .env(variable, flags);
        command
    }
}

/// A command as it would be typed.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|w| w.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs to the end with the terminal's own output.
pub fn ok(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|cause| Failure::Start {
        program: line(command),
        cause,
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Failed {
            program: line(command),
        })
    }
}

/// Runs to the end and returns what it printed.
pub fn text_of(command: &mut Command) -> Result<String, Failure> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|cause| Failure::Start {
            program: line(command),
            cause,
        })?;
    if !output.status.success() {
        return Err(Failure::Failed {
            program: line(command),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs to the end, each line of both outputs to `each` and into the file `log`. True: it ended well.
pub fn watch(
    command: &mut Command,
    log: &Path,
    mut each: impl FnMut(&str),
) -> Result<bool, Failure> {
    let wrong = |cause| Failure::File {
        path: log.to_owned(),
        cause,
    };
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    let mut log_file = File::create(log).map_err(wrong)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|cause| Failure::Start {
            program: line(command),
            cause,
        })?;
    let (send, lines) = mpsc::channel();
    for pipe in [
        child.stdout.take().map(boxed),
        child.stderr.take().map(boxed),
    ]
    .into_iter()
    .flatten()
    {
        let send = send.clone();
        std::thread::spawn(move || {
            // Tests print bytes of all kinds; a line is shown as far as it is text.
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                let _ = send.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
    }
    drop(send);
    let mut silent = Duration::ZERO;
    let mut ended = None;
    loop {
        match lines.recv_timeout(STEP) {
            Ok(line) => {
                silent = Duration::ZERO;
                writeln!(log_file, "{line}").map_err(wrong)?;
                each(&line);
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => silent += STEP,
        }
        // A process that a test left behind may hold the pipes open for ever: silence after the end is the end.
        if ended.is_some() {
            break;
        }
        ended = child.try_wait().map_err(wrong)?;
        if silent >= SILENCE {
            each(&format!(
                "x: no word for {} min: stopped",
                SILENCE.as_secs() / 60
            ));
            child.kill().map_err(wrong)?;
        }
    }
    let status = child.wait().map_err(wrong)?;
    Ok(status.success())
}

fn boxed(pipe: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(pipe)
}

/// Reads a file, or says which one could not be read.
pub fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|cause| Failure::File {
        path: path.to_owned(),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(script: &str) -> (bool, Vec<String>) {
        let log =
            std::env::temp_dir().join(format!("xtask-{}-{}", std::process::id(), script.len()));
        let mut lines = Vec::new();
        let well = watch(Command::new("sh").args(["-c", script]), &log, |line| {
            lines.push(line.to_owned())
        });
        let logged = fs::read_to_string(&log).unwrap();
        fs::remove_file(&log).unwrap();
        assert_eq!(logged.lines().collect::<Vec<_>>(), lines);
        lines.sort();
        (well.unwrap(), lines)
    }

    #[test]
    fn lines_of_both_outputs_and_the_verdict_are_seen() {
        assert_eq!(
            watched("echo a; echo b >&2"),
            (true, vec!["a".into(), "b".into()])
        );
        assert_eq!(watched("echo a; exit 3"), (false, vec!["a".into()]));
    }

    #[test]
    fn a_process_left_behind_is_not_waited_for() {
        let begun = std::time::Instant::now();
        assert_eq!(watched("sleep 20 & echo a"), (true, vec!["a".into()]));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
