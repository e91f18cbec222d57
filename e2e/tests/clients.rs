//! Clients that are not ours: curl, openssl, grid-proxy-init.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{Person, finish, has_program, skip, told, until};
use std::process::Stdio;

fn base(person: &Person) -> String {
    let contact = std::fs::read_to_string(person.kumiko_home().join("contact.toml")).unwrap();
    let port = contact
        .lines()
        .find_map(|l| l.strip_prefix("port = "))
        .unwrap();
    format!("https://localhost:{port}")
}

#[test]
fn curl_submits_watches_and_reads_with_a_proxy_certificate() {
    if !has_program("curl") {
        return skip(
            "curl_submits_watches_and_reads_with_a_proxy_certificate",
            "curl",
        );
    }
    let person = Person::with_site();
    let home = person.kumiko_home();
    let user = |name: &str| home.join("user").join(name).display().to_string();
    person.ok([
        "identity",
        "proxy",
        "--cert",
        &user("usercert.pem"),
        "--key",
        &user("userkey.pem"),
        "--out",
        "proxy.pem",
    ]);
    let ca = std::fs::read_dir(home.join("certificates"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.extension().is_some_and(|e| e == "0"))
        .unwrap();
    for version in ["--http1.1", "--http2"] {
        let curl = |more: &[&str], path: &str| {
            let mut command = person.program(
                "curl",
                [
                    "-sS",
                    "--fail-with-body",
                    version,
                    "--cert",
                    "proxy.pem",
                    "--key",
                    "proxy.pem",
                ],
            );
            command
                .arg("--cacert")
                .arg(&ca)
                .args(more)
                .arg(format!("{}{path}", base(&person)));
            let output = finish(command.stdin(Stdio::null()));
            assert!(output.status.success(), "{path}: {}", told(&output));
            String::from_utf8(output.stdout).unwrap()
        };
        let description = r#"{"executable":"sh","arguments":["-c","echo over http; exit 3"]}"#;
        let made: serde_json::Value = serde_json::from_str(&curl(
            &["-H", "content-type: application/json", "-d", description],
            "/v1/jobs",
        ))
        .unwrap();
        let id = made["job"].as_u64().unwrap();
        assert_eq!(curl(&[], &format!("/v1/jobs/{id}/stdout")), "over http\n");
        let view: serde_json::Value =
            serde_json::from_str(&curl(&[], &format!("/v1/jobs/{id}"))).unwrap();
        assert_eq!(view["outcome"]["exited"]["status"], 3, "{view}");
        assert!(curl(&[], "/metrics").contains("kumiko_"), "metrics");
        curl(&["-X", "DELETE"], &format!("/v1/jobs/{id}"));
    }
}

#[test]
fn a_stranger_without_a_certificate_gets_nothing() {
    if !has_program("curl") {
        return skip("a_stranger_without_a_certificate_gets_nothing", "curl");
    }
    let person = Person::with_site();
    let output = finish(
        person
            .program("curl", ["-sk", &format!("{}/v1/jobs", base(&person))])
            .stdin(Stdio::null()),
    );
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{}",
        told(&output)
    );
    person.ok(["job", "list"]); // and the site still serves
}

#[test]
fn a_proxy_made_by_globus_is_let_in() {
    if !has_program("grid-proxy-init") {
        return skip(
            "a_proxy_made_by_globus_is_let_in",
            "grid-proxy-init (Debian package globus-proxy-utils)",
        );
    }
    let person = Person::with_site();
    let home = person.kumiko_home();
    // It signs as its issuer did, so an RSA key needs an RSA authority: a VO's, which the site comes to trust.
    let trust = home.join("certificates").display().to_string();
    person.ok([
        "identity",
        "init-ca",
        "vo",
        "--rsa",
        "--subject",
        "/O=Test/OU=vo/CN=VO CA",
    ]);
    person.ok(["identity", "trust", "vo", "--directory", &trust]);
    let subject = "/O=Test/OU=vo/CN=Alice Tester";
    person.ok([
        "identity",
        "request",
        "--rsa",
        "--subject",
        subject,
        "--key",
        "key.pem",
        "--out",
        "request.pem",
    ]);
    person.ok([
        "identity",
        "issue",
        "--ca",
        "vo",
        "request.pem",
        "--out",
        "cert.pem",
    ]);
    person.ok(["site", "map", subject]);
    let made = finish(
        person
            .program(
                "grid-proxy-init",
                [
                    "-q",
                    "-out",
                    "globus.pem",
                    "-cert",
                    "cert.pem",
                    "-key",
                    "key.pem",
                    "-certdir",
                ],
            )
            .arg(home.join("certificates"))
            .stdin(Stdio::null()),
    );
    assert!(made.status.success(), "{}", told(&made));
    let contact = std::fs::read_to_string(home.join("contact.toml")).unwrap();
    let port = contact
        .lines()
        .find_map(|l| l.strip_prefix("port = "))
        .unwrap()
        .to_owned();
    let run = || {
        finish(
            person
                .kumiko([
                    "job",
                    "run",
                    "--site",
                    &format!("localhost:{port}"),
                    "--",
                    "echo",
                    "in",
                ])
                .env("X509_USER_PROXY", person.home.path().join("globus.pem"))
                .env("X509_CERT_DIR", &trust)
                .stdin(Stdio::null()),
        )
    };
    until("the site has seen the new authority and mapping", || {
        run().status.success()
    });
    let output = run();
    assert_eq!(output.stdout, b"in\n", "{}", told(&output));
}
