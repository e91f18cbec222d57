//! Reading and checking a description (spec/jobs, "Description"). Every error names the field, what is wrong with it and
//! what to try. Not here: what the site's policy allows (policy), whether files exist (only the guest's view can tell).

use crate::contract::Refusal;
use crate::description::{JobDescription, Mpi, OutputMode, Stdin};
use crate::url::UrlError;
use kumiko_policy::Limited;

/// Bytes of a whole description: what execve takes at most (ARG_MAX with the default 8 MiB stack is 2 MiB), once.
pub const MAX_DESCRIPTION_BYTES: usize = 2 * 1024 * 1024;
/// One path or name. PATH_MAX of linux/limits.h, with its final NUL.
pub const MAX_PATH_BYTES: usize = 4095;
/// Arguments; far above what is useful, far below what would make argv itself (8 bytes each) noticeable.
pub const MAX_ARGUMENTS: usize = 16_384;
/// One argument or variable: MAX_ARG_STRLEN of execve(2), 32 pages, with its final NUL.
pub const MAX_STRING_BYTES: usize = 131_071;
/// Variables.
pub const MAX_VARIABLES: usize = 4096;
/// Arguments and environment together: a quarter of the default stack less what the runner adds (execve(2), ARG_MAX).
pub const MAX_EXEC_BYTES: usize = 1024 * 1024;
/// A job's name stands in lists, on one line.
pub const MAX_NAME_BYTES: usize = 128;
/// A policy is written by hand.
pub const MAX_POLICY_BYTES: usize = 64 * 1024;
/// Instances of one job on one host.
pub const MAX_COUNT: u32 = 1024;
/// A year: longer is a slip of the pen.
pub const MAX_TIME_LIMIT_S: u64 = 366 * 24 * 3600;
/// A day: whoever wants longer wants no limit.
pub const MAX_GRACE_MS: u64 = 24 * 3600 * 1000;
/// Processors or graphics processors of one job: more than any host has.
pub const MAX_CPUS: u32 = 65_536;
/// Of one job: a host with more, 4 PiB, is not built yet.
pub const MAX_MEMORY_MIB: u64 = 1 << 32;
/// Rows or columns of a terminal.
pub const MAX_WINDOW: u16 = 4096;

/// Files of one list: each is a connection, one after the other.
pub const MAX_FILES: usize = 1024;
/// Destinations of one stream: each is a connection as long as the job.
pub const MAX_DESTINATIONS: usize = 16;

/// What is wrong with a description. Always the caller's fault; never worth a retry as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    #[error("the description has {bytes} bytes, at most {most} are read: send big data as files")]
    TooLong { bytes: usize, most: usize },
    #[error(
        "{path}: {what} (line {line}, column {column}): see spec/jobs for the fields and their types"
    )]
    Form {
        path: String,
        what: String,
        line: usize,
        column: usize,
    },
    #[error("{path}: is empty; {hint}")]
    Empty { path: String, hint: &'static str },
    #[error("{path}: holds a zero byte, which no program can be given")]
    ZeroByte { path: String },
    #[error("{path}: has {bytes} bytes, at most {most} are allowed; {hint}")]
    TooBig {
        path: String,
        bytes: usize,
        most: usize,
        hint: &'static str,
    },
    #[error("{path}: has {count} entries, at most {most} are allowed; put them in a file")]
    TooMany {
        path: String,
        count: usize,
        most: usize,
    },
    #[error("{path}: is {value}, must be from {least} to {most}")]
    OutOfRange {
        path: String,
        value: u64,
        least: u64,
        most: u64,
    },
    #[error("{path}: the URL {url} {cause}; spec/staging has the form")]
    Url {
        path: String,
        url: String,
        cause: UrlError,
    },
    #[error("{path}: {what}; {hint}")]
    Bad {
        path: String,
        what: &'static str,
        hint: &'static str,
    },
    #[error("{path} and {other} cannot be asked for together; {hint}")]
    Conflict {
        path: &'static str,
        other: &'static str,
        hint: &'static str,
    },
}

impl From<DescriptionError> for Refusal {
    fn from(error: DescriptionError) -> Refusal {
        Refusal::new(
            "bad_description",
            format!("the job's description is refused: {error}"),
        )
    }
}

