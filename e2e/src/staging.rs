//! File servers for scenarios: the packaged globus-gass-server as this person, and our own.

use crate::{Person, has_program, skip, until};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Says which of the programs is missing.
pub fn needs(test: &str, programs: &[(&str, &str)]) -> bool {
    for (program, package) in programs {
        if !has_program(program) {
            skip(test, &format!("{program} ({package})"));
            return false;
        }
    }
    true
}

/// The outcome of an ended job.
pub fn outcome(person: &Person, job: &str) -> serde_json::Value {
    let shown = person.ok(["--output", "json", "job", "show", job]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let one = shown.get(0).unwrap_or(&shown);
    one["outcome"].clone()
}

/// Bytes that do not repeat soon.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

/// By the packaged program, so that it is not ours that says it.
pub fn sha256(bytes: &[u8]) -> String {
    let mut program = Command::new("sha256sum");
    let said = crate::finish_with(program.stdout(Stdio::piped()), bytes);
    let said = String::from_utf8(said.stdout).unwrap();
    said.split(' ').next().unwrap().to_owned()
}

/// A program whose lines are waited for.
#[derive(Debug)]
pub struct Talking {
    child: Child,
    lines: Receiver<String>,
}

impl Talking {
    pub fn start(command: &mut Command) -> Talking {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (say, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut said = out.lines().map_while(Result::ok);
            let _ = said.try_for_each(|line| say.send(line)); // an error: nobody listens any more
        });
        Talking { child, lines }
    }

    /// The next line that holds `text`.
    #[track_caller]
    pub fn line_with(&self, text: &str) -> String {
        loop {
            match self.lines.recv_timeout(crate::DEADLINE) {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(_) => panic!("it never said {text:?}"),
            }
        }
    }

    /// The next lines are these.
    #[track_caller]
    pub fn said(&self, text: &str) {
        for line in text.lines() {
            let said = self.lines.recv_timeout(crate::DEADLINE);
            assert_eq!(said.as_deref(), Ok(line));
        }
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This person's proxy, which Globus programs can use.
pub fn proxy(person: &Person) -> PathBuf {
    let path = person.home.path().join("proxy.pem");
    if !path.exists() {
        let user = person.kumiko_home().join("user");
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        person.ok([
            "identity",
            "proxy",
            "--globus",
            "--cert",
            &text(user.join("usercert.pem")),
            "--key",
            &text(user.join("userkey.pem")),
            "--out",
            &text(path.clone()),
        ]);
    }
    path
}

/// A Globus program as this person.
pub fn globus<const N: usize>(person: &Person, name: &str, args: [&str; N]) -> Command {
    let mut command = person.program(name, args);
    command
        .env("X509_USER_PROXY", proxy(person))
        .env("X509_CERT_DIR", person.kumiko_home().join("certificates"))
        .env("GLOBUS_HOSTNAME", "localhost");
    command
}

/// The packaged server, all rights.
#[derive(Debug)]
pub struct GassServer {
    talking: Talking,
    base: String,
}

impl GassServer {
    pub fn start(person: &Person) -> GassServer {
        let mut command = globus(person, "globus-gass-server", ["-r", "-w", "-o", "-e", "-l"]);
        let talking = Talking::start(&mut command);
        let base = talking.line_with("https://").trim().to_owned();
        GassServer { talking, base }
    }

    pub fn base(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Globus takes a path as it stands: nothing is undone that was written as %20.
    pub fn url(&self, path: &Path) -> String {
        self.base(&path.display().to_string())
    }

    #[track_caller]
    pub fn line_with(&mut self, text: &str) -> String {
        self.talking.line_with(text)
    }

    #[track_caller]
    pub fn said(&mut self, text: &str) {
        self.talking.said(text);
    }
}

/// `kumiko job serve` of a directory.
#[derive(Debug)]
pub struct OurServer {
    _talking: Talking,
    base: String,
    dir: tempfile::TempDir,
}

impl OurServer {
    pub fn start(person: &Person) -> OurServer {
        let dir = tempfile::tempdir().unwrap();
        let mut command = person.kumiko(["job", "serve", "--listen", "127.0.0.1:0", "--write"]);
        command.arg(dir.path());
        let talking = Talking::start(&mut command);
        let base = talking.line_with("https://").trim().to_owned();
        OurServer {
            _talking: talking,
            base,
            dir,
        }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{}{path}", self.base, self.dir().display())
    }
}

/// Before a server of this host: counts what comes from it.
#[derive(Debug)]
pub struct Counted {
    port: u16,
    bytes: Arc<AtomicU64>,
}

impl Counted {
    /// Before the one that this address names.
    pub fn before(url: &str) -> Counted {
        let upstream = port_in(url).parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bytes: Arc<AtomicU64> = Arc::default();
        let counted = Arc::clone(&bytes);
        std::thread::spawn(move || {
            for theirs in listener.incoming().flatten() {
                let Ok(ours) = TcpStream::connect(("127.0.0.1", upstream)) else {
                    continue;
                };
                let (up, down) = (ours.try_clone().unwrap(), theirs.try_clone().unwrap());
                std::thread::spawn(move || carry(theirs, ours, |_| ()));
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || {
                    carry(up, down, |bytes| {
                        counted.fetch_add(bytes, Ordering::SeqCst);
                    });
                });
            }
        });
        Counted { port, bytes }
    }

    /// That address, by way of this.
    pub fn url(&self, url: &str) -> String {
        url.replacen(&port_in(url), &self.port.to_string(), 1)
    }

    /// Since this was asked last.
    pub fn bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::SeqCst)
    }
}

fn port_in(url: &str) -> String {
    let server = url.split('/').nth(2).unwrap();
    server.rsplit_once(':').unwrap().1.to_owned()
}

/// Until one of the two has no more of it.
fn carry(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(u64)) {
    let mut piece = vec![0; 64 << 10];
    let mut carry = || -> io::Result<()> {
        loop {
            let read = from.read(&mut piece)?;
            if read == 0 {
                return to.shutdown(std::net::Shutdown::Write);
            }
            passes(read as u64);
            to.write_all(&piece[..read])?;
        }
    };
    let _ = carry(); // either has gone: the other is told by its own end
}

/// Waits until a file has this text.
pub fn until_holds(path: &Path, text: &str) {
    until(&format!("{} holds {text:?}", path.display()), || {
        std::fs::read_to_string(path).is_ok_and(|found| found == text)
    });
}
