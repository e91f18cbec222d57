//! What a request asks for (spec/rsl R20 to R32): submission, restart, or update of stdout and stderr.
//! Not here: what of it becomes the job's description (`describe`).

use super::attributes::{Operation, find};
use super::code::GramCode;
use super::error::RslError;
use super::evaluate::{Variables, evaluate};
use super::reader::Reader;
use super::syntax::{Combine, Spec};

/// Without a commit of its end a finished two-phase job is kept for so long, seconds (the default of GRAM5).
pub const DEFAULT_EXPIRATION_S: u64 = 14_400;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobType {
    /// One process whatever `count` says.
    Single,
    /// `count` processes.
    #[default]
    Multiple,
    /// Started by an MPI of the site's.
    Mpi,
    /// As `Multiple`, by HTCondor.
    Condor,
}

/// Where an output goes: a URL or a path, and the tag of a cache's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goes {
    pub to: String,
    pub tag: Option<String>,
}

/// A submission as asked for, each attribute with its default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    pub executable: String,
    pub arguments: Vec<String>,
    /// None: the job's own directory.
    pub directory: Option<String>,
    pub environment: Vec<(String, String)>,
    /// None: empty.
    pub stdin: Option<String>,
    pub stdout: Vec<Goes>,
    pub stderr: Vec<Goes>,
    pub count: u64,
    pub job_type: JobType,
    pub max_time_min: Option<u64>,
    pub max_wall_time_min: Option<u64>,
    pub max_cpu_time_min: Option<u64>,
    pub min_memory_mib: Option<u64>,
    pub max_memory_mib: Option<u64>,
    pub queue: Option<String>,
    pub project: Option<String>,
    pub host_count: Option<u64>,
    /// (URL, path) each.
    pub stage_in: Vec<(String, String)>,
    pub stage_in_shared: Vec<(String, String)>,
    /// (path, URL) each.
    pub stage_out: Vec<(String, String)>,
    pub clean_up: Vec<String>,
    pub scratch_dir: Option<String>,
    pub gass_cache: Option<String>,
    pub remote_io_url: Option<String>,
    pub library_path: Vec<String>,
    pub username: Option<String>,
    pub dry_run: bool,
    pub save_state: bool,
    /// Seconds to wait for a commit.
    pub two_phase_s: Option<u64>,
    pub expiration_s: u64,
    /// Ours: the mechanism, by name.
    pub sandbox: Option<String>,
    /// Ours: a policy's text.
    pub policy: Option<String>,
    /// Ours: the job's name.
    pub name: Option<String>,
}

/// To be told of a job that is there already, and to move its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The job's contact.
    pub restart: String,
    pub update: StdioUpdate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdioUpdate {
    /// None: as it is.
    pub stdout: Option<Vec<Goes>>,
    pub stderr: Option<Vec<Goes>>,
    pub remote_io_url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Submit(Box<Submission>),
    Restart(Restart),
}

/// Reads a request to a gatekeeper: one with `restart` is that, any other a submission.
pub fn request(spec: &Spec, variables: &Variables) -> Result<Request, RslError> {
    let spec = evaluate(spec, variables)?;
    if names_restart(&spec) {
        return restart(&spec).map(Request::Restart);
    }
    submission(&spec).map(|submission| Request::Submit(Box::new(submission)))
}

/// Reads what comes with the signal that updates stdout and stderr.
pub fn stdio_update(spec: &Spec, variables: &Variables) -> Result<StdioUpdate, RslError> {
    let spec = evaluate(spec, variables)?;
    update(&Reader::new(&spec, Operation::StdioUpdate)?)
}

/// The requests of a multirequest; a request that is none is its own only part.
pub fn parts(spec: &Spec) -> &[Spec] {
    match spec {
        Spec::Combined {
            operator: Combine::Multi,
            parts,
        } => parts,
        one => std::slice::from_ref(one),
    }
}

fn names_restart(spec: &Spec) -> bool {
    match spec {
        Spec::Relation(relation) => {
            find(&relation.attribute).is_some_and(|attribute| attribute.name == "restart")
        }
        Spec::Combined { parts, .. } => parts.iter().any(names_restart),
    }
}

fn restart(spec: &Spec) -> Result<Restart, RslError> {
    let reader = Reader::new(spec, Operation::Restart)?;
    reader.yes("restart_contacts")?;
    let restart = reader
        .one("restart")?
        .ok_or_else(|| reader.missing("restart", GramCode::UNDEFINED_ATTRIBUTE))?;
    Ok(Restart {
        restart,
        update: update(&reader)?,
    })
}

