//! Programs of routines out of an IDL file (spec/idl I50 to I56): read, checked, written as C, compiled and linked by the
//! programs that the file names, or the system's. Runs as its caller and locally, since an IDL file holds C and words for
//! compilers; without a shell. Not here: what the text of a program is (kumiko-idl).

mod python;

pub use python::PythonSource;

use crate::registry::signature_of;
use kumiko_idl::{
    BadSignature, Checked, Idl, IdlError, Language, MAX_IDL_BYTES, PlanError, Problem, Stub, check,
    parse, stubs,
};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error("{path}: {cause}")]
    File { path: PathBuf, cause: io::Error },
    #[error("{path} is no text")]
    NoText { path: PathBuf },
    #[error("{path}: {cause}")]
    Idl { path: PathBuf, cause: Box<IdlError> },
    #[error("{path}: {cause}")]
    NotBuilt {
        path: PathBuf,
        cause: Box<PlanError>,
    },
    #[error("{path}: the signature of a routine: {cause}")]
    Signature {
        path: PathBuf,
        cause: Box<BadSignature>,
    },
    #[error("{path} has no routines: put @kumiko.routine before the functions that are to be ones")]
    NoRoutine { path: PathBuf },
    #[error("{program} made what is no list of routines: {cause}")]
    NoList {
        program: String,
        cause: serde_json::Error,
    },
    #[error("{program} could not be started: {cause}")]
    NoProgram { program: String, cause: io::Error },
    #[error("{command} failed ({status}){said}")]
    Failed {
        command: String,
        status: String,
        /// With a line end before it, or nothing.
        said: String,
    },
}

/// Behind libkumikockpt.a: what it is made of, without what is not used of it, and with no library that a guest may not see.
const LIBRARY_NEEDS: [&str; 5] = [
    "-Wl,--gc-sections,--strip-debug",
    "-static-libgcc",
    "-lpthread",
    "-ldl",
    "-lm",
];

/// A checked file.
#[derive(Clone, Debug)]
pub struct Source {
    idl: Idl,
    pub checked: Checked,
    path: PathBuf,
}

impl Source {
    /// Reads and checks a file. One with directives goes through the C preprocessor first.
    ///
    /// # Errors
    /// What is wrong with the file, by line and column.
    pub fn read(path: &Path) -> Result<Source, MakeError> {
        let file = |cause| MakeError::File {
            path: path.to_owned(),
            cause,
        };
        let wrong = |cause| MakeError::Idl {
            path: path.to_owned(),
            cause: Box::new(cause),
        };
        let length = std::fs::metadata(path).map_err(file)?.len();
        if length > MAX_IDL_BYTES as u64 {
            let bytes = usize::try_from(length).unwrap_or(usize::MAX);
            return Err(wrong(IdlError {
                file: None,
                at: kumiko_idl::Place::default(),
                problem: Problem::TooLong { bytes },
            }));
        }
        let text = text(path, std::fs::read(path).map_err(file)?)?;
        let idl = match parse(&text) {
            Err(IdlError {
                problem: Problem::Directive,
                ..
            }) => parse(&preprocessed(path)?),
            read => read,
        }
        .map_err(wrong)?;
        let checked = check(&idl).map_err(wrong)?;
        Ok(Source {
            idl,
            checked,
            path: path.to_owned(),
        })
    }

    /// The programs' texts.
    ///
    /// # Errors
    /// A routine with what is not built yet.
    pub fn stubs(&self) -> Result<Vec<Stub>, MakeError> {
        stubs(&self.idl, &self.checked.routines).map_err(|cause| MakeError::NotBuilt {
            path: self.path.clone(),
            cause: Box::new(cause),
        })
    }

    /// A routine says that it is made with the checkpoint library.
    pub fn wants_checkpoints(&self) -> bool {
        self.checked.routines.iter().any(|one| one.checkpoint)
    }

