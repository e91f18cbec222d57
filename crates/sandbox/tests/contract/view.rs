//! Duties 1 and 2: what is shown, and what can be done with it.

use crate::common::*;
use crate::{Case, check, site};
use kumiko_policy::{Policy, narrow, parse};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_guest_sees_what_the_policy_shows_and_nothing_else() {
    let row = |policy, script, native, guest| Case {
        duty: 1,
        policy,
        script,
        native,
        guest,
    };
    check(
        "a_guest_sees_what_the_policy_shows_and_nothing_else",
        &[
            row(
                "",
                "test -e {dir}/unlisted && echo there || echo absent",
                "there",
                "absent",
            ),
            row("", "pwd", "{dir}/job", "/job"),
            row("", "echo x >made; cat made", "x", "x"),
            row(
                "[paths]\n'{dir}/map' = {access='read', real='{dir}/real'}",
                "cat {dir}/map/sub/file || echo none",
                "none",
                "deeper",
            ),
            row(
                "[paths]\n'/etc/passwd' = {access='read', real='{dir}/real/file'}",
                "head -c5 /etc/passwd",
                "root:",
                "conte",
            ),
            row(
                "[paths]\n'/new/deep/place' = {access='read', real='{dir}/real'}",
                "cat /new/deep/place/file || echo none",
                "none",
                "content",
            ),
            row(
                "[paths]\n'/a/b' = {access='read', real='{dir}/real'}\n'/a/b/sub' = {access='read', real='{dir}/rw'}",
                "cat /a/b/sub/file || echo none",
                "none",
                "content",
            ),
            row(
                "[paths]\n'{dir}/none' = {access='read', optional=true}",
                "test -e {dir}/none && echo there || echo absent",
                "absent",
                "absent",
            ),
            row(
                "[paths]\n'/dev/mapped' = {access='write', real='/dev/null'}",
                "test -c /dev/mapped && echo x >/dev/mapped && echo device",
                "",
                "device",
            ),
            row(
                "[paths]\n'/tmp/in/temp' = {access='read', real='{dir}/real'}",
                "cat /tmp/in/temp/file || echo none",
                "none",
                "content",
            ),
            row(
                "[paths]\n'/' = 'read'\n'/tmp' = 'read'\n'{dir}/temp' = 'temporary'",
                "cat {dir}/real/file; echo; ls {dir}/temp; ls / | grep -c '^job$'",
                "content\nfile\n0",
                "content\n1",
            ),
        ],
    );
}

#[test]
fn what_is_read_only_stays_as_it_is() {
    let row = |script, native, guest| Case {
        duty: 2,
        policy: "[paths]\n'{dir}/real' = 'read'",
        script,
        native,
        guest,
    };
    check(
        "what_is_read_only_stays_as_it_is",
        &[
            row("cat {dir}/real/file", "content", "content"),
            row(
                "(echo y >{dir}/real/file) 2>/dev/null; cat {dir}/real/file",
                "y",
                "content",
            ),
            row(
                "(echo y >{dir}/real/new) 2>/dev/null; test -e {dir}/real/new && echo made || echo refused",
                "made",
                "refused",
            ),
            row(
                "rm {dir}/real/file 2>/dev/null; ls {dir}/real | grep -c '^file$'",
                "0",
                "1",
            ),
            row(
                "mv {dir}/real/file {dir}/real/f2 2>/dev/null; ls {dir}/real | grep -c '^file$'",
                "0",
                "1",
            ),
            row(
                "mkdir {dir}/real/d 2>/dev/null && echo made || echo refused",
                "made",
                "refused",
            ),
            row(
                "ln -s x {dir}/real/l 2>/dev/null && echo made || echo refused",
                "made",
                "refused",
            ),
            row(
                "ln {dir}/real/file {dir}/real/l 2>/dev/null && echo made || echo refused",
                "made",
                "refused",
            ),
            row(
                "chmod 777 {dir}/real/file 2>/dev/null && echo done || echo refused",
                "done",
                "refused",
            ),
            row(
                "touch -d 2001-01-01 {dir}/real/file 2>/dev/null && echo done || echo refused",
                "done",
                "refused",
            ),
            row(
                "truncate -s 0 {dir}/real/file 2>/dev/null && echo done || echo refused",
                "done",
                "refused",
            ),
            // By way of a descriptor that was opened to read, and of the process's own root.
            row(
                "exec 9<{dir}/real/file; (echo y >/proc/self/fd/9) 2>/dev/null; cat {dir}/real/file",
                "y",
                "content",
            ),
            row(
                "(echo y >/proc/self/root{dir}/real/file) 2>/dev/null; cat {dir}/real/file",
                "y",
                "content",
            ),
        ],
    );
}

