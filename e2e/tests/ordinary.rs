//! All of a session, as an account without any privilege.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{adversity::text, finish, has_program, skip, told};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Output, Stdio};

/// As an account without any privilege; run by root, who can become one.
#[test]
fn an_ordinary_account_has_all_of_a_session() {
    let test = "an_ordinary_account_has_all_of_a_session";
    let place = tempfile::Builder::new()
        .prefix("kumiko-nobody-")
        .tempdir()
        .unwrap();
    if std::fs::metadata(place.path()).unwrap().uid() != 0 {
        return; // all the other tests show it then
    }
    if !has_program("setpriv") {
        return skip(test, "setpriv");
    }
    // Where another account can reach it.
    let programs = place.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    for name in ["kumiko", "kumiko-grid", "kumiko-run"] {
        let built = kumiko_e2e::kumiko().with_file_name(name);
        // What cargo itself leaves is one program.
        if name != "kumiko-grid" || built.exists() {
            std::fs::copy(built, programs.join(name)).unwrap();
        }
    }
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let home = place.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    let session = session_of_nobody(&programs, &home, SESSION);
    assert!(session.status.success(), "{}", told(&session));
    assert_eq!(
        text(&session.stdout).lines().last(),
        Some("all of it"),
        "{}",
        told(&session)
    );
}

const NOBODY: u32 = 65534;

const SESSION: &str = r#"
set -eu
trap 'kumiko job cancel all --grace 0 >/dev/null 2>&1; kumiko site stop >/dev/null 2>&1' EXIT
kumiko site start --listen 127.0.0.1:0 >&2
test "$(kumiko job run -- id -u)" = 65534
test "$(kumiko job run -- sh -c 'echo $((6 * 7))')" = 42
test "$(echo both ways | kumiko exec local -- cat)" = "both ways"
kumiko exec -t local -- test -t 0
mkdir work; echo 20 > work/in
kumiko job run --dir work -- sh -c 'echo $(($(cat in) + 1)) > out'
test "$(cat work/out)" = 21
job=$(kumiko job submit -- sh -c 'echo begun; sleep 600')
until kumiko job log --follow=no $job | grep -q begun; do :; done
kill -9 $(sed 's/.*"pid": *\([0-9]*\).*/\1/' $KUMIKO_HOME/run/site.json)
kumiko site start --listen 127.0.0.1:0 >&2
kumiko job list | grep -q active
kumiko job cancel --grace 50ms $job
! kumiko job wait $job
kumiko job show $job | grep -q cancelled
kumiko sandbox run -- true
! kumiko job run -- cat $KUMIKO_HOME/user/userkey.pem
kumiko identity show $KUMIKO_HOME/user/usercert.pem >&2
echo "all of it"
"#;

fn session_of_nobody(programs: &Path, home: &Path, script: &str) -> Output {
    let ids = NOBODY.to_string();
    let mut command = std::process::Command::new("setpriv");
    command.args([
        "--reuid",
        &ids,
        "--regid",
        &ids,
        "--clear-groups",
        "sh",
        "-c",
        script,
    ]);
    command.env_clear().current_dir(home);
    command.env(
        "PATH",
        format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()),
    );
    command
        .env("HOME", home)
        .env("KUMIKO_HOME", home.join("kumiko"))
        .env("LANG", "C.UTF-8");
    finish(command.stdin(Stdio::null()))
}
