//! What tests of batch systems share: a sink that records, attempts to run, and what a system under test provides.
#![allow(dead_code)] // each test file is a crate of its own and uses a part

mod own;
pub mod waiting;

#[allow(unused_imports)] // as above
pub use own::{OwnCondor, OwnSlurm};

use kumiko_batch::Tools;
use kumiko_batch::condor::{self, Condor};
use kumiko_batch::engine;
use kumiko_batch::engine::Cluster;
use kumiko_batch::engine::drained::Drained;
use kumiko_batch::engine::program::Program;
use kumiko_batch::fork::Fork;
use kumiko_batch::pilots::pool::Size;
use kumiko_batch::pilots::{Piloted, Pilots};
use kumiko_batch::slurm::{self, Slurm};
use kumiko_ferry::Landing;
use kumiko_job::attempt::{AttemptReport, AttemptSpec, Outcome, OutputStream};
use kumiko_job::contract::{AttemptSink, BatchSystem};
use kumiko_job::description::{OutputMode, Resources, Stdin};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_testkit::engine::Engine;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;

/// Far more than any of this takes; a test that hangs fails then.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A batch system and what it needs, for one test.
pub trait Fixture {
    type System: BatchSystem;
    /// None: it cannot run here (said on stderr).
    fn new(test: &str) -> Option<Self>
    where
        Self: Sized;
    /// A site's half. Dropped and opened again it is the site after a restart.
    fn open(&self, sink: Arc<Record>) -> Self::System;
    /// Beneath it are the jobs' directories.
    fn top(&self) -> &Path;
    /// Kills a runner, told by its own pid, as a lost host would.
    fn kill_runner(&self, pid: u32);
}

pub struct ForkFixture {
    top: TempDir,
    pub runner: PathBuf,
}

impl Fixture for ForkFixture {
    type System = Fork;

    fn new(test: &str) -> Option<Self> {
        let runner = program(test)?;
        let top = tempfile::tempdir().unwrap();
        Some(Self { top, runner })
    }

    fn open(&self, sink: Arc<Record>) -> Fork {
        Fork::new(self.root(), self.runner.clone(), sink)
    }

    fn top(&self) -> &Path {
        self.top.path()
    }

    fn kill_runner(&self, pid: u32) {
        signal(pid, 9);
    }
}

/// A batch system of an engine that really runs here.
pub struct EngineFixture {
    top: TempDir,
    runner: PathBuf,
    engine: &'static Engine,
}

impl EngineFixture {
    fn of(name: &'static str, test: &str) -> Option<Self> {
        Some(Self {
            runner: program(test)?,
            engine: Engine::shared(name, test)?,
            top: tempfile::tempdir().unwrap(),
        })
    }

    fn root(&self) -> PathBuf {
        self.top.path().join("spools")
    }

    fn parts(&self) -> (Tools, String, PathBuf, PathBuf) {
        let site = engine::site(&self.root()).unwrap();
        (tools(self.engine), site, self.root(), self.runner.clone())
    }
}

/// The runner as hosts have it that have it from the site only: where that has it nothing is there.
pub fn copied(runner: &Path, top: &Path) -> Program {
    let own = top.join("kumiko-run");
    std::fs::copy(runner, &own).unwrap();
    let program = Program::with_copy(own.clone(), &top.join("spools")).unwrap();
    std::fs::remove_file(own).unwrap();
    program
}

/// As a site would find the engine's commands.
pub fn tools(engine: &Engine) -> Tools {
    let environment = engine.environment().into_iter();
    environment.fold(Tools::here(), |tools, (name, value)| {
        tools.with(name, value)
    })
}

pub struct SlurmFixture(EngineFixture);

impl SlurmFixture {
    pub fn open_copied(&self, sink: Arc<Record>) -> Slurm {
        let (tools, site, root, runner) = self.0.parts();
        let program = copied(&runner, self.top());
        Cluster::new(slurm::Commands(tools), site, root, program, sink)
    }
}

impl Fixture for SlurmFixture {
    type System = Slurm;

    fn new(test: &str) -> Option<Self> {
        EngineFixture::of("slurm", test).map(Self)
    }

    fn open(&self, sink: Arc<Record>) -> Slurm {
        let (tools, site, root, runner) = self.0.parts();
        Slurm::new(slurm::Commands(tools), site, root, runner, sink)
    }

    fn top(&self) -> &Path {
        self.0.top.path()
    }

    fn kill_runner(&self, pid: u32) {
        signal(pid, 9);
    }
}

