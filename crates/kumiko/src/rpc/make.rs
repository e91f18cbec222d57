//! `kumiko rpc gen`: programs of routines out of files of IDL and of Python. Wiring and output alone (kumiko-rpc's `make`).

use super::{library, views};
use crate::args::Format;
use crate::fail::Failure;
use crate::output::{self, say};
use clap::Args;
use kumiko_rpc::make::{PythonSource, Source};
use std::path::PathBuf;

/// The system's own: the base policy shows it to routines, and what its packages bring, numpy above all.
const PYTHON: &str = "/usr/bin/python3";

#[derive(Debug, Args)]
pub struct Gen {
    /// IDL, or Python (.py) with functions that say @kumiko.routine.
    file: PathBuf,
    /// Where the programs go, each with its signature beside it.
    #[arg(long, default_value = ".", value_name = "DIR")]
    into: PathBuf,
    /// Only say what is wrong with the file, and what it defines.
    #[arg(long, conflicts_with = "source")]
    check: bool,
    /// Link the checkpoint library, so that a call whose process dies is resumed.
    #[arg(long, conflicts_with_all = ["check", "source"])]
    checkpoint: bool,
    /// Print the programs' C instead of making them.
    #[arg(long)]
    source: bool,
    /// What runs routines in Python. Their callers' policy has to show it to them.
    #[arg(long, default_value = PYTHON, value_name = "PROGRAM")]
    python: PathBuf,
}

pub fn make(asked: Gen, format: Format) -> Result<u8, Failure> {
    let programs = match asked.file.extension().is_some_and(|kind| kind == "py") {
        true => of_python(asked, format)?,
        false => of_idl(&asked, format)?,
    };
    for program in programs {
        say!("{}", program.display())?;
    }
    Ok(0)
}

fn of_python(asked: Gen, format: Format) -> Result<Vec<PathBuf>, Failure> {
    if asked.source {
        return Err(Failure::misuse("--source is for routines in C"));
    }
    let source = PythonSource {
        path: asked.file,
        python: asked.python,
    };
    if asked.check {
        output::many(format, &views(&source.signatures()?))?;
        return Ok(Vec::new());
    }
    let library = asked.checkpoint.then(library::find).transpose()?;
    Ok(source.make(&asked.into, library.as_deref())?)
}

fn of_idl(asked: &Gen, format: Format) -> Result<Vec<PathBuf>, Failure> {
    let source = Source::read(&asked.file)?;
    if asked.source {
        for stub in source.stubs()? {
            say!("{}", stub.source)?;
        }
        return Ok(Vec::new());
    }
    if asked.check {
        source.stubs()?;
        output::many(format, &views(&source.checked.routines))?;
        return Ok(Vec::new());
    }
    let library = match asked.checkpoint || source.wants_checkpoints() {
        true => Some(library::find()?),
        false => None,
    };
    Ok(source.make(&asked.into, library.as_deref())?)
}
