//! globus-job-run and globusrun, unmodified, against a site of ours (spec/gram).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::globus::GlobusUser;
use kumiko_e2e::{finish_with, told, wait};
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_site_answers_a_ping_and_says_its_version() {
    let Some(user) = GlobusUser::new("the_site_answers_a_ping_and_says_its_version") else {
        return;
    };
    let site = user.site();
    let ping = user.ok("globusrun", ["-a", "-r", &site]);
    assert!(
        ping.contains("GRAM Authentication test successful"),
        "{ping}"
    );
    let version = user.ok("globusrun", ["-j", "-r", &site]);
    assert!(version.contains("kumiko"), "{version}");
    for service in ["jobmanager", "jobmanager-fork"] {
        user.ok("globusrun", ["-a", "-r", &user.service(service)]);
    }
}

#[test]
fn a_program_runs_and_its_output_comes_to_where_it_was_asked_for() {
    let Some(user) =
        GlobusUser::new("a_program_runs_and_its_output_comes_to_where_it_was_asked_for")
    else {
        return;
    };
    let site = user.site();
    assert_eq!(
        user.ok("globus-job-run", [&site, "/bin/echo", "hello"]),
        "hello\n"
    );
    let both = user.run(
        "globus-job-run",
        [
            &site,
            "/bin/sh",
            "-c",
            "echo \"out: $1\"; echo err >&2",
            "sh",
            "two  blanks 'and' \"quotes\"",
        ],
    );
    assert_eq!(
        stdout(&both),
        "out: two  blanks 'and' \"quotes\"\n",
        "{}",
        user.log()
    );
    assert_eq!(stderr(&both), "err\n");
    // More than any buffer on the way.
    let much = user.ok("globus-job-run", [&site, "/usr/bin/seq", "1", "200000"]);
    assert_eq!(much.lines().count(), 200_000);
    assert!(much.ends_with("\n200000\n"));
    let where_it_is = user.ok(
        "globus-job-run",
        [
            &site,
            "-env",
            "COLOUR=green",
            "-dir",
            "/usr",
            "/bin/sh",
            "-c",
            "echo $COLOUR; pwd; echo $GLOBUS_GRAM_JOB_CONTACT",
        ],
    );
    let lines: Vec<&str> = where_it_is.lines().collect();
    assert_eq!(&lines[..2], ["green", "/usr"]);
    assert!(lines[2].starts_with("https://localhost:"), "{}", lines[2]);
}

#[test]
fn executables_and_input_are_brought_along() {
    let Some(user) = GlobusUser::new("executables_and_input_are_brought_along") else {
        return;
    };
    std::fs::write(user.path("script"), "#!/bin/sh\necho brought; cat\n").unwrap();
    std::fs::write(user.path("input"), "by file\n").unwrap();
    user.own();
    let (script, input, site) = (user.path("script"), user.path("input"), user.site());
    let said = user.ok(
        "globus-job-run",
        [
            &site,
            "-stdin",
            "-s",
            input.to_str().unwrap(),
            "-s",
            script.to_str().unwrap(),
        ],
    );
    assert_eq!(said, "brought\nby file\n");
    let rsl = format!(
        "&(executable=/bin/cat)(arguments=there.txt)(file_stage_in=($(GLOBUSRUN_GASS_URL)#\"{0}/input\" there.txt))\
         (file_stage_out=(there.txt $(GLOBUSRUN_GASS_URL)#\"{0}/back\"))(file_clean_up=there.txt)\
         (stdout=$(GLOBUSRUN_GASS_URL)#/dev/stdout)",
        user.folder.path().display()
    );
    let staged = user.globusrun(&["-w"], &rsl);
    assert!(staged.status.success(), "{}\n{}", told(&staged), user.log());
    assert_eq!(stdout(&staged), "by file\n");
    assert_eq!(
        std::fs::read_to_string(user.path("back")).unwrap(),
        "by file\n"
    );
}

