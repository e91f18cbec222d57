//! A program of C, natively and as a guest under each mechanism.

use super::*;
use kumiko_policy::{Policy, parse};
use std::process::Command;

pub const MECHANISMS: [&str; 4] = ["namespace", "library", "notify", "ptrace"];

/// The default policy, with a directory of the case shown.
pub fn policy(scratch: &Scratch, more: &str) -> Policy {
    let text = format!("[paths]\n'{}' = 'read'\n{more}", scratch.path("shown"));
    let mut policy = Policy::default();
    policy.paths.extend(parse(&text, "case").unwrap().paths);
    policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
    policy
}

pub fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.put("shown/file", "shown");
    scratch.put("shown/open/key", "shown");
    scratch.put("shown/shut/key", "secret");
    scratch.put("other/open/key", "secret");
    scratch.put("other/file", "secret");
    scratch.put("shown/longer", "of another length");
    scratch.put("job/", "");
    scratch
}

/// What a program of C prints, natively and under each mechanism.
pub fn check(test: &str, source: &str, more: &str, native: &str, guest: &str) {
    for mechanism in MECHANISMS {
        check_under(mechanism, test, source, more, Some(native), guest);
    }
}

/// `native`: None where there is nothing to attack with no sandbox. Gives the directory, for a look at what became of it.
pub fn check_under(
    mechanism: &str,
    test: &str,
    source: &str,
    more: &str,
    native: Option<&str>,
    guest: &str,
) -> Option<Scratch> {
    check_where(mechanism, test, source, more, native, guest, |_| {})
}

/// `begin`: what is there besides, as long as what it gives is kept.
pub fn check_where<T>(
    mechanism: &str,
    test: &str,
    source: &str,
    more: &str,
    native: Option<&str>,
    guest: &str,
    begin: impl FnOnce(&Scratch) -> T,
) -> Option<Scratch> {
    machine_for(test, mechanism)?;
    let scratch = scratch();
    let _kept = begin(&scratch);
    let fill = |text: &str| text.replace("{dir}", scratch.0.to_str().unwrap());
    let program = compiled(test, &scratch, &fill(source))?;
    if let Some(native) = native {
        let got = Command::new(&program)
            .arg("until it succeeds")
            .current_dir(scratch.0.join("job"))
            .output()
            .unwrap();
        let got = String::from_utf8_lossy(&got.stdout).into_owned();
        assert_eq!(got, native, "{test} with no sandbox");
    }
    let policy = policy(&scratch, &fill(more));
    let mut room = room_under(mechanism, &policy, &scratch.0.join("job")).unwrap();
    let got = run(&mut *room, "/job/a", &[], &[]).unwrap();
    let what = format!("{test} under {mechanism}: {:?} {}", got.ended, got.stderr);
    assert_eq!(got.stdout, guest, "{what}");
    Some(scratch)
}
