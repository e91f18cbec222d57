//! A throw-away site for many accounts: the accounts are lines of a file with numbers that nobody on this machine has,
//! so that no account is made; root becomes them all the same.

use kumiko_e2e::{finish, kill, kumiko, skip, told, until};
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The front's; the people follow. Beyond what useradd(8) and systemd give to anybody.
pub const FRONT: u32 = 600_400_000;

pub struct Place {
    folder: tempfile::TempDir,
    kind: Vec<&'static str>,
}

impl Place {
    /// None, said: this is not root, or cannot become others.
    pub fn new(test: &str, people: &[&str], settings: &str) -> Option<Place> {
        Place::with_keys(test, people, settings, &[])
    }

    /// As `new`, with this option of `identity init-ca` and `request` for the kind of the keys.
    pub fn with_keys(
        test: &str,
        people: &[&str],
        settings: &str,
        kind: &[&'static str],
    ) -> Option<Place> {
        let folder = tempfile::Builder::new()
            .prefix("kumiko-many-")
            .tempdir()
            .unwrap();
        if std::fs::metadata(folder.path()).unwrap().uid() != 0 {
            skip(test, "root");
            return None;
        }
        // Where other accounts reach it.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let place = Place {
            folder,
            kind: kind.to_vec(),
        };
        std::fs::create_dir_all(place.home()).unwrap();
        std::fs::create_dir(place.bin()).unwrap();
        for name in ["kumiko", "kumiko-grid", "kumiko-run"] {
            let from = kumiko().with_file_name(name);
            if name == "kumiko-grid" && !from.exists() {
                continue; // what cargo itself leaves is one program
            }
            if std::fs::hard_link(&from, place.bin().join(name)).is_err() {
                std::fs::copy(&from, place.bin().join(name)).unwrap();
            }
        }
        let mut accounts = format!("kumiko:x:{FRONT}:{FRONT}:::\n").replace(":::", "::/:");
        for (name, uid) in people.iter().zip(FRONT + 1..) {
            let home = place.path(&format!("homes/{name}"));
            std::fs::create_dir_all(&home).unwrap();
            std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
            chown(&home, Some(uid), Some(uid)).unwrap();
            accounts += &format!("{name}:x:{uid}:{uid}::{}:/bin/sh\n", home.display());
        }
        std::fs::write(place.path("accounts"), accounts).unwrap();
        let file = place.path("accounts");
        std::fs::write(
            place.home().join("site.toml"),
            format!(
                "listen = \"127.0.0.1:0\"\n[accounts]\nleast_id = {FRONT}\nfile = \"{}\"\n{settings}\n",
                file.display()
            ),
        )
        .unwrap();
        if !kind.is_empty() {
            let ca = place.home().join("ca").display().to_string();
            let own = place.subject("CA");
            let words = ["identity", "init-ca", &ca, "--subject", &own];
            place.ok(words.iter().chain(kind));
        }
        place.start();
        for name in people {
            place.enrol(name);
            place.map(name, name);
        }
        Some(place)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn home(&self) -> PathBuf {
        self.path("site")
    }

    fn bin(&self) -> PathBuf {
        self.path("bin")
    }

    pub fn uid(&self, name: &str) -> u32 {
        std::fs::metadata(self.path(&format!("homes/{name}")))
            .unwrap()
            .uid()
    }

    pub fn start(&self) {
        let listen = match self.port() {
            Some(port) => format!("127.0.0.1:{port}"),
            None => "127.0.0.1:0".to_owned(),
        };
        self.ok(["site", "start", "--listen", &listen]);
        std::fs::write(
            self.path("port"),
            self.running()["address"]
                .as_str()
                .unwrap()
                .rsplit(':')
                .next()
                .unwrap(),
        )
        .unwrap();
    }

    /// Of this start or an earlier one.
    fn port(&self) -> Option<u16> {
        std::fs::read_to_string(self.path("port"))
            .ok()?
            .parse()
            .ok()
    }

    pub fn site(&self) -> String {
        format!("localhost:{}", self.port().unwrap())
    }

    fn running(&self) -> serde_json::Value {
        let text = std::fs::read_to_string(self.home().join("run/site.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Subject of somebody.
    pub fn subject(&self, name: &str) -> String {
        let mut host =
            String::from_utf8(Command::new("uname").arg("-n").output().unwrap().stdout).unwrap();
        host.truncate(host.trim_end().len());
        format!("/O=kumiko/OU=site@{host}/CN={name}")
    }

    /// A certificate of the site's own authority.
    pub fn enrol(&self, name: &str) {
        let file = |ending: &str| self.path(&format!("{name}.{ending}")).display().to_string();
        let (key, request, certificate) = (file("key"), file("request"), file("pem"));
        let subject = self.subject(name);
        let words = ["identity", "request", "--subject", &subject, "--key", &key];
        self.ok(words.iter().chain(&["--out", &request]).chain(&self.kind));
        let ca = self.home().join("ca").display().to_string();
        self.ok([
            "identity",
            "issue",
            "--ca",
            &ca,
            "--out",
            &certificate,
            &request,
        ]);
    }

    pub fn map(&self, name: &str, account: &str) {
        self.ok(["site", "map", &self.subject(name), account]);
    }

    /// As an editor does it: the old file or the new one.
    pub fn write_mapfile(&self, text: &str) {
        let path = self.home().join("grid-mapfile");
        std::fs::write(path.with_extension("edited"), text).unwrap();
        std::fs::rename(path.with_extension("edited"), path).unwrap();
    }

    /// The operator's command.
    pub fn operator<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Command {
        let mut command = Command::new(self.bin().join("kumiko"));
        command.args(arguments).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command
            .env("KUMIKO_HOME", self.home())
            .env("HOME", self.path("nowhere"));
        command.current_dir("/").stdin(Stdio::null());
        if let Ok(filter) = std::env::var("KUMIKO_LOG") {
            command.env("KUMIKO_LOG", filter);
        }
        command
    }

    #[track_caller]
    pub fn ok<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> String {
        succeeded(&finish(&mut self.operator(arguments)))
    }

    /// A person's command, with their certificate, against this site.
    pub fn person<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: I,
    ) -> Command {
        let mut command = Command::new(self.bin().join("kumiko"));
        command.args(arguments);
        self.as_person(name, &mut command);
        command
    }

    /// The environment of a person who uses this site.
    pub fn as_person(&self, name: &str, command: &mut Command) {
        command.env_clear().current_dir("/").stdin(Stdio::null());
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path("nowhere"));
        command.env("X509_USER_CERT", self.path(&format!("{name}.pem")));
        command.env("X509_USER_KEY", self.path(&format!("{name}.key")));
        command.env("X509_CERT_DIR", self.home().join("certificates"));
        command.env("KUMIKO_SITE", self.site());
    }

    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: I,
    ) -> Output {
        finish(&mut self.person(name, arguments))
    }

    #[track_caller]
    pub fn says<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: I,
    ) -> String {
        succeeded(&self.run(name, arguments))
    }

