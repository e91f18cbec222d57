//! What a routine's process is begun with (spec/rpc P60, P85): its folder, its view, its attempt. Not here: when.

use super::silence::BEAT_MS;
use super::{Order, PROGRAM, Recovery, Run, Worker};
use crate::checkpoints::Unreadable;
use crate::dumps::DUMPS;
use kumiko_checkpoint::FAILURES_VARIABLE;
use kumiko_job::attempt::{AttemptSpec, Dumped, Dumps};
use kumiko_job::contract::BatchSystem;
use kumiko_job::description::{OutputMode, Resources, Stdin};
use kumiko_policy::{Access, GuestPath, Origin, Policy, Real, Rule};
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Where a routine's program sees arguments: read-only, so that those of a call that is tried again are those that were sent.
const ARGUMENTS: &str = "/arguments";
/// For a process that a site has left alone: as long as it waits for another call by itself (spec/rpc P64).
const ALONE_MS: u64 = 600_000;
/// Of what a routine prints and nobody has taken, a runner keeps so much: sixteen times what is taken at once.
const QUOTA_BYTES: u64 = 4 << 20;

/// Why a process cannot be begun with.
pub(super) enum Unprepared {
    Folder(io::Error),
    Dump(Unreadable),
}

impl From<io::Error> for Unprepared {
    fn from(error: io::Error) -> Unprepared {
        Unprepared::Folder(error)
    }
}

impl<B: BatchSystem> Worker<B> {
    pub(super) fn prepare(&mut self, order: &Order, run: &Run) -> Result<AttemptSpec, Unprepared> {
        let folder = self.folder();
        let job_directory = self.job();
        let arguments = folder.join("arguments");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&arguments)?;
        std::fs::write(folder.join(PROGRAM), &order.routine.digest)?;
        let is_dumped = run.recovery == Recovery::Dump;
        if let Some(dump) = run.checkpoint.filter(|_| is_dumped) {
            let dumps = &self.shop.store.dumps;
            let told = dumps.give(run.attempt.call, dump.number, &folder, &run.program);
            self.told = Some(told.map_err(Unprepared::Dump)?);
        } else {
            DirBuilder::new().mode(0o700).create(&job_directory)?;
            // A copy: the routine may write to its own folder.
            std::fs::copy(&order.routine.program, job_directory.join("routine"))?;
        }
        let dumps = is_dumped.then(|| Dumps {
            folder: folder.join(DUMPS),
            path: std::env::var("PATH").unwrap_or_default(),
            guest: match self.told {
                Some(_) => Dumped::AskedRoutine,
                None => Dumped::Routine,
            },
        });
        Ok(AttemptSpec {
            id: self.id(),
            executable: format!("{}/routine", kumiko_policy::JOB_DIRECTORY),
            arguments: vec![ARGUMENTS.to_owned()],
            environment: failures(),
            directory: None,
            job_directory,
            stdin: Stdin::Live,
            output: OutputMode::Flow,
            terminal: None,
            count: 1,
            mpi: None,
            time_limit_ms: self.shop.time_limit_ms,
            resources: Resources::default(),
            grace_ms: self.shop.grace_ms,
            output_quota_bytes: QUOTA_BYTES,
            policy: with_arguments(&order.policy, &arguments)?,
            mechanism: None,
            hold_ms: None,
            alone_ms: Some(ALONE_MS),
            beat_ms: self.shop.elsewhere.then_some(BEAT_MS),
            dumps,
            wanted_on: run.wanted_on.clone(),
        })
    }
}

/// How often something dies is for whoever runs the site to say (spec/checkpoint, K31).
fn failures() -> BTreeMap<String, String> {
    let said = std::env::var(FAILURES_VARIABLE);
    let said = said.map(|seconds| (FAILURES_VARIABLE.to_owned(), seconds));
    said.into_iter().collect()
}

/// The policy, with the folder of arguments to be read.
pub(crate) fn with_arguments(policy: &Policy, folder: &Path) -> io::Result<Policy> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let path = GuestPath::new(ARGUMENTS).map_err(|error| wrong(&error.to_string()))?;
    let root = folder
        .to_str()
        .ok_or_else(|| wrong("the site's folder has a name that is no text"))?;
    let root = GuestPath::new(root).map_err(|error| wrong(&error.to_string()))?;
    let mut policy = policy.clone();
    policy.paths.retain(|rule| rule.path != path);
    policy.paths.push(Rule {
        path,
        access: Access::Read {
            real: Real::Host {
                root,
                beneath: String::new(),
            },
            optional: false,
        },
        execute: true,
        origin: Origin {
            source: "arguments of calls".to_owned(),
            line: 0,
        },
    });
    policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(policy)
}