impl JobDescription {
    /// Reads and checks the JSON form.
    pub fn from_json(bytes: &[u8]) -> Result<JobDescription, DescriptionError> {
        if bytes.len() > MAX_DESCRIPTION_BYTES {
            return Err(DescriptionError::TooLong {
                bytes: bytes.len(),
                most: MAX_DESCRIPTION_BYTES,
            });
        }
        // serde would take a list for the fields in their order.
        if bytes.trim_ascii_start().first() == Some(&b'[') {
            return Err(DescriptionError::Bad {
                path: "description".to_owned(),
                what: "is a list",
                hint: "give an object with the field executable",
            });
        }
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let description: JobDescription =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| {
                // Where the text itself is broken the last part has no name, shown as "?": the place is told by its line.
                let path = error.path().to_string();
                let named = path.trim_end_matches(['.', '?']);
                let path = if named.is_empty() {
                    "description"
                } else {
                    named
                };
                form(path.to_owned(), error.inner())
            })?;
        reader
            .end()
            .map_err(|error| form("description".to_owned(), &error))?;
        description.validate()?;
        Ok(description)
    }

    /// Checks what the types leave open. `from_json` has done so already.
    pub fn validate(&self) -> Result<(), DescriptionError> {
        path("executable", &self.executable, "name a program")?;
        let mut exec_bytes = self.executable.len();
        many("arguments", self.arguments.len(), MAX_ARGUMENTS)?;
        for (index, argument) in self.arguments.iter().enumerate() {
            text(
                || format!("arguments[{index}]"),
                argument,
                MAX_STRING_BYTES,
                "put it in a file",
            )?;
            exec_bytes += argument.len() + 1;
        }
        many("environment", self.environment.len(), MAX_VARIABLES)?;
        for (name, value) in &self.environment {
            variable_name(name)?;
            text(
                || format!("environment.{name}"),
                value,
                MAX_STRING_BYTES,
                "put it in a file",
            )?;
            exec_bytes += name.len() + value.len() + 2;
        }
        big(
            "arguments",
            exec_bytes,
            MAX_EXEC_BYTES,
            "with the environment; put them in a file",
        )?;
        if let Some(directory) = &self.directory {
            path(
                "directory",
                directory,
                "leave it out for the job's own directory",
            )?;
        }
        if let Some(input) = &self.input {
            made_by_site(
                "input",
                input,
                "is not the name of an upload",
                "upload a folder first and give the name that the site answered",
            )?;
        }
        if let Some(credential) = &self.credential {
            made_by_site(
                "credential",
                credential,
                "is not the name of a delegated credential",
                "delegate one first and give the name that the site answered",
            )?;
        }
        if let Stdin::File(file) = &self.stdin {
            path(
                "stdin.file",
                file,
                "name a file below the job's own directory",
            )?;
            if file.starts_with('/') || file.split('/').any(|part| part == "..") {
                return Err(DescriptionError::Bad {
                    path: "stdin.file".to_owned(),
                    what: "leads out of the job's own directory",
                    hint: "give a relative path without ..",
                });
            }
        }
        self.validate_staging()?;
        if let Some(window) = self.terminal {
            range("terminal.rows", window.rows.into(), 0, MAX_WINDOW.into())?;
            range(
                "terminal.columns",
                window.columns.into(),
                0,
                MAX_WINDOW.into(),
            )?;
            if self.count > 1 {
                return Err(DescriptionError::Conflict {
                    path: "terminal",
                    other: "count above 1",
                    hint: "one terminal cannot belong to several programs",
                });
            }
        }
        self.validate_mpi()?;
        if self.stdin == Stdin::Live && self.count > 1 && self.mpi.is_none() {
            return Err(DescriptionError::Conflict {
                path: "stdin live",
                other: "count above 1",
                hint: "use a file, which each instance reads by itself",
            });
        }
        range("count", self.count.into(), 1, MAX_COUNT.into())?;
        if let Some(limit) = self.time_limit_s {
            range("time_limit_s", limit, 1, MAX_TIME_LIMIT_S)?;
        }
        self.validate_resources()?;
        if let Some(after) = self.attended_s {
            range("attended_s", after, 1, MAX_TIME_LIMIT_S)?;
        }
        if let Some(grace) = self.grace_ms {
            range("grace_ms", grace, 0, MAX_GRACE_MS)?;
        }
        if let Some(name) = &self.name {
            word("name", name)?;
        }
        if let Some(mechanism) = &self.mechanism {
            word("mechanism", mechanism)?;
        }
        if let Some(policy) = &self.policy {
            text(
                || "policy".to_owned(),
                policy,
                MAX_POLICY_BYTES,
                "shorten it",
            )?;
        }
        if let Some(placement) = &self.placement {
            placement.validate()?;
        }
        if let Some(together) = &self.together {
            together.validate()?;
        }
        self.validate_rerun()
    }
}

