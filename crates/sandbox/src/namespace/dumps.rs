//! Dumps of a room's guest by CRIU, and guests that go on from one (spec/checkpoint, K52 to K57): CRIU works as a helper in the
//! cell, with the rights of its namespaces. Not here: which CRIU, what becomes of a dump, when one is made (kumiko-runner).

use super::plan::c_string;
use super::room::NamespaceRoom;
use crate::contract::{Dumps, Open, Still};
use crate::criu::Usable;
use crate::error::SandboxError;
use crate::guest::Guest;
use kumiko_linux::cell::{Cell, Child, Failure, Program, Role, Streams};
use kumiko_linux::process;
use kumiko_policy::JOB_DIRECTORY;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

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
const OUTPUTS_FROM: usize = 4;
/// A gigabyte takes half a second; a slow disk, or a machine under load, takes longer.
const RESTORES_WITHIN: Duration = Duration::from_secs(120);

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
        let mut files = Vec::new();
        for (here, _) in &all {
            open_files(*here, &mut files).map_err(|error| SandboxError::Kernel {
                step: "looking at open files",
                cause: error.to_string(),
            })?;
        }
        files.sort();
        files.dedup();
        let left = self.temporary_places().find_map(|at| {
            let at = at.to_str().ok()?;
            let mut names = std::fs::read_dir(root.join(at)).ok()?;
            let name = names.next()?.ok()?.file_name();
            Some(format!("/{at}/{}", name.to_string_lossy()))
        });
        Ok(Still {
            number,
            processes: all.iter().map(|(_, number)| *number).collect(),
            files,
            left,
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
        still: &Still,
        last: i32,
        outputs: &[(BorrowedFd<'_>, u64)],
    ) -> Result<Guest, SandboxError> {
        let failed = |cause: String| SandboxError::Kernel {
            step: "going on from a dump",
            cause,
        };
        let own = ["--restore-detached", "--restore-sibling", "--cpu-cap=cpu"];
        let all = ["restore"].iter().chain(&ALWAYS).chain(&own);
        let mut all: Vec<String> = all.map(ToString::to_string).collect();
        for ((_, pipe), at) in outputs.iter().zip(OUTPUTS_FROM..) {
            all.push("--inherit-fd".to_owned());
            all.push(format!("fd[{at}]:pipe:[{pipe}]"));
        }
        let further: Vec<BorrowedFd<'_>> = outputs.iter().map(|(fd, _)| *fd).collect();
        let mut made = None;
        let helper = self.helper(criu, images, &all, &further, |program| {
            let (cell, child) = self.begin(program, last)?;
            made = Some(cell);
            Ok(child)
        });
        let mut helper = helper?;
        self.cell = made;
        let over = process::ends_within(helper.pidfd(), RESTORES_WITHIN);
        if !over.map_err(|error| failed(error.to_string()))? {
            return Err(failed(format!(
                "CRIU took more than {} s",
                RESTORES_WITHIN.as_secs()
            )));
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

/// Regular files in the job's own directory that a process has open to write to, with their lengths. A process that is gone has none.
fn open_files(pid: i32, files: &mut Vec<Open>) -> io::Result<()> {
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
            files.push(Open {
                path: path.to_owned(),
                bytes: is.len(),
            });
        }
    }
    Ok(())
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
