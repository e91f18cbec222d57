//! How a task fails, in words for whoever works on kumiko.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("there is no `./x {given}`; `./x help` lists what there is")]
    NoSuchCommand { given: String },
    #[error(
        "there is no part `{given}` to test; parts are lint, unit, fuzz, e2e and the crates: {crates}"
    )]
    NoSuchPart { given: String, crates: String },
    #[error("there is no fuzz target `{given}` in fuzz/fuzz_targets")]
    NoSuchTarget { given: String },
    #[error("{given} is not a number of seconds")]
    NotSeconds { given: String },
    #[error("could not start {program}: {cause}")]
    Start {
        program: String,
        cause: std::io::Error,
    },
    #[error("{program} failed")]
    Failed { program: String },
    #[error("{program} said what is not understood: {cause}")]
    Answer { program: String, cause: String },
    #[error("{path}: {cause}")]
    File {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("{path}: {cause}")]
    Toml {
        path: PathBuf,
        cause: toml::de::Error,
    },
    #[error("{path} has no lines `{begin}` and `{end}` to draw between")]
    NoMarks {
        path: PathBuf,
        begin: &'static str,
        end: &'static str,
    },
}