    /// A shell outside of any sandbox, as an account of this site: what an enemy with a login has.
    pub fn shell_as(&self, uid: u32, script: &str) -> Output {
        let ids = uid.to_string();
        finish(
            Command::new("setpriv")
                .args([
                    "--reuid",
                    &ids,
                    "--regid",
                    &ids,
                    "--clear-groups",
                    "sh",
                    "-c",
                    script,
                ])
                .current_dir("/")
                .stdin(Stdio::null()),
        )
    }

    pub fn monitor(&self) -> u32 {
        self.running()["pid"].as_u64().unwrap() as u32
    }

    pub fn front(&self) -> Option<u32> {
        self.child(|words| words.last().is_some_and(|w| w == "front"))
    }

    pub fn agent(&self, account: &str) -> Option<u32> {
        self.child(|words| words.iter().any(|w| w == "agent") && words.iter().any(|w| w == account))
    }

    /// A process of this site, by its command line.
    fn child(&self, is_it: impl Fn(&[String]) -> bool) -> Option<u32> {
        let home = self.home().display().to_string();
        processes().into_iter().find_map(|(pid, words)| {
            let is_here = words.contains(&home);
            (is_here && is_it(&words)).then_some(pid)
        })
    }

    /// The guest of this account with these words, and its runner.
    pub fn guest_and_runner(&self, account: &str, words: &[&str]) -> (u32, u32) {
        let of_account = |pid: u32| {
            let owner = std::fs::metadata(format!("/proc/{pid}")).map(|m| m.uid());
            owner.is_ok_and(|uid| uid == self.uid(account))
        };
        let processes = processes();
        let runs = |pid: u32, name: &str| {
            processes
                .iter()
                .any(|(p, w)| *p == pid && w[0].ends_with(name))
        };
        let (guest, _) = processes
            .iter()
            .find(|(pid, w)| w == words && of_account(*pid))
            .expect("a guest");
        // The runner is the last of its kind above the guest; rooms have processes of its program too.
        let mut above = Vec::from([*guest]);
        while let Some(parent) = above.last().and_then(|pid| parent(*pid)) {
            above.push(parent);
        }
        let runner = above.into_iter().rfind(|pid| runs(*pid, "kumiko-run"));
        (*guest, runner.expect("a runner"))
    }