fn update(reader: &Reader<'_>) -> Result<StdioUpdate, RslError> {
    for position in ["stdout_position", "stderr_position"] {
        if reader.number(position, "bytes")?.is_some_and(|at| at != 0) {
            return Err(reader.bad(position, "must be 0: the whole output is sent"));
        }
    }
    let goes = |name| -> Result<Option<Vec<Goes>>, RslError> {
        let goes = outputs(reader, name)?;
        Ok(Some(goes).filter(|goes| !goes.is_empty()))
    };
    Ok(StdioUpdate {
        stdout: goes("stdout")?,
        stderr: goes("stderr")?,
        remote_io_url: reader.one("remote_io_url")?,
    })
}

fn outputs(reader: &Reader<'_>, name: &str) -> Result<Vec<Goes>, RslError> {
    let all = reader.destinations(name)?;
    if all.iter().any(|(to, _)| to.is_empty()) {
        return Err(reader.bad(name, "a destination is empty"));
    }
    Ok(all.into_iter().map(|(to, tag)| Goes { to, tag }).collect())
}

fn submission(spec: &Spec) -> Result<Submission, RslError> {
    let reader = Reader::new(spec, Operation::Submit)?;
    let executable = reader
        .one("executable")?
        .ok_or_else(|| reader.missing("executable", GramCode::UNDEFINED_EXECUTABLE))?;
    if executable.is_empty() {
        return Err(reader.bad("executable", "is empty"));
    }
    let count = reader.number("count", "processes")?.unwrap_or(1);
    if count == 0 {
        return Err(reader.bad("count", "must be 1 or more"));
    }
    let job_type = match reader.one("job_type")?.as_deref() {
        None | Some("multiple") => JobType::Multiple,
        Some("single") => JobType::Single,
        Some("mpi") => JobType::Mpi,
        Some("condor") => JobType::Condor,
        Some(other) => {
            let what = format!("{other:?} is none of single, multiple, mpi, condor");
            return Err(reader.bad("job_type", what));
        }
    };
    match reader.one("gram_my_job")?.as_deref() {
        None | Some("collective" | "independent") => {}
        Some(other) => {
            let what = format!("{other:?} is neither collective nor independent");
            return Err(reader.bad("gram_my_job", what));
        }
    }
    // Of no effect here, as in GRAM5; still of the right shape.
    reader.number("proxy_timeout", "seconds")?;
    reader.one("log_level")?;
    reader.one("log_pattern")?;
    reader.yes("save_job_description")?;
    let stdin = reader.one("stdin")?.filter(|from| from != "/dev/null");
    if stdin.as_deref() == Some("") {
        return Err(reader.bad("stdin", "is empty"));
    }
    Ok(Submission {
        executable,
        arguments: reader.words("arguments")?,
        directory: reader.one("directory")?,
        environment: reader.pairs("environment")?,
        stdin,
        stdout: outputs(&reader, "stdout")?,
        stderr: outputs(&reader, "stderr")?,
        count,
        job_type,
        max_time_min: reader.number("max_time", "minutes")?,
        max_wall_time_min: reader.number("max_wall_time", "minutes")?,
        max_cpu_time_min: reader.number("max_cpu_time", "minutes")?,
        min_memory_mib: reader.number("min_memory", "megabytes")?,
        max_memory_mib: reader.number("max_memory", "megabytes")?,
        queue: reader.one("queue")?,
        project: reader.one("project")?,
        host_count: reader.number("host_count", "hosts")?,
        stage_in: reader.pairs("file_stage_in")?,
        stage_in_shared: reader.pairs("file_stage_in_shared")?,
        stage_out: reader.pairs("file_stage_out")?,
        clean_up: reader.words("file_clean_up")?,
        scratch_dir: reader.one("scratch_dir")?,
        gass_cache: reader.one("gass_cache")?,
        remote_io_url: reader.one("remote_io_url")?,
        library_path: reader.words("library_path")?,
        username: reader.one("username")?,
        dry_run: reader.yes("dry_run")?,
        save_state: reader.yes("save_state")?,
        two_phase_s: reader.number("two_phase", "seconds")?.filter(|s| *s > 0),
        expiration_s: reader
            .number("expiration", "seconds")?
            .unwrap_or(DEFAULT_EXPIRATION_S),
        sandbox: reader.one("sandbox")?,
        policy: reader.one("policy")?,
        name: reader.one("name")?,
    })
}
