//! execve(2): what a guest's program is on the host. Scripts are taken apart here, as the kernel would look for their
//! interpreters among the host's names. Not in it: how the guest is made to execute it.

use super::caller::Caller;
use super::processes;
use super::resolve::{End, join};
use super::view::flag;
use kumiko_linux::supervise::Errno;
use kumiko_linux::supervise::calls::{self, FileKind};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// BINPRM_BUF_SIZE of the kernel: as much of a first line is looked at.
const FIRST_BYTES: usize = 256;
/// Scripts that are each other's interpreters before ELOOP, as the kernel has it (exec_binprm).
const MOST_SCRIPTS: usize = 5;
/// access(2), and faccessat(2) by effective ids.
const MAY_EXECUTE: i32 = 1;
const EFFECTIVE: i32 = 0x200;

/// A program found in the view.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// On the host.
    pub real: Vec<u8>,
    /// What stands before the arguments that were given, in the place of the first: interpreter, its argument, script.
    pub before: Option<Vec<Vec<u8>>>,
    /// The kernel finds all of it by the guest's own words.
    pub same: bool,
}

/// Why there is none, and whether it is the interpreter that is missing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Program(Errno),
    Interpreter(Errno),
}

impl From<Missing> for Errno {
    fn from(missing: Missing) -> Errno {
        match missing {
            Missing::Program(errno) | Missing::Interpreter(errno) => errno,
        }
    }
}

/// `flags`: of execveat(2).
pub(super) fn find(
    caller: &Caller<'_>,
    directory: i32,
    path: &[u8],
    flags: u64,
) -> Result<Program, Missing> {
    let by_descriptor = path.is_empty() && flags & flag::AT_EMPTY_PATH != 0;
    let follow = flags & flag::AT_NOFOLLOW == 0;
    let mut before: Vec<Vec<u8>> = Vec::new();
    let mut same = true;
    let mut words = path.to_vec();
    for depth in 0..=MOST_SCRIPTS {
        let missing = |errno| {
            if depth == 0 {
                Missing::Program(errno)
            } else {
                Missing::Interpreter(errno)
            }
        };
        let base = if depth == 0 { directory } else { flag::AT_CWD };
        let given = by_descriptor && depth == 0;
        let (place, file) = match given {
            true => held(caller, base).map_err(missing)?,
            false => executable(caller, base, &words, follow || depth > 0).map_err(missing)?,
        };
        same = same && (given || caller.is_same_on_host(base, &words, &file));
        let begin = first_bytes(&file);
        let Some((interpreter, argument)) = script(&begin) else {
            if let Some(loader) = loader(&file, &begin) {
                let found = executable(caller, flag::AT_CWD, &loader, true);
                let (_, found) = found.map_err(Missing::Interpreter)?;
                // The kernel looks for it by these words, whatever we say.
                if !caller.is_same_on_host(flag::AT_CWD, &loader, &found) {
                    return Err(Missing::Interpreter(Errno::ENOENT));
                }
            }
            let real = match given {
                true => Vec::new(), // the kernel has it
                false => caller.real_of(&place).map_err(missing)?,
            };
            let before = (!before.is_empty()).then_some(before);
            return Ok(Program { real, before, same });
        };
        let shown = match (depth, directory, words.starts_with(b"/")) {
            (0, flag::AT_CWD, _) | (_, _, true) => words,
            (0, number, _) => by_number(caller, number, &words).map_err(missing)?,
            _ => words,
        };
        // The script goes in the place of what stood for it: its name, or the last word of what came before.
        if depth > 0 {
            before.remove(0);
        }
        let head: Vec<Vec<u8>> = [Some(interpreter.clone()), argument, Some(shown)]
            .into_iter()
            .flatten()
            .collect();
        before.splice(0..0, head);
        words = interpreter;
    }
    Err(Missing::Interpreter(Errno::ELOOP))
}

/// What a script is told to be that was executed by a descriptor: its interpreter has to find that.
fn by_number(caller: &Caller<'_>, number: i32, words: &[u8]) -> Result<Vec<u8>, Errno> {
    let flags = processes::flags_by(&format!("/proc/{}/fdinfo/{number}", caller.tid))?;
    if flags & flag::CLOSE_ON_EXEC != 0 {
        return Err(Errno::ENOENT);
    }
    let directory = format!("/dev/fd/{number}").into_bytes();
    Ok(join(&directory, words))
}

/// What one of the guest's descriptors stands for; it has no place.
fn held(caller: &Caller<'_>, number: i32) -> Result<(Vec<u8>, OwnedFd), Errno> {
    let file = caller.descriptor(number)?;
    may_be_executed(caller, &file, None)?;
    calls::access(file.as_fd(), MAY_EXECUTE, EFFECTIVE)?;
    Ok((Vec::new(), file))
}