pub struct CondorFixture(EngineFixture);

impl CondorFixture {
    pub fn engine(&self) -> &'static Engine {
        self.0.engine
    }

    pub fn tag(&self, id: AttemptId) -> String {
        let site = engine::site(&self.0.root()).unwrap();
        engine::order::tag(&site, id)
    }

    pub fn open_copied(&self, sink: Arc<Record>) -> Condor {
        let (tools, site, root, runner) = self.0.parts();
        let program = copied(&runner, self.top());
        Cluster::new(condor::Commands(tools), site, root, program, sink)
    }

    /// An expression for all of this site.
    pub fn all(&self) -> String {
        let site = engine::site(&self.0.root()).unwrap();
        format!("KumikoSite == \"{site}\"")
    }
}

impl Fixture for CondorFixture {
    type System = Condor;

    fn new(test: &str) -> Option<Self> {
        EngineFixture::of("condor", test).map(Self)
    }

    fn open(&self, sink: Arc<Record>) -> Condor {
        let (tools, site, root, runner) = self.0.parts();
        Condor::new(condor::Commands(tools), site, root, runner, sink)
    }

    fn top(&self) -> &Path {
        self.0.top.path()
    }

    fn kill_runner(&self, pid: u32) {
        signal(pid, 9);
    }
}

/// Pilots before an engine, as many as the contract's cases have attempts at once.
pub fn pilots(least: u32, most: u32, cpus: u32) -> Pilots {
    Pilots {
        size: Size {
            least,
            most,
            cpus,
            time_ms: None,
        },
        resources: Resources {
            cpus: Some(cpus),
            ..Resources::default()
        },
    }
}

pub struct PilotedSlurmFixture(EngineFixture);

impl PilotedSlurmFixture {
    pub fn open_copied(&self, sink: Arc<Record>) -> Cluster<Piloted<slurm::Commands>> {
        let (tools, site, root, runner) = self.0.parts();
        let (commands, program) = (slurm::Commands(tools), copied(&runner, self.top()));
        let (site_, root_) = (site.clone(), root.clone());
        let piloted = Piloted::new(commands, site_, root_, program.clone(), pilots(1, 1, 1));
        Cluster::new(piloted, site, root, program, sink)
    }

    pub fn open_with(
        &self,
        sink: Arc<Record>,
        pilots: Pilots,
    ) -> Cluster<Piloted<slurm::Commands>> {
        let (tools, site, root, runner) = self.0.parts();
        let commands = slurm::Commands(tools);
        let piloted = Piloted::new(commands, site.clone(), root.clone(), runner.clone(), pilots);
        Cluster::new(piloted, site, root, runner, sink)
    }

    pub fn root(&self) -> PathBuf {
        self.0.root()
    }
}

impl Fixture for PilotedSlurmFixture {
    type System = Cluster<Piloted<slurm::Commands>>;

    fn new(test: &str) -> Option<Self> {
        EngineFixture::of("slurm", test).map(Self)
    }

    fn open(&self, sink: Arc<Record>) -> Self::System {
        self.open_with(sink, pilots(0, 5, 8))
    }

    fn top(&self) -> &Path {
        self.0.top.path()
    }

    fn kill_runner(&self, pid: u32) {
        signal(pid, 9);
    }
}

pub struct PilotedCondorFixture(EngineFixture);

impl Fixture for PilotedCondorFixture {
    type System = Cluster<Piloted<condor::Commands>>;

    fn new(test: &str) -> Option<Self> {
        EngineFixture::of("condor", test).map(Self)
    }

    fn open(&self, sink: Arc<Record>) -> Self::System {
        let (tools, site, root, runner) = self.0.parts();
        let commands = condor::Commands(tools);
        let two = pilots(0, 5, 8);
        let piloted = Piloted::new(commands, site.clone(), root.clone(), runner.clone(), two);
        Cluster::new(piloted, site, root, runner, sink)
    }

    fn top(&self) -> &Path {
        self.0.top.path()
    }

    fn kill_runner(&self, pid: u32) {
        signal(pid, 9);
    }
}

/// A test's pilots go with it: others have need of their slots.
pub fn end_pilots(root: &Path) {
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let pid = process.file_name().to_string_lossy().parse();
        if let (true, Ok(pid)) = (
            line.contains("\0--pilot\0") && line.contains(&*root.to_string_lossy()),
            pid,
        ) {
            signal(pid, 9);
        }
    }
}

