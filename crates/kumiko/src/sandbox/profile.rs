//! `kumiko sandbox profile -- COMMAND`: runs it once in the sandbox, under a mechanism whose supervisor counts what it is
//! asked for (spec/policy, P81), and keeps that for later choices.

use crate::args::Format;
use crate::fail::Failure;
use crate::output::{self, Show};
use kumiko_entry::sandbox::{self, Run, RunError};
use kumiko_policy::choice::Profile;
use kumiko_policy::{MechanismKind, Policy};
use kumiko_sandbox::{Machine, Measured, Program, choose, look};
use serde::Serialize;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// A tracer is told of processes, which a listener is not.
const BEST: [MechanismKind; 2] = [MechanismKind::Ptrace, MechanismKind::Notify];

pub fn profile(run: &Run, format: Format, home: Option<&Path>) -> Result<u8, Failure> {
    let policy = sandbox::effective(&run.said, None)?;
    let machine = Machine::probe();
    let best = BEST.into_iter().find(|kind| machine.admits(*kind).is_ok());
    let wanted = run.mechanism.as_deref();
    let wanted = wanted.unwrap_or(best.unwrap_or(MechanismKind::Ptrace).name());
    let choice = choose(&policy, Some(wanted), &machine)?;
    if !BEST.iter().any(|kind| kind.name() == choice.mechanism) {
        return Err(Failure::misuse(format!(
            "nobody counts calls under {}: use ptrace or notify",
            choice.mechanism
        )));
    }
    // The result is on stdout: what the command prints goes to stderr.
    let (input, errors) = (std::io::stdin(), std::io::stderr());
    let streams = [input.as_fd(), errors.as_fd(), errors.as_fd()];
    let user = user_time();
    let ran = sandbox::run_under(run, &policy, &choice, Some(streams)).map_err(failed)?;
    let counted = ran.cost.profile.unwrap_or_default();
    let (program, arguments) = run
        .command
        .split_first()
        .ok_or_else(|| failed(RunError::NoCommand))?;
    let file = file(&policy, run, program);
    let looked = file.as_deref().and_then(|file| look(file).ok());
    let us = |time: std::time::Duration| u64::try_from(time.as_micros()).ok();
    let profile = Profile {
        by_library: looked.as_ref().is_none_or(|looked| looked.by_library()),
        wall_us: us(ran.wall),
        user_us: Some(user_time().saturating_sub(user)),
        ..counted
    };
    let kept = file.as_deref().zip(sandbox::measured(home));
    let kept = kept.map(|(file, measured)| keep(&measured, file, arguments, &profile));
    let profiled = Profiled {
        profile,
        program: looked.map(|looked| looked.words()),
        status: ran.status,
        kept: kept.unwrap_or(false),
    };
    output::one(format, &profiled)?;
    Ok(ran.status)
}

fn failed(error: RunError) -> Failure {
    Failure {
        status: error.exit_status(),
        message: error.to_string(),
    }
}

/// Of the command, on the host.
pub fn file(policy: &Policy, run: &Run, program: &str) -> Option<PathBuf> {
    let of = Program {
        policy,
        job_directory: run.directory.as_deref().unwrap_or(Path::new("")),
        program,
        arguments: &[],
        path: run
            .environment
            .iter()
            .find_map(|item| item.strip_prefix("PATH=")),
    };
    of.file()
}

fn keep(measured: &Measured, file: &Path, arguments: &[String], profile: &Profile) -> bool {
    let kept = measured.keep_profile(file, arguments, profile);
    if let Err(error) = &kept {
        eprintln!("kumiko: what was counted is not kept: {error}");
    }
    kept.is_ok()
}

/// Of our children that have ended and been waited for, and theirs, us: cutime of proc(5), in ticks of 10 ms.
fn user_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after_name.split_ascii_whitespace().nth(13);
    ticks
        .and_then(|ticks| ticks.parse::<u64>().ok())
        .unwrap_or(0)
        * 10_000
}

/// Nothing to read, and nobody to write to.
pub fn nothing() -> std::io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

#[derive(Serialize)]
struct Profiled {
    #[serde(flatten)]
    profile: Profile,
    /// What its file is.
    program: Option<String>,
    /// Of the command.
    status: u8,
    /// Later choices go by it.
    kept: bool,
}

impl Show for Profiled {
    fn human(&self) -> String {
        let profile = &self.profile;
        let ms = |us: Option<u64>| us.map_or("?".to_owned(), |us| format!("{} ms", us / 1_000));
        let mut text = format!(
            "{}, ended with {}\n\
             files opened to read     {}\n\
             files looked at by name  {}\n\
             other calls with names   {}\n\
             processes made           {}\n\
             programs executed        {}\n\
             processes at once        {} on the average of its calls\n\
             took                     {} under {}, {} of it in its own code\n",
            self.program.as_deref().unwrap_or("its file was not found"),
            self.status,
            profile.opens,
            profile.looks,
            profile.answers,
            profile.processes,
            profile.execs,
            profile.at_once,
            ms(profile.wall_us),
            profile.under.map_or("?", MechanismKind::name),
            ms(profile.user_us),
        );
        text.push_str(match self.kept {
            true => "calls without a name are not counted: no mechanism answers them\nkept: the choice goes by it\n",
            false => "calls without a name are not counted: no mechanism answers them\nnot kept\n",
        });
        text
    }
}
