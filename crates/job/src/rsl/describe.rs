//! What a submission becomes (spec/rsl R30 to R35): a job's description. What a site of ours cannot do is refused by
//! GRAM's number for it, never left out silently.

use super::code::GramCode;
use super::error::{RslError, RslProblem};
use super::request::{Goes, JobType, StdioUpdate, Submission};
use super::syntax::{Place, Spec, Value, canonical};
use crate::description::{Destination, JobDescription, Mpi, StageIn, StageOut, Stdin};
use crate::staging::in_job_directory;
use crate::url::looks_like_url;
use crate::validate::DescriptionError;

/// RSL's times are minutes.
const SECONDS_A_MINUTE: u64 = 60;
/// What the variable HOME stands for: the job's own directory.
pub const HOME: &str = kumiko_policy::JOB_DIRECTORY;
const CACHE: &str = "x-gass-cache:";
/// The batch system that `job_type=condor` asks for, as [`crate::contract::BatchSystem`] names it.
const CONDOR: &str = "condor";
/// Below the job's own directory: the file that GLOBUS_REMOTE_IO_URL names, with `remote_io_url` and a line feed in it.
pub const REMOTE_IO: &str = ".remote_io_url";

/// None: as before.
type Outputs = Option<Vec<Destination>>;

fn refuse(code: GramCode, what: impl Into<String>) -> RslError {
    RslProblem::Description {
        code,
        what: what.into(),
    }
    .at(Place::default())
}

impl Submission {
    /// The job's description, checked. `account` is the one that it will run in, `batch` the site's batch system.
    ///
    /// # Errors
    /// What this kind of site cannot do, with GRAM's number.
    pub fn describe(&self, account: &str, batch: &str) -> Result<JobDescription, RslError> {
        self.possible(account, batch)?;
        let mut description = JobDescription::new(&self.executable, &self.arguments);
        description.directory = self.directory.clone();
        description.environment = self.environment.iter().cloned().collect();
        if !self.library_path.is_empty() {
            let path = self.library_path.join(":");
            description
                .environment
                .insert("LD_LIBRARY_PATH".to_owned(), path);
        }
        description.stdin = self.stdin()?;
        description.stdout = destinations(&self.stdout, GramCode::OPENING_STDOUT)?;
        description.stderr = destinations(&self.stderr, GramCode::OPENING_STDERR)?;
        description.stage_in = stage_in(&self.stage_in, GramCode::RSL_STAGE_IN)?;
        description.stage_in_shared =
            stage_in(&self.stage_in_shared, GramCode::RSL_STAGE_IN_SHARED)?;
        description.stage_out = self
            .stage_out
            .iter()
            .map(|(from, to)| {
                Ok(StageOut {
                    from: below(from, GramCode::RSL_STAGE_OUT)?,
                    to: to.clone(),
                })
            })
            .collect::<Result<_, RslError>>()?;
        description.clean_up = self
            .clean_up
            .iter()
            .map(|path| below(path, GramCode::RSL_CLEAN_UP))
            .collect::<Result<_, _>>()?;
        description.scratch = self
            .scratch_dir
            .as_deref()
            .map(|path| below(path, GramCode::RSL_SCRATCH))
            .transpose()?;
        description.cache = self
            .gass_cache
            .as_deref()
            .map(|path| below(path, GramCode::RSL_GASS_CACHE))
            .transpose()?;
        if self.remote_io_url.is_some() {
            // What the file holds is the door's: it may change while the job runs.
            let place = format!("{HOME}/{REMOTE_IO}");
            description
                .environment
                .insert("GLOBUS_REMOTE_IO_URL".to_owned(), place);
        }
        description.count = match self.job_type {
            JobType::Single => 1,
            _ => u32::try_from(self.count).unwrap_or(u32::MAX),
        };
        description.mpi = (self.job_type == JobType::Mpi).then_some(Mpi::Auto);
        description.time_limit_s = [self.max_wall_time_min, self.max_time_min]
            .into_iter()
            .flatten()
            .filter(|minutes| *minutes > 0)
            .min()
            .map(|minutes| minutes.saturating_mul(SECONDS_A_MINUTE));
        description.mechanism = self.sandbox.clone();
        description.name = self.name.clone();
        description.resources.queue = self.queue.clone();
        description.resources.project = self.project.clone();
        description.resources.host_count = self
            .host_count
            .filter(|hosts| *hosts > 0)
            .map(|hosts| u32::try_from(hosts).unwrap_or(u32::MAX));
        description.policy = self.limited()?;
        description.validate().map_err(|error| {
            let code = code_of(&error);
            refuse(code, error.to_string())
        })?;
        Ok(description)
    }

