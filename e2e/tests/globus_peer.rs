//! Our client of GRAM against the Globus Toolkit's own gatekeeper and job manager (testbeds/globus brings them up).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_client::SiteAddress;
use kumiko_client::gram::{GramClient, GramError, Listener};
use kumiko_e2e::{skip, told};
use kumiko_identity::{Credential, TrustStore};
use kumiko_wire::gram::{Callback, GramCode, JobRequest, JobState, Query, Status};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(60);
/// What `run` ends with where the toolkit's gatekeeper cannot be brought up: no root, no packages, no mounts.
const NOT_HERE: i32 = 3;

struct Testbed {
    folder: tempfile::TempDir,
    port: u16,
    said: String,
}

fn run(what: &str, folder: &Path, port: u16) -> Command {
    // It may have to fetch packages: longer than any other step of a scenario.
    let mut command = Command::new("timeout");
    command.arg("240");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbeds/globus/run"));
    command.arg(what).arg(folder).stdin(Stdio::null());
    command
        .env("KUMIKO_BIN", kumiko_e2e::kumiko())
        .env("GLOBUS_PORT", port.to_string());
    command
}

impl Testbed {
    /// None, said: it cannot be brought up here.
    fn new(test: &str) -> Option<Testbed> {
        let folder = tempfile::Builder::new()
            .prefix("kumiko-peer-")
            .tempdir()
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let output = run("up", folder.path(), port).output().unwrap();
        if output.status.code() == Some(NOT_HERE) {
            skip(test, "globus-gatekeeper");
            return None;
        }
        let testbed = Testbed {
            folder,
            port,
            said: String::from_utf8_lossy(&output.stdout).into_owned(),
        };
        assert!(output.status.success(), "{}", told(&output));
        Some(testbed)
    }

    fn said(&self, name: &str) -> PathBuf {
        let line = self.said.lines().find_map(|line| line.strip_prefix(name));
        PathBuf::from(line.unwrap_or_else(|| panic!("no {name}in {}", self.said)))
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // A test that fails tells its own reason.
        let _ = run("down", self.folder.path(), self.port).output();
    }
}

async fn soon<T>(what: &str, work: impl Future<Output = Result<T, GramError>>) -> T {
    match tokio::time::timeout(WITHIN, work).await {
        Ok(done) => done.unwrap_or_else(|error| panic!("{what}: {error}")),
        Err(_) => panic!("not within {WITHIN:?}: {what}"),
    }
}

/// What is told until a job is over.
async fn to_the_end(listener: &Listener, contact: &str) -> Vec<Callback> {
    let mut heard = Vec::new();
    loop {
        let callback = soon("a callback", listener.next()).await;
        assert_eq!(callback.contact, contact);
        let is_end = matches!(callback.state, JobState::Done | JobState::Failed);
        heard.push(callback);
        if is_end {
            return heard;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_runs_and_cancels_jobs_at_the_toolkits_gatekeeper() {
    let test = "our_client_runs_and_cancels_jobs_at_the_toolkits_gatekeeper";
    let Some(testbed) = Testbed::new(test) else {
        return;
    };
    let credential = Credential::load(&testbed.said("proxy ")).unwrap();
    let trust = TrustStore::load(&testbed.said("trust ")).unwrap();
    let client = GramClient::new(&credential, &trust).unwrap();
    let site: SiteAddress = format!("localhost:{}", testbed.port).parse().unwrap();
    let service = "jobmanager-fork";

    assert_eq!(
        soon("a ping", client.ping(&site, service)).await,
        Status::Ok
    );
    assert_eq!(
        soon("a ping", client.ping(&site, "nosuch")).await,
        Status::NotFound
    );
    let version = soon("its version", client.version(&site, service)).await;
    assert!(version.more.toolkit_version.is_some());

    let listener = client.listen("127.0.0.1:0".parse().unwrap(), "localhost");
    let listener = soon("a listener", listener).await;
    let submit = |rsl: &str| {
        let job = JobRequest {
            state_mask: 1_048_575,
            callback: Some(listener.url().to_owned()),
            rsl: rsl.to_owned(),
        };
        let (client, site) = (client.clone(), site.clone());
        async move { soon("a submission", client.submit(&site, service, job)).await }
    };
    let made = testbed.folder.path().join("home/made");
    let rsl = format!("&(executable=/bin/touch)(arguments={})", made.display());
    let reply = submit(&rsl).await;
    assert_eq!(reply.status, GramCode::SUCCESS);
    let heard = to_the_end(&listener, &reply.contact.unwrap()).await;
    assert_eq!(heard.last().unwrap().state, JobState::Done);
    assert!(made.exists());

    let reply = submit("&(executable=/bin/sleep)(arguments=1000)").await;
    let contact = reply.contact.unwrap();
    let asked = soon("a status", client.query(&contact, &Query::Status)).await;
    let over = |state| matches!(state, JobState::Done | JobState::Failed);
    assert!(asked.state.is_some_and(|state| !over(state)), "{asked:?}");
    soon("a cancel", client.query(&contact, &Query::Cancel)).await;
    let heard = to_the_end(&listener, &contact).await;
    let last = heard.last().unwrap();
    assert_eq!(
        (last.state, last.failure),
        (JobState::Failed, GramCode::USER_CANCELLED)
    );

    let reply = submit("&(executable=/no/such/program)").await;
    let heard = to_the_end(&listener, &reply.contact.unwrap()).await;
    let last = heard.last().unwrap();
    assert_eq!(
        (last.state, last.failure),
        (JobState::Failed, GramCode::EXECUTABLE_NOT_FOUND)
    );
}
