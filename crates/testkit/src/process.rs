//! A child process that does not outlive its test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::deadline::DEADLINE;

/// Killed and reaped when dropped. Standard output is read by lines, standard error is kept.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    lines: mpsc::Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

impl Process {
    pub fn start(command: &mut Command) -> Process {
        let name = format!("{command:?}");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let (send, lines) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let errors = child.stderr.take().map(|mut pipe| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error is still worth showing.
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        Process {
            child,
            name,
            lines,
            errors,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The first line of output from now on that holds `text`; panics when there is none before the deadline.
    pub fn line_with(&mut self, text: &str) -> String {
        let start = std::time::Instant::now();
        let mut seen = String::new();
        loop {
            match self
                .lines
                .recv_timeout(DEADLINE.saturating_sub(start.elapsed()))
            {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen += &format!("{line}\n"),
                Err(_) => {
                    self.kill();
                    let errors = self.errors();
                    panic!(
                        "{} never said {text:?}; it said:\n{seen}{errors}",
                        self.name
                    )
                }
            }
        }
    }

    /// Ends it at once (SIGKILL) and reaps it. Twice does no harm.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end; panics at the deadline.
    pub fn wait(&mut self) -> ExitStatus {
        let name = self.name.clone();
        crate::until(&format!("the end of {name}"), || {
            self.child.try_wait().expect("a child to wait for")
        })
    }

    /// What it wrote to standard error; it must have ended.
    pub fn errors(&mut self) -> String {
        self.errors
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command to its end, within the deadline.
pub fn run(command: &mut Command) -> Output {
    let mut process = Process::start(command);
    let status = process.wait();
    let stdout: String = process.lines.iter().map(|line| line + "\n").collect();
    Output {
        status,
        stdout: stdout.into_bytes(),
        stderr: process.errors().into_bytes(),
    }
}
