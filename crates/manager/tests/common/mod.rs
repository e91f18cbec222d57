//! A batch system whose every report is made by the test, and short ways to open a manager on it.
#![allow(dead_code)] // each test program uses a part

pub mod paper;

use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, Outcome, OutputStream};
use kumiko_job::contract::{
    AttemptSink, BatchError, BatchSystem, Caller, EventStream, EventView, Jobs, OutputReader,
    Refusal,
};
use kumiko_job::description::JobDescription;
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::transfer::Transfer;
use kumiko_manager::{Limits, Manager, OpenError, Setup, Sink};
use kumiko_policy::Policy;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What the manager asked of the batch system, in order.
#[derive(Debug)]
pub enum Asked {
    Start(Box<AttemptSpec>),
    Adopt(AttemptId),
    Command(AttemptId, AttemptCommand),
    Forget(AttemptId),
}

/// Does nothing by itself.
pub struct Puppet {
    root: PathBuf,
    asked: UnboundedSender<Asked>,
    refuse: Arc<Mutex<Option<BatchError>>>,
}

impl BatchSystem for Puppet {
    fn name(&self) -> &'static str {
        "puppet"
    }

    fn admits(
        &self,
        _description: &kumiko_job::description::JobDescription,
    ) -> Result<(), kumiko_job::contract::Refusal> {
        Ok(())
    }

    async fn start(&self, spec: AttemptSpec) -> Result<(), BatchError> {
        let spool = self.spool(spec.id);
        std::fs::create_dir_all(&spool).unwrap();
        std::fs::write(
            spool.join("attempt.json"),
            serde_json::to_vec(&spec).unwrap(),
        )
        .unwrap();
        let refusal = self.refuse.lock().unwrap().clone();
        let _ = self.asked.send(Asked::Start(Box::new(spec)));
        refusal.map_or(Ok(()), Err)
    }

    async fn adopt(&self, id: AttemptId) {
        let _ = self.asked.send(Asked::Adopt(id));
    }

    async fn command(&self, id: AttemptId, command: AttemptCommand) {
        let _ = self.asked.send(Asked::Command(id, command));
    }

    fn spool(&self, id: AttemptId) -> PathBuf {
        self.root.join(id.to_string())
    }

    async fn forget(&self, id: AttemptId) {
        let _ = std::fs::remove_dir_all(self.spool(id));
        let _ = self.asked.send(Asked::Forget(id));
    }
}

/// A manager on a puppet, and the strings of it.
pub struct Stage {
    pub manager: Arc<Manager<Puppet>>,
    pub sink: Arc<Sink>,
    pub asked: UnboundedReceiver<Asked>,
    pub refuse: Arc<Mutex<Option<BatchError>>>,
    pub root: PathBuf,
}

pub fn alice() -> Caller {
    Caller {
        subject: "/O=Grid/CN=Alice".into(),
        account: "alice".into(),
    }
}

pub fn bob() -> Caller {
    Caller {
        subject: "/O=Grid/CN=Bob".into(),
        account: "alice".into(),
    }
}

pub fn program() -> JobDescription {
    JobDescription::new("/bin/true", &[])
}

pub fn setup(directory: &Path, limits: Limits) -> Setup {
    Setup {
        directory: directory.join("manager"),
        limits,
        effective: Box::new(|_, description| match &description.policy {
            Some(text) => Err(Refusal::new("policy_too_wide", text.clone())),
            None => Ok(Policy::default()),
        }),
        transfer: None,
        capacity: kumiko_job::admission::Capacity::UNBOUNDED,
        closed: Box::new(|| None),
        after_commit: None,
    }
}

pub async fn try_open(directory: &Path, limits: Limits) -> Result<Stage, OpenError> {
    open_on(directory, setup(directory, limits)).await
}

/// With somebody who moves files.
pub async fn stage_with(directory: &Path, transfer: Arc<dyn Transfer>) -> Stage {
    let mut setup = setup(directory, Limits::default());
    setup.transfer = Some(transfer);
    open_on(directory, setup).await.unwrap()
}

pub async fn open_on(directory: &Path, setup: Setup) -> Result<Stage, OpenError> {
    let (asked, receiver) = unbounded_channel();
    let refuse = Arc::new(Mutex::new(None));
    let root = directory.join("spool");
    let mut kept = None;
    let manager = Manager::open(setup, |sink| {
        kept = Some(Arc::clone(&sink));
        Puppet {
            root: root.clone(),
            asked,
            refuse: Arc::clone(&refuse),
        }
    })
    .await?;
    Ok(Stage {
        manager,
        sink: kept.unwrap(),
        asked: receiver,
        refuse,
        root,
    })
}

pub async fn open(directory: &Path) -> Stage {
    try_open(directory, Limits::default()).await.unwrap()
}

/// Nothing here takes long; whatever does, hangs.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(30), future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

impl Stage {
    pub async fn asked(&mut self) -> Asked {
        soon(
            "the manager to ask something of the batch system",
            self.asked.recv(),
        )
        .await
        .unwrap()
    }

    pub async fn started(&mut self) -> AttemptSpec {
        match self.asked().await {
            Asked::Start(spec) => *spec,
            other => panic!("expected a start, not {other:?}"),
        }
    }

    pub async fn submit(&mut self, description: JobDescription) -> (JobId, AttemptSpec) {
        let id = self
            .manager
            .submit(&alice(), description, None)
            .await
            .unwrap();
        let spec = self.started().await;
        assert_eq!(spec.id.job, id);
        (id, spec)
    }

    pub fn report(&self, id: AttemptId, report: AttemptReport) {
        self.sink.report(id, report);
    }

    pub fn run(&self, id: AttemptId) {
        let started = AttemptReport::Started {
            pid: 7,
            mechanism: "puppet".into(),
            not_enforced: vec!["disk".into()],
            why: vec!["the cheapest".into()],
        };
        self.report(id, started);
    }

    /// Writes to the spool and says so, as a runner does.
    pub fn write(&self, id: AttemptId, stream: OutputStream, text: &[u8]) {
        use std::io::Write;
        let path = self.root.join(id.to_string()).join(stream.name());
        let mut file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(text).unwrap();
        let length = file.metadata().unwrap().len();
        self.report(id, AttemptReport::Output { stream, length });
    }

    pub fn end(&self, id: AttemptId, outcome: Outcome) {
        self.report(id, AttemptReport::Ended(outcome));
    }

    /// Waits for the job's end as a watcher does; returns all events.
    pub async fn events_to_end(&self, id: JobId) -> Vec<EventView> {
        let mut stream = self.manager.watch(&alice(), id, 0).await.unwrap();
        let mut events = Vec::new();
        loop {
            let event = soon("the job's end", stream.next())
                .await
                .expect("the stream goes on to the end");
            let over = event.state.has_ended();
            events.push(event);
            if over {
                return events;
            }
        }
    }

    pub async fn read_all(&self, id: JobId, stream: OutputStream, offset: u64) -> Vec<u8> {
        let mut reader = self
            .manager
            .output(&alice(), id, stream, offset)
            .await
            .unwrap();
        let mut all = Vec::new();
        while let Some((at, data)) = soon("output", reader.read(1 << 16)).await.unwrap() {
            assert_eq!(at, offset + all.len() as u64);
            all.extend_from_slice(&data);
        }
        all
    }
}

pub fn done() -> Outcome {
    Outcome::Exited { status: 0 }
}

pub fn not_begun() -> Outcome {
    Outcome::NeverStarted {
        code: kumiko_job::attempt::NOT_BEGUN.into(),
        message: "it never began".into(),
    }
}
