//! Numbers of failures as GRAM's clients know them (protocol version 2), those that a site of ours gives or may meet.
//! The words are ours; each completes "the job failed because ...".

/// A number and what it means. Zero is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GramCode(pub u16);

macro_rules! codes {
    ($($name:ident = $number:literal, $meaning:literal;)*) => {
        impl GramCode {
            $(pub const $name: GramCode = GramCode($number);)*

            /// Those known here, by number.
            pub const ALL: &'static [(GramCode, &'static str)] = &[$((GramCode($number), $meaning)),*];
        }
    };
}

codes! {
    SUCCESS = 0, "nothing failed";
    PARAMETER_NOT_SUPPORTED = 1, "an attribute of the RSL is not known to the site";
    NO_RESOURCES = 3, "something that the site needs of its machine failed";
    BAD_DIRECTORY = 4, "the working directory cannot be entered";
    EXECUTABLE_NOT_FOUND = 5, "the executable does not exist";
    AUTHORIZATION = 7, "one side does not accept who the other is";
    USER_CANCELLED = 8, "it was cancelled by its owner";
    SYSTEM_CANCELLED = 9, "it was ended by the site";
    PROTOCOL_FAILED = 10, "a message could not be read";
    STDIN_NOT_FOUND = 11, "its standard input does not exist";
    CONNECTION_FAILED = 12, "no connection came about";
    INVALID_MAXTIME = 13, "max_time is no whole number of minutes";
    INVALID_COUNT = 14, "count is no whole number in the site's bounds";
    JOB_EXECUTION_FAILED = 17, "it could not be started";
    JOBTYPE_NOT_SUPPORTED = 26, "the site cannot start jobs of this job_type";
    CANCEL_FAILED = 31, "it could not be cancelled";
    INVALID_HOST_COUNT = 35, "host_count is more than the site's hosts";
    INVALID_QUEUE = 37, "the site has no such queue";
    INVALID_PROJECT = 38, "the site has no such project";
    RSL_EVALUATION = 39, "the RSL has variables that nobody defined";
    DRY_RUN = 41, "it was a dry run: nothing is wrong with it";
    EMPTY_RSL = 42, "the RSL is empty";
    STAGING_EXECUTABLE = 43, "the executable could not be fetched";
    STAGING_STDIN = 44, "the standard input could not be fetched";
    GATEKEEPER_MISCONFIGURED = 47, "the site cannot take jobs as it is set up";
    BAD_RSL = 48, "the RSL cannot be read";
    VERSION_MISMATCH = 49, "the two sides speak different versions of the protocol";
    RSL_ARGUMENTS = 50, "arguments cannot be used";
    RSL_COUNT = 51, "count cannot be used";
    RSL_DIRECTORY = 52, "directory cannot be used";
    RSL_DRY_RUN = 53, "dry_run cannot be used";
    RSL_ENVIRONMENT = 54, "environment cannot be used";
    RSL_EXECUTABLE = 55, "executable cannot be used";
    RSL_HOST_COUNT = 56, "host_count cannot be used";
    RSL_JOB_TYPE = 57, "job_type cannot be used";
    RSL_MAX_TIME = 58, "max_time cannot be used";
    RSL_MY_JOB = 59, "gram_my_job cannot be used";
    RSL_PROJECT = 61, "project cannot be used";
    RSL_QUEUE = 62, "queue cannot be used";
    RSL_STDERR = 63, "stderr cannot be used";
    RSL_STDIN = 64, "stdin cannot be used";
    RSL_STDOUT = 65, "stdout cannot be used";
    EXECUTABLE_PERMISSIONS = 72, "the executable may not be executed";
    OPENING_STDOUT = 73, "its standard output has nowhere to go";
    OPENING_STDERR = 74, "its standard error has nowhere to go";
    OPENING_CACHE = 76, "the cache of the account cannot be used";
    INSERTING_CLIENT_CONTACT = 77, "no more clients can be told of it";
    CLIENT_CONTACT_NOT_FOUND = 78, "this client was not being told of it";
    UNDEFINED_EXECUTABLE = 81, "the RSL names no executable";
    RSL_MIN_MEMORY = 84, "min_memory cannot be used";
    RSL_MAX_MEMORY = 85, "max_memory cannot be used";
    INVALID_MIN_MEMORY = 86, "min_memory is no whole number of megabytes";
    INVALID_MAX_MEMORY = 87, "max_memory is no whole number of megabytes";
    HTTP_UNFRAME = 89, "a message is not framed as GRAM frames them";
    HTTP_UNPACK = 91, "a message lacks what it must hold";
    INVALID_JOB_QUERY = 92, "the request to the job is none that is known";
    SERVICE_NOT_FOUND = 93, "the site has no such service";
    JOB_QUERY_DENIAL = 94, "the job belongs to somebody else";
    RSL_MAX_WALL_TIME = 101, "max_wall_time cannot be used";
    INVALID_MAX_WALL_TIME = 102, "max_wall_time is no whole number of minutes";
    RSL_MAX_CPU_TIME = 103, "max_cpu_time cannot be used";
    INVALID_MAX_CPU_TIME = 104, "max_cpu_time is no whole number of minutes";
    SIGNALLING_JOB = 107, "the job could not be signalled";
    UNKNOWN_SIGNAL = 108, "no such signal is known";
    WAITING_FOR_COMMIT = 110, "it waits to be committed";
    COMMIT_TIMED_OUT = 111, "it was not committed in time";
    RSL_SAVE_STATE = 112, "save_state cannot be used";
    RSL_RESTART = 113, "restart cannot be used";
    RSL_TWO_PHASE = 114, "two_phase cannot be used";
    INVALID_TWO_PHASE = 115, "two_phase is no whole number of seconds";
    RSL_STDOUT_POSITION = 116, "stdout_position cannot be used";
    INVALID_STDOUT_POSITION = 117, "stdout_position is not 0";
    RSL_STDERR_POSITION = 118, "stderr_position cannot be used";
    INVALID_STDERR_POSITION = 119, "stderr_position is not 0";
    RESTART_FAILED = 120, "it could not be taken up again";
    NO_STATE_FILE = 121, "the job to take up is not known";
    TTL_EXPIRED = 125, "it was kept for as long as was promised";
    RSL_REMOTE_IO_URL = 127, "remote_io_url cannot be used";
    WRITING_REMOTE_IO_URL = 128, "the file with its remote_io_url could not be written";
    STDIO_SIZE = 129, "the client has not received all of the output";
    MANAGER_STOPPED = 130, "nobody is told of it any more (it goes on)";
    PROXY_EXPIRED = 131, "its credential has ended (it goes on)";
    JOB_UNSUBMITTED = 132, "it was never submitted";
    INVALID_COMMIT = 133, "it does not wait for this commit";
    STAGE_IN = 135, "a file could not be staged in";
    INVALID_SCRATCH = 136, "its scratch directory could not be made";
    INVALID_SUBMIT_ATTRIBUTE = 138, "an attribute of the RSL is not for submissions";
    INVALID_STDIO_UPDATE_ATTRIBUTE = 139, "an attribute of the RSL is not for updates of stdout and stderr";
    INVALID_RESTART_ATTRIBUTE = 140, "an attribute of the RSL is not for restarts";
    RSL_STAGE_IN = 141, "file_stage_in cannot be used";
    RSL_STAGE_IN_SHARED = 142, "file_stage_in_shared cannot be used";
    RSL_STAGE_OUT = 143, "file_stage_out cannot be used";
    RSL_GASS_CACHE = 144, "gass_cache cannot be used";
    RSL_CLEAN_UP = 145, "file_clean_up cannot be used";
    RSL_SCRATCH = 146, "scratch_dir cannot be used";
    SCHEDULER_SPECIFIC = 147, "an attribute of this kind of site cannot be used";
    UNDEFINED_ATTRIBUTE = 148, "an attribute that must be there is missing";
    INVALID_SAVE_STATE = 150, "save_state is neither yes nor no";
    RSL_PROXY_TIMEOUT = 153, "proxy_timeout cannot be used";
    STAGE_OUT = 155, "a file could not be staged out";
    JOB_CONTACT_NOT_FOUND = 156, "no job is known by this contact";
    DELEGATION_FAILED = 157, "no credential was delegated";
    STILL_STREAMING = 161, "its output is still being sent";
    AUTHORIZATION_DENIED = 162, "the site does not permit it";
    RSL_USER_NAME = 166, "username cannot be used";
    INVALID_USER_NAME = 167, "it would run in another account than username says";
}

impl GramCode {
    /// Completes "the job failed because ...".
    pub fn meaning(self) -> &'static str {
        GramCode::ALL.iter().find(|(code, _)| *code == self).map_or(
            "of a reason with a number that is not known here",
            |(_, meaning)| meaning,
        )
    }
}

impl std::fmt::Display for GramCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