    /// The job's policy, of which some limits have attributes of their own.
    fn limited(&self) -> Result<Option<String>, RslError> {
        let limits = [
            (
                "max_memory",
                GramCode::RSL_MAX_MEMORY,
                "memory_mib",
                self.max_memory_mib,
            ),
            (
                "max_cpu_time",
                GramCode::RSL_MAX_CPU_TIME,
                "cpu_time_s",
                self.max_cpu_time_min
                    .map(|minutes| minutes.saturating_mul(SECONDS_A_MINUTE)),
            ),
        ];
        let mut policy = self.policy.clone();
        for (attribute, code, limit, amount) in limits {
            let Some(amount) = amount.filter(|amount| *amount > 0) else {
                continue;
            };
            if self.policy.is_some() {
                let what = format!(
                    "policy and {attribute} cannot both be given: say {limit} in the policy"
                );
                return Err(refuse(code, what));
            }
            let text = policy.get_or_insert_with(|| "[limits]\n".to_owned());
            text.push_str(&format!("{limit} = {amount}\n"));
        }
        Ok(policy)
    }

    fn possible(&self, account: &str, batch: &str) -> Result<(), RslError> {
        if let Some(wanted) = self.username.as_deref().filter(|wanted| *wanted != account) {
            let what = format!("username is {wanted}, and the job would run as {account}");
            return Err(refuse(GramCode::INVALID_USER_NAME, what));
        }
        // What HTCondor starts is of one kind since its standard universe is no more (8.9).
        if self.job_type == JobType::Condor && batch != CONDOR {
            let what = format!("job_type condor: the batch system of this site is {batch}");
            return Err(refuse(GramCode::JOBTYPE_NOT_SUPPORTED, what));
        }
        if self.remote_io_url.as_deref().is_some_and(not_a_line) {
            let what = "remote_io_url: is no line of a file";
            return Err(refuse(GramCode::RSL_REMOTE_IO_URL, what));
        }
        Ok(())
    }

    fn stdin(&self) -> Result<Stdin, RslError> {
        match &self.stdin {
            None => Ok(Stdin::Empty),
            Some(url) if looks_like_url(url) => Ok(Stdin::Url(url.clone())),
            Some(path) => match in_job_directory(path) {
                Some(path) => Ok(Stdin::File(path.to_owned())),
                None => {
                    let what = format!(
                        "stdin: {path} is outside of the job's own directory: give a URL (file:///... for one of the site's)"
                    );
                    Err(refuse(GramCode::STDIN_NOT_FOUND, what))
                }
            },
        }
    }
}

impl StdioUpdate {
    /// Where stdout and stderr go from now on, as descriptions have it; None: as before.
    ///
    /// # Errors
    /// What cannot be a destination, or an URL in a file, with GRAM's number.
    pub fn destinations(&self) -> Result<(Outputs, Outputs), RslError> {
        if self.remote_io_url.as_deref().is_some_and(not_a_line) {
            let what = "remote_io_url: is no line of a file";
            return Err(refuse(GramCode::RSL_REMOTE_IO_URL, what));
        }
        let moved = |goes: &Option<Vec<Goes>>, code| {
            let goes = goes.as_ref();
            goes.map(|goes| destinations(goes, code)).transpose()
        };
        Ok((
            moved(&self.stdout, GramCode::OPENING_STDOUT)?,
            moved(&self.stderr, GramCode::OPENING_STDERR)?,
        ))
    }
}

