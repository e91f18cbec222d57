//! A site and a host that has none of its folders.

#![allow(dead_code)] // each test needs some of it

use kumiko_ferry::files::Files;
use kumiko_linux::unix_socket;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kumiko-ferry");

pub struct Site {
    pub top: tempfile::TempDir,
    pub files: Files,
}

impl Site {
    /// None: hosts cannot do it here.
    pub fn new(test: &str) -> Option<Site> {
        let can = kumiko_linux::is_root() && fs::File::open("/dev/fuse").is_ok();
        if !can {
            kumiko_testkit::skip(
                test,
                "root and /dev/fuse, for a host without the site's folders",
            );
            return None;
        }
        let top = tempfile::tempdir().unwrap();
        let (spool, jobs) = (top.path().join("site/spool"), top.path().join("site/jobs"));
        fs::create_dir_all(spool.join("pilot-1")).unwrap();
        // As it is installed: what is there for debuggers takes seconds to pack.
        let program = top.path().join("kumiko-ferry");
        let stripped = Command::new("strip")
            .args(["-o".as_ref(), program.as_os_str(), PROGRAM.as_ref()])
            .status();
        assert!(stripped.unwrap().success());
        let at = "127.0.0.1".parse().unwrap();
        let folders = vec![spool.clone(), jobs];
        let files = Files::open(&program, &spool, &at, folders).unwrap();
        files.tickets(&spool.join("pilot-1"), 1).unwrap();
        Some(Site { top, files })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.top.path().join("site").join(name)
    }

    /// The ferry's.
    pub fn program(&self) -> PathBuf {
        self.top.path().join("kumiko-ferry")
    }

    /// Where the host has room for the moment.
    pub fn tmp(&self) -> PathBuf {
        let tmp = self.top.path().join("tmp");
        fs::create_dir_all(&tmp).unwrap();
        tmp
    }

    /// What it keeps.
    pub fn cache(&self) -> PathBuf {
        self.top.path().join("cache")
    }

    pub fn place(&self) -> PathBuf {
        self.path("spool/pilot-1")
    }

    pub fn address(&self) -> String {
        fs::read_to_string(self.path("spool-files/address")).unwrap()
    }

    /// What answers for its folders.
    pub fn server(&self) -> i32 {
        let here = unix_socket::connect(&self.path("spool-files/here")).unwrap();
        unix_socket::peer(&here).unwrap().0
    }

    /// Has a host run a line of a shell.
    pub fn begin(&self, line: &str) -> Child {
        self.begin_by(&self.address(), line)
    }

    /// What a host is given.
    pub fn script(&self, address: &str, line: &str) -> PathBuf {
        let line = ["/bin/sh", "-c", line].map(str::to_owned);
        let script = self.files.script(&self.place(), &line, None).unwrap();
        let script = script.replace(&format!("'{}'", self.address()), address);
        let file = self.top.path().join("script");
        fs::write(&file, script).unwrap();
        file
    }

    /// By way of another address.
    pub fn begin_by(&self, address: &str, line: &str) -> Child {
        let file = self.script(address, line);
        let hidden =
            r#"exec <"$2"; umount -l "$1" 2>/dev/null; mount -t tmpfs none "$1" && exec sh -s"#;
        Command::new("unshare")
            .args(["--mount", "sh", "-c", hidden, "host"])
            .args([&self.path(""), &file])
            .env("TMPDIR", self.tmp())
            .env("KUMIKO_HOST_CACHE", self.cache())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub fn run(&self, line: &str) -> String {
        let output = self.begin(line).wait_with_output().unwrap();
        assert!(output.status.success(), "{line}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

pub fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{} {} {}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Passes connections on, and cuts all there are when it is told to.
pub struct Wire {
    pub address: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// Passed on since the last cut.
    pub bytes: Arc<AtomicU64>,
}

/// More than a connection needs to begin: something was said since the last cut.
const SAID_BYTES: u64 = 200_000;

impl Wire {
    pub fn to(address: String) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let wire = Wire {
            address: listener.local_addr().unwrap().to_string(),
            open: Arc::default(),
            bytes: Arc::default(),
        };
        let (open, bytes) = (Arc::clone(&wire.open), Arc::clone(&wire.bytes));
        std::thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                let Ok(far) = TcpStream::connect(&address) else {
                    continue;
                };
                for (mut from, mut to) in [(&near, &far), (&far, &near)]
                    .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
                {
                    let bytes = Arc::clone(&bytes);
                    std::thread::spawn(move || {
                        let mut piece = [0; 4096];
                        while let Ok(count @ 1..) = from.read(&mut piece) {
                            bytes.fetch_add(count as u64, Ordering::Relaxed);
                            if to.write_all(&piece[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                open.lock().unwrap().extend([near, far]);
            }
        });
        wire
    }

    /// How many; none, if little was said since the last time.
    pub fn cut(&self) -> usize {
        if self.bytes.load(Ordering::Relaxed) < SAID_BYTES {
            return 0;
        }
        self.bytes.store(0, Ordering::Relaxed);
        let open: Vec<TcpStream> = self.open.lock().unwrap().drain(..).collect();
        let cut = open
            .iter()
            .filter(|one| one.shutdown(Shutdown::Both).is_ok());
        cut.count()
    }
}
