//! Landlock domains (landlock(7)) as the walls of a room that has no namespaces. Signals and traces do not leave a
//! domain (Linux 6.12), so its members can be told by asking whether they could be signalled, and ended in one call.

use super::errno::{Errno, check};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetError, Scope,
};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first that keeps signals in.
const NEEDED: i64 = 6;

/// What may be done by the kernel's own paths with what lies at or below a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Executed, and so read.
    Execute,
    /// Listed.
    List,
    /// Read and listed.
    Read { execute: bool },
    /// All that the account may.
    Write { execute: bool },
}

/// Which Landlock this kernel has; 0: none.
pub fn version() -> i64 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: no structure is given, which is how the version is asked for (landlock_create_ruleset(2)).
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0,
            VERSION,
        )
    };
    version.max(0)
}

/// Does it keep signals within a domain?
pub fn is_enough() -> bool {
    version() >= NEEDED
}

/// From now on this process (which has one thread) can signal and trace only those that it starts, and they each other.
pub fn enter_room() -> io::Result<()> {
    let enter = || -> Result<(), RulesetError> {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        ruleset
            .scope(Scope::Signal)?
            .create()?
            .restrict_self()
            .map(drop)
    };
    enter().map_err(io::Error::other)?;
    // Else ending the room would end all that the account has.
    // SAFETY: plain numbers; signal 0 is sent to nobody.
    if unsafe { libc::kill(libc::getppid(), 0) } == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    IN_ROOM.store(true, Ordering::Relaxed);
    Ok(())
}

/// This process, or the one that it is a copy of, has seen that its signals do not leave its room. There is no way out.
static IN_ROOM: AtomicBool = AtomicBool::new(false);

/// The domain of guests as it is put together: nothing is reached by the kernel's own paths but what is granted.
#[derive(Debug)]
pub struct GuestRules(OwnedFd);

/// A domain that nothing is kept out of by its path: members can signal and trace each other alone.
pub fn of_signals_alone() -> io::Result<OwnedFd> {
    let create = || -> Result<RulesetCreated, RulesetError> {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        ruleset.scope(Scope::Signal)?.create()
    };
    made(create()).map(|rules| rules.0)
}

fn made(created: Result<RulesetCreated, RulesetError>) -> io::Result<GuestRules> {
    let fd: Option<OwnedFd> = created.map_err(io::Error::other)?.into();
    fd.map(GuestRules)
        .ok_or_else(|| io::ErrorKind::Unsupported.into())
}

impl GuestRules {
    pub fn new() -> io::Result<GuestRules> {
        let create = || -> Result<RulesetCreated, RulesetError> {
            let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
            ruleset
                .handle_access(AccessFs::from_all(KNOWN))?
                .scope(Scope::Signal)?
                .create()
        };
        made(create())
    }

    /// What lies at and below a descriptor, of a `directory` or not.
    pub fn grant(
        &mut self,
        fd: BorrowedFd<'_>,
        directory: bool,
        grant: Grant,
    ) -> Result<(), Errno> {
        let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::Execute;
        let mut rights = match grant {
            Grant::Execute => read,
            Grant::List => AccessFs::ReadDir.into(),
            Grant::Read { .. } => read | AccessFs::ReadDir | AccessFs::IoctlDev,
            Grant::Write { .. } => AccessFs::from_all(KNOWN),
        };
        if let Grant::Read { execute: false } | Grant::Write { execute: false } = grant {
            rights.remove(AccessFs::Execute);
        }
        // A file takes no rights of directories.
        let rights = if directory {
            rights
        } else {
            rights & AccessFs::from_file(KNOWN)
        };
        let rule = PathBeneath {
            allowed_access: rights.bits(),
            parent_fd: fd.as_raw_fd(),
        };
        // By the bare call: a start makes dozens, and each looks at the file again where the crate makes it.
        // SAFETY: a live structure as the call wants it (landlock_add_rule(2)).
        check(unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.0.as_raw_fd(),
                PATH_BENEATH,
                &raw const rule,
                0,
            )
        })
        .map(drop)
    }

    /// The domain, for guests to enter.
    pub fn finish(self) -> OwnedFd {
        self.0
    }
}

/// LANDLOCK_RULE_PATH_BENEATH.
const PATH_BENEATH: libc::c_int = 1;

/// struct landlock_path_beneath_attr.
#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: libc::c_int,
}

/// The rights that are handled.
const KNOWN: ABI = ABI::V5;

/// Is there a process or thread of this number in this process's room, other than itself?
pub fn is_member(pid: i32) -> bool {
    // SAFETY: plain numbers; signal 0 is sent to nobody, and the right to send it is what is asked for.
    pid > 1 && pid != std::process::id() as i32 && unsafe { libc::kill(pid, 0) } == 0
}

/// Kills every process of the room but this one, in one pass of the kernel that no fork escapes (kill(2), -1). Refused
/// by a process that is in no room: all that the account has would be hit.
pub fn end_room() -> Result<(), Errno> {
    if !IN_ROOM.load(Ordering::Relaxed) {
        return Err(Errno::EPERM);
    }
    // SAFETY: plain numbers.
    unsafe { libc::kill(-1, libc::SIGKILL) };
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn who_is_in_no_room_ends_none() {
        assert_eq!(super::end_room(), Err(super::Errno::EPERM));
    }
}
