//! globus-job-submit and its companions, and globusrun's options for jobs that run without it, unmodified, against a site
//! of ours (spec/gram).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::globus::GlobusUser;
use kumiko_e2e::{told, until};
use std::process::{Output, Stdio};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn status(user: &GlobusUser, contact: &str) -> String {
    user.ok("globus-job-status", [contact]).trim().to_owned()
}

#[test]
fn a_job_is_submitted_asked_after_its_output_fetched_and_cleaned_away() {
    let Some(user) =
        GlobusUser::new("a_job_is_submitted_asked_after_its_output_fetched_and_cleaned_away")
    else {
        return;
    };
    let site = user.site();
    let contact = user
        .ok(
            "globus-job-submit",
            [&site, "/bin/sh", "-c", "echo out; echo more; echo err >&2"],
        )
        .trim()
        .to_owned();
    assert!(contact.starts_with("https://localhost:"), "{contact}");
    until("it is done", || status(&user, &contact) == "DONE");
    let output = |options: &[&str]| {
        let arguments = [&["-r", &site], options, &[&contact]].concat();
        user.ok("globus-job-get-output", arguments)
    };
    assert_eq!(output(&[]), "out\nmore\n");
    assert_eq!(output(&["-err"]), "err\n");
    assert_eq!(output(&["-t", "1"]), "more\n");
    let clean = user.ok("globus-job-clean", ["-f", "-r", &site, &contact]);
    assert!(clean.contains("Cleanup successful"), "{clean}");
    let gone = user.run("globus-job-get-output", ["-r", &site, &contact]);
    assert_eq!(stdout(&gone), "", "{}", told(&gone));
}

#[test]
fn a_job_is_cancelled_by_its_contact_and_by_nobody_else() {
    let Some(user) = GlobusUser::new("a_job_is_cancelled_by_its_contact_and_by_nobody_else") else {
        return;
    };
    let site = user.site();
    let contact = user
        .ok("globus-job-submit", [&site, "/bin/sleep", "600"])
        .trim()
        .to_owned();
    until("it runs", || status(&user, &contact) == "ACTIVE");
    // Somebody else with a certificate of the same authority.
    user.certify("other", "/O=kumiko/CN=Other");
    user.proxy("other", &[]);
    for arguments in [["-k", &contact], ["-status", &contact]] {
        let refused = user.run("globusrun", arguments);
        assert!(!stdout(&refused).contains("ACTIVE"), "{}", told(&refused));
    }
    user.proxy("user", &[]);
    assert_eq!(status(&user, &contact), "ACTIVE");
    user.ok("globus-job-cancel", ["-f", &contact]);
    until("it has failed", || status(&user, &contact) == "FAILED");
}

#[test]
fn globusrun_leaves_jobs_alone_asks_after_them_and_ends_them() {
    let Some(user) = GlobusUser::new("globusrun_leaves_jobs_alone_asks_after_them_and_ends_them")
    else {
        return;
    };
    let sleep = "&(executable=/bin/sleep)(arguments=600)";
    for batch in [&["-b"][..], &["-b", "-F"][..]] {
        let submitted = user.globusrun(batch, sleep);
        assert!(submitted.status.success(), "{}", told(&submitted));
        let contact = GlobusUser::contact(&submitted);
        until("it runs", || {
            user.ok("globusrun", ["-status", &contact])
                .contains("ACTIVE")
        });
        user.ok("globusrun", ["-refresh-proxy", &contact]);
        user.ok("globusrun", ["-stop-manager", &contact]);
        assert!(
            user.ok("globusrun", ["-status", &contact])
                .contains("ACTIVE")
        );
        user.ok("globusrun", ["-k", &contact]);
        assert!(
            user.ok("globusrun", ["-status", &contact])
                .contains("FAILED")
        );
    }
}

#[test]
fn a_job_waits_for_its_commit_and_fails_without_one() {
    let Some(user) = GlobusUser::new("a_job_waits_for_its_commit_and_fails_without_one") else {
        return;
    };
    let done = user.globusrun(
        &[],
        "&(executable=/bin/sh)(arguments=-c \"exit 3\")(two_phase=20)",
    );
    assert!(stdout(&done).contains("exit code: 3"), "{}", told(&done));
    let jobs = |name: &str| user.person.ok(["job", "list"]).contains(name);
    until("its end is committed, and it is gone", || !jobs("/bin/sh"));
}

#[test]
fn a_restart_tells_a_new_client_of_an_old_job() {
    let Some(user) = GlobusUser::new("a_restart_tells_a_new_client_of_an_old_job") else {
        return;
    };
    let wait = "&(executable=/bin/sh)(arguments=-c \"until test -e go; do sleep 0.02; done; exit 5\")(save_state=yes)";
    let contact = GlobusUser::contact(&user.globusrun(&["-b"], wait));
    // The site dies and comes back; the job and its contact are the same.
    user.person.kill_site();
    user.start_site_again();
    assert!(
        user.ok("globusrun", ["-status", &contact])
            .contains("ACTIVE")
    );
    let site = user.site();
    let rsl = format!("&(restart={contact})");
    let client = user
        .tool("globusrun", ["-r", &site, &rsl])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let directory = user.person.kumiko_home().join("state/jobs");
    for job in std::fs::read_dir(directory).unwrap() {
        std::fs::write(job.unwrap().path().join("go"), "").unwrap();
    }
    let output = kumiko_e2e::collect(client);
    assert!(
        stdout(&output).contains("exit code: 5"),
        "{}\n{}",
        told(&output),
        user.log()
    );
    let none = user.globusrun(&[], "&(restart=https://localhost:1/16/17/)");
    assert!(told(&none).contains("(error code 121)"), "{}", told(&none));
}

