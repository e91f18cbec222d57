//! Credentials that are given to jobs: found by the guest, renewed while it runs, gone with its end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{Person, finish, has_program, told, until};
use std::path::PathBuf;
use std::process::Stdio;

/// Runs until told.
const WAITS: &str = "until test -e go; do sleep 0.02; done";

fn directory(person: &Person, job: &str) -> PathBuf {
    person.kumiko_home().join("state/jobs").join(job)
}

/// Names of what the site keeps.
fn kept(person: &Person) -> Vec<String> {
    let entries = std::fs::read_dir(person.kumiko_home().join("state/credentials")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn subject(person: &Person, file: &PathBuf) -> String {
    let arguments = ["x509", "-noout", "-subject", "-in"].map(Into::into);
    let output = finish(
        person
            .program("openssl", arguments.iter().chain([file]))
            .stdin(Stdio::null()),
    );
    assert!(output.status.success(), "{}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn needs_openssl(test: &str) -> bool {
    if !has_program("openssl") {
        kumiko_e2e::skip(test, "openssl");
    }
    has_program("openssl")
}

#[test]
fn a_job_finds_a_proxy_of_its_caller_and_none_is_kept_when_it_has_ended() {
    if !needs_openssl("a_job_finds_a_proxy_of_its_caller_and_none_is_kept_when_it_has_ended") {
        return;
    }
    let person = Person::with_site();
    let me = subject(&person, &person.kumiko_home().join("user/usercert.pem"));
    let look = "stat -c %a $X509_USER_PROXY; openssl x509 -noout -subject -in $X509_USER_PROXY; \
                openssl x509 -noout -text -in $X509_USER_PROXY";
    for (flag, language) in [
        ("--delegate", "1.3.6.1.4.1.3536.1.1.1.9"),
        ("--delegate=full", "Inherit all"),
    ] {
        let said = person.ok(["job", "run", flag, "--", "sh", "-c", look]);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "600");
        // OpenSSL 3.0 writes "CN = x", later ones "CN=x".
        let plain = |name: &str| name.replace(" = ", "=").trim().to_owned();
        assert!(
            plain(lines[1]).starts_with(&format!("{}, CN=", plain(&me))),
            "{said}\n{me}"
        );
        assert!(said.contains(language), "{said}");
    }
    until("nothing is kept", || kept(&person).is_empty());
    until("the copies are gone", || {
        ["1", "2"]
            .iter()
            .all(|job| !directory(&person, job).join(".x509_proxy").exists())
    });
    let said = person.ok([
        "job",
        "run",
        "--",
        "sh",
        "-c",
        "echo ${X509_USER_PROXY-none}",
    ]);
    assert_eq!(said, "none\n");
    let command = "openssl x509 -noout -subject -in $X509_USER_PROXY";
    let said = person.ok(["exec", "--delegate", "local", "--", "sh", "-c", command]);
    assert!(said.starts_with(me.trim()), "{said}");
    if has_program("grid-proxy-info") {
        let said = person.ok(["job", "run", "--delegate", "--", "grid-proxy-info", "-type"]);
        assert!(said.contains("RFC 3820 compliant limited proxy"), "{said}");
    }
}

#[test]
fn a_running_job_gets_a_fresh_credential_and_what_its_guest_put_there_is_not_followed() {
    if !needs_openssl(
        "a_running_job_gets_a_fresh_credential_and_what_its_guest_put_there_is_not_followed",
    ) {
        return;
    }
    let person = Person::with_site();
    let job = person.ok(["job", "submit", "--delegate", "--", "sh", "-c", WAITS]);
    let job = job.trim();
    let proxy = directory(&person, job).join(".x509_proxy");
    until("it runs", || {
        person.ok(["job", "show", job]).contains("active")
    });
    assert!(
        person
            .ok(["job", "show", job])
            .contains("credential  ends in 11 h 59 min")
    );
    let mut last = subject(&person, &proxy);
    let victim = person.file("victim", "mine");
    let plant: [(&str, &dyn Fn()); 5] = [
        ("what the site put there", &|| {}),
        ("a link", &|| {
            std::fs::remove_file(&proxy).unwrap();
            std::os::unix::fs::symlink(&victim, &proxy).unwrap();
        }),
        ("a directory with something in it", &|| {
            std::fs::remove_file(&proxy).unwrap();
            std::fs::create_dir_all(proxy.join("full")).unwrap();
        }),
        ("a fifo", &|| {
            std::fs::remove_file(&proxy).unwrap();
            let made = finish(&mut person.program("mkfifo", [&proxy]));
            assert!(made.status.success(), "{}", told(&made));
        }),
        ("nothing", &|| std::fs::remove_file(&proxy).unwrap()),
    ];
    for (what, plant) in plant {
        plant();
        person.ok(["job", "renew", job]);
        assert!(proxy.symlink_metadata().unwrap().is_file(), "{what}");
        let now = subject(&person, &proxy);
        assert_ne!(now, last, "{what}");
        last = now;
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    assert_eq!(kept(&person), [format!("job-{job}.pem")]);
    let events = person.run(["job", "explain", job]);
    let given = told(&events).matches("has a delegated credential").count();
    assert_eq!(given, 6, "{}", told(&events));

    std::fs::remove_file(&proxy).unwrap();
    std::os::unix::fs::symlink(&victim, &proxy).unwrap();
    std::fs::write(directory(&person, job).join("go"), "").unwrap();
    person.ok(["job", "wait", job]);
    until("nothing is kept", || {
        kept(&person).is_empty() && proxy.symlink_metadata().is_err()
    });
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    let late = person.run(["job", "renew", job]);
    assert_eq!(late.status.code(), Some(1));
    assert!(told(&late).contains("the job has ended"), "{}", told(&late));
}

#[test]
fn a_job_without_a_credential_cannot_be_given_one_later() {
    let person = Person::with_site();
    let job = person.ok(["job", "submit", "--", "sh", "-c", WAITS]);
    let refused = person.run(["job", "renew", job.trim()]);
    assert_eq!(refused.status.code(), Some(1));
    let said = told(&refused);
    assert!(said.contains("submitted without a credential"), "{said}");
    assert!(kept(&person).is_empty());
}

#[test]
fn a_credential_survives_kill_9_of_the_site_before_and_after_its_job_takes_it() {
    if !needs_openssl("a_credential_survives_kill_9_of_the_site_before_and_after_its_job_takes_it")
    {
        return;
    }
    let person = Person::with_site();
    let delegated = person.ok(["--output", "json", "job", "delegate"]);
    let delegated: serde_json::Value = serde_json::from_str(&delegated).unwrap();
    let name = delegated["credential"].as_str().unwrap();
    assert_eq!(kept(&person), [format!("{name}.pem")]);
    person.kill_site();
    person.start_site();
    let description = serde_json::json!({
        "executable": "sh", "arguments": ["-c", WAITS], "credential": name,
    });
    let file = person.file("job.json", &description.to_string());
    let submit = ["job", "submit", "--description", file.to_str().unwrap()];
    let job = person.ok(submit);
    let job = job.trim();
    until("it runs", || {
        person.ok(["job", "show", job]).contains("active")
    });
    let proxy = directory(&person, job).join(".x509_proxy");
    let before = subject(&person, &proxy);
    let again = person.run(submit);
    assert!(told(&again).contains("no credential"), "{}", told(&again));

    person.kill_site();
    person.start_site();
    assert_eq!(subject(&person, &proxy), before);
    assert_eq!(kept(&person), [format!("job-{job}.pem")]);
    person.ok(["job", "renew", job]);
    let renewed = subject(&person, &proxy);
    assert_ne!(renewed, before);

    person.kill_site();
    std::fs::write(directory(&person, job).join("go"), "").unwrap();
    person.start_site();
    person.ok(["job", "wait", job]);
    until("nothing is kept", || {
        kept(&person).is_empty() && !proxy.exists()
    });
}