    pub fn state(&self, account: &str) -> PathBuf {
        self.home().join("state/accounts").join(account)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home().join("site.log")).unwrap_or_default()
    }
}

impl Drop for Place {
    /// Without a deadline, and so without a panic: a failed test is to tell why it failed.
    fn drop(&mut self) {
        let accounts = std::fs::read_dir(self.home().join("state/accounts"));
        for entry in accounts.into_iter().flatten().flatten() {
            let account = entry.file_name().to_string_lossy().into_owned();
            // Jobs first: a runner outlives its site on purpose.
            let cancel = ["job", "cancel", "all", "--grace", "0"];
            let _ = self.person(&account, cancel).output();
        }
        let _ = self.operator(["site", "stop"]).output();
        if std::thread::panicking() {
            eprintln!("--- site.log\n{}", self.log());
            for entry in std::fs::read_dir(self.home().join("agents"))
                .into_iter()
                .flatten()
            {
                let path = entry.unwrap().path();
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                eprintln!("--- {}\n{text}", path.display());
            }
        }
    }
}

#[track_caller]
pub fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", told(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// kill -9, and gone.
pub fn killed(pid: u32) {
    kill(pid, "KILL");
    until("it is gone", || !kumiko_e2e::alive(pid));
}

/// By one command, for some end by themselves once others are gone.
pub fn killed_together(pids: &[u32]) {
    let words = pids.iter().map(u32::to_string);
    std::process::Command::new("kill")
        .arg("-KILL")
        .args(words)
        .output()
        .unwrap();
    until("they are gone", || {
        !pids.iter().any(|pid| kumiko_e2e::alive(*pid))
    });
}

/// proc(5): the fourth field of stat, after a name in brackets that may hold anything.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.rsplit_once(')')?.1;
    after
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
        .filter(|p| *p > 1)
}

/// Processes that are no zombies, with their command lines.
fn processes() -> Vec<(u32, Vec<String>)> {
    let read = |pid: &Path| {
        let words = std::fs::read(pid.join("cmdline")).ok()?;
        let words: Vec<String> = words
            .split(|b| *b == 0)
            .filter(|w| !w.is_empty())
            .map(|w| String::from_utf8_lossy(w).into_owned())
            .collect();
        let number = pid.file_name()?.to_str()?.parse().ok()?;
        (!words.is_empty()).then_some((number, words))
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| read(&entry.ok()?.path()))
        .collect()
}
