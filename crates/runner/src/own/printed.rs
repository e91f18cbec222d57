//! What a program prints, passed on from its spool.

use crate::dumps::STREAMS;
use crate::news::index;
use kumiko_job::attempt::OutputStream;
use kumiko_linux::spooling;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

const AT_ONCE_BYTES: u64 = 64 * 1024;

/// Of stdout and stderr.
#[derive(Debug)]
pub struct Printed {
    files: [PathBuf; 2],
    passed_on: [u64; 2],
    /// Nothing was printed there before.
    are_new: [bool; 2],
}

impl Printed {
    /// `file`: where the spool has what was printed to a stream.
    pub fn all(file: impl Fn(OutputStream) -> PathBuf) -> Printed {
        let streams = [OutputStream::Stdout, OutputStream::Stderr];
        let is_new = |stream| {
            let ours = ours(stream).and_then(|ours| ours.metadata());
            ours.is_ok_and(|ours| ours.is_file() && ours.len() == 0)
        };
        Printed {
            files: streams.map(file),
            passed_on: [0; 2],
            are_new: streams.map(is_new),
        }
    }

    /// The program goes on from a dump, with what was printed until then before it. Where that was printed to already it is not again.
    pub fn go_on(&mut self, dumps: &Path) {
        for (at, name) in STREAMS.iter().enumerate() {
            if !self.are_new[at] {
                let before = std::fs::metadata(dumps.join(name));
                self.passed_on[at] = before.map_or(0, |file| file.len());
            }
        }
    }

    /// The spool's file has so many bytes.
    pub fn pass_on(&mut self, stream: OutputStream, length: u64) -> io::Result<()> {
        let passed_on = &mut self.passed_on[index(stream)];
        if *passed_on >= length {
            return Ok(());
        }
        let file = File::open(&self.files[index(stream)])?;
        let mut ours = ours(stream)?;
        while *passed_on < length {
            let most = (length - *passed_on).min(AT_ONCE_BYTES) as usize;
            let bytes = spooling::read_at(&file, *passed_on, most)?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            ours.write_all(&bytes)?;
            *passed_on += bytes.len() as u64;
        }
        Ok(())
    }
}

/// Unbuffered.
fn ours(stream: OutputStream) -> io::Result<File> {
    let fd = match stream {
        OutputStream::Stdout => io::stdout().as_fd().try_clone_to_owned()?,
        OutputStream::Stderr => io::stderr().as_fd().try_clone_to_owned()?,
    };
    Ok(fd.into())
}
