//! Each way of not starting has a name of its own, and what is named is what was wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::*;
use kumiko_policy::{MechanismKind, Policy, parse};
use kumiko_sandbox::{Launch, Machine, Obstacle, SandboxError, Streams, choose};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

fn over_default(text: &str) -> Policy {
    let own = parse(text, "site policy").unwrap();
    let mut policy = Policy::default();
    policy.paths.extend(own.paths);
    policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
    policy
}

fn start(
    policy: &Policy,
    job: &std::path::Path,
    program: &str,
    argument: &str,
    directory: Option<&str>,
) -> Result<(), SandboxError> {
    let null = File::open("/dev/null").unwrap();
    let arguments = [argument.to_owned()];
    let mut room = room(policy, job)?;
    let mut guest = room.start(&Launch {
        program,
        arguments: &arguments,
        environment: &[],
        directory,
        streams: Streams::Given {
            stdin: null.as_fd(),
            stdout: null.as_fd(),
            stderr: null.as_fd(),
        },
    })?;
    wait(&mut guest);
    Ok(())
}

#[test]
fn what_cannot_be_launched_is_told_apart() {
    let Some(_) = machine("what_cannot_be_launched_is_told_apart") else {
        return;
    };
    let job = Scratch::new();
    for (name, text, mode) in [
        ("plain", "echo x", 0o644),
        ("text", "echo x", 0o755),
        ("orphan", "#!/no/such/interpreter\n", 0o755),
        ("script", "#!/bin/sh\n", 0o755),
        ("sub/script", "#!/bin/sh\n", 0o755),
        ("empty/x", "", 0o644),
    ] {
        let path = job.put(name, text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let check = |program: &str, directory: Option<&str>, code: &str, status: i32| {
        let error = start(&Policy::default(), &job.0, program, "", directory).unwrap_err();
        assert_eq!(
            (error.code(), error.exit_status()),
            (code, status),
            "{program}: {error}"
        );
        let named = directory.unwrap_or(program);
        assert!(error.to_string().contains(named), "{error}");
    };
    check("no-such-program", None, "no_such_executable", 127);
    check("/job/nothing", None, "no_such_executable", 127);
    check("./script/x", None, "no_such_executable", 127);
    check("/root/bin/x", None, "no_such_executable", 127);
    check("", None, "no_such_executable", 127);
    check("/job/plain", None, "not_executable", 126);
    check("/job/text", None, "not_executable", 126);
    check("/job/sub", None, "not_executable", 126);
    check("/job/orphan", None, "no_interpreter", 126);
    check("true", Some("/nowhere"), "no_such_directory", 125);
    check("true", Some("nowhere"), "no_such_directory", 125);
    check("true", Some("script"), "no_such_directory", 125);
    let ok = |program: &str, directory: Option<&str>| {
        start(&Policy::default(), &job.0, program, "", directory).unwrap()
    };
    ok("true", None);
    ok("./script", None);
    ok("./script", Some("sub"));
    ok("sub/script", Some("/job"));
    let error = start(&Policy::default(), &job.0, "true", "a\0b", None).unwrap_err();
    assert_eq!(error.code(), "zero_byte");
    let error = start(
        &Policy::default(),
        &job.0,
        "true",
        &"x".repeat(200_000),
        None,
    )
    .unwrap_err();
    assert_eq!(error.code(), "arguments_too_long", "{error}");
}

#[test]
fn what_cannot_be_mapped_is_told_apart() {
    let Some(_) = machine("what_cannot_be_mapped_is_told_apart") else {
        return;
    };
    let host = Scratch::new();
    host.put("job/", "");
    host.put("real/file", "x");
    std::os::unix::fs::symlink("file", host.path("real/link")).unwrap();
    let check = |text: &str, code: &str, line: &str| {
        let text = text.replace("{dir}", host.0.to_str().unwrap());
        let error = start(&over_default(&text), &host.0.join("job"), "true", "", None).unwrap_err();
        assert_eq!(error.code(), code, "{text}: {error}");
        assert!(error.to_string().contains(line), "{error}");
    };
    check(
        "[paths]\n'/x' = {access='read', real='{dir}/none'}",
        "mapping_real_path",
        "site policy line 2",
    );
    check(
        "[paths]\n'/usr/no/place' = {access='read', real='{dir}/real'}",
        "mapping_no_place",
        "site policy line 2",
    );
    check(
        "[paths]\n'/usr/bin' = {access='read', real='{dir}/real/file'}",
        "mapping_no_place",
        "line 2",
    );
    check(
        "[paths]\n'{dir}/real' = 'write'\n'{dir}/real/none' = 'denied'",
        "mapping_no_place",
        "line 3",
    );
    check(
        "[paths]\n'{dir}/real' = 'read'\n'{dir}/real/link' = 'hidden'",
        "mapping_no_place",
        "line 3",
    );
    check(
        "[paths]\n'/x' = 'denied'\n'/x/y' = {access='read', real='{dir}/real'}",
        "mapping_no_place",
        "line 3",
    );
    let error = start(
        &Policy::default(),
        &host.0.join("nowhere"),
        "true",
        "",
        None,
    )
    .unwrap_err();
    assert_eq!(error.code(), "job_directory");
    let error = start(
        &Policy::default(),
        &host.0.join("real/file"),
        "true",
        "",
        None,
    )
    .unwrap_err();
    assert_eq!(error.code(), "job_directory");
}

#[test]
fn a_mechanism_is_chosen_or_its_absence_explained() {
    let fine = Machine::assume();
    let obstacle = || {
        Err(Obstacle {
            why: "switched off".to_owned(),
            remedy: "switch it on".to_owned(),
        })
    };
    let open = Machine {
        filters: Ok(()),
        user_namespaces: obstacle(),
        supervision: Ok(()),
        left_out: Vec::new(),
    };
    let unfiltered = Machine {
        filters: obstacle(),
        ..fine.clone()
    };
    let closed = Machine {
        supervision: obstacle(),
        ..open.clone()
    };
    let check =
        |text: &str, wanted: Option<&str>, machine: &Machine, expected: Result<&str, &str>| {
            let policy = parse(text, "policy").unwrap();
            let choice = choose(&policy, wanted, machine);
            let got = choice
                .as_ref()
                .map(|choice| choice.mechanism)
                .map_err(SandboxError::code);
            assert_eq!(got, expected, "{text} {wanted:?}");
        };
    let figure2 = include_str!("../../../spec/policy/vectors/valid/figure2.policy");
    check("", None, &fine, Ok("namespace"));
    check("", Some("auto"), &fine, Ok("namespace"));
    check("", Some("namespace"), &fine, Ok("namespace"));
    check("", Some("ptrace"), &fine, Ok("ptrace"));
    check("mechanism = 'notify'", None, &fine, Ok("notify"));
    check("", Some("library"), &fine, Ok("library"));
    check("", None, &open, Ok("notify"));
    check("complete = false", None, &open, Ok("library"));
    check("complete = false\nstrict = true", None, &open, Ok("notify"));
    let traced = open.clone().without(MechanismKind::Notify);
    check("", None, &traced, Ok("ptrace"));
    check("complete = false", None, &traced, Ok("ptrace"));
    check("", Some("notify"), &traced, Err("mechanism_unavailable"));
    let allow = "network = { access = 'host', allow = ['192.0.2.1:80'] }";
    check(allow, None, &fine, Ok("notify"));
    for limiter in ["limiter = 'deadline'", "limiter = 'paper'"] {
        let fence = format!("complete = false\n{limiter}");
        check(&fence, None, &fine, Ok("library"));
        check(limiter, Some("library"), &fine, Ok("library"));
        for mechanism in [None, Some("namespace"), Some("notify"), Some("ptrace")] {
            check(limiter, mechanism, &fine, Err("policy_not_enforceable"));
        }
    }
    check("limiter = 'outside'", None, &fine, Ok("namespace"));
    check("", None, &unfiltered, Err("mechanism_unavailable"));
    check("", Some("ptrace"), &closed, Err("mechanism_unavailable"));
    check("", Some("magic"), &fine, Err("no_such_mechanism"));
    check("", None, &closed, Err("user_namespaces_not_permitted"));
    check(figure2, None, &fine, Ok("ptrace"));
    check(figure2, Some("namespace"), &fine, Ok("namespace"));
    check("mechanism = 'library'", None, &fine, Ok("library"));
    check(
        "strict = true",
        Some("library"),
        &fine,
        Err("policy_not_enforceable"),
    );
    check("strict = true", None, &fine, Ok("namespace"));
    check(
        "strict = true\nlimits = { memory_mib = 5 }",
        None,
        &fine,
        Ok("namespace"),
    );
    check(
        "strict = true\nlimits = { network_kbyte_s = 5 }",
        None,
        &fine,
        Err("policy_not_enforceable"),
    );
    check(
        "strict = true\nnetwork = 'none'\nlimits = { network_kbyte_s = 5 }",
        None,
        &fine,
        Ok("namespace"),
    );
    let choice = choose(&parse(figure2, "policy").unwrap(), Some("namespace"), &fine).unwrap();
    assert_eq!(
        choice.not_enforced,
        [
            "of the network limit of 30 KByte/s: what is not TCP, what a connection sends in its first 20 ms"
        ]
    );
    let text = "network = 'none'\n[paths]\n'/t' = { access = 'temporary', size_mib = 5 }";
    let choice = choose(&parse(text, "policy").unwrap(), Some("notify"), &fine).unwrap();
    assert_eq!(
        choice.not_enforced,
        [
            "size of 5 MiB of the temporary /t",
            "a loopback of its own (there is no network at all)"
        ]
    );
}
