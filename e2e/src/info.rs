//! Info servers as processes, at one host or each in a network namespace of its own (testbeds/levels), and what a watch at
//! one of them tells with time.

use crate::{DEADLINE, Person, kumiko, skip};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// What testbeds/levels/run ends with where it cannot be had.
const BED_IS_MISSING: i32 = 77;

/// Where a process runs: here, or at a host of the testbed.
pub type Place<'a> = Option<&'a Host>;

/// One `kumiko info serve`, killed when dropped.
#[derive(Debug)]
pub struct Server {
    pub child: Child,
    /// HOST:PORT, by a name of its certificate.
    pub address: String,
    /// In its own words.
    pub started: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// `settings`: lines of info.toml besides the name.
    pub fn start(person: &Person, name: &str, listen: &str, settings: &str) -> Server {
        Server::start_at(None, person, name, listen, settings)
    }

    pub fn start_at(
        place: Place,
        person: &Person,
        name: &str,
        listen: &str,
        settings: &str,
    ) -> Server {
        let text = format!("name = \"{name}\"\n{settings}");
        let config = person.file(&format!("{name}.toml"), &text);
        let state = person.home.path().join(format!("state-{name}"));
        let mut child = at(place, person, ["info", "serve", "--listen", listen])
            .args(["--config".as_ref(), config.as_os_str()])
            .args(["--state".as_ref(), state.as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let (_, rest) = line
            .split_once("is up at ")
            .unwrap_or_else(|| panic!("{name} said {line:?}"));
        let (address, started) = rest.trim().split_once(", started ").unwrap();
        Server {
            child,
            address: address.replace("127.0.0.1", "localhost"),
            started: started.to_owned(),
        }
    }

    pub fn listen(&self) -> String {
        self.address.replace("localhost", "127.0.0.1")
    }

    /// kill -9, and gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The settings of an index, below another if that is given.
pub fn index_settings(above: Option<&Server>) -> String {
    let above = above.map_or(String::new(), |a| {
        format!(
            "[[register]]\naddress = \"{}\"\nttl_ms = 600000\nheartbeat_ms = 500\n",
            a.address
        )
    });
    format!("kind = \"index\"\nhost = false\n{above}")
}

/// The settings of a leaf that tells of the host leaf.example; its load is what `set_load` says.
pub fn leaf_settings(person: &Person, above: &Server, load: &str) -> String {
    set_load(person, load);
    let dn = "{\"dn\": \"Mds-Host-hn=leaf.example\", \"attributes\": {\"objectClass\": [\"Mds\", \"MdsHost\"], \"Mds-Host-hn\": \"leaf.example\", \"kumiko-load-1min\": %s}}";
    let load = person.home.path().join("load");
    let print = person.file(
        "print",
        &format!("printf '{dn}' $(cat {})\n", load.display()),
    );
    format!(
        "host = false\n[[register]]\naddress = \"{}\"\nttl_ms = 2500\nheartbeat_ms = 500\n\
         [[provider]]\nname = \"leaf\"\ncommand = [\"sh\", \"{}\"]\nevery_ms = 100\nsandbox = false\n",
        above.address,
        print.display(),
    )
}

/// The provider reads it whenever it likes: it sees the old one or the new one.
pub fn set_load(person: &Person, load: &str) {
    let beside = person.file("load.new", load);
    std::fs::rename(beside, person.home.path().join("load")).unwrap();
}

/// The hosts that match at a server.
pub fn hosts(place: Place, person: &Person, server: &Server, expression: &str) -> String {
    let words = ["info", "query", "--server", &server.address];
    let more = ["--attributes", "host", expression];
    let mut command = at(place, person, words.iter().chain(&more));
    let output = crate::finish(command.stdin(Stdio::null()));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().skip(1).collect()
}

/// `kumiko ARGS` of this person, there.
pub fn at<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(
    place: Place,
    person: &Person,
    arguments: I,
) -> Command {
    match place {
        None => person.kumiko(arguments),
        Some(host) => {
            let mut command = person.program("nsenter", &host.enter);
            command.arg(kumiko()).args(arguments);
            command
        }
    }
}

/// A host of the testbed.
#[derive(Debug)]
pub struct Host {
    /// Arguments of nsenter(1).
    enter: Vec<String>,
}

impl Host {
    /// Any program, there; it must succeed.
    pub fn ok(&self, person: &Person, words: &[&str]) -> String {
        let mut command = person.program("nsenter", &self.enter);
        let output = crate::finish(command.args(words).stdin(Stdio::null()));
        assert!(
            output.status.success(),
            "{words:?}: {}",
            crate::told(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Three hosts in a row; gone when dropped.
#[derive(Debug)]
pub struct Levels {
    bed: Child,
    _hold: ChildStdin,
    pub top: Host,
    pub middle: Host,
    pub leaf: Host,
}

impl Levels {
    /// None, said: they cannot be had here.
    pub fn new(test: &str) -> Option<Levels> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut bed = Command::new(root.join("testbeds/levels/run"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let hold = bed.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(bed.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let mut words = line.split_whitespace();
        let (Some(top), Some(middle), Some(leaf)) = (words.next(), words.next(), words.next())
        else {
            drop(hold);
            let output = bed.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(BED_IS_MISSING), "{said}");
            skip(test, said.trim().rsplit(": missing ").next().unwrap());
            return None;
        };
        let options: Vec<&str> = words.collect();
        let host = |pid: &str| Host {
            enter: ["-t", pid]
                .iter()
                .chain(&options)
                .map(|w| (*w).to_owned())
                .collect(),
        };
        Some(Levels {
            top: host(top),
            middle: host(middle),
            leaf: host(leaf),
            bed,
            _hold: hold,
        })
    }
}

impl Drop for Levels {
    fn drop(&mut self) {
        // The hosts end with it, and what runs in them is guarded by itself.
        let _ = self.bed.kill();
        let _ = self.bed.wait();
    }
}

/// `kumiko info watch` at a server, and when it told what.
#[derive(Debug)]
pub struct Watch {
    child: Child,
    lines: Receiver<(Instant, String)>,
}

impl Watch {
    pub fn start(place: Place, person: &Person, server: &Server, expression: &str) -> Watch {
        let words = [
            "--output",
            "lines",
            "info",
            "watch",
            "--server",
            &server.address,
            expression,
        ];
        let mut child = at(place, person, words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = mpsc::channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if send.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Watch { child, lines }
    }

    /// All that is told until a line has this in it.
    #[track_caller]
    pub fn until(&self, what: &str) -> Vec<(Instant, String)> {
        let begun = Instant::now();
        let mut heard = Vec::new();
        while begun.elapsed() < DEADLINE {
            if let Ok(line) = self.lines.recv_timeout(Duration::from_millis(100)) {
                heard.push(line);
                if heard.last().is_some_and(|(_, line)| line.contains(what)) {
                    return heard;
                }
            }
        }
        panic!("the watch never said {what:?}, but {heard:?}");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
