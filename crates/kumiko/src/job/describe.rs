//! From flags (or a file) to a `JobDescription`. The site checks it; here only what the flags themselves can get wrong.

use crate::args::{self, Exec, Submit};
use crate::fail::{Failure, While};
use kumiko_job::description::{JobDescription, OutputMode, Stdin, WindowSize};
use kumiko_job::rsl;
use kumiko_job::url::looks_like_url;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// `exec` without a command starts this.
const SHELL: &str = "/bin/sh";
/// How long a program of `exec` lives with nobody attached: more than the 30 s for which a client tries to come back to a
/// site that was started anew.
const UNATTENDED: Duration = Duration::from_secs(60);

/// Of `submit` and `run`. `input` is set later, when the folder is sent.
pub fn of_submit(submit: &Submit) -> Result<JobDescription, Failure> {
    let description = match &submit.description {
        Some(path) => read_description(path)?,
        None => empty(&submit.command)?,
    };
    with_flags(submit, description)
}

/// The parts of `--rsl`; one, of a request that is no multirequest.
pub fn parts(text: &str) -> Result<Vec<rsl::Subjob>, Failure> {
    let begins = text.trim_start();
    let read = match begins.starts_with(['&', '+', '(', '|']) {
        true => text.to_owned(),
        false => {
            let bytes = read(Path::new(text), "the RSL")?;
            String::from_utf8(bytes).doing(|| format!("reading the RSL {text}"))?
        }
    };
    let spec = rsl::parse(&read)?;
    let known = rsl::Variables::from([("HOME".to_owned(), rsl::HOME.to_owned())]);
    Ok(rsl::subjobs(&spec, &known)?)
}

/// Of one part of `--rsl`.
pub fn of_part(submit: &Submit, part: &rsl::Subjob) -> Result<JobDescription, Failure> {
    let wanted = &part.submission;
    let of_gram = [
        ("username", wanted.username.is_some()),
        ("dry_run", wanted.dry_run),
        ("remote_io_url", wanted.remote_io_url.is_some()),
        ("job_type=condor", wanted.job_type == rsl::JobType::Condor),
    ];
    if let Some((what, _)) = of_gram.into_iter().find(|(_, asked)| *asked) {
        return Err(Failure::misuse(format!(
            "{what} is for the gatekeeper's own door: use globusrun, or leave it out"
        )));
    }
    with_flags(submit, wanted.describe("", "")?)
}

/// What the flags say goes over what the description says.
fn with_flags(submit: &Submit, mut description: JobDescription) -> Result<JobDescription, Failure> {
    description
        .environment
        .extend(args::environment(&submit.environment).map_err(Failure::misuse)?);
    match submit.stdin.as_deref() {
        Some("-") => description.stdin = Stdin::Live,
        Some(url) if looks_like_url(url) => description.stdin = Stdin::Url(url.to_owned()),
        Some(file) => description.stdin = Stdin::File(file.to_owned()),
        None => {}
    }
    submit.files.apply(&mut description)?;
    if let Some(limit) = submit.time {
        description.time_limit_s = Some(whole_seconds(limit));
    }
    description.rerun |= submit.rerun;
    submit.instances.apply(&mut description);
    submit.resources.apply(&mut description.resources)?;
    if submit.workdir.is_some() {
        description.directory.clone_from(&submit.workdir);
    }
    if submit.name.is_some() {
        description.name.clone_from(&submit.name);
    }
    policy_and_mechanism(
        &mut description,
        submit.policy.as_deref(),
        submit.mechanism.as_deref(),
    )?;
    if submit.dir.is_none()
        && description.input.is_none()
        && description.executable.starts_with("./")
    {
        return Err(Failure {
            status: 127,
            message: format!(
                "{} would be looked for in the job's own directory, which is empty: send a folder with --dir",
                description.executable
            ),
        });
    }
    Ok(description)
}

/// Of `exec`: streams both ways, nothing kept.
pub fn of_exec(exec: &Exec, terminal: Option<WindowSize>) -> Result<JobDescription, Failure> {
    let shell = [SHELL.to_owned()];
    let mut description = empty(if exec.command.is_empty() {
        &shell
    } else {
        &exec.command
    })?;
    description.environment = args::environment(&exec.environment).map_err(Failure::misuse)?;
    if let (Some(_), Ok(term)) = (terminal, std::env::var("TERM")) {
        description
            .environment
            .entry("TERM".to_owned())
            .or_insert(term);
    }
    description.stdin = Stdin::Live;
    description.output = OutputMode::Flow;
    description.terminal = terminal;
    let unattended = exec.unattended.unwrap_or(UNATTENDED);
    description.attended_s = (!exec.keep).then(|| whole_seconds(unattended));
    policy_and_mechanism(
        &mut description,
        exec.policy.as_deref(),
        exec.mechanism.as_deref(),
    )?;
    Ok(description)
}

/// The description has whole seconds; a part of one counts as one.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

fn empty(command: &[String]) -> Result<JobDescription, Failure> {
    let (executable, arguments) = command
        .split_first()
        .ok_or_else(|| Failure::misuse("no command: write it after --"))?;
    Ok(JobDescription::new(executable, arguments))
}

fn policy_and_mechanism(
    description: &mut JobDescription,
    policy: Option<&Path>,
    mechanism: Option<&str>,
) -> Result<(), Failure> {
    if let Some(path) = policy {
        let text = std::fs::read_to_string(path)
            .doing(|| format!("reading the policy {}", path.display()))?;
        kumiko_policy::parse(&text, &path.display().to_string())?;
        description.policy = Some(text);
    }
    if let Some(mechanism) = mechanism {
        description.mechanism = Some(mechanism.to_owned());
    }
    Ok(())
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    read.doing(|| format!("reading {what} {}", path.display()))?;
    Ok(bytes)
}

fn read_description(path: &Path) -> Result<JobDescription, Failure> {
    let bytes = read(path, "the description")?;
    JobDescription::from_json(&bytes).doing(|| path.display().to_string())
}