impl Drop for PilotedSlurmFixture {
    fn drop(&mut self) {
        end_pilots(&self.0.root());
    }
}

impl Drop for PilotedCondorFixture {
    fn drop(&mut self) {
        end_pilots(&self.0.root());
    }
}

/// A small disk, which goes when this is dropped.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    pub fn mount(place: PathBuf) -> Option<SmallDisk> {
        std::fs::create_dir_all(&place).unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=2m,mode=700", "none"];
        let mounted = std::process::Command::new("mount")
            .args(mount)
            .arg(&place)
            .output();
        mounted.unwrap().status.success().then(|| SmallDisk(place))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("--lazy")
            .arg(&self.0)
            .status();
    }
}

/// Slurm's commands as scripts, which have faults when they are told to (tests/fakes/slurm).
pub struct FakeFixture {
    top: TempDir,
    runner: PathBuf,
}

impl FakeFixture {
    fn fake(&self) -> PathBuf {
        self.top.path().join("slurm")
    }

    pub fn open_within(&self, sink: Arc<Record>, deadline: Duration) -> Slurm {
        let mut path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fakes/slurm")
            .into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let tools = Tools::here()
            .with("PATH", path)
            .with("FAKE", self.fake())
            .within(deadline);
        let root = self.top.path().join("spools");
        let site = engine::site(&root).unwrap();
        Slurm::new(
            slurm::Commands(tools),
            site,
            root,
            self.runner.clone(),
            sink,
        )
    }

    /// Has it a fault, or not any more.
    pub fn fault(&self, name: &str, on: bool) {
        match on {
            true => std::fs::write(self.fake().join(name), "").unwrap(),
            false => std::fs::remove_file(self.fake().join(name)).unwrap(),
        }
    }

    fn jobs(&self) -> Vec<PathBuf> {
        let jobs = std::fs::read_dir(self.fake().join("jobs")).unwrap();
        jobs.map(|job| job.unwrap().path()).collect()
    }

    /// What it says of its jobs.
    pub fn states(&self) -> Vec<String> {
        let state = |job: &PathBuf| std::fs::read_to_string(job.join("state")).unwrap();
        self.jobs()
            .iter()
            .map(|job| state(job).trim().to_owned())
            .collect()
    }

    /// Has it say so of the attempt with this spool.
    pub fn say(&self, state: &str, spool: &Path) {
        let spool = format!("'{}'", spool.display());
        let is_its = |job: &&PathBuf| {
            std::fs::read_to_string(job.join("script"))
                .unwrap()
                .contains(&spool)
        };
        let jobs = self.jobs();
        let job = jobs.iter().find(is_its).unwrap();
        let new = job.join("state.new");
        std::fs::write(&new, format!("{state}\n")).unwrap();
        std::fs::rename(new, job.join("state")).unwrap();
    }
}

impl Fixture for FakeFixture {
    type System = Slurm;

    fn new(test: &str) -> Option<Self> {
        let runner = program(test)?;
        let fixture = Self {
            top: tempfile::tempdir().unwrap(),
            runner,
        };
        std::fs::create_dir_all(fixture.fake().join("jobs")).unwrap();
        Some(fixture)
    }

    fn open(&self, sink: Arc<Record>) -> Slurm {
        self.open_within(sink, Duration::from_secs(30))
    }

    fn top(&self) -> &Path {
        self.top.path()
    }

    fn kill_runner(&self, pid: u32) {
        signal(pid, 9);
    }
}

/// Looks until it is so.
pub async fn until(mut so: impl FnMut() -> bool) {
    let looking = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, looking)
        .await
        .expect("not in time");
}

pub fn signal(pid: u32, number: i32) {
    let Ok(pidfd) = kumiko_linux::process::pidfd(pid as i32) else {
        return; // it is gone
    };
    kumiko_linux::process::signal(std::os::fd::AsFd::as_fd(&pidfd), number).unwrap();
}

impl ForkFixture {
    pub fn root(&self) -> PathBuf {
        self.top.path().join("spools")
    }
}

pub fn program(test: &str) -> Option<PathBuf> {
    let runner = runner();
    if runner.is_none() {
        eprintln!("SKIP {test}: missing kumiko-run (cargo build -p kumiko-runner)");
    }
    runner
}

/// The program: from KUMIKO_RUN, else beside this test's own directory.
pub fn runner() -> Option<PathBuf> {
    let beside = || {
        let test = std::env::current_exe().ok()?;
        Some(test.parent()?.parent()?.join("kumiko-run"))
    };
    let named = std::env::var_os("KUMIKO_RUN").map(PathBuf::from);
    named.or_else(beside).filter(|path| path.is_file())
}