#[test]
fn what_a_job_writes_comes_while_it_runs() {
    let Some(user) = GlobusUser::new("what_a_job_writes_comes_while_it_runs") else {
        return;
    };
    let site = user.site();
    let script = "echo first; until test -e go; do sleep 0.02; done; echo second";
    let mut running = user
        .tool("globus-job-run", [&site, "/bin/sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    // It runs still: it is told to end only now.
    let directory = user.person.kumiko_home().join("state/jobs");
    let only: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(only.len(), 1);
    std::fs::write(only[0].join("go"), "").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "second");
    assert!(wait(&mut running).success());
}

#[test]
fn globusrun_tells_states_ends_and_exit_codes() {
    let Some(user) = GlobusUser::new("globusrun_tells_states_ends_and_exit_codes") else {
        return;
    };
    let exit = user.globusrun(&[], "&(executable=/bin/sh)(arguments=-c \"exit 7\")");
    assert!(stdout(&exit).contains("JOB_STATE_DONE"), "{}", told(&exit));
    assert!(stdout(&exit).contains("exit code: 7"), "{}", told(&exit));
    let rows = [
        (
            "&(executable=/nonexistent)",
            "the executable does not exist (error code 5)",
        ),
        ("&(executable=/bin/true)(nosuchattr=1)", "(error code 1)"),
        ("&(executable=/bin/true)(count>=2)", "(error code 48)"),
        ("&(arguments=a)", "(error code 81)"),
        ("&(executable=$(NOWHERE)/x)", "(error code 39)"),
        (
            "&(executable=/bin/true)(job_type=condor)",
            "(error code 26)",
        ),
        ("&(executable=/bin/true)(queue=long)", "(error code 37)"),
        (
            "&(executable=/bin/true)(project=physics)",
            "(error code 38)",
        ),
        ("&(executable=/bin/true)(host_count=2)", "(error code 35)"),
        (
            "&(executable=/bin/true)(directory=/nowhere)",
            "(error code 4)",
        ),
        (
            "&(executable=/bin/true)(stdin=$(HOME)/none)",
            "(error code 11)",
        ),
        ("&(executable=https://localhost:1/none)", "(error code 43)"),
        // The command asks for the service of that account.
        (
            "&(executable=/bin/true)(username=somebody)",
            "(error code 7)",
        ),
    ];
    for (rsl, word) in rows {
        let output = user.globusrun(&[], rsl);
        let said = told(&output);
        assert!(said.contains(word), "{rsl}: {said}\n{}", user.log());
    }
    let dry = user.globusrun(&["-dryrun"], "&(executable=/bin/true)");
    assert!(told(&dry).contains("Dryrun successful"), "{}", told(&dry));
    let service = user.service("nosuch");
    let none = user.run("globusrun", ["-r", &service, "&(executable=/bin/true)"]);
    assert!(told(&none).contains("(error code 93)"), "{}", told(&none));
}

#[test]
fn a_mechanism_can_be_named_in_rsl() {
    let Some(user) = GlobusUser::new("a_mechanism_can_be_named_in_rsl") else {
        return;
    };
    user.person.file("secret", "mine");
    let home = user.person.home.path().display().to_string();
    // Who traces it; what a guest is not to see, to change, to make; what it may.
    let script = "grep -v 'TracerPid:.0' /proc/self/status | grep -o TracerPid; test ! -e HOME/secret && ! ls HOME && \
                  ! touch /usr/x && ! unshare -U true && touch x && cat /etc/hosts >/dev/null && echo in it";
    let script = script.replace("HOME", &home);
    for (mechanism, traced) in [("namespace", ""), ("notify", ""), ("ptrace", "TracerPid\n")] {
        let rsl = format!("&(executable=/bin/sh)(arguments=-c \"{script}\")(sandbox={mechanism})");
        let named = user.globusrun(&["-o"], &rsl);
        if (told(&named) + &user.log()).contains("cannot be used on this machine") {
            eprintln!("SKIP a_mechanism_can_be_named_in_rsl: missing Landlock 6");
            continue;
        }
        let expected = format!("{traced}in it\n");
        assert_eq!(stdout(&named), expected, "{mechanism}: {}", user.log());
    }
    let wrong = user.globusrun(&["-o"], "&(executable=/bin/echo)(sandbox=chains)");
    assert!(
        told(&wrong).contains("(error code 147)"),
        "{}",
        told(&wrong)
    );
}

#[test]
fn input_of_a_terminal_is_not_the_jobs() {
    let Some(user) = GlobusUser::new("input_of_a_terminal_is_not_the_jobs") else {
        return;
    };
    let site = user.site();
    let cat = finish_with(
        &mut user.tool("globus-job-run", [&site, "/bin/cat"]),
        b"not for it\n",
    );
    assert_eq!(stdout(&cat), "", "{}", told(&cat));
}
