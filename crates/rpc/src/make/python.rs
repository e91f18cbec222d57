//! Programs of routines out of a file of Python (spec/idl I58): the file is imported by the Python that will compute, which says what its
//! functions take and give. Runs as its caller and locally. Not here: the program's text (kumiko-idl).

use super::{LIBRARY_NEEDS, MakeError, run, succeeded};
use crate::registry::signature_of;
use kumiko_idl::{Signature, python_generator};
use serde::Deserialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file, and the Python that reads and runs it.
#[derive(Clone, Debug)]
pub struct PythonSource {
    pub path: PathBuf,
    pub python: PathBuf,
}

/// What `kumiko.checkpoint` calls of the checkpoint library.
const CALLED: [&str; 7] = [
    "kumiko_ckpt_begin",
    "kumiko_ckpt_end",
    "kumiko_ckpt_every",
    "kumiko_ckpt_open",
    "kumiko_ckpt_point",
    "kumiko_ckpt_resumed",
    "kumiko_ckpt_state",
];

/// Of one routine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    signature: String,
    #[serde(default)]
    program: Option<PathBuf>,
}

impl PythonSource {
    /// What its routines take and give.
    ///
    /// # Errors
    /// What Python says, or of a signature what is wrong with it.
    pub fn signatures(&self) -> Result<Vec<Signature>, MakeError> {
        let made = self.generate(&[])?;
        made.iter().map(|one| self.signature(one)).collect()
    }

    /// Makes each routine's program, `MODULE.NAME`, with its signature beside it, in `folder`. With the checkpoint library, if it is
    /// named.
    ///
    /// # Errors
    /// As [`PythonSource::signatures`]; what cannot be written; what the linker says.
    pub fn make(&self, folder: &Path, library: Option<&Path>) -> Result<Vec<PathBuf>, MakeError> {
        let made = match library {
            None => self.generate(&[folder])?,
            Some(library) => {
                let shared = folder.join(format!(".{}.so", std::process::id()));
                let made = share(library, &shared)
                    .and_then(|()| self.generate(&[folder, shared.as_path()]));
                // Each program has it now.
                let _ = std::fs::remove_file(&shared);
                made?
            }
        };
        let named = made.iter().map(|one| self.named(one, folder)).collect();
        for one in made.iter().filter_map(|one| one.program.as_ref()) {
            // Of those that have no name of their own.
            let _ = std::fs::remove_file(one);
        }
        named
    }

    fn named(&self, made: &Made, folder: &Path) -> Result<PathBuf, MakeError> {
        let file = |path: &Path| {
            let path = path.to_owned();
            move |cause| MakeError::File { path, cause }
        };
        let signature = self.signature(made)?;
        let program = folder.join(format!("{}.{}", signature.module, signature.name));
        let program = std::path::absolute(&program).map_err(file(&program))?;
        let beside = signature_of(&program);
        std::fs::write(&beside, signature.to_text()).map_err(file(&beside))?;
        let new = made.program.as_ref().unwrap_or(&program);
        std::fs::rename(new, &program).map_err(file(new))?;
        Ok(program)
    }

    fn signature(&self, made: &Made) -> Result<Signature, MakeError> {
        let path = || self.path.clone();
        let signature =
            Signature::from_text(&made.signature).map_err(|cause| MakeError::Signature {
                path: path(),
                cause: Box::new(cause),
            })?;
        signature.callable().map_err(|cause| MakeError::NotBuilt {
            path: path(),
            cause: Box::new(cause),
        })?;
        Ok(signature)
    }

    fn generate(&self, words: &[&Path]) -> Result<Vec<Made>, MakeError> {
        // Said here, since Python would say it with lines of ours.
        if let Err(cause) = std::fs::File::open(&self.path) {
            let path = self.path.clone();
            return Err(MakeError::File { path, cause });
        }
        let program = self.python.display().to_string();
        let wrong = |cause| MakeError::NoProgram {
            program: program.clone(),
            cause,
        };
        let mut command = Command::new(&self.python);
        // Alone: neither the environment nor this folder decides what is imported.
        command.args(["-IB", "-"]).arg(&self.path).args(words);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(wrong)?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that does not read it says why, and ends.
            let _ = stdin.write_all(python_generator().as_bytes());
        }
        let output = succeeded(&command, child.wait_with_output().map_err(wrong)?)?;
        let made: Vec<Made> =
            serde_json::from_slice(&output.stdout).map_err(|cause| MakeError::NoList {
                program: program.clone(),
                cause,
            })?;
        match made.is_empty() {
            true => Err(MakeError::NoRoutine {
                path: self.path.clone(),
            }),
            false => Ok(made),
        }
    }
}

/// What a program of C links, as what one of Python loads.
fn share(library: &Path, shared: &Path) -> Result<(), MakeError> {
    let library = std::path::absolute(library).map_err(|cause| MakeError::File {
        path: library.to_owned(),
        cause,
    })?;
    let mut link = Command::new("cc");
    link.arg("-shared")
        .args(CALLED.map(|name| format!("-Wl,-u,{name}")));
    link.arg(library).args(LIBRARY_NEEDS).arg("-o").arg(shared);
    run(&mut link, Path::new(".")).map(drop)
}