impl JobDescription {
    fn validate_mpi(&self) -> Result<(), DescriptionError> {
        if self.mpi.is_none() {
            return Ok(());
        }
        if self.terminal.is_some() {
            return Err(DescriptionError::Conflict {
                path: "terminal",
                other: "mpi",
                hint: "ranks have pipes of their launcher's",
            });
        }
        let hosts = self.resources.host_count.unwrap_or(1);
        if self.mpi == Some(Mpi::Proxy) && hosts > 1 {
            return Err(DescriptionError::Conflict {
                path: "mpi proxy",
                other: "host_count above 1",
                hint: "the ranks of one part are on one host: name the site once more for another",
            });
        }
        if self.mpi == Some(Mpi::Proxy) && self.stdin != Stdin::Live {
            return Err(DescriptionError::Conflict {
                path: "mpi proxy",
                other: "another stdin than live",
                hint: "it is the connection of MPICH's launcher: use `kumiko job run --across`",
            });
        }
        match self.arguments.iter().position(|word| word == ":") {
            None => Ok(()),
            Some(index) => Err(DescriptionError::Bad {
                path: format!("arguments[{index}]"),
                what: "is \":\", behind which mpiexec reads another program",
                hint: "for several programs start mpiexec as the executable, without mpi",
            }),
        }
    }

    /// What somebody has of it while it runs cannot begin anew.
    fn validate_rerun(&self) -> Result<(), DescriptionError> {
        let not_with = [
            ("stdin live", self.stdin == Stdin::Live),
            ("output flow", self.output == OutputMode::Flow),
            ("terminal", self.terminal.is_some()),
            ("attended_s", self.attended_s.is_some()),
            ("stdout", !self.stdout.is_empty()),
            ("stderr", !self.stderr.is_empty()),
            ("together", self.together.is_some()),
        ];
        match not_with.into_iter().find(|(_, asked)| *asked) {
            Some((other, _)) if self.rerun => Err(DescriptionError::Conflict {
                path: "rerun",
                other,
                hint: "what somebody has of a job while it runs does not begin anew",
            }),
            _ => Ok(()),
        }
    }

    fn validate_resources(&self) -> Result<(), DescriptionError> {
        let resources = &self.resources;
        let numbers = [
            ("resources.cpus", resources.cpus, 1),
            ("resources.gpus", resources.gpus, 0),
            ("resources.host_count", resources.host_count, 1),
        ];
        for (name, number, least) in numbers {
            if let Some(number) = number {
                range(name, number.into(), least, MAX_CPUS.into())?;
            }
        }
        let rates = [
            ("resources.memory_mib", resources.memory_mib, MAX_MEMORY_MIB),
            (
                "resources.cpu_percent",
                resources.cpu_percent,
                Limited::Cpu.most(),
            ),
            (
                "resources.network_kbyte_s",
                resources.network_kbyte_s,
                Limited::Network.most(),
            ),
            (
                "resources.disk_kbyte_s",
                resources.disk_kbyte_s,
                Limited::Disk.most(),
            ),
            (
                "resources.processes",
                resources.processes,
                Limited::Processes.most(),
            ),
        ];
        for (name, number, most) in rates {
            if let Some(number) = number {
                range(name, number, 1, most)?;
            }
        }
        if resources.cpus.is_some() && resources.cpu_percent.is_some() {
            return Err(DescriptionError::Conflict {
                path: "resources.cpus",
                other: "resources.cpu_percent",
                hint: "say one of them: 100 % are one processor",
            });
        }
        for (name, value) in [
            ("resources.queue", &resources.queue),
            ("resources.project", &resources.project),
        ] {
            if let Some(value) = value {
                engine_name(name, value)?;
            }
        }
        Ok(())
    }
}