fn executable(
    caller: &Caller<'_>,
    directory: i32,
    words: &[u8],
    follow: bool,
) -> Result<(Vec<u8>, OwnedFd), Errno> {
    match caller.end(directory, words, follow)? {
        End::There {
            place,
            handle,
            directory: false,
        } => {
            may_be_executed(caller, &handle, Some(&place))?;
            calls::access(handle.as_fd(), MAY_EXECUTE, EFFECTIVE)?;
            Ok((place, handle))
        }
        End::Alone { place, handle } => {
            may_be_executed(caller, &handle, None)?;
            calls::access(handle.as_fd(), MAY_EXECUTE, EFFECTIVE)?;
            Ok((place, handle))
        }
        End::There { .. } => Err(Errno::EACCES),
        End::Link { .. } => Err(Errno::ELOOP),
        End::Missing {
            directory: true, ..
        } => Err(Errno::ENOTDIR),
        End::Missing { .. } => Err(Errno::ENOENT),
    }
}

/// A file that is shown, or was until it lost its name, or memory: not what a guest was given and is not shown.
fn may_be_executed(caller: &Caller<'_>, file: &OwnedFd, place: Option<&[u8]>) -> Result<(), Errno> {
    is_allowed(caller, file, place)?;
    let real = calls::read_link(&calls::own_path(file.as_fd()))?;
    let is_shown = processes::is_shown(caller.view, &real);
    if is_shown && calls::about(file.as_fd())?.kind() == FileKind::Regular {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// Does the policy let what is shown be executed? Without a place of its own it is if it is by one of its names.
pub(super) fn is_allowed(
    caller: &Caller<'_>,
    file: &OwnedFd,
    place: Option<&[u8]>,
) -> Result<(), Errno> {
    let allowed = match place {
        Some(place) => caller.view.mount_of(place)?.0.execute,
        None => {
            let real = calls::read_link(&calls::own_path(file.as_fd()))?;
            processes::may_execute(caller.view, &real) || !processes::is_shown(caller.view, &real)
        }
    };
    if allowed { Ok(()) } else { Err(Errno::EACCES) }
}

/// Nothing of a file that cannot be read: the kernel can, and it is then no script that could be run.
fn first_bytes(file: &OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = calls::reopen(file.as_fd(), flag::NONBLOCK) {
        let _ = File::from(file)
            .take(FIRST_BYTES as u64)
            .read_to_end(&mut bytes);
    }
    bytes
}

/// The interpreter of a script and the one argument that its line may give.
fn script(begin: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let line = begin.strip_prefix(b"#!")?;
    let line = line
        .split(|byte| *byte == b'\n' || *byte == 0)
        .next()
        .unwrap_or_default();
    let line = line.trim_ascii();
    let end = line
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t'))
        .unwrap_or(line.len());
    let (interpreter, rest) = line.split_at(end);
    let argument = rest.trim_ascii();
    let argument = (!argument.is_empty()).then(|| argument.to_vec());
    (!interpreter.is_empty()).then(|| (interpreter.to_vec(), argument))
}

/// PT_INTERP of a 64-bit ELF file (elf(5)).
fn loader(file: &OwnedFd, begin: &[u8]) -> Option<Vec<u8>> {
    const LOADER: u32 = 3;
    const MOST_HEADERS: usize = 64;
    if begin.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let word = |at: usize| {
        begin
            .get(at..at + 8)?
            .try_into()
            .ok()
            .map(u64::from_le_bytes)
    };
    let half = |at: usize| {
        begin
            .get(at..at + 2)?
            .try_into()
            .ok()
            .map(u16::from_le_bytes)
    };
    let (table, size, count) = (word(32)?, usize::from(half(54)?), usize::from(half(56)?));
    let file = File::from(calls::reopen(file.as_fd(), flag::NONBLOCK).ok()?);
    for index in 0..count.min(MOST_HEADERS) {
        let mut header = [0; 56];
        file.read_exact_at(&mut header, table.checked_add((index * size) as u64)?)
            .ok()?;
        let kind = u32::from_le_bytes(header.get(..4)?.try_into().ok()?);
        if kind != LOADER {
            continue;
        }
        let number = |at: usize| {
            header
                .get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_le_bytes)
        };
        let (offset, length) = (number(8)?, number(32)?);
        let mut path = vec![0; usize::try_from(length).ok()?.min(4096)];
        file.read_exact_at(&mut path, offset).ok()?;
        return path.split(|byte| *byte == 0).next().map(<[u8]>::to_vec);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_of_scripts() {
        let check = |line: &str, expected: Option<(&str, Option<&str>)>| {
            let got = script(line.as_bytes());
            let expected =
                expected.map(|(a, b)| (a.as_bytes().to_vec(), b.map(|b| b.as_bytes().to_vec())));
            assert_eq!(got, expected, "{line:?}");
        };
        check("#!/bin/sh\necho", Some(("/bin/sh", None)));
        check("#! /bin/sh -e  \n", Some(("/bin/sh", Some("-e"))));
        check(
            "#!/usr/bin/env  python3 -u\n",
            Some(("/usr/bin/env", Some("python3 -u"))),
        );
        check("#!/bin/sh", Some(("/bin/sh", None)));
        check("#!\n", None);
        check("\x7fELF", None);
    }
}