#[test]
fn a_job_is_told_of_its_clients_server_and_of_the_next_one() {
    let Some(user) = GlobusUser::new("a_job_is_told_of_its_clients_server_and_of_the_next_one")
    else {
        return;
    };
    let reads = "read url < $GLOBUS_REMOTE_IO_URL; echo $url; \
        until test $url = https://h:2; do sleep 0.02; read url < $GLOBUS_REMOTE_IO_URL; done; echo $url";
    let rsl = format!(
        "&(executable=/bin/sh)(arguments=-c '{reads}')(remote_io_url=https://h:1)(stdout=out)"
    );
    let contact = GlobusUser::contact(&user.globusrun(&["-b"], &rsl));
    let jobs = user.person.kumiko_home().join("state/jobs");
    let out = || {
        let job = std::fs::read_dir(&jobs).unwrap().next();
        job.map_or_else(String::new, |job| {
            std::fs::read_to_string(job.unwrap().path().join("out")).unwrap_or_default()
        })
    };
    until("it has read the first", || out() == "https://h:1\n");
    let moved = user.globusrun(
        &[],
        &format!("&(restart={contact})(remote_io_url=https://h:2)"),
    );
    assert!(moved.status.success(), "{}", told(&moved));
    until("it has read the second", || {
        out() == "https://h:1\nhttps://h:2\n"
    });
}

#[test]
fn a_job_may_have_a_cache_of_its_own() {
    let Some(user) = GlobusUser::new("a_job_may_have_a_cache_of_its_own") else {
        return;
    };
    std::fs::write(user.path("shared"), "shared").unwrap();
    user.own();
    let url = format!("$(GLOBUSRUN_GASS_URL) # {}", user.path("shared").display());
    let rsl = format!(
        "&(executable=/bin/sh)(arguments=-c 'cat one; cat its/entries/*/data')(gass_cache=its)\
         (file_stage_in_shared=({url} one))(stdout=$(GLOBUSRUN_GASS_URL)#/dev/stdout)"
    );
    let output = user.globusrun(&["-s"], &rsl);
    assert_eq!(stdout(&output), "sharedshared", "{}", told(&output));
    let kind = user.globusrun(&[], "&(executable=/bin/true)(job_type=condor)");
    assert!(told(&kind).contains("(error code 26)"), "{}", told(&kind));
}

#[test]
fn a_waiting_client_hears_of_the_end_though_the_site_was_killed() {
    let Some(user) =
        GlobusUser::new("a_waiting_client_hears_of_the_end_though_the_site_was_killed")
    else {
        return;
    };
    let site = user.site();
    let rsl = "&(executable=/bin/sh)(arguments=-c \"touch up; until test -e go; do sleep 0.02; done; exit 6\")";
    let told_to = user.person.kumiko_home().join("told");
    let file = std::fs::File::create(&told_to).unwrap();
    let mut client = user
        .tool("stdbuf", ["-oL", "globusrun", "-r", &site, rsl])
        .stderr(file.try_clone().unwrap())
        .stdout(file)
        .spawn()
        .unwrap();
    let directory = user.person.kumiko_home().join("state/jobs");
    let job = || {
        let mut found = std::fs::read_dir(&directory).ok()?;
        found.next().map(|entry| entry.unwrap().path())
    };
    let told = || std::fs::read_to_string(&told_to).unwrap();
    until("it runs, and the client knows it", || {
        job().is_some_and(|job| job.join("up").exists()) && told().contains("ACTIVE")
    });
    user.person.kill_site();
    std::fs::write(job().unwrap().join("go"), "").unwrap();
    user.start_site_again();
    until("the client ends", || client.try_wait().unwrap().is_some());
    let (told, log) = (told(), user.log());
    assert!(told.contains("exit code: 6"), "{told}\n{log}");
}

#[test]
fn whoever_is_not_known_or_shows_a_limited_proxy_is_refused_in_grams_words() {
    let Some(user) =
        GlobusUser::new("whoever_is_not_known_or_shows_a_limited_proxy_is_refused_in_grams_words")
    else {
        return;
    };
    let job = "&(executable=/bin/true)";
    user.proxy("user", &["-limited"]);
    let limited = user.globusrun(&[], job);
    assert!(
        told(&limited).contains("(error code 7)"),
        "{}",
        told(&limited)
    );
    user.certify("other", "/O=kumiko/CN=Other");
    user.proxy("other", &[]);
    let unknown = user.globusrun(&[], job);
    assert!(
        told(&unknown).contains("(error code 7)"),
        "{}",
        told(&unknown)
    );
    let site = user.site();
    let ping = user.run("globusrun", ["-a", "-r", &site]);
    assert!(!ping.status.success(), "{}", told(&ping));
}
