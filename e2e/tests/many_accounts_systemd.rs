//! The site as systemd starts it: the shipped unit, under a systemd that is the first process of a tree of its own
//! (testbeds/systemd).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{finish, kumiko, skip, told, until};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What testbeds/systemd/run ends with where it cannot be had.
const NOT_HERE: i32 = 3;

/// A booted tree, with an account that the site knows.
struct Booted {
    folder: tempfile::TempDir,
}

const ENROLLED: &str = r#"
set -eu
useradd --create-home alice
subject="/O=kumiko/OU=site@$(uname -n)/CN=Alice"
cd /root
kumiko identity request --subject "$subject" --key alice.key --out alice.request
kumiko identity issue --ca /etc/kumiko/ca --out alice.pem alice.request
kumiko site map "$subject" alice
"#;

impl Booted {
    fn new(test: &str) -> Option<Booted> {
        let folder = tempfile::Builder::new()
            .prefix("kumiko-systemd-")
            .tempdir()
            .unwrap();
        let booted = Booted { folder };
        let mut up = booted.bed("up");
        let output = finish(up.arg(kumiko().parent().unwrap()));
        if output.status.code() == Some(NOT_HERE) {
            skip(test, "systemd");
            eprintln!("{}", told(&output));
            return None;
        }
        assert!(output.status.success(), "{}", told(&output));
        Some(booted)
    }

    fn bed(&self, what: &str) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut command = Command::new(root.join("testbeds/systemd/run"));
        command.arg(what).arg(self.folder.path());
        // What stays in the tree is not to hold up whoever reads this.
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, script: &str) -> Output {
        finish(self.bed("in").args(["sh", "-c", script]))
    }

    #[track_caller]
    fn ok(&self, script: &str) -> String {
        let output = self.run(script);
        let log = || {
            self.run("journalctl -u kumiko --no-pager | tail -n 50")
                .stdout
        };
        assert!(
            output.status.success(),
            "{script}: {}\n{}",
            told(&output),
            String::from_utf8_lossy(&log())
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn alices(&self, words: &str) -> Output {
        let mut command = self.bed("in");
        command.args(["env", "KUMIKO_SITE=localhost:2119"]);
        command.arg("X509_CERT_DIR=/etc/kumiko/certificates");
        command.args([
            "X509_USER_CERT=/root/alice.pem",
            "X509_USER_KEY=/root/alice.key",
        ]);
        finish(command.arg("kumiko").args(words.split_whitespace()))
    }

    /// What the site says of her second job; None: it does not answer, or it does not run.
    fn runs_since(&self) -> Option<[Value; 2]> {
        let said = self.alices("--output lines job show 2");
        let view: Value = serde_json::from_slice(&said.stdout).ok()?;
        (view["state"] == "active").then(|| ["epoch", "started_ms"].map(|name| view[name].clone()))
    }

    fn monitor(&self) -> String {
        self.ok("systemctl show --property MainPID --value kumiko")
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        // Without a panic: a failed test is to tell why it failed.
        let _ = self.bed("down").output();
    }
}

#[test]
fn under_systemd_the_site_comes_back_and_jobs_outlive_its_unit() {
    let test = "under_systemd_the_site_comes_back_and_jobs_outlive_its_unit";
    let Some(booted) = Booted::new(test) else {
        return;
    };
    let verified = booted.run("systemd-analyze verify kumiko.service");
    assert!(
        verified.status.success() && verified.stderr.is_empty(),
        "{}",
        told(&verified)
    );
    booted.ok("systemctl enable --now kumiko.service");
    until("the site is up", || {
        booted.run("kumiko site status").status.success()
    });
    booted.ok(ENROLLED);
    until("alice may come in", || {
        booted.alices("job run -- id -un").stdout == b"alice\n"
    });
    let submitted = booted.alices("job submit -- sleep 3600");
    assert_eq!(submitted.stdout, b"2\n", "{}", told(&submitted));
    until("her job runs", || booted.runs_since().is_some());
    let since = booted.runs_since();

    // What the unit leaves to root, and what the front has of it.
    let first = booted.monitor();
    let of =
        |pid: &str, line: &str| booted.ok(&format!("sed -n 's/^{line}:\\t//p' /proc/{pid}/status"));
    // setuid, setgid, chown, kill, net_bind_service (capabilities(7)).
    assert_eq!(of(&first, "CapBnd"), "00000000000004e1");
    let front = booted.ok("pgrep -u kumiko -f ' front$'");
    assert_eq!(of(&front, "CapEff"), "0000000000000000");
    // Her processes are in a control group of their own, below the unit's.
    let job = booted.ok("pgrep -u alice -x sleep");
    let group = booted.ok(&format!("cat /proc/{job}/cgroup"));
    assert!(group.ends_with("/kumiko.service/kumiko-alice"), "{group}");

    booted.ok(&format!("kill -KILL {first}"));
    until("the site is there again", || booted.runs_since().is_some());
    assert_ne!(booted.monitor(), first);
    assert_eq!(booted.runs_since(), since, "it was not started anew");
    booted.ok("systemctl restart kumiko");
    until("the site is there again", || booted.runs_since().is_some());
    assert_eq!(booted.runs_since(), since, "it was not started anew");
    booted.ok("systemctl stop kumiko");
    assert!(
        !booted.run("pgrep -u kumiko").status.success(),
        "the front has ended"
    );
    assert_eq!(booted.ok("pgrep -u alice -x sleep"), job, "the job goes on");
    booted.ok("systemctl start kumiko");
    until("the site is there again", || booted.runs_since().is_some());
    assert_eq!(booted.runs_since(), since, "it was not started anew");
    let cancelled = booted.alices("job cancel 2");
    assert!(cancelled.status.success(), "{}", told(&cancelled));
    until("it has ended", || {
        !booted.run("pgrep -u alice -x sleep").status.success()
    });
}
