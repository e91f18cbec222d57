//! The contract of mechanisms, duty by duty. Every case is run with no sandbox at all first, so that it is known to show
//! what it is about.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod execute;
mod follow;
mod life;
mod starts;
mod view;
mod walls;

use common::*;
use kumiko_policy::{Policy, parse};
use std::process::Command;

/// The names of the host in a case: files and directories that exist before it.
const HOST: [(&str, &str); 12] = [
    ("unlisted", "x"),
    ("real/file", "content"),
    ("real/sub/file", "deeper"),
    ("real/closed/key", "secret"),
    ("real/closed.txt", "secret"),
    ("real/gone/key", "secret"),
    ("real/gone/kept/file", "kept"),
    ("real/gone.txt", "secret"),
    ("rw/file", "content"),
    ("temp/file", "content"),
    ("work/x", "x"),
    ("script", "#!/no/such/interpreter\n"),
];

/// A shell script, and what it prints with no sandbox and as a guest; `{dir}` is the case's own directory.
#[derive(Debug)]
pub struct Case {
    pub duty: u32,
    /// TOML over the default policy's, as a site's.
    pub policy: &'static str,
    pub script: &'static str,
    pub native: &'static str,
    pub guest: &'static str,
}

pub fn check(test: &str, cases: &[Case]) {
    let Some(_) = machine(test) else { return };
    for case in cases {
        let host = Scratch::new();
        for (name, content) in HOST {
            host.put(name, content);
        }
        host.put("job/", "");
        let fill = |text: &str| text.replace("{dir}", host.0.to_str().unwrap());
        let native = Command::new("/bin/sh")
            .args(["-c", &fill(case.script)])
            .current_dir(host.0.join("job"))
            .output()
            .unwrap();
        let native = String::from_utf8_lossy(&native.stdout).trim().to_owned();
        assert_eq!(
            native,
            fill(case.native),
            "duty {} with no sandbox: {}",
            case.duty,
            case.script
        );
        // Again from the start: the script may have changed things.
        let host = Scratch::new();
        for (name, content) in HOST {
            host.put(name, content);
        }
        host.put("job/", "");
        let fill = |text: &str| text.replace("{dir}", host.0.to_str().unwrap());
        let policy = site(&fill(case.policy));
        let got = shell(&policy, &host.0.join("job"), &fill(case.script));
        let (out, script) = (got.stdout.trim(), case.script);
        assert_eq!(
            out,
            fill(case.guest),
            "duty {}: {script}\nstderr: {}",
            case.duty,
            got.stderr
        );
    }
}

/// A site's policy: the default one, and these rules of its own.
pub fn site(text: &str) -> Policy {
    let own = parse(text, "site policy").unwrap();
    let mut policy = Policy::default();
    policy
        .paths
        .retain(|rule| own.paths.iter().all(|other| other.path != rule.path));
    policy.paths.extend(own.paths);
    policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
    policy.network = own.network.or(policy.network);
    policy.further_processes = own.further_processes.or(policy.further_processes);
    policy
}

pub const YES_NO: &str = " >/dev/null 2>&1 && echo yes || echo no";

pub fn executable(path: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The other tests under another mechanism.
fn again(test: &str, mechanism: &str) {
    if std::env::var_os("KUMIKO_MECHANISM").is_some() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--skip", "inner_"])
        .env("KUMIKO_MECHANISM", mechanism)
        .output()
        .unwrap();
    passed_on(&output, test);
}

fn passed_on(output: &std::process::Output, test: &str) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    errors
        .lines()
        .filter(|line| line.starts_with("SKIP "))
        .for_each(|line| eprintln!("{line}"));
    assert!(output.status.success(), "{test}: {text}\n{errors}");
}

#[test]
fn all_of_it_holds_under_notify() {
    again("all_of_it_holds_under_notify", "notify");
}

#[test]
fn all_of_it_holds_under_library() {
    again("all_of_it_holds_under_library", "library");
}

#[test]
fn all_of_it_holds_under_ptrace() {
    again("all_of_it_holds_under_ptrace", "ptrace");
}

/// But for what a filter alone gives (P94).
#[test]
fn all_of_it_holds_for_guests_that_are_dumped() {
    again("all_of_it_holds_for_guests_that_are_dumped", DUMPED);
}

/// The other tests, as an account that is not root, where they ran as root.
#[test]
fn all_of_it_holds_for_an_ordinary_account() {
    if !kumiko_linux::is_root() || std::env::var_os("KUMIKO_INNER").is_some() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.path("tests");
    // By another process: a descriptor for writing that some fork of this one holds would make the copy busy.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    executable(&program);
    std::fs::set_permissions(
        &scratch.0,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let output = Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            &program,
        ])
        .args(["--skip", "all_of_it_holds", "--skip", "inner_"])
        .env("KUMIKO_MECHANISM", mechanism())
        .current_dir("/")
        .output();
    match output {
        Ok(output) => passed_on(&output, "all_of_it_holds_for_an_ordinary_account"),
        Err(error) => {
            eprintln!("SKIP all_of_it_holds_for_an_ordinary_account: missing setpriv ({error})")
        }
    }
}
