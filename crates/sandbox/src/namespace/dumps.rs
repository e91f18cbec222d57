//! Dumps of a room's guest by CRIU, and guests that go on from one (spec/checkpoint, K52 to K57): CRIU works as a helper in the
//! cell, with the rights of its namespaces. Not here: which CRIU, what becomes of a dump, when one is made (kumiko-runner).

use super::plan::c_string;
use super::room::NamespaceRoom;
use crate::contract::{Dumps, Open, Still};
use crate::criu::Usable;
use crate::error::SandboxError;
use crate::guest::Guest;
use kumiko_linux::cell::{Cell, Child, Failure, Program, Role, Step, Streams};
use kumiko_linux::process;
use kumiko_policy::JOB_DIRECTORY;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Of both; what it says of its way lies beside the images.
const ALWAYS: [&str; 9] = [
    "--unprivileged",
    "--images-dir",
    "/proc/self/fd/3",
    "--log-file",
    "log",
    "--file-locks",
    "--network-lock",
    "skip",
    "--manage-cgroups=ignore",
];
/// Files that have no name any more are kept with the images up to this size.
const GHOSTS: &str = "100M";
/// The first descriptor of a helper's behind that of the images.
const PIPES_FROM: usize = 4;

const SIGCONT: i32 = 18;

