//! The attributes of a request (spec/rsl R20): their names, what they belong to, and GRAM's numbers for what is wrong
//! with them.

use super::code::GramCode;
use super::syntax::canonical;

/// What is asked for with an RSL text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Submit,
    Restart,
    StdioUpdate,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Submit => "a submission",
            Operation::Restart => "a restart",
            Operation::StdioUpdate => "an update of stdout and stderr",
        }
    }

    /// For an attribute that belongs elsewhere.
    pub(super) fn wrong(self) -> GramCode {
        match self {
            Operation::Submit => GramCode::INVALID_SUBMIT_ATTRIBUTE,
            Operation::Restart => GramCode::INVALID_RESTART_ATTRIBUTE,
            Operation::StdioUpdate => GramCode::INVALID_STDIO_UPDATE_ATTRIBUTE,
        }
    }
}

#[derive(Debug)]
pub struct Attribute {
    pub name: &'static str,
    /// Its shape cannot be used.
    pub shape: GramCode,
    /// Its value is out of bounds.
    pub value: GramCode,
    pub submit: bool,
    pub restart: bool,
    pub stdio_update: bool,
    /// May stand several times; the values are joined.
    pub joins: bool,
}

impl Attribute {
    pub fn takes(&self, operation: Operation) -> bool {
        match operation {
            Operation::Submit => self.submit,
            Operation::Restart => self.restart,
            Operation::StdioUpdate => self.stdio_update,
        }
    }

    pub(super) fn belongs(&self) -> &'static str {
        match (self.submit, self.restart) {
            (true, _) => "submissions",
            (false, true) => "restarts",
            (false, false) => "updates",
        }
    }
}

const fn submit(name: &'static str, shape: GramCode, value: GramCode) -> Attribute {
    Attribute {
        name,
        shape,
        value,
        submit: true,
        restart: false,
        stdio_update: false,
        joins: false,
    }
}

const fn list(name: &'static str, shape: GramCode) -> Attribute {
    Attribute {
        joins: true,
        ..submit(name, shape, shape)
    }
}

/// Of all three operations.
const fn always(name: &'static str, shape: GramCode) -> Attribute {
    Attribute {
        restart: true,
        stdio_update: true,
        ..submit(name, shape, shape)
    }
}

const fn restart(name: &'static str, shape: GramCode, value: GramCode) -> Attribute {
    Attribute {
        submit: false,
        restart: true,
        ..submit(name, shape, value)
    }
}

const fn position(name: &'static str, shape: GramCode, value: GramCode) -> Attribute {
    Attribute {
        stdio_update: true,
        ..restart(name, shape, value)
    }
}