/// The guest's view of the directory that `scratch_dir` asks for, before its variables are filled in: what the variable
/// SCRATCH_DIRECTORY stands for in the same text.
pub fn scratch_directory(spec: &Spec) -> Option<String> {
    match spec {
        Spec::Combined { parts, .. } => parts.iter().find_map(scratch_directory),
        Spec::Relation(relation) if canonical(&relation.attribute) == "scratchdir" => {
            match relation.values.as_slice() {
                [Value::Literal { text, .. }] => {
                    in_job_directory(text).map(|path| format!("{HOME}/{path}"))
                }
                _ => None,
            }
        }
        Spec::Relation(_) => None,
    }
}

/// Destinations of an output, as the description has them: `/dev/null` is none at all.
fn destinations(goes: &[Goes], code: GramCode) -> Result<Vec<Destination>, RslError> {
    goes.iter()
        .filter(|goes| goes.to != "/dev/null")
        .map(|goes| {
            let to = if looks_like_url(&goes.to) {
                goes.to.clone()
            } else {
                below(&goes.to, code)?
            };
            if goes.tag.is_some() && !to.starts_with(CACHE) {
                let what = format!("{to}: only a destination of the form {CACHE}//... takes a tag");
                return Err(refuse(code, what));
            }
            Ok(Destination {
                to,
                tag: goes.tag.clone(),
                position: 0,
            })
        })
        .collect()
}

fn stage_in(pairs: &[(String, String)], code: GramCode) -> Result<Vec<StageIn>, RslError> {
    pairs
        .iter()
        .map(|(from, to)| {
            Ok(StageIn {
                from: from.clone(),
                to: below(to, code)?,
                bytes: None,
                sha256: None,
            })
        })
        .collect()
}

fn not_a_line(text: &str) -> bool {
    text.is_empty() || text.contains(['\n', '\r'])
}

fn below(path: &str, code: GramCode) -> Result<String, RslError> {
    in_job_directory(path).map(str::to_owned).ok_or_else(|| {
        let what = format!("{path}: is no path below the job's own directory ($(HOME))");
        refuse(code, what)
    })
}

/// The number for a field that the description's own check refuses.
fn code_of(error: &DescriptionError) -> GramCode {
    let path = match error {
        DescriptionError::TooLong { .. } => "",
        DescriptionError::Conflict { path, .. } => path,
        DescriptionError::Form { path, .. }
        | DescriptionError::Empty { path, .. }
        | DescriptionError::ZeroByte { path }
        | DescriptionError::TooBig { path, .. }
        | DescriptionError::TooMany { path, .. }
        | DescriptionError::OutOfRange { path, .. }
        | DescriptionError::Url { path, .. }
        | DescriptionError::Bad { path, .. } => path.as_str(),
    };
    let path = path.strip_prefix("resources.").unwrap_or(path);
    match path.split(['[', '.', ' ']).next().unwrap_or_default() {
        "executable" => GramCode::RSL_EXECUTABLE,
        "arguments" => GramCode::RSL_ARGUMENTS,
        "environment" => GramCode::RSL_ENVIRONMENT,
        "directory" => GramCode::RSL_DIRECTORY,
        "stdin" => GramCode::RSL_STDIN,
        "stdout" => GramCode::RSL_STDOUT,
        "stderr" => GramCode::RSL_STDERR,
        "stage_in" => GramCode::RSL_STAGE_IN,
        "stage_in_shared" => GramCode::RSL_STAGE_IN_SHARED,
        "stage_out" => GramCode::RSL_STAGE_OUT,
        "clean_up" => GramCode::RSL_CLEAN_UP,
        "scratch" => GramCode::RSL_SCRATCH,
        "cache" => GramCode::RSL_GASS_CACHE,
        "count" => GramCode::INVALID_COUNT,
        "time_limit_s" => GramCode::INVALID_MAX_WALL_TIME,
        "queue" => GramCode::INVALID_QUEUE,
        "project" => GramCode::INVALID_PROJECT,
        "host_count" => GramCode::INVALID_HOST_COUNT,
        _ => GramCode::SCHEDULER_SPECIFIC,
    }
}