impl NamespaceRoom {
    fn helper(
        &self,
        criu: &Usable,
        images: BorrowedFd<'_>,
        arguments: &[String],
        further: &[BorrowedFd<'_>],
        start: impl FnOnce(&Program<'_>) -> Result<Child, Failure>,
    ) -> Result<Guest, SandboxError> {
        let failed = |step| {
            move |error: io::Error| SandboxError::Kernel {
                step,
                cause: error.to_string(),
            }
        };
        let file = File::open(&criu.program).map_err(failed("opening the program criu"))?;
        let nothing = File::options().read(true).write(true).open("/dev/null");
        let nothing = nothing.map_err(failed("opening /dev/null"))?;
        let descriptors: Vec<BorrowedFd<'_>> = std::iter::once(images)
            .chain(further.iter().copied())
            .collect();
        let mut words = vec![c_string("criu")?];
        for word in arguments {
            words.push(c_string(word)?);
        }
        let program = Program {
            candidates: Vec::new(),
            arguments: words,
            environment: vec![c_string("PATH=/usr/sbin:/usr/bin:/sbin:/bin")?],
            directory: c_string("/")?,
            streams: Streams::Given([nothing.as_fd(); 3]),
            role: Role::Helper {
                file: file.as_fd(),
                descriptors: &descriptors,
            },
            umask: 0o077,
        };
        let child = start(&program).map_err(|failure| SandboxError::Kernel {
            step: "starting CRIU",
            cause: failure.cause().to_string(),
        })?;
        Ok(Guest::new(child.pid, child.pidfd, None))
    }

    fn living(&self) -> Result<&Cell, SandboxError> {
        self.cell.as_ref().ok_or_else(|| SandboxError::Kernel {
            step: "finding the room's guest",
            cause: "it has none".to_owned(),
        })
    }

    fn number(&self, guest: &Guest) -> Result<(Vec<(i32, i32)>, i32), SandboxError> {
        let failed = |cause: String| SandboxError::Kernel {
            step: "looking at the room's processes",
            cause,
        };
        let all = self.living()?.processes();
        let all = all.map_err(|error| failed(error.to_string()))?;
        let number = all.iter().find(|(here, _)| *here == guest.pid());
        let number = number.map(|(_, number)| *number);
        let number = number.ok_or_else(|| failed("the guest is gone".to_owned()))?;
        Ok((all, number))
    }
}

impl Dumps for NamespaceRoom {
    fn dump(
        &mut self,
        criu: &Usable,
        guest: &Guest,
        images: BorrowedFd<'_>,
    ) -> Result<Guest, SandboxError> {
        let (_, number) = self.number(guest)?;
        let own = [
            "--tree",
            &number.to_string(),
            "--leave-stopped",
            "--ghost-limit",
            GHOSTS,
            "--cpu-cap=cpu",
        ];
        let all = ["dump"].iter().chain(&ALWAYS).chain(&own);
        let all: Vec<String> = all.map(ToString::to_string).collect();
        let cell = self.living()?;
        self.helper(criu, images, &all, &[], |program| cell.start_more(program))
    }

    fn still(&mut self, guest: &Guest) -> Result<Still, SandboxError> {
        let (all, number) = self.number(guest)?;
        let root = self.living()?.root();
        let mut files = BTreeMap::new();
        let mut outside = None;
        for (here, _) in &all {
            let looked = open_files(*here, &mut files)
                .and_then(|()| mapped_files(*here, &mut files, &mut outside));
            looked.map_err(|error| SandboxError::Kernel {
                step: "looking at open files",
                cause: error.to_string(),
            })?;
        }
        let files = files.into_iter().map(|(path, (bytes, mapped))| Open {
            path,
            bytes,
            mapped,
        });
        let places = self.steps().iter().filter_map(|step| match step {
            Step::Temporary { .. } => at(step),
            _ => None,
        });
        let mut left = places.filter_map(|place| left_in(&root, place, self.steps()));
        let left = left.next().map(|left| {
            let left = left.display();
            format!("/{left} would not be there: it lies in a temporary place")
        });
        let outside = outside.map(|path| {
            format!("what {path} holds would not be there: it is mapped, and outside of the job's directory")
        });
        Ok(Still {
            number,
            processes: all.iter().map(|(_, number)| *number).collect(),
            files: files.collect(),
            obstacle: left.or(outside),
        })
    }

    fn go_on(&mut self) {
        let all = self.cell.as_ref().map(Cell::processes);
        for (here, _) in all.and_then(Result::ok).unwrap_or_default() {
            let reached = process::pidfd(here);
            let _ = reached.and_then(|one| process::signal(one.as_fd(), SIGCONT)); // it may have been killed
        }
    }

    fn restore(
        &mut self,
        criu: &Usable,
        images: BorrowedFd<'_>,
        (still, last): (&Still, i32),
        pipes: &[(BorrowedFd<'_>, u64)],
        wait: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<bool>,
    ) -> Result<Guest, SandboxError> {
        let failed = |cause: String| SandboxError::Kernel {
            step: "going on from a dump",
            cause,
        };
        let own = ["--restore-detached", "--restore-sibling", "--cpu-cap=cpu"];
        let all = ["restore"].iter().chain(&ALWAYS).chain(&own);
        let mut all: Vec<String> = all.map(ToString::to_string).collect();
        for ((_, pipe), at) in pipes.iter().zip(PIPES_FROM..) {
            all.push("--inherit-fd".to_owned());
            all.push(format!("fd[{at}]:pipe:[{pipe}]"));
        }
        let further: Vec<BorrowedFd<'_>> = pipes.iter().map(|(fd, _)| *fd).collect();
        let mut made = None;
        let helper = self.helper(criu, images, &all, &further, |program| {
            let (cell, child) = self.begin(program, last)?;
            made = Some(cell);
            Ok(child)
        });
        let mut helper = helper?;
        self.cell = made;
        let over = wait(helper.pidfd());
        if !over.map_err(|error| failed(error.to_string()))? {
            return Err(failed("CRIU was not waited for any longer".to_owned()));
        }
        if helper.try_wait() != Some(crate::Ended::Exited(0)) {
            return Err(failed("CRIU did not restore it".to_owned()));
        }
        let all = self.living()?.processes();
        let all = all.map_err(|error| failed(error.to_string()))?;
        let here = all.iter().find(|(_, number)| *number == still.number);
        let here = here.ok_or_else(|| failed("it ended at once".to_owned()))?.0;
        let pidfd = process::pidfd(here).map_err(|error| failed(error.to_string()))?;
        Ok(Guest::new(here, pidfd, None))
    }
}

/// Where the step has something in the view, without the slash before it.
fn at(step: &Step) -> Option<&Path> {
    let at = match step {
        Step::Directory { at, .. }
        | Step::File { at, .. }
        | Step::Link { at, .. }
        | Step::Tree { at, .. }
        | Step::Blank { at, .. }
        | Step::Temporary { at, .. }
        | Step::Processes { at, .. }
        | Step::Terminals { at, .. } => at,
        Step::Seal { .. } => return None,
    };
    Some(Path::new(OsStr::from_bytes(at.to_bytes())))
}

/// Something in this place that the view has not brought there, and will not again.
fn left_in(root: &Path, place: &Path, steps: &[Step]) -> Option<PathBuf> {
    for entry in std::fs::read_dir(root.join(place)).ok()?.flatten() {
        let path = place.join(entry.file_name());
        let of_view = |step: &&Step| at(step).is_some_and(|at| at.starts_with(&path));
        let mut of_view = steps.iter().filter(of_view).peekable();
        if of_view.peek().is_none() {
            return Some(path);
        }
        // The way to something of it, in which other things may lie; or that itself, which is not looked into.
        let is_way =
            of_view.all(|step| at(step) != Some(&path) || matches!(step, Step::Directory { .. }));
        if let Some(left) = is_way.then(|| left_in(root, &path, steps)).flatten() {
            return Some(left);
        }
    }
    None
}

/// By their paths below the job's own directory: lengths, and whether they are mapped.
type Files = BTreeMap<String, (u64, bool)>;

/// Regular files in the job's own directory that a process has open to write to. A process that is gone has none.
fn open_files(pid: i32, files: &mut Files) -> io::Result<()> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        let Ok(path) = std::fs::read_link(entry.path()) else {
            continue;
        };
        let Ok(beneath) = path.strip_prefix(JOB_DIRECTORY) else {
            continue;
        };
        let (Some(path), Ok(is)) = (beneath.to_str(), std::fs::metadata(entry.path())) else {
            continue;
        };
        let number = entry.file_name();
        let about = Path::new("/proc").join(pid.to_string());
        let about = File::open(about.join("fdinfo").join(number))?;
        if is.is_file() && writes(about)? {
            files.entry(path.to_owned()).or_insert((is.len(), false));
        }
    }
    Ok(())
}

/// Files that are a process's memory, shared and to be written to; and one that is outside of the job's directory. What has no name any more, or
/// never had one, is in CRIU's images.
fn mapped_files(pid: i32, files: &mut Files, outside: &mut Option<String>) -> io::Result<()> {
    let about = Path::new("/proc").join(pid.to_string());
    let Ok(maps) = File::open(about.join("maps")) else {
        return Ok(());
    };
    for line in BufReader::new(maps).lines() {
        let line = line?;
        let Some(path) = mapped(&line) else {
            continue;
        };
        let beneath = Path::new(path).strip_prefix(JOB_DIRECTORY);
        let Some(beneath) = beneath.ok().and_then(Path::to_str) else {
            outside.get_or_insert(path.to_owned());
            continue;
        };
        let seen = about.join("root").join(path.trim_start_matches('/'));
        let is = std::fs::symlink_metadata(seen)?;
        files.insert(beneath.to_owned(), (is.len(), true));
    }
    Ok(())
}

/// The path of a line of `maps` (proc(5)) that tells of a file with a name, shared and to be written to.
fn mapped(line: &str) -> Option<&str> {
    const NAMELESS: [&str; 3] = ["/memfd:", "/SYSV", "/dev/zero"];
    let mut words = line.splitn(6, ' ');
    let rights = words.nth(1)?.as_bytes();
    let path = words.nth(3)?.trim_start();
    let shared = rights.get(1) == Some(&b'w') && rights.get(3) == Some(&b's');
    let named = path.starts_with('/') && !path.ends_with(" (deleted)");
    let named = named && !NAMELESS.iter().any(|begin| path.starts_with(begin));
    (shared && named).then_some(path)
}

/// Was it opened to write to (proc(5), fdinfo: `flags:` and octal digits)?
fn writes(about: File) -> io::Result<bool> {
    const ACCESS: u32 = 0o3;
    for line in BufReader::new(about).lines() {
        if let Some(flags) = line?.strip_prefix("flags:") {
            let flags = u32::from_str_radix(flags.trim(), 8);
            return Ok(flags.is_ok_and(|flags| flags & ACCESS != 0));
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_the_view_has_in_a_temporary_place_is_not_left_there_and_all_else_is() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::create_dir_all(root.join("tmp/a/tools/bin")).unwrap();
        std::fs::write(root.join("tmp/a/tools/bin/criu"), "").unwrap();
        let directory = |at: &str| Step::Directory {
            at: c_string(at).unwrap(),
            mode: 0o755,
        };
        let blank = Step::Blank {
            at: c_string("tmp/a/tools").unwrap(),
            directory: true,
            mode: 0o755,
        };
        let place = Path::new("tmp");
        let left = |steps: &[Step]| left_in(root, place, steps);
        assert_eq!(left(&[]), Some(PathBuf::from("tmp/a")));
        let steps = [directory("tmp/a"), blank];
        assert_eq!(left(&steps), None);
        assert_eq!(left(&steps[1..]), None);
        let own = PathBuf::from("tmp/a/tools/bin");
        assert_eq!(left(&[directory("tmp/a/tools")]), Some(own));
        std::fs::write(root.join("tmp/a/of_guest"), "").unwrap();
        let of_guest = PathBuf::from("tmp/a/of_guest");
        assert_eq!(left(&steps), Some(of_guest));
    }

    #[test]
    fn of_maps_the_named_files_are_taken_that_are_shared_and_written_to() {
        let line = |rights: &str, path: &str| {
            format!("7f10a000-7f10b000 {rights} 00001000 fe:00 1234                       {path}")
        };
        let check = |rights: &str, path: &str, expected: Option<&str>| {
            let line = line(rights, path);
            assert_eq!(mapped(&line), expected, "{line}");
        };
        check("rw-s", "/job/1-2.1", Some("/job/1-2.1"));
        check("rw-s", "/job/a b", Some("/job/a b"));
        check("-w-s", "/data/x", Some("/data/x"));
        check("r--s", "/job/1-2.1", None);
        check("rw-p", "/job/1-2.1", None);
        check("rw-s", "/job/1-2.1 (deleted)", None);
        check("rw-s", "/memfd:x", None);
        check("rw-s", "", None);
        assert_eq!(mapped("7f10a000-7f10b000 rw-s"), None);
    }
}