/// The ferry: from KUMIKO_FERRY, else beside this test's own directory.
pub fn ferry(test: &str) -> Option<PathBuf> {
    let beside = || {
        let test = std::env::current_exe().ok()?;
        Some(test.parent()?.parent()?.join("kumiko-ferry"))
    };
    let named = std::env::var_os("KUMIKO_FERRY").map(PathBuf::from);
    let ferry = named.or_else(beside).filter(|path| path.is_file());
    if ferry.is_none() {
        eprintln!("SKIP {test}: missing kumiko-ferry (cargo build -p kumiko-ferry)");
    }
    ferry
}

/// An attempt of `sh -c text` with the default policy; its directory is made beneath `top`.
pub fn script(top: &Path, job: u64, text: &str) -> AttemptSpec {
    let job_directory = top.join(format!("job-{job}"));
    std::fs::create_dir_all(&job_directory).unwrap();
    AttemptSpec {
        id: id(job),
        executable: "/bin/sh".into(),
        arguments: vec!["-c".into(), text.into()],
        environment: Default::default(),
        directory: None,
        job_directory,
        stdin: Stdin::Empty,
        output: OutputMode::Keep,
        terminal: None,
        count: 1,
        mpi: None,
        time_limit_ms: None,
        resources: Default::default(),
        grace_ms: 10_000,
        output_quota_bytes: 1 << 30,
        policy: kumiko_policy::Policy::default(),
        mechanism: None,
        hold_ms: None,
        alone_ms: None,
        beat_ms: None,
        dumps: None,
        wanted_on: None,
    }
}

pub fn id(job: u64) -> AttemptId {
    AttemptId {
        job: JobId(job),
        epoch: 1,
    }
}

/// A sink that keeps all that it is told.
#[derive(Default)]
pub struct Record {
    told: Mutex<Vec<(AttemptId, AttemptReport)>>,
    more: Notify,
}

impl AttemptSink for Record {
    fn report(&self, id: AttemptId, report: AttemptReport) {
        self.told.lock().unwrap().push((id, report));
        self.more.notify_waiters();
    }
}

impl Record {
    pub fn of(&self, id: AttemptId) -> Vec<AttemptReport> {
        let told = self.told.lock().unwrap();
        let own = told.iter().filter(|(of, _)| *of == id);
        own.map(|(_, report)| report.clone()).collect()
    }

    /// Waits until a report answers.
    pub async fn wait_for<T>(
        &self,
        id: AttemptId,
        wanted: impl Fn(&AttemptReport) -> Option<T>,
    ) -> T {
        let found = async {
            loop {
                let mut more = std::pin::pin!(self.more.notified());
                more.as_mut().enable();
                if let Some(found) = self.of(id).iter().find_map(&wanted) {
                    return found;
                }
                more.await;
            }
        };
        match tokio::time::timeout(DEADLINE, found).await {
            Ok(found) => found,
            Err(_) => panic!("not told in time of {id}: {:?}", self.of(id)),
        }
    }

    /// The runner's pid.
    pub async fn started(&self, id: AttemptId) -> u32 {
        let pid = |report: &AttemptReport| match report {
            AttemptReport::Started { pid, .. } => Some(*pid),
            AttemptReport::Ended(outcome) => panic!("ended before it started: {outcome:?}"),
            _ => None,
        };
        self.wait_for(id, pid).await
    }

    pub async fn held(&self, id: AttemptId) {
        let held = |report: &AttemptReport| match report {
            AttemptReport::Held => Some(()),
            AttemptReport::Ended(outcome) => panic!("ended before it was held: {outcome:?}"),
            _ => None,
        };
        self.wait_for(id, held).await
    }

    pub async fn ended(&self, id: AttemptId) -> Outcome {
        let outcome = |report: &AttemptReport| match report {
            AttemptReport::Ended(outcome) => Some(outcome.clone()),
            _ => None,
        };
        self.wait_for(id, outcome).await
    }

    pub async fn printed(&self, id: AttemptId, bytes: u64) {
        let there = |report: &AttemptReport| match report {
            AttemptReport::Output {
                stream: OutputStream::Stdout,
                length,
            } => (*length >= bytes).then_some(()),
            AttemptReport::Ended(outcome) => panic!("ended: {outcome:?}"),
            _ => None,
        };
        self.wait_for(id, there).await;
    }
}
