//! REST by the real curl, over HTTP/1.1 and HTTP/2 (spec/rest).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Site;
use kumiko_testkit::{Ca, Process, has_program, skip};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// curl as a user has it, with a proxy file.
struct Curl {
    site: Site,
    proxy: std::path::PathBuf,
    ca_file: std::path::PathBuf,
    version: &'static str,
}

/// Status, and the body.
struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }
    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

impl Curl {
    /// None: this machine has no curl.
    async fn start(test: &str, version: &'static str) -> Option<Curl> {
        if !has_program("curl") {
            skip(test, "curl");
            return None;
        }
        let site = Site::start().await;
        let proxy = site.ca.save(&site.ca.proxy(&site.alice), "proxy.pem");
        let ca_file = ca_file(&site.ca.trust_dir());
        Some(Curl {
            site,
            proxy,
            ca_file,
            version,
        })
    }

    fn command(&self, path: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("curl");
        command
            .args(["-sS", "--max-time", "30", self.version, "--cert"])
            .arg(&self.proxy)
            .arg("--key")
            .arg(&self.proxy)
            .arg("--cacert")
            .arg(&self.ca_file)
            .args(arguments)
            .arg(format!(
                "https://localhost:{}{path}",
                self.site.address.port()
            ));
        command
    }

    async fn ask(&self, path: &str, arguments: &[&str]) -> Answer {
        let mut command = self.command(path, &["-w", "\n%{http_code}"]);
        command.args(arguments).stdin(Stdio::null());
        let out = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        let end = out.stdout.iter().rposition(|b| *b == b'\n').unwrap();
        let status = String::from_utf8_lossy(&out.stdout[end + 1..])
            .parse()
            .unwrap();
        Answer {
            status,
            body: out.stdout[..end].to_vec(),
        }
    }

    async fn submit(&self, description: Value) -> u64 {
        let answer = self
            .ask("/v1/jobs", &["--json", &description.to_string()])
            .await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["job"].as_u64().unwrap()
    }
}

fn ca_file(trust: &Path) -> std::path::PathBuf {
    std::fs::read_dir(trust)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|e| e == "0"))
        .unwrap()
}

