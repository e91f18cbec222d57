//! Where a program that is to be started is looked for (spec/policy, P22), as execvp(3) has it. Not in it: what is there.

use crate::contract::Launch;
use kumiko_policy::JOB_DIRECTORY;

/// The directory that a guest begins in, absolute.
pub(crate) fn directory(launch: &Launch<'_>) -> String {
    match launch.directory {
        None => JOB_DIRECTORY.to_owned(),
        Some(absolute) if absolute.starts_with('/') => absolute.to_owned(),
        Some(relative) => format!("{JOB_DIRECTORY}/{relative}"),
    }
}

/// The files to try, in order; what is relative begins at that directory. A program without a name is none.
pub(crate) fn candidates(program: &str, path: &str) -> Vec<String> {
    if program.is_empty() {
        return Vec::new();
    }
    if program.contains('/') {
        return vec![program.to_owned()];
    }
    let within = |directory: &str| match directory {
        "" => format!("./{program}"),
        directory => format!("{directory}/{program}"),
    };
    path.split(':').map(within).collect()
}