pub const ATTRIBUTES: &[Attribute] = &[
    list("arguments", GramCode::RSL_ARGUMENTS),
    submit("count", GramCode::RSL_COUNT, GramCode::INVALID_COUNT),
    submit(
        "directory",
        GramCode::RSL_DIRECTORY,
        GramCode::BAD_DIRECTORY,
    ),
    submit("dry_run", GramCode::RSL_DRY_RUN, GramCode::RSL_DRY_RUN),
    list("environment", GramCode::RSL_ENVIRONMENT),
    submit(
        "executable",
        GramCode::RSL_EXECUTABLE,
        GramCode::RSL_EXECUTABLE,
    ),
    submit(
        "expiration",
        GramCode::SCHEDULER_SPECIFIC,
        GramCode::SCHEDULER_SPECIFIC,
    ),
    list("file_clean_up", GramCode::RSL_CLEAN_UP),
    list("file_stage_in", GramCode::RSL_STAGE_IN),
    list("file_stage_in_shared", GramCode::RSL_STAGE_IN_SHARED),
    list("file_stage_out", GramCode::RSL_STAGE_OUT),
    submit(
        "gass_cache",
        GramCode::RSL_GASS_CACHE,
        GramCode::RSL_GASS_CACHE,
    ),
    submit("gram_my_job", GramCode::RSL_MY_JOB, GramCode::RSL_MY_JOB),
    submit(
        "host_count",
        GramCode::RSL_HOST_COUNT,
        GramCode::INVALID_HOST_COUNT,
    ),
    submit("job_type", GramCode::RSL_JOB_TYPE, GramCode::RSL_JOB_TYPE),
    list("library_path", GramCode::SCHEDULER_SPECIFIC),
    submit(
        "log_level",
        GramCode::SCHEDULER_SPECIFIC,
        GramCode::SCHEDULER_SPECIFIC,
    ),
    submit(
        "log_pattern",
        GramCode::SCHEDULER_SPECIFIC,
        GramCode::SCHEDULER_SPECIFIC,
    ),
    submit(
        "max_cpu_time",
        GramCode::RSL_MAX_CPU_TIME,
        GramCode::INVALID_MAX_CPU_TIME,
    ),
    submit(
        "max_memory",
        GramCode::RSL_MAX_MEMORY,
        GramCode::INVALID_MAX_MEMORY,
    ),
    submit(
        "max_time",
        GramCode::RSL_MAX_TIME,
        GramCode::INVALID_MAXTIME,
    ),
    submit(
        "max_wall_time",
        GramCode::RSL_MAX_WALL_TIME,
        GramCode::INVALID_MAX_WALL_TIME,
    ),
    submit(
        "min_memory",
        GramCode::RSL_MIN_MEMORY,
        GramCode::INVALID_MIN_MEMORY,
    ),
    submit(
        "name",
        GramCode::SCHEDULER_SPECIFIC,
        GramCode::SCHEDULER_SPECIFIC,
    ),
    submit(
        "policy",
        GramCode::SCHEDULER_SPECIFIC,
        GramCode::SCHEDULER_SPECIFIC,
    ),
    submit("project", GramCode::RSL_PROJECT, GramCode::INVALID_PROJECT),
    Attribute {
        restart: true,
        ..submit(
            "proxy_timeout",
            GramCode::RSL_PROXY_TIMEOUT,
            GramCode::RSL_PROXY_TIMEOUT,
        )
    },
    submit("queue", GramCode::RSL_QUEUE, GramCode::INVALID_QUEUE),
    always("remote_io_url", GramCode::RSL_REMOTE_IO_URL),
    restart("restart", GramCode::RSL_RESTART, GramCode::NO_STATE_FILE),
    restart(
        "restart_contacts",
        GramCode::RSL_RESTART,
        GramCode::RSL_RESTART,
    ),
    submit(
        "sandbox",
        GramCode::SCHEDULER_SPECIFIC,
        GramCode::SCHEDULER_SPECIFIC,
    ),
    submit(
        "save_job_description",
        GramCode::SCHEDULER_SPECIFIC,
        GramCode::SCHEDULER_SPECIFIC,
    ),
    submit(
        "save_state",
        GramCode::RSL_SAVE_STATE,
        GramCode::INVALID_SAVE_STATE,
    ),
    submit(
        "scratch_dir",
        GramCode::RSL_SCRATCH,
        GramCode::INVALID_SCRATCH,
    ),
    always("stderr", GramCode::RSL_STDERR),
    position(
        "stderr_position",
        GramCode::RSL_STDERR_POSITION,
        GramCode::INVALID_STDERR_POSITION,
    ),
    submit("stdin", GramCode::RSL_STDIN, GramCode::RSL_STDIN),
    always("stdout", GramCode::RSL_STDOUT),
    position(
        "stdout_position",
        GramCode::RSL_STDOUT_POSITION,
        GramCode::INVALID_STDOUT_POSITION,
    ),
    submit(
        "two_phase",
        GramCode::RSL_TWO_PHASE,
        GramCode::INVALID_TWO_PHASE,
    ),
    submit(
        "username",
        GramCode::RSL_USER_NAME,
        GramCode::INVALID_USER_NAME,
    ),
];

/// Other spellings that have been in use, in canonical form.
const ALIASES: &[(&str, &str)] = &[
    ("twophasecommit", "two_phase"),
    ("filecleanup", "file_clean_up"),
    ("user_name", "username"),
    ("myjob", "gram_my_job"),
    ("grammyjob", "gram_my_job"),
];

/// Finds an attribute by any of its spellings.
pub fn find(written: &str) -> Option<&'static Attribute> {
    let name = canonical(written);
    let name = ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name, |(_, known)| canonical(known));
    ATTRIBUTES
        .iter()
        .find(|attribute| canonical(attribute.name) == name)
}