#[test]
fn what_is_writable_is_the_real_thing() {
    let row = |policy, script, guest| Case {
        duty: 2,
        policy,
        script,
        native: guest,
        guest,
    };
    check(
        "what_is_writable_is_the_real_thing",
        &[
            row(
                "[paths]\n'{dir}/rw' = 'write'",
                "echo y >{dir}/rw/file; cat {dir}/rw/file",
                "y",
            ),
            row(
                "[paths]\n'{dir}/rw' = 'write'",
                "rm {dir}/rw/file && ls {dir}/rw",
                "",
            ),
        ],
    );
}

#[test]
fn what_is_denied_cannot_be_opened() {
    let policy = "[paths]\n'{dir}/real' = 'read'\n'{dir}/real/closed' = 'denied'\n'{dir}/real/closed.txt' = 'denied'\n\
                  '{dir}/rw' = 'write'\n'{dir}/rw/file' = 'denied'\n'{dir}/unlisted' = 'denied'";
    let row = |script, native, guest| Case {
        duty: 2,
        policy,
        script,
        native,
        guest,
    };
    check(
        "what_is_denied_cannot_be_opened",
        &[
            row(
                "cat {dir}/real/closed/key 2>/dev/null || echo refused",
                "secret",
                "refused",
            ),
            row(
                "ls {dir}/real/closed 2>/dev/null || echo refused",
                "key",
                "refused",
            ),
            row(
                "cat {dir}/real/closed.txt 2>/dev/null || echo refused",
                "secret",
                "refused",
            ),
            row(
                "test -e {dir}/real/closed.txt && echo there",
                "there",
                "there",
            ),
            row(
                "cd {dir}/real/closed 2>/dev/null && echo in || echo refused",
                "in",
                "refused",
            ),
            row(
                "chmod 777 {dir}/real/closed 2>/dev/null; cat {dir}/real/closed/key 2>/dev/null || echo refused",
                "secret",
                "refused",
            ),
            row(
                "rm {dir}/rw/file 2>/dev/null && echo gone || echo refused",
                "gone",
                "refused",
            ),
            row(
                "mv {dir}/rw/file {dir}/rw/f2 2>/dev/null && echo moved || echo refused",
                "moved",
                "refused",
            ),
            row(
                "mv {dir}/rw {dir}/rw2 2>/dev/null && echo moved || echo refused",
                "moved",
                "refused",
            ),
            row(
                "cat {dir}/unlisted 2>/dev/null || echo refused",
                "x",
                "refused",
            ),
        ],
    );
}

#[test]
fn what_is_hidden_cannot_be_seen() {
    let policy = "[paths]\n'{dir}/real' = 'read'\n'{dir}/real/gone' = 'hidden'\n'{dir}/real/gone.txt' = 'hidden'\n\
                  '{dir}/real/gone/kept' = 'read'\n'{dir}/unlisted' = 'hidden'\n'{dir}/real/closed' = 'hidden'\n\
                  '{dir}/real/never/was' = 'hidden'";
    let row = |script, native, guest| Case {
        duty: 2,
        policy,
        script,
        native,
        guest,
    };
    check(
        "what_is_hidden_cannot_be_seen",
        &[
            row("ls {dir}/real/gone", "kept\nkey", "kept"),
            row("cat {dir}/real/gone/kept/file", "kept", "kept"),
            row("ls {dir}/real/closed", "key", ""),
            row("cat {dir}/real/gone.txt", "secret", ""),
            row(
                "test -e {dir}/unlisted && echo there || echo absent",
                "there",
                "absent",
            ),
            row(
                "(echo x >{dir}/real/gone/new) 2>/dev/null && echo made || echo refused",
                "made",
                "refused",
            ),
            row(
                "chmod 777 {dir}/real/closed 2>/dev/null && echo done || echo refused",
                "done",
                "refused",
            ),
        ],
    );
}