async fn the_whole_life_of_a_job(test: &str, version: &'static str) {
    let Some(curl) = Curl::start(test, version).await else {
        return;
    };
    let site = curl.ask("/v1/site", &[]).await;
    assert_eq!(site.json()["account"], "alice");
    let said = json!({"executable": "say", "arguments": ["hello"]});
    let job = curl.submit(said.clone()).await;
    let view = curl.ask(&format!("/v1/jobs/{job}"), &[]).await.json();
    assert_eq!(
        (&view["state"], &view["outcome"]),
        (&json!("done"), &json!({"exited": {"status": 0}}))
    );
    assert_eq!(
        curl.ask(&format!("/v1/jobs/{job}/stdout"), &[])
            .await
            .text(),
        "hello"
    );
    assert_eq!(
        curl.ask(&format!("/v1/jobs/{job}/stdout?from=3"), &[])
            .await
            .text(),
        "lo"
    );
    assert_eq!(
        curl.ask(&format!("/v1/jobs/{job}/stderr"), &[])
            .await
            .text(),
        "said"
    );
    assert_eq!(
        curl.ask("/v1/jobs", &[])
            .await
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        curl.ask(&format!("/v1/jobs/{job}/explain"), &[])
            .await
            .json()[0],
        "submitted"
    );

    let again = ["--json", &said.to_string(), "-H", "Idempotency-Key: k1"].map(str::to_owned);
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let first = curl.ask("/v1/jobs", &again).await.json();
    assert_eq!(curl.ask("/v1/jobs", &again).await.json(), first);

    let deaf = curl.submit(json!({"executable": "deaf"})).await;
    let answer = curl
        .ask(&format!("/v1/jobs/{deaf}"), &["-X", "DELETE"])
        .await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (409, &json!("job_live"))
    );
    let answer = curl
        .ask(
            &format!("/v1/jobs/{deaf}/signal"),
            &["--json", "{\"signal\": 12}"],
        )
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        curl.site
            .jobs
            .with(kumiko_job::id::JobId(deaf), |j| j.signals.clone()),
        [12]
    );
    let limits = ["--json", "{\"network_kbyte_s\": 10000}"];
    let answer = curl.ask(&format!("/v1/jobs/{deaf}/limits"), &limits).await;
    assert_eq!((answer.status, answer.json()), (200, json!({})));
    let asked = curl
        .site
        .jobs
        .with(kumiko_job::id::JobId(deaf), |j| j.limits.clone());
    let rates: Vec<_> = asked.iter().map(|limits| limits.network_kbyte_s).collect();
    assert_eq!(rates, [Some(10_000)]);
    let policy = ["--json", "{\"policy\": \"paths.'/data' = 'hidden'\"}"];
    let answer = curl.ask(&format!("/v1/jobs/{deaf}/policy"), &policy).await;
    assert_eq!((answer.status, answer.json()), (200, json!({})));
    let policy = ["--json", "{\"policy\": \"network.deny = ['192.0.2.9']\"}"];
    let answer = curl.ask(&format!("/v1/jobs/{deaf}/policy"), &policy).await;
    let not = json!({ "not_followed": ["addresses"] });
    assert_eq!((answer.status, answer.json()), (200, not));
    let asked = curl
        .site
        .jobs
        .with(kumiko_job::id::JobId(deaf), |j| j.policies.clone());
    assert_eq!(
        asked,
        ["paths.'/data' = 'hidden'", "network.deny = ['192.0.2.9']"]
    );
    for how in [&["-X", "POST"][..], &["--json", "{\"to\": \"n2\"}"]] {
        let answer = curl.ask(&format!("/v1/jobs/{deaf}/migrate"), how).await;
        assert_eq!((answer.status, answer.json()), (200, json!({})));
    }
    let moves = curl
        .site
        .jobs
        .with(kumiko_job::id::JobId(deaf), |j| j.moves.clone());
    assert_eq!(moves, [None, Some("n2".to_owned())]);
    let mut events = curl.command(
        &format!("/v1/jobs/{deaf}/events?after=1"),
        &["-N", "-H", "Accept: text/event-stream"],
    );
    let mut events = Process::start(&mut events);
    events.line_with("id: 2");
    events.line_with("event: started");
    assert_eq!(
        curl.ask(&format!("/v1/jobs/{deaf}/cancel"), &["-X", "POST"])
            .await
            .status,
        200
    );
    assert!(events.line_with("data: ").contains("\"number\":2"));
    assert!(events.line_with("data: ").contains("\"cancelled\""));
    assert_eq!(
        curl.ask(&format!("/v1/jobs/{deaf}"), &["-X", "DELETE"])
            .await
            .status,
        200
    );
    assert!(events.wait().success(), "events end with the job's removal");

    let metrics = curl.ask("/metrics", &[]).await.text();
    assert!(
        metrics.contains("\nkumiko_output_bytes_total 11\n"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_lives_its_whole_life_over_http_1() {
    the_whole_life_of_a_job("a_job_lives_its_whole_life_over_http_1", "--http1.1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_lives_its_whole_life_over_http_2() {
    the_whole_life_of_a_job("a_job_lives_its_whole_life_over_http_2", "--http2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_has_a_status_and_a_code() {
    let Some(curl) = Curl::start("what_is_wrong_has_a_status_and_a_code", "--http1.1").await else {
        return;
    };
    let job = curl.submit(json!({"executable": "true"})).await;
    std::fs::write(curl.site.jobs.dir.path().join(format!("job-{job}/r")), "r").unwrap();
    std::os::unix::fs::symlink(
        "/etc/passwd",
        curl.site.jobs.dir.path().join(format!("job-{job}/link")),
    )
    .unwrap();
    let long = format!("{{\"executable\": \"{}\"}}", "x".repeat(3 << 20));
    let long_file = curl.site.ca.dir().join("long.json");
    std::fs::write(&long_file, long).unwrap();
    let long = format!("@{}", long_file.display());
    for (path, arguments, status, code) in [
        ("/v1/nothing", vec![], 404, "no_such_resource"),
        ("/v1/jobs/99", vec![], 404, "no_such_job"),
        ("/v1/jobs/x", vec![], 400, "bad_request"),
        ("/v1/jobs", vec!["--json", "{"], 400, "bad_description"),
        (
            "/v1/jobs",
            vec!["--json", "{\"executable\": \"true\", \"tiem\": 1}"],
            400,
            "bad_description",
        ),
        (
            "/v1/jobs",
            vec!["--json", &long, "-H", "Expect:"],
            413,
            "body_too_large",
        ),
        ("/v1/jobs", vec!["-X", "PUT"], 405, "bad_method"),
        ("/v1/jobs/1/stdout?from=x", vec![], 400, "bad_request"),
        (
            "/v1/jobs/1/signal",
            vec!["--json", "{}"],
            400,
            "bad_request",
        ),
        (
            "/v1/jobs/1/limits",
            vec!["--json", "{\"net\": 1}"],
            400,
            "bad_request",
        ),
        (
            "/v1/jobs/1/migrate",
            vec!["--json", "{\"host\": \"n2\"}"],
            400,
            "bad_request",
        ),
        ("/v1/jobs/1/limits", vec!["-X", "GET"], 405, "bad_method"),
        ("/v1/jobs/1/policy", vec!["-X", "GET"], 405, "bad_method"),
        (
            "/v1/jobs/1/policy",
            vec!["--json", "{}"],
            400,
            "bad_request",
        ),
        ("/v1/jobs/1/files/none", vec![], 404, "no_such_file"),
        ("/v1/jobs/1/files/link", vec![], 404, "no_such_file"),
        (
            "/v1/jobs/1/files/%2e%2e/secret",
            vec!["--path-as-is"],
            400,
            "bad_request",
        ),
        (
            "/v1/uploads",
            vec!["--data-binary", "no tar at all"],
            400,
            "bad_archive",
        ),
    ] {
        let answer = curl.ask(path, &arguments).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (status, &json!(code)),
            "{path}: {}",
            answer.text()
        );
        assert!(answer.json()["message"].is_string());
    }
    let bob = curl.site.ca.save(&curl.site.ca.user("Bob"), "bob.pem");
    let answer = Curl { proxy: bob, ..curl }.ask("/v1/site", &[]).await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (403, &json!("not_admitted"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_go_in_and_files_come_out() {
    let Some(curl) = Curl::start("folders_go_in_and_files_come_out", "--http2").await else {
        return;
    };
    let here = tempfile::tempdir().unwrap();
    std::fs::create_dir(here.path().join("a b")).unwrap();
    std::fs::write(here.path().join("a b/é.txt"), "text").unwrap();
    std::fs::write(here.path().join("big"), vec![b'x'; 3_000_000]).unwrap();
    let archive = curl.site.ca.dir().join("in.tar");
    kumiko_testkit::run(
        Command::new("tar")
            .arg("-cf")
            .arg(&archive)
            .arg("-C")
            .arg(here.path())
            .arg("."),
    );
    let data = format!("@{}", archive.display());
    let uploaded = curl.ask("/v1/uploads", &["--data-binary", &data]).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    let uploaded = uploaded.json();
    let job = curl
        .submit(json!({"executable": "true", "input": uploaded["input"]}))
        .await;
    let listed = curl.ask(&format!("/v1/jobs/{job}/files"), &[]).await.json();
    let names: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a b", "big"]);
    assert_eq!(
        curl.ask(&format!("/v1/jobs/{job}/files/a%20b/%C3%A9.txt"), &[])
            .await
            .text(),
        "text"
    );
    assert_eq!(
        curl.ask(&format!("/v1/jobs/{job}/files/big"), &[])
            .await
            .body
            .len(),
        3_000_000
    );
    std::fs::write(
        curl.site.jobs.dir.path().join(format!("job-{job}/result")),
        "42",
    )
    .unwrap();
    let since = uploaded["mark_us"].as_u64().unwrap();
    let back = curl.site.ca.dir().join("out.tar");
    let answer = curl
        .ask(&format!("/v1/jobs/{job}/archive?since_us={since}"), &[])
        .await;
    std::fs::write(&back, &answer.body).unwrap();
    let list = kumiko_testkit::run(Command::new("tar").arg("-tf").arg(&back));
    assert_eq!(String::from_utf8_lossy(&list.stdout), "result\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_personal_ca_is_all_that_curl_needs_to_trust() {
    let Some(curl) =
        Curl::start("a_personal_ca_is_all_that_curl_needs_to_trust", "--http1.1").await
    else {
        return;
    };
    let other = Ca::with("/O=Elsewhere/CN=CA", &Default::default());
    let curl = Curl {
        ca_file: ca_file(&other.trust_dir()),
        ..curl
    };
    let mut command = curl.command("/v1/site", &[]);
    let out = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    assert_eq!(
        out.status.code(),
        Some(60),
        "curl trusts a site of an unknown CA"
    );
}
