//! States and ends of our jobs in GRAM's words (spec/gram G30 to G32). Pure.

use kumiko_job::attempt::Outcome;
use kumiko_job::contract::{self, Refusal};
use kumiko_job::staging::Item;
use kumiko_wire::gram::{GramCode, JobState};

/// Where a job is, as its clients are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub state: JobState,
    /// Why it failed.
    pub failure: GramCode,
    pub exit_code: Option<i64>,
}

impl Told {
    pub fn state(state: JobState) -> Told {
        Told {
            state,
            failure: GramCode::SUCCESS,
            exit_code: None,
        }
    }

    pub fn failed(failure: GramCode) -> Told {
        Told {
            failure,
            ..Told::state(JobState::Failed)
        }
    }

    pub fn is_end(self) -> bool {
        matches!(self.state, JobState::Done | JobState::Failed)
    }
}

/// `stages_out`: the request named files to send; else sending is the streams', of which GRAM says nothing.
pub(super) fn told(state: contract::JobState, outcome: Option<&Outcome>, stages_out: bool) -> Told {
    match state {
        contract::JobState::StagingIn => Told::state(JobState::StageIn),
        contract::JobState::Pending => Told::state(JobState::Pending),
        contract::JobState::Active => Told::state(JobState::Active),
        contract::JobState::Suspended => Told::state(JobState::Suspended),
        contract::JobState::StagingOut if stages_out => Told::state(JobState::StageOut),
        contract::JobState::StagingOut => Told::state(JobState::Active),
        contract::JobState::Done | contract::JobState::Failed | contract::JobState::Cancelled => {
            ended(outcome)
        }
    }
}

/// What a shell makes of a program that a signal ended.
const SIGNALLED: i64 = 128;

fn ended(outcome: Option<&Outcome>) -> Told {
    let done = |exit_code| Told {
        exit_code: Some(exit_code),
        ..Told::state(JobState::Done)
    };
    match outcome {
        None => Told::state(JobState::Done),
        Some(Outcome::Exited { status }) => done(i64::from(*status)),
        Some(Outcome::Signalled { signal }) => done(SIGNALLED + i64::from(*signal)),
        Some(Outcome::Cancelled) => Told::failed(GramCode::USER_CANCELLED),
        Some(Outcome::TimeLimit | Outcome::OutputQuota { .. } | Outcome::EngineEnded { .. }) => {
            Told::failed(GramCode::SYSTEM_CANCELLED)
        }
        Some(Outcome::NeverStarted { code, .. }) => Told::failed(never_started(code)),
        Some(Outcome::SpoolFailed { .. }) => Told::failed(GramCode::NO_RESOURCES),
        Some(Outcome::Lost { .. }) => Told::failed(GramCode::JOB_EXECUTION_FAILED),
        Some(Outcome::StagingFailed { item, .. }) => Told::failed(match item {
            Item::Executable => GramCode::STAGING_EXECUTABLE,
            Item::Stdin => GramCode::STAGING_STDIN,
            Item::In(_) | Item::Shared(_) => GramCode::STAGE_IN,
            Item::Stdout(_) => GramCode::OPENING_STDOUT,
            Item::Stderr(_) => GramCode::OPENING_STDERR,
            Item::Out(_) | Item::CleanUp => GramCode::STAGE_OUT,
        }),
    }
}

fn never_started(code: &str) -> GramCode {
    match code {
        "no_such_executable" | "no_interpreter" => GramCode::EXECUTABLE_NOT_FOUND,
        "not_executable" => GramCode::EXECUTABLE_PERMISSIONS,
        "no_such_directory" => GramCode::BAD_DIRECTORY,
        "no_mpi_launcher" => GramCode::JOBTYPE_NOT_SUPPORTED,
        "stdin_unreadable" => GramCode::STDIN_NOT_FOUND,
        "arguments_too_long" => GramCode::RSL_ARGUMENTS,
        "bad_policy" | "policy_asks_more" | "policy_not_enforceable" | "no_such_mechanism" => {
            GramCode::SCHEDULER_SPECIFIC
        }
        _ => GramCode::JOB_EXECUTION_FAILED,
    }
}

/// The number for a manager's refusal.
pub(super) fn refused(refusal: &Refusal) -> GramCode {
    match refusal.code.as_str() {
        "bad_description" => GramCode::BAD_RSL,
        "bad_policy"
        | "policy_asks_more"
        | "policy_not_enforceable"
        | "no_such_mechanism"
        | "mechanism_unavailable"
        | "never_fits"
        | "resource_refused" => GramCode::SCHEDULER_SPECIFIC,
        "queue_refused" => GramCode::INVALID_QUEUE,
        "project_refused" => GramCode::INVALID_PROJECT,
        "host_count_refused" => GramCode::INVALID_HOST_COUNT,
        "site_policy" => GramCode::AUTHORIZATION_DENIED,
        "no_such_job" => GramCode::JOB_CONTACT_NOT_FOUND,
        "site_draining" | "site_closing" => GramCode::JOB_QUERY_DENIAL,
        "limited_proxy" => GramCode::AUTHORIZATION,
        "bad_delegation" => GramCode::DELEGATION_FAILED,
        _ => GramCode::NO_RESOURCES,
    }
}