    /// Makes each routine's program, `MODULE.NAME`, with its signature beside it, in `folder`. `Required` and `Library` are
    /// looked up from the IDL file's own folder. With the checkpoint library, if it is named.
    ///
    /// # Errors
    /// What a compiler says.
    pub fn make(&self, folder: &Path, library: Option<&Path>) -> Result<Vec<PathBuf>, MakeError> {
        let stubs = self.stubs()?;
        let one = |stub| self.one(stub, folder, library);
        stubs.iter().map(one).collect()
    }

    fn one(
        &self,
        stub: &Stub,
        folder: &Path,
        library: Option<&Path>,
    ) -> Result<PathBuf, MakeError> {
        let file = |path: &Path| {
            let path = path.to_owned();
            move |cause| MakeError::File { path, cause }
        };
        let signature = &stub.signature;
        let program = folder.join(format!("{}.{}", signature.module, signature.name));
        let program = std::path::absolute(&program).map_err(file(&program))?;
        let beside = |ending: &str| {
            let mut name = program.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        let (text, object, new) = match stub.language {
            Language::C => (beside(".stub.c"), beside(".stub.o"), beside(".new")),
            Language::Cpp => (beside(".stub.cc"), beside(".stub.o"), beside(".new")),
        };
        std::fs::write(&text, &stub.source).map_err(file(&text))?;
        let own = self.path.parent().filter(|path| *path != Path::new(""));
        let own = own.unwrap_or(Path::new("."));
        let made = (|| {
            let mut include = std::ffi::OsString::from("-I");
            include.push(std::path::absolute(own).map_err(file(own))?);
            let mut compile = command(&stub.compiler, "cc");
            compile.args(["-O2", "-w", "-c"]).arg(include);
            if library.is_some() {
                compile.arg("-DKUMIKO_CHECKPOINT");
            }
            run(compile.arg(&text).arg("-o").arg(&object), own)?;
            let mut link = command(&stub.linker, "cc");
            link.arg(&object).args(&stub.link);
            if let Some(library) = library {
                // The archive has functions of mathematics too, which are slower, and would take the place of the routine's.
                link.arg("-lm").arg(library).args(LIBRARY_NEEDS);
            }
            run(link.arg("-o").arg(&new), own)?;
            let signature_file = signature_of(&program);
            std::fs::write(&signature_file, signature.to_text()).map_err(file(&signature_file))?;
            std::fs::rename(&new, &program).map_err(file(&program))
        })();
        for left in [&text, &object, &new] {
            // Of those that were made.
            let _ = std::fs::remove_file(left);
        }
        made.map(|()| program)
    }
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, MakeError> {
    String::from_utf8(bytes).map_err(|_| MakeError::NoText {
        path: path.to_owned(),
    })
}

fn command(words: &[String], default: &str) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().map_or(default, String::as_str));
    command.args(words);
    command
}

fn preprocessed(path: &Path) -> Result<String, MakeError> {
    let mut command = Command::new("cc");
    // Comments of `//` may hold what is no token of C.
    command.args(["-E", "-x", "c"]).arg(path);
    let output = run(&mut command, Path::new("."))?;
    text(path, output.stdout)
}

fn run(command: &mut Command, folder: &Path) -> Result<Output, MakeError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| MakeError::NoProgram { program, cause })?;
    succeeded(command, output)
}

/// Its words are told when it fails.
fn succeeded(command: &Command, output: Output) -> Result<Output, MakeError> {
    if output.status.success() {
        return Ok(output);
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim_end();
    let words = words.join(" ");
    Err(MakeError::Failed {
        // Names without a folder are looked for there.
        command: match command.get_current_dir() {
            Some(folder) => format!("in {}: {words}", folder.display()),
            None => words,
        },
        status: output.status.to_string(),
        said: match said.is_empty() {
            true => String::new(),
            false => format!(":\n{said}"),
        },
    })
}