#[test]
fn a_temporary_place_is_empty_and_the_guests_own() {
    let policy = "[paths]\n'{dir}/temp' = 'temporary'\n'/small' = {access='temporary', size_mib=1}";
    let row = |script, native, guest| Case {
        duty: 2,
        policy,
        script,
        native,
        guest,
    };
    check(
        "a_temporary_place_is_empty_and_the_guests_own",
        &[
            row(
                "ls {dir}/temp; echo y >{dir}/temp/z && cat {dir}/temp/z",
                "file\ny",
                "y",
            ),
            row(
                "head -c 2000000 /dev/zero >/small/f 2>/dev/null && echo fits || echo full",
                "full",
                "full",
            ),
            row(
                "head -c 900000 /dev/zero 2>/dev/null >/small/f && echo fits || echo full",
                "full",
                "fits",
            ),
        ]
        .into_iter()
        .filter(|case| has_namespaces() || !case.script.contains("/small"))
        .collect::<Vec<_>>(),
    );
}

#[test]
fn figure_2_runs_as_a_job_of_the_default_site() {
    let Some(_) = machine("figure_2_runs_as_a_job_of_the_default_site") else {
        return;
    };
    let text = include_str!("../../../../spec/policy/vectors/valid/figure2.policy");
    let policy = narrow(&Policy::default(), &parse(text, "figure 2").unwrap()).unwrap();
    let job = Scratch::new();
    let got = shell(
        &policy,
        &job.0,
        "cmp /etc/passwd /etc/hosts && ls /usr/lib >/dev/null && echo mapped",
    );
    assert_eq!(got.stdout.trim(), "mapped", "{}", got.stderr);
}

#[test]
fn a_job_maps_its_own_directory_and_follows_no_link_out_of_it() {
    let Some(_) = machine("a_job_maps_its_own_directory_and_follows_no_link_out_of_it") else {
        return;
    };
    let host = Scratch::new();
    host.put("job/work/file", "mine");
    host.put("secret/key", "secret");
    let secret = host.path("secret");
    std::os::unix::fs::symlink(&secret, host.path("job/link")).unwrap();
    std::os::unix::fs::symlink("..", host.path("job/up")).unwrap();
    let job = host.0.join("job");
    let mapped = |real: &str| {
        let below = parse(
            &format!("[paths]\n'/m' = {{access='write', real='{real}'}}"),
            "job policy",
        )
        .unwrap();
        narrow(&Policy::default(), &below).unwrap()
    };
    assert_eq!(
        shell(&mapped("/job/work"), &job, "cat /m/file; echo new >/m/out").stdout,
        "mine"
    );
    assert_eq!(
        std::fs::read_to_string(job.join("work/out")).unwrap(),
        "new\n"
    );
    for real in ["/job/link", "/job/link/key", "/job/up", "/job/up/secret"] {
        let Err(error) = room(&mapped(real), &job)
            .and_then(|mut room| run(&mut *room, "true", &[], &[]).map(drop))
        else {
            panic!("{real} was mapped");
        };
        assert_eq!(error.code(), "mapping_symbolic_link", "{real}: {error}");
    }
}

#[test]
fn a_policy_may_be_long() {
    let Some(_) = machine("a_policy_may_be_long") else {
        return;
    };
    let host = Scratch::new();
    host.put("job/", "");
    let real = host.put("real/file", "x");
    let rules: String = (0..900)
        .map(|number| format!("'/m/{number}' = {{ access = 'read', real = '{real}' }}\n"))
        .collect();
    let policy = crate::site(&format!("[paths]\n{rules}"));
    let got = shell(&policy, &host.0.join("job"), "cat /m/* | wc -c; ulimit -n");
    let limit = Command::new("sh")
        .args(["-c", "ulimit -n"])
        .output()
        .unwrap();
    let limit = String::from_utf8_lossy(&limit.stdout).into_owned();
    assert_eq!(got.stdout, format!("900\n{limit}"), "{}", got.stderr);
}

/// As an account is added on the host, which replaces /etc/group.
#[test]
fn what_is_replaced_all_the_time_keeps_no_guest_from_starting() {
    let Some(_) = machine("what_is_replaced_all_the_time_keeps_no_guest_from_starting") else {
        return;
    };
    let host = Scratch::new();
    host.put("job/", "");
    let (file, next) = (host.put("real/file", ""), host.put("real/next", ""));
    let dir = host.path("real");
    let policy = site(&format!("[paths]\n'{dir}' = 'read'\n'{file}' = 'hidden'"));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::fs::write(&next, "").unwrap();
                std::fs::rename(&next, &file).unwrap();
            }
        });
        let start = || {
            let mut room = room(&policy, &host.0.join("job"))?;
            run(&mut *room, "/bin/true", &[], &[])
        };
        let failed = (0..50).find_map(|_| start().err());
        is_over.store(true, Ordering::Relaxed);
        assert!(failed.is_none(), "{}", failed.unwrap());
    });
}
