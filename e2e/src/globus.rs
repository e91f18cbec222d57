//! A user of the Globus Toolkit's own, unmodified commands, and a site of ours that knows him.
//!
//! A process of root takes host credentials before any proxy: so the commands run as another account then.

use crate::{Person, finish, told};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Nobody: an account that every system has, and that owns nothing.
const NOBODY: u32 = 65534;

#[derive(Debug)]
pub struct GlobusUser {
    /// Whose site it is.
    pub person: Person,
    /// Where the commands run: certificates, a proxy, and files of theirs.
    pub folder: tempfile::TempDir,
    port: u16,
}

impl GlobusUser {
    /// With an RSA authority, as clients of the toolkit need (they sign with their proxies' keys), a running site, and a
    /// proxy. None, with a word: what is needed is not installed.
    pub fn new(test: &str) -> Option<GlobusUser> {
        let start = ["site", "start", "--listen", "127.0.0.1:0"];
        GlobusUser::of(Person::new(), &start, test)
    }

    /// Of that person's site, which the line starts.
    pub fn of(person: Person, start: &[&str], test: &str) -> Option<GlobusUser> {
        for program in ["globusrun", "globus-job-run", "grid-proxy-init", "setpriv"] {
            if !crate::has_program(program) {
                crate::skip(test, program);
                return None;
            }
        }
        let home = person.kumiko_home();
        let ca = home.join("ca");
        person.ok([
            OsStr::new("identity"),
            OsStr::new("init-ca"),
            OsStr::new("--rsa"),
            ca.as_os_str(),
        ]);
        person.ok(start);
        let folder = tempfile::Builder::new()
            .prefix("kumiko-globus-")
            .tempdir()
            .unwrap();
        let mut user = GlobusUser {
            person,
            folder,
            port: 0,
        };
        user.port = user.site_port();
        user.certify("user", "/O=kumiko/CN=Grid User");
        let map = home.join("grid-mapfile");
        let account = std::fs::read_to_string(&map).unwrap();
        let account = account.split_whitespace().last().unwrap().to_owned();
        let lines = format!(
            "{}\"/O=kumiko/CN=Grid User\" {account}\n",
            std::fs::read_to_string(&map).unwrap()
        );
        std::fs::write(&map, lines).unwrap();
        user.trust();
        user.own();
        user.proxy("user", &["-valid", "12:00"]);
        // The site looks at its files once a second.
        let site = user.site();
        crate::until("the site knows him", || {
            user.run("globusrun", ["-a", "-r", &site]).status.success()
        });
        Some(user)
    }

    fn site_port(&self) -> u16 {
        let text =
            std::fs::read_to_string(self.person.kumiko_home().join("run/site.json")).unwrap();
        let site: serde_json::Value = serde_json::from_str(&text).unwrap();
        let address = site["address"].as_str().unwrap();
        address.rsplit(':').next().unwrap().parse().unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A key and a certificate, `NAMEkey.pem` and `NAMEcert.pem`.
    pub fn certify(&self, name: &str, subject: &str) {
        let (key, request, certificate) = (
            self.path(&format!("{name}key.pem")),
            self.path(&format!("{name}.req")),
            self.path(&format!("{name}cert.pem")),
        );
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        self.person.ok([
            "identity".to_owned(),
            "request".to_owned(),
            "--rsa".to_owned(),
            "--subject".to_owned(),
            subject.to_owned(),
            "--key".to_owned(),
            text(&key),
            "--out".to_owned(),
            text(&request),
        ]);
        self.person.ok([
            "identity".to_owned(),
            "issue".to_owned(),
            "--ca".to_owned(),
            text(&self.person.kumiko_home().join("ca")),
            "--out".to_owned(),
            text(&certificate),
            text(&request),
        ]);
        self.own();
    }

    /// The site's trust directory, where the commands may read it.
    fn trust(&self) {
        let to = self.path("certificates");
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(self.person.kumiko_home().join("certificates")).unwrap() {
            let from = entry.unwrap().path();
            std::fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
        }
    }

    /// Everything in the folder is the account's that the commands run as.
    pub fn own(&self) {
        if !is_root() {
            return;
        }
        let output = finish(
            Command::new("chown")
                .arg("-R")
                .arg(NOBODY.to_string())
                .arg(self.folder.path()),
        );
        assert!(output.status.success(), "{}", told(&output));
        std::fs::set_permissions(self.folder.path(), std::fs::Permissions::from_mode(0o755))
            .unwrap();
    }

    /// A proxy of a certificate, in the place where the commands look.
    pub fn proxy(&self, name: &str, options: &[&str]) {
        let (certificate, key) = (
            self.path(&format!("{name}cert.pem")),
            self.path(&format!("{name}key.pem")),
        );
        let mut arguments = vec![
            "-q",
            "-cert",
            certificate.to_str().unwrap(),
            "-key",
            key.to_str().unwrap(),
        ];
        arguments.extend(options);
        let output = finish(&mut self.tool("grid-proxy-init", arguments));
        assert!(output.status.success(), "{}", told(&output));
    }

    /// A command of the toolkit's.
    pub fn tool<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, name: &str, args: I) -> Command {
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            let id = NOBODY.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", name]);
            command
        } else {
            Command::new(name)
        };
        command
            .args(args)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.folder.path())
            .env("LANG", "C.UTF-8")
            // The listeners of the commands: a name that every machine resolves.
            .env("GLOBUS_HOSTNAME", "localhost")
            .env("X509_CERT_DIR", self.path("certificates"))
            .env("X509_USER_PROXY", self.path("proxy"))
            .stdin(Stdio::null());
        command
    }

    /// The site, as the commands name it.
    pub fn site(&self) -> String {
        format!("localhost:{}", self.port)
    }

    pub fn service(&self, service: &str) -> String {
        format!("localhost:{}/{service}", self.port)
    }

    /// Runs a command, whatever comes.
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, name: &str, args: I) -> Output {
        finish(&mut self.tool(name, args))
    }

    /// Runs a command, demands success, gives stdout.
    #[track_caller]
    pub fn ok<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, name: &str, args: I) -> String {
        let output = self.run(name, args);
        assert!(
            output.status.success(),
            "{name}: {}\n{}",
            told(&output),
            self.log()
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// `globusrun` with a request to the site.
    pub fn globusrun(&self, options: &[&str], rsl: &str) -> Output {
        let site = self.site();
        let mut arguments = options.to_vec();
        arguments.extend(["-r", &site, rsl]);
        self.run("globusrun", arguments)
    }

    /// The contact that a command printed.
    #[track_caller]
    pub fn contact(output: &Output) -> String {
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.starts_with("https://"));
        line.unwrap_or_else(|| panic!("no contact: {}", told(output)))
            .to_owned()
    }

    /// The end of the site's log, for a failed assertion.
    pub fn log(&self) -> String {
        let log =
            std::fs::read_to_string(self.person.kumiko_home().join("site.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// The site again, on its port.
    pub fn start_site_again(&self) {
        self.person.ok([
            "site",
            "start",
            "--listen",
            &format!("127.0.0.1:{}", self.port),
        ]);
    }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let uid = status
        .lines()
        .find(|line| line.starts_with("Uid:"))
        .unwrap();
    uid.split_whitespace().nth(2) == Some("0")
}
