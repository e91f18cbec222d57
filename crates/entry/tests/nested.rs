//! One `sandbox run` in another (spec/policy, P93): each mechanism within each runs, or says which could.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_policy::MechanismKind;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use tempfile::NamedTempFile;

/// A policy by which a guest finds this program.
fn shown() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    let program = env!("CARGO_BIN_EXE_kumiko-entry");
    writeln!(
        file,
        "[paths]\n'/kumiko' = {{ access = 'read', real = '{program}' }}"
    )
    .unwrap();
    file
}

fn nested(shown: &NamedTempFile, outer: &str, inner: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kumiko-entry"));
    command
        .args(["sandbox", "run", "--mechanism", outer, "--site-policy"])
        .arg(shown.path())
        .args(["--", "/kumiko", "sandbox", "run", "--mechanism", inner])
        .args(["--", "sh", "-c", "echo in $HOME; test ! -e /kumiko"])
        .stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn each_mechanism_within_each_runs_or_says_which_could() {
    let machine = kumiko_sandbox::Machine::probe();
    let shown = shown();
    let inners = ["namespace", "notify", "ptrace", "library", "auto"];
    for outer in ["namespace", "notify", "ptrace", "library"] {
        if let Err(why) = machine.admits(MechanismKind::from_name(outer).unwrap()) {
            eprintln!(
                "SKIP each_mechanism_within_each_runs_or_says_which_could: missing {outer} ({})",
                why.why
            );
            continue;
        }
        for inner in inners {
            let got = nested(&shown, outer, inner);
            let told = String::from_utf8_lossy(&got.stderr);
            let what = format!("{inner} in {outer}: {told}");
            if outer == "namespace" && inner != "namespace" {
                assert_eq!(got.status.code(), Some(0), "{what}");
                assert_eq!(String::from_utf8_lossy(&got.stdout), "in /job\n", "{what}");
            } else {
                assert_eq!(got.status.code(), Some(125), "{what}");
                assert!(got.stdout.is_empty(), "{what}");
                let words = "within namespace there can be notify, ptrace and library";
                assert!(told.contains(words), "{what}");
            }
        }
    }
}