/// A name that is handed to an engine's command: what could be read as something else by any of them is refused.
fn engine_name(field: &'static str, value: &str) -> Result<(), DescriptionError> {
    word(field, value)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+@".contains(c);
    if value.starts_with('-') || !value.chars().all(plain) {
        return Err(DescriptionError::Bad {
            path: field.to_owned(),
            what: "is no name of an engine's",
            hint: "letters, digits and . _ - + @ are, but no - at the beginning",
        });
    }
    Ok(())
}

fn form(path: String, error: &serde_json::Error) -> DescriptionError {
    let mut what = error.to_string();
    // The place is told apart from the words.
    if let Some(at) = what.rfind(" at line ") {
        what.truncate(at);
    }
    DescriptionError::Form {
        path,
        what,
        line: error.line(),
        column: error.column(),
    }
}

pub(crate) fn text(
    path: impl Fn() -> String,
    value: &str,
    most: usize,
    hint: &'static str,
) -> Result<(), DescriptionError> {
    if value.len() > most {
        return Err(DescriptionError::TooBig {
            path: path(),
            bytes: value.len(),
            most,
            hint,
        });
    }
    if value.contains('\0') {
        return Err(DescriptionError::ZeroByte { path: path() });
    }
    Ok(())
}

pub(crate) fn path(field: &str, value: &str, hint: &'static str) -> Result<(), DescriptionError> {
    if value.is_empty() {
        return Err(DescriptionError::Empty {
            path: field.to_owned(),
            hint,
        });
    }
    text(
        || field.to_owned(),
        value,
        MAX_PATH_BYTES,
        "no path may be longer",
    )
}

pub(crate) fn word(field: &str, value: &str) -> Result<(), DescriptionError> {
    if value.is_empty() {
        return Err(DescriptionError::Empty {
            path: field.to_owned(),
            hint: "leave it out",
        });
    }
    text(|| field.to_owned(), value, MAX_NAME_BYTES, "shorten it")?;
    if value.chars().any(char::is_control) {
        return Err(DescriptionError::Bad {
            path: field.to_owned(),
            what: "holds a control character",
            hint: "it must fit on one line of a list",
        });
    }
    Ok(())
}

fn variable_name(name: &str) -> Result<(), DescriptionError> {
    let what = if name.is_empty() {
        "a variable has no name"
    } else if name.contains('=') {
        "the name of a variable holds ="
    } else if name.contains('\0') {
        "the name of a variable holds a zero byte"
    } else if name.len() > MAX_STRING_BYTES {
        "the name of a variable is longer than a program can be given"
    } else {
        return Ok(());
    };
    Err(DescriptionError::Bad {
        path: "environment".to_owned(),
        what,
        hint: "environ(7) says what names are",
    })
}

/// Names of uploads and credentials are made by the site (spec/jobs J50, J60): nothing else is looked for in a file system.
fn made_by_site(
    path: &str,
    name: &str,
    what: &'static str,
    hint: &'static str,
) -> Result<(), DescriptionError> {
    let fits = !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if fits {
        Ok(())
    } else {
        Err(DescriptionError::Bad {
            path: path.to_owned(),
            what,
            hint,
        })
    }
}

pub(crate) fn many(path: &str, count: usize, most: usize) -> Result<(), DescriptionError> {
    if count > most {
        return Err(DescriptionError::TooMany {
            path: path.to_owned(),
            count,
            most,
        });
    }
    Ok(())
}

fn big(path: &str, bytes: usize, most: usize, hint: &'static str) -> Result<(), DescriptionError> {
    if bytes > most {
        return Err(DescriptionError::TooBig {
            path: path.to_owned(),
            bytes,
            most,
            hint,
        });
    }
    Ok(())
}

pub(crate) fn range(path: &str, value: u64, least: u64, most: u64) -> Result<(), DescriptionError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(DescriptionError::OutOfRange {
        path: path.to_owned(),
        value,
        least,
        most,
    })
}
