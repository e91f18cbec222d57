//! Files by which a guest, or whoever sends a folder, means harm: read, sent and brought back without leaving the place
//! they belong to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::adversity::{Rest, compiled, serves, text};
use kumiko_e2e::{Person, finish, has_program, skip, told, until};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

#[test]
fn links_pipes_and_devices_that_a_job_plants_lead_nowhere() {
    let person = Person::with_site();
    person.file("secret", "the owner's");
    let home = person.home.path().display().to_string();
    let job = person.ok([
        "job",
        "submit",
        "--",
        "sh",
        "-c",
        &format!("ln -s {home}/secret out; ln -s {home} up; ln -s /etc etc; mkfifo pipe; mkdir sub; echo in > sub/in; ln -s ../../.. sub/up; echo ok > plain"),
    ]);
    let job = job.trim();
    person.ok(["job", "wait", job]);
    person.ok(["job", "fetch", job, "--into", "got"]);
    let got = person.home.path().join("got");
    assert_eq!(std::fs::read_to_string(got.join("plain")).unwrap(), "ok\n");
    assert_eq!(std::fs::read_to_string(got.join("sub/in")).unwrap(), "in\n");
    assert!(
        std::fs::symlink_metadata(got.join("out"))
            .unwrap()
            .is_symlink(),
        "a link comes as a link"
    );
    assert!(!got.join("pipe").exists(), "a pipe stays there");
    if !has_program("curl") {
        return skip(
            "links_pipes_and_devices_that_a_job_plants_lead_nowhere (by REST)",
            "curl",
        );
    }
    let rest = Rest::new(&person);
    assert_eq!(
        rest.get(&format!("/v1/jobs/{job}/files/sub/in")),
        (200, b"in\n".to_vec())
    );
    for path in [
        "out",
        "up/secret",
        "etc/shadow",
        "etc/passwd",
        "sub/up/events.db",
        "pipe",
        "..",
        "../work/plain",
        "%2e%2e/%2e%2e/events.db",
        "..%2f..%2fevents.db",
        "sub/../../../events.db",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "plain%00",
        "plain/x",
    ] {
        let (status, body) = rest.get(&format!("/v1/jobs/{job}/files/{path}"));
        let body = text(&body);
        assert!(
            (400..500).contains(&status) && body.contains("\"code\""),
            "{path}: {status} {body}"
        );
        assert!(
            !body.contains("root:") && !body.contains("the owner's"),
            "{path}: {body}"
        );
    }
    serves(&person);
}

/// Swaps a folder and a link to a folder outside as fast as it can.
const SWAPPER: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
  if (argc != 2 || mkdir("folder", 0755) || symlink(argv[1], "link")) return 1;
  FILE *file = fopen("folder/name", "w");
  fputs("inside", file);
  fclose(file);
  puts("swapping");
  fflush(stdout);
  for (;;) renameat2(AT_FDCWD, "folder", AT_FDCWD, "link", RENAME_EXCHANGE);
}
"#;

#[test]
fn a_folder_that_becomes_a_link_while_it_is_read_shows_nothing_outside() {
    let test = "a_folder_that_becomes_a_link_while_it_is_read_shows_nothing_outside";
    if !has_program("curl") {
        return skip(test, "curl");
    }
    let person = Person::with_site();
    let Some(folder) = compiled(test, &person, SWAPPER, "swapper") else {
        return;
    };
    person.file("outside/name", "OUTSIDE");
    let outside = person.home.path().join("outside").display().to_string();
    let job = person.ok([
        "job",
        "submit",
        "--dir",
        folder.to_str().unwrap(),
        "--",
        "./swapper",
        &outside,
    ]);
    let job = job.trim();
    until("it swaps", || {
        person
            .ok(["job", "log", "--follow=no", job])
            .contains("swapping")
    });
    let rest = Rest::new(&person);
    let (mut inside, mut refused) = (0, 0);
    for _ in 0..150 {
        match rest.get(&format!("/v1/jobs/{job}/files/folder/name")) {
            (200, body) => {
                assert_eq!(text(&body), "inside");
                inside += 1;
            }
            (status, body) => {
                assert!((400..500).contains(&status), "{status} {}", text(&body));
                refused += 1;
            }
        }
    }
    eprintln!("{inside} read inside, {refused} refused");
    for number in 0..10 {
        let got = format!("got{number}");
        let output = person.run(["job", "fetch", job, "--into", &got]);
        let name = person.home.path().join(&got).join("folder/name");
        // What came as a link leads to the outside of this very machine; as a folder it must be the inside.
        let came_as_link = person.home.path().join(&got).join("folder").is_symlink();
        if !came_as_link && name.exists() {
            assert_eq!(
                std::fs::read_to_string(name).unwrap(),
                "inside",
                "{}",
                told(&output)
            );
        }
    }
    person.ok(["job", "cancel", "--grace", "0", job]);
    serves(&person);
}

