//! Why a guest was not started: what was tried, on what, whose fault it is, what to try.

/// `code()` names the row of spec/errors.toml.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    // The mechanism.
    #[error(
        "no mechanism is called \"{name}\"; there are auto, ptrace, notify, library, namespace"
    )]
    NoSuchMechanism { name: String },
    #[error("this policy is strict, and mechanism \"{mechanism}\" does not enforce: {}", .what.join("; "))]
    Strict {
        mechanism: String,
        what: Vec<String>,
    },
    #[error(
        "mechanism \"{mechanism}\" does not hold guests to the addresses that the policy names: use notify or ptrace"
    )]
    Addresses { mechanism: &'static str },
    #[error(
        "mechanism \"{mechanism}\" does not have the limiter \"{limiter}\", which is in the guest: use library, a fence \
         (where the mechanism is auto, complete = false admits it), or limiter outside"
    )]
    Limiter {
        mechanism: &'static str,
        limiter: &'static str,
    },
    #[error("user namespaces are not permitted to this account ({why}): {remedy}")]
    UserNamespaces { why: String, remedy: String },
    #[error("mechanism \"{mechanism}\" cannot be used on this machine: {why}")]
    Machine { mechanism: String, why: String },
    // The path map.
    #[error("{rule}: {real} is shown as {path}, and cannot be opened: {cause}")]
    Real {
        rule: String,
        path: String,
        real: String,
        cause: String,
    },
    #[error(
        "{rule}: {real} is shown as {path}, and leads through a symbolic link: name the path that the link leads to"
    )]
    Link {
        rule: String,
        path: String,
        real: String,
    },
    #[error(
        "{rule}: there is nothing at {path} in the guest's view to put it on ({cause}): make it on the real side first"
    )]
    Place {
        rule: String,
        path: String,
        cause: String,
    },
    #[error("the job's own directory {path} cannot be used: {cause}")]
    JobDirectory { path: String, cause: String },
    // The launch.
    #[error("no such executable in the guest's view: {}", named(.program))]
    NoExecutable { program: String },
    #[error("{program} is not executable: {cause}")]
    NotExecutable { program: String, cause: String },
    #[error(
        "{program} is there, and its interpreter is not: look at its first line, or at the loader it was linked for"
    )]
    Interpreter { program: String },
    #[error("the directory {directory} cannot be entered in the guest's view: {cause}")]
    Directory { directory: String, cause: String },
    #[error("{what} has a zero byte in it")]
    ZeroByte { what: String },
    #[error("arguments and environment are too long for the kernel (E2BIG): pass them in a file")]
    TooLong,
    // The kernel.
    #[error("{step} failed in the sandbox: {cause}")]
    Kernel { step: &'static str, cause: String },
}

fn named(program: &str) -> &str {
    match program {
        "" => "the program's name is empty",
        name => name,
    }
}

impl SandboxError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSuchMechanism { .. } => "no_such_mechanism",
            Self::Strict { .. } | Self::Addresses { .. } | Self::Limiter { .. } => {
                "policy_not_enforceable"
            }
            Self::UserNamespaces { .. } => "user_namespaces_not_permitted",
            Self::Machine { .. } => "mechanism_unavailable",
            Self::Real { .. } => "mapping_real_path",
            Self::Link { .. } => "mapping_symbolic_link",
            Self::Place { .. } => "mapping_no_place",
            Self::JobDirectory { .. } => "job_directory",
            Self::NoExecutable { .. } => "no_such_executable",
            Self::NotExecutable { .. } => "not_executable",
            Self::Interpreter { .. } => "no_interpreter",
            Self::Directory { .. } => "no_such_directory",
            Self::ZeroByte { .. } => "zero_byte",
            Self::TooLong => "arguments_too_long",
            Self::Kernel { .. } => "sandbox_kernel",
        }
    }

    /// As a shell tells it (P22): 127 not found, 126 found and not executable, 125 our own or the policy's refusal.
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::NoExecutable { .. } => 127,
            Self::NotExecutable { .. } | Self::Interpreter { .. } | Self::TooLong => 126,
            _ => 125,
        }
    }
}
