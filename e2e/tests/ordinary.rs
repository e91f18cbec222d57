//! What an account without any privilege has: all of a session, each mechanism by the policy of the paper, and as many
//! threads as it may have.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{adversity::text, finish, has_program, skip, told};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Output, Stdio};

/// As an account without any privilege; run by root, who can become one.
#[test]
fn an_ordinary_account_has_all_of_a_session() {
    let test = "an_ordinary_account_has_all_of_a_session";
    let Some(nobody) = Nobody::new(test, NOBODY) else {
        return; // all the other tests show it then
    };
    let session = nobody.runs(SESSION);
    assert!(session.status.success(), "{}", told(&session));
    assert_eq!(
        text(&session.stdout).lines().last(),
        Some("all of it"),
        "{}",
        told(&session)
    );
}

/// Paper 000, figure 2, as printed but for its type: the first is as printed.
#[test]
fn an_ordinary_account_sees_what_figure_2_says_under_each_mechanism() {
    let test = "an_ordinary_account_sees_what_figure_2_says_under_each_mechanism";
    let Some(nobody) = Nobody::new(test, NOBODY) else {
        return; // that of guests.rs shows it then
    };
    let hosts = std::fs::read("/etc/hosts").unwrap();
    for kind in ["1(ptrace)", "2(notify)", "3(library)", "4(namespace)"] {
        let policy = FIGURE_2.replace("1(ptrace)", kind);
        std::fs::write(nobody.home.join("paper.policy"), policy).unwrap();
        let seen = nobody.runs("kumiko sandbox run --policy paper.policy -- cat /etc/passwd");
        if text(&seen.stderr).contains("cannot be used on this machine") {
            skip(test, &format!("what {kind} needs"));
            continue;
        }
        assert!(seen.status.success(), "{kind}: {}", told(&seen));
        assert_eq!(seen.stdout, hosts, "{kind}");
    }
}

/// Threads of a guest that open a pipe that has no other end. The program tells how many came to have it open when it had
/// one, and whether some were refused before.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#define COUNT 60
static atomic_int all_there, asked, refused, opened, wrong, has_end;
static void *opens(void *unused) {
  while (!all_there) usleep(1000); // who waits in their place takes of the same number
  asked++;
  while (open("pipe", O_WRONLY) < 0) {
    if (errno != EAGAIN) return wrong = errno, NULL;
    for (refused++; !has_end;) usleep(1000);
  }
  return opened++, NULL;
}
int main(void) {
  pthread_t threads[COUNT];
  struct stat about;
  mkfifo("pipe", 0600);
  for (int i = 0; i < COUNT; i++)
    if (pthread_create(&threads[i], 0, opens, 0)) return 1;
  all_there = 1;
  for (int i = 0; i < 200 && (asked < COUNT || !refused); i++) usleep(10000);
  int some = refused > 0, served = !stat("pipe", &about) && open("a", O_RDONLY) >= 0;
  open("pipe", O_RDWR | O_NONBLOCK);
  has_end = 1;
  for (int i = 0; i < COUNT; i++) pthread_join(threads[i], 0);
  printf("%d opened, %d wrong, refused %d, served %d\n", opened, wrong, some, served);
}
"#;

/// By an account that may have no more than so many threads: a supervisor takes two for each that waits.
#[test]
fn of_more_pipes_that_are_opened_at_once_than_a_supervisor_can_wait_for_some_are_refused() {
    let test =
        "of_more_pipes_that_are_opened_at_once_than_a_supervisor_can_wait_for_some_are_refused";
    let missing = ["gcc", "prlimit"]
        .into_iter()
        .find(|name| !has_program(name));
    if let Some(missing) = missing {
        return skip(test, missing);
    }
    let Some(nobody) = Nobody::new(test, ALONE) else {
        return; // whoever is root is held to no number
    };
    let code = nobody.home.join("a.c");
    std::fs::write(&code, WAITS).unwrap();
    let made = nobody.runs("gcc -pthread -o a a.c");
    assert!(made.status.success(), "{}", told(&made));
    let check = |mechanism: Option<&str>, refused: u32| {
        let run = mechanism.map_or(String::new(), |mechanism| {
            format!("kumiko sandbox run --mechanism {mechanism} --dir . --")
        });
        let told_by = nobody.runs(&format!("rm -f pipe; exec prlimit --nproc=120 {run} ./a"));
        if text(&told_by.stderr).contains("cannot be used on this machine") {
            return skip(test, &format!("what {mechanism:?} needs"));
        }
        let expected = format!("60 opened, 0 wrong, refused {refused}, served 1\n");
        assert_eq!(
            text(&told_by.stdout),
            expected,
            "{mechanism:?}: {}",
            told(&told_by)
        );
    };
    check(None, 0);
    // A guest waits by itself.
    check(Some("namespace"), 0);
    check(Some("ptrace"), 0);
    // A supervisor waits in its place (P18).
    check(Some("notify"), 1);
    check(Some("library"), 1);
}

const NOBODY: u32 = 65534;

/// Nothing else runs as this one, so that its threads can be counted.
const ALONE: u32 = 64_977;

const FIGURE_2: &str = include_str!("../../spec/policy/vectors/valid/figure2.policy");

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

/// An account without any privilege, its home, and the programs where it can reach them.
struct Nobody {
    account: u32,
    place: tempfile::TempDir,
    home: PathBuf,
}

impl Nobody {
    /// None: whoever runs this cannot become another, or has no program to do so with, which is said.
    fn new(test: &str, account: u32) -> Option<Nobody> {
        let place = tempfile::Builder::new()
            .prefix("kumiko-nobody-")
            .tempdir()
            .unwrap();
        if std::fs::metadata(place.path()).unwrap().uid() != 0 {
            return None;
        }
        if !has_program("setpriv") {
            skip(test, "setpriv");
            return None;
        }
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
        std::os::unix::fs::chown(&home, Some(account), Some(account)).unwrap();
        Some(Nobody {
            account,
            place,
            home,
        })
    }

    fn runs(&self, script: &str) -> Output {
        let ids = self.account.to_string();
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid", &ids, "--regid", &ids, "--clear-groups"]);
        command.args(["sh", "-c", script]);
        let programs = self.place.path().join("bin");
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
        command.env_clear().current_dir(&self.home);
        command
            .env("PATH", path)
            .env("HOME", &self.home)
            .env("KUMIKO_HOME", self.home.join("kumiko"))
            .env("LANG", "C.UTF-8");
        finish(command.stdin(Stdio::null()))
    }
}