#[test]
fn results_are_written_into_the_folder_and_nowhere_else() {
    let person = Person::with_site();
    person.file("kept", "mine");
    let outside = person.home.path().join("outside");
    person.file("outside/file", "mine");
    let home = person.home.path().display().to_string();
    // The folder has a link of mine, below which the job makes files; and a folder, in whose place the job puts a link.
    person.file("work/sub/file", "sent");
    symlink(&outside, person.home.path().join("work/link")).unwrap();
    let scripts = [
        format!("rm -r sub; ln -s {home} sub"),
        "rm -f link; mkdir link; echo theirs > link/file; echo theirs > link/new".to_owned(),
        format!("rm -rf sub link; ln -s {home}/kept file; ln -s {home}/outside/made made"),
        "rm -rf file made; echo theirs > file; echo theirs > made".to_owned(),
    ];
    for script in scripts {
        let output = person.run(["job", "run", "--dir", "work", "--", "sh", "-c", &script]);
        // What stands in the way is told, or replaced in the folder itself.
        assert!(
            matches!(output.status.code(), Some(0 | 125)),
            "{script}: {}",
            told(&output)
        );
        assert_eq!(
            std::fs::read_to_string(person.home.path().join("kept")).unwrap(),
            "mine",
            "{script}"
        );
        assert_eq!(
            std::fs::read_to_string(outside.join("file")).unwrap(),
            "mine",
            "{script}"
        );
        assert!(
            !outside.join("new").exists() && !outside.join("made").exists(),
            "{script}: {}",
            told(&output)
        );
    }
    let setuid = person.run([
        "job",
        "run",
        "--dir",
        "work",
        "--",
        "sh",
        "-c",
        "cp /usr/bin/env theirs; chmod 6755 theirs",
    ]);
    assert!(setuid.status.success(), "{}", told(&setuid));
    let mode = std::fs::metadata(person.home.path().join("work/theirs"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7000, 0, "no setuid bit comes back: {mode:o}");
}

#[test]
fn strange_names_go_there_and_come_back() {
    let person = Person::with_site();
    let names = [
        "a\nb",
        "-rf",
        "  ",
        "\u{1b}[31mred",
        "ünï",
        "a\\b",
        "'\"$(touch x)`",
    ];
    for name in names {
        person.file(&format!("work/{name}"), name);
    }
    let output = person.run([
        "job",
        "run",
        "--dir",
        "work",
        "--",
        "sh",
        "-c",
        "for f in ./*; do echo there >> \"$f\"; done",
    ]);
    assert!(output.status.success(), "{}", told(&output));
    for name in names {
        let came = std::fs::read_to_string(person.home.path().join("work").join(name)).unwrap();
        assert_eq!(came, format!("{name}there\n"), "{name:?}");
    }
    let job = person.ok(["job", "submit", "--", "echo", "a\nb\u{1b}]0;x\u{7}"]);
    person.run(["job", "wait", job.trim()]);
    let listed = person.ok(["job", "list"]) + &person.ok(["job", "show", job.trim()]);
    assert!(
        !listed.contains('\u{1b}') && !listed.contains('\u{7}'),
        "a list writes no control characters: {listed:?}"
    );
}

#[test]
fn archives_that_lead_out_are_refused_by_name() {
    let test = "archives_that_lead_out_are_refused_by_name";
    if !has_program("curl") || !has_program("tar") {
        return skip(test, "curl and tar");
    }
    let person = Person::with_site();
    person.file("plain", "x");
    let rest = Rest::new(&person);
    let check = |tar: &[&str], says: &str| {
        let made = finish(person.program("tar", tar).stdin(Stdio::null()));
        assert!(made.status.success(), "{}", told(&made));
        let (status, body) = rest.ask(
            &[
                "-X",
                "POST",
                "--data-binary",
                "@evil.tar",
                "-H",
                "content-type: application/x-tar",
            ],
            "/v1/uploads",
        );
        let body = text(&body);
        assert!(
            (400..500).contains(&status) && body.contains("bad_archive") && body.contains(says),
            "{tar:?}: {status} {body}"
        );
    };
    check(
        &[
            "-cPf",
            "evil.tar",
            "--transform",
            "s,plain,../plain,",
            "plain",
        ],
        "..",
    );
    check(
        &[
            "-cPf",
            "evil.tar",
            "--transform",
            "s,plain,/tmp/plain,",
            "plain",
        ],
        "absolute",
    );
    check(
        &[
            "-cPf",
            "evil.tar",
            "--transform",
            "s,plain,a/../../../plain,",
            "plain",
        ],
        "..",
    );
    let made = finish(
        person
            .program("sh", ["-c", "mkfifo pipe && ln plain hard"])
            .stdin(Stdio::null()),
    );
    assert!(made.status.success(), "{}", told(&made));
    check(&["-cf", "evil.tar", "pipe"], "pipe");
    check(&["-cf", "evil.tar", "plain", "hard"], "hard link");
    check(&["-cf", "evil.tar", "/dev/null", "-P"], "absolute");
    person.file("evil.bin", "not a tar at all");
    let (status, body) = rest.ask(&["-X", "POST", "--data-binary", "@evil.bin"], "/v1/uploads");
    assert!((400..500).contains(&status), "{status} {}", text(&body));
    let uploads = person.kumiko_home().join("state/uploads");
    until("nothing of them is left", || {
        std::fs::read_dir(&uploads).unwrap().next().is_none()
    });
    // Nor do they count: of uploads that no job has taken 64 are allowed.
    for _ in 0..70 {
        let (_, body) = rest.ask(&["-X", "POST", "--data-binary", "@evil.bin"], "/v1/uploads");
        assert!(text(&body).contains("bad_archive"), "{}", text(&body));
    }
    serves(&person);
}

#[test]
fn a_tree_too_deep_to_walk_goes_with_its_job() {
    let person = Person::with_site();
    let test = "a_tree_too_deep_to_walk_goes_with_its_job";
    let source = r#"
#include <sys/stat.h>
#include <unistd.h>
int main(void) {
  for (int i = 0; i < 1500; i++)
    if (mkdir("d", 0700) || chdir("d")) return 1;
  return chmod(".", 0);
}
"#;
    let Some(folder) = compiled(test, &person, source, "deep") else {
        return;
    };
    let output = person.run([
        "job",
        "run",
        "--dir",
        folder.to_str().unwrap(),
        "--",
        "./deep",
    ]);
    assert_eq!(
        output.status.code(),
        Some(125),
        "it cannot come back: {}",
        told(&output)
    );
    assert!(
        text(&output.stderr).contains("directories in each other"),
        "{}",
        told(&output)
    );
    person.ok(["job", "remove", "all"]);
    let jobs = person.kumiko_home().join("state/jobs");
    until("its folder is gone", || {
        std::fs::read_dir(&jobs).unwrap().next().is_none()
    });
    serves(&person);
}

#[test]
fn what_a_job_closes_to_its_owner_goes_with_it() {
    let person = Person::with_site();
    let output = person.run([
        "job",
        "run",
        "--",
        "sh",
        "-c",
        "mkdir -p a/b c; echo x > a/b/f; chmod 0 a/b/f a/b a; chmod 0500 c; chmod 0 .",
    ]);
    assert!(output.status.success(), "{}", told(&output));
    person.ok(["job", "remove", "all"]);
    let jobs = person.kumiko_home().join("state/jobs");
    until("its folder is gone", || {
        std::fs::read_dir(&jobs).unwrap().next().is_none()
    });
}
