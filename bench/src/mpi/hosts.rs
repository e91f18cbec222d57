//! MPI on several hosts of a Slurm: networks of their own on this machine, joined by a bridge. Beside our jobs: the library's own
//! launcher in an allocation of Slurm's.

use super::model;
use super::place::{Library, Place, Ran, Run};
use crate::bench::Bench;
use crate::engine::OnEngine;
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::rows::{or_missing, within};
use crate::stats::Unit;
use kumiko_job::description::{JobDescription, Resources};
use kumiko_job::id::JobId;
use std::fmt::Write;
use std::path::Path;

const MANY: u32 = 64;

/// Hosts, and a folder for what their own launcher writes.
struct Hosts<'a> {
    place: &'a Place,
    bench: &'a Bench,
    there: OnEngine,
    count: u32,
    folder: tempfile::TempDir,
}

impl<'a> Hosts<'a> {
    fn up(place: &'a Place, bench: &'a Bench, count: u32) -> Result<Hosts<'a>, Failure> {
        let number = count.to_string();
        let testbed = [("SLURM_NETWORKS", "yes"), ("SLURM_HOSTS", &number)];
        Ok(Hosts {
            place,
            bench,
            there: OnEngine::up(bench, "slurm", &testbed, &[])?,
            count,
            folder: tempfile::tempdir().doing(|| "making a folder for Slurm's output")?,
        })
    }

    /// A rank on each host, as a job.
    fn job(&self, run: Run<'_>) -> Result<(Ran, JobId), Failure> {
        let resources = Resources {
            host_count: Some(self.count),
            ..Resources::default()
        };
        let description = JobDescription {
            resources,
            ..JobDescription::new("", &[])
        };
        let job = self.place.job_at(&self.there.client, run, description);
        self.bench.runtime.block_on(job)
    }

    /// Seconds from the guest's start on the first host to its end, as the site has recorded them.
    fn ran_for(&self, job: JobId) -> Result<f64, Failure> {
        let show = within("a job's record", self.there.client.show(job));
        let view = self.bench.runtime.block_on(show)?;
        let view = view.map_err(|e| Failure::said("asking for a job", &e))?;
        let times = view.started_ms.zip(view.ended_ms);
        let (started, ended) =
            times.ok_or_else(|| Failure::unexpected("a job that ended has no times"))?;
        Ok(ended.saturating_sub(started) as f64 / 1e3)
    }

    /// A rank on each host, by the launcher in an allocation; its seconds are the launcher's.
    fn alone(&self, run: Run<'_>) -> Result<Ran, Failure> {
        let (script, said) = (
            self.folder.path().join("run"),
            self.folder.path().join("said"),
        );
        std::fs::write(&script, self.script(run)).doing(|| "writing a script for Slurm")?;
        let number = self.count.to_string();
        let path = |path: &Path| path.display().to_string();
        let output = format!("--output={}", path(&said));
        let line = [
            "--wait",
            "--nodes",
            &number,
            "--ntasks",
            &number,
            &output,
            &path(&script),
        ];
        self.there.engine.asked("sbatch", &line)?;
        let text = std::fs::read_to_string(&said).doing(|| "reading what Slurm's job said")?;
        let (said, took) = text.rsplit_once("took ").unwrap_or((&text, ""));
        let took: f64 = took
            .trim()
            .parse()
            .map_err(|_| Failure::unexpected(format!("the launcher's script said {text:?}")))?;
        Ok(Ran {
            wall_s: took / 1e9,
            said: said.to_owned(),
        })
    }

    fn script(&self, run: Run<'_>) -> String {
        let mut text = "#!/bin/sh\nset -e\n".to_owned();
        for (name, value) in run.library.variables_of_hosts().iter().chain(run.variables) {
            let _ = writeln!(text, "export {name}={value}"); // into memory
        }
        let program = self.place.folder_of(run.library).join(run.program);
        let _ = write!(
            text,
            "begun=$(date +%s%N)\n{} -n {} {} {}\necho took $(($(date +%s%N) - begun))\n",
            run.library.launcher(),
            run.ranks,
            program.display(),
            run.words.join(" ")
        );
        text
    }
}

pub fn messages(place: &Place, bench: &Bench) -> Row {
    let title = "Messages between two hosts, t₀ + m / r∞ fitted";
    or_missing(Row::new("hosts", title, model::goals()), |row| {
        let hosts = Hosts::up(place, bench, 2)?;
        let ran = |as_job, run: Run<'_>| match as_job {
            true => Ok(hosts.job(run)?.0),
            false => hosts.alone(run),
        };
        model::compare(row, bench.rounds(5), Library::Openmpi, ran)?;
        row.note("Open MPI over TCP; the hosts are network namespaces of this machine, joined by a bridge.");
        Ok(())
    })
}

pub fn launch(place: &Place, bench: &Bench) -> Row {
    const NAMES: [&str; 2] = ["mpiexec in an allocation", "a job"];
    let goals = vec![Goal {
        text: "≤ 1 s",
        ours: NAMES[1],
        reach: Reach::AtMost { limit: 1.0 },
    }];
    let title = "Launch of 64 processes on as many hosts, to their end";
    or_missing(Row::new("launch64", title, goals), |row| {
        let hosts = Hosts::up(place, bench, MANY)?;
        let run = Run {
            library: Library::Mpich,
            ranks: MANY,
            program: "/bin/true",
            words: &[],
            variables: &[],
        };
        let contenders = vec![
            Contender::new(NAMES[0], Unit::Seconds, || Ok(hosts.alone(run)?.wall_s)),
            Contender::new(NAMES[1], Unit::Seconds, || {
                let (_, job) = hosts.job(run)?;
                hosts.ran_for(job)
            }),
        ];
        rounds::take_long(row, bench.rounds(5), contenders);
        row.note("By MPICH's launcher, each /bin/true: its own messages between hosts may stall, without a sandbox too. A job's time is from its guest's start on the first host, by the site's record.");
        Ok(())
    })
}
