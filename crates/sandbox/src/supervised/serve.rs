//! From a call to what becomes of it: which of the guest's registers mean what. Not in it: how the answer gets there
//! (notify.rs, trace.rs).

use super::attributes::OF_STATX;
use super::caller::Caller;
use super::execute;
use super::messages::{self, Message};
use super::open;
use super::processes;
use super::sockets;
use super::table::{Decision, TABLE};
use super::view::flag::{self, AT_CWD};
use kumiko_linux::supervise::Errno;
use std::os::fd::OwnedFd;

/// What becomes of a call.
pub(super) enum Outcome {
    Value(i64),
    /// Made as it stands: registers alone decide.
    Native,
    /// Returns a descriptor.
    Give {
        fd: OwnedFd,
        close_on_exec: bool,
    },
    /// As above, of what nobody else may have open then.
    GiveAway {
        fd: OwnedFd,
        close_on_exec: bool,
    },
    /// As this says, which may take as long as somebody else likes.
    Slow(Slow),
    /// A socket is to be connected to this address, which is no file's.
    Connect(Vec<u8>),
    Send(Message),
    /// The guest is to work in this directory, whose path on the host comes along.
    Enter {
        real: Vec<u8>,
        directory: OwnedFd,
    },
    Execute(Execution),
    /// The guest is to open this path of the host for its path alone: such a descriptor cannot be handed over.
    Path {
        real: Vec<u8>,
        flags: i32,
    },
}

pub(super) type Slow = Box<dyn FnOnce() -> Result<Outcome, Errno> + Send>;

/// A program to be executed in the place of the one that is named.
pub(super) struct Execution {
    pub program: execute::Program,
    /// Where argument list and environment stand in the guest's memory.
    pub arguments: u64,
    pub environment: u64,
}

const fn number(name: &str) -> i32 {
    let mut at = 0;
    while at < TABLE.len() {
        if equal(TABLE[at].name.as_bytes(), name.as_bytes()) {
            return TABLE[at].number as i32;
        }
        at += 1;
    }
    -1
}

const fn equal(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

macro_rules! numbers {
    ($($constant:ident $name:literal)*) => {
        pub(crate) mod nr {
            $(pub const $constant: i32 = super::number($name);)*
        }
        #[cfg(test)]
        const ANSWERED: &[&str] = &[$($name),*];
    };
}

numbers! {
    OPEN "open" OPENAT "openat" OPENAT2 "openat2" CREAT "creat" STAT "stat" LSTAT "lstat" NEWFSTATAT "newfstatat"
    STATX "statx" ACCESS "access" FACCESSAT "faccessat" FACCESSAT2 "faccessat2" READLINK "readlink"
    READLINKAT "readlinkat" MKDIR "mkdir" MKDIRAT "mkdirat" RMDIR "rmdir" UNLINK "unlink" UNLINKAT "unlinkat"
    RENAME "rename" RENAMEAT "renameat" RENAMEAT2 "renameat2" LINK "link" LINKAT "linkat" SYMLINK "symlink"
    SYMLINKAT "symlinkat" CHMOD "chmod" FCHMOD "fchmod" FCHMODAT "fchmodat" FCHMODAT2 "fchmodat2" CHOWN "chown"
    FCHOWN "fchown" LCHOWN "lchown" FCHOWNAT "fchownat" UTIME "utime" UTIMES "utimes" FUTIMESAT "futimesat"
    UTIMENSAT "utimensat" TRUNCATE "truncate" MKNOD "mknod" MKNODAT "mknodat" SETXATTR "setxattr"
    LSETXATTR "lsetxattr" FSETXATTR "fsetxattr" GETXATTR "getxattr" LGETXATTR "lgetxattr" LISTXATTR "listxattr"
    LLISTXATTR "llistxattr" REMOVEXATTR "removexattr" LREMOVEXATTR "lremovexattr" FREMOVEXATTR "fremovexattr"
    STATFS "statfs" EXECVE "execve" EXECVEAT "execveat" CHDIR "chdir" GETCWD "getcwd"
    INOTIFY_ADD_WATCH "inotify_add_watch" CONNECT "connect" BIND "bind" SETPRIORITY "setpriority"
    GETPRIORITY "getpriority" IOPRIO_SET "ioprio_set" IOPRIO_GET "ioprio_get" SOCKET "socket" SENDTO "sendto" SENDMSG "sendmsg"
    SENDMMSG "sendmmsg"
}

/// What calls of the "at" kind take among their flags; faccessat2(2) AT_EACCESS as well.
const OF_PATHS: u64 = flag::AT_NOFOLLOW | flag::AT_EMPTY_PATH;
const EFFECTIVE: u64 = 0x200;

pub(super) fn serve(c: &Caller<'_>) -> Result<Outcome, Errno> {
    let value = match c.call.number {
        nr::OPENAT => return open::open(c, &open::wanted_at(c)?),
        nr::OPEN => return open::open(c, &open::wanted(c)?),
        nr::OPENAT2 => return open::open(c, &open::wanted_how(c)?),
        nr::CREAT => return open::open(c, &open::wanted_creat(c)?),
        nr::EXECVE => return execute_call(c, AT_CWD, 0, 0),
        nr::EXECVEAT => return execute_call(c, c.int(0), 1, c.flags(4, OF_PATHS)?),
        nr::CHDIR => return enter(c),
        nr::CONNECT => return sockets::connect(c),
        nr::SOCKET => return socket(c),
        nr::SENDTO | nr::SENDMSG | nr::SENDMMSG => {
            let message = messages::wanted(c)?;
            return Ok(message.map_or(Outcome::Value(0), Outcome::Send));
        }
        nr::SETPRIORITY | nr::GETPRIORITY => return of_processes(c, 0),
        nr::IOPRIO_SET | nr::IOPRIO_GET => return of_processes(c, 1),
        nr::NEWFSTATAT => c.stat(c.int(0), &c.path(1)?, c.flags(3, OF_STATX)?, 2),
        nr::STAT => c.stat(AT_CWD, &c.path(0)?, 0, 1),
        nr::LSTAT => c.stat(AT_CWD, &c.path(0)?, flag::AT_NOFOLLOW, 1),
        nr::STATX => c.statx(),
        nr::STATFS => c.statfs(),
        nr::ACCESS => c.access(AT_CWD, &c.path(0)?, c.int(1), 0),
        nr::FACCESSAT => c.access(c.int(0), &c.path(1)?, c.int(2), 0),
        nr::FACCESSAT2 => c.access(
            c.int(0),
            &c.path(1)?,
            c.int(2),
            c.flags(3, OF_PATHS | EFFECTIVE)?,
        ),
        nr::READLINK => c.read_link(AT_CWD, &c.path(0)?, 1, c.int(2)),
        nr::READLINKAT => c.read_link(c.int(0), &c.path(1)?, 2, c.int(3)),
        nr::GETCWD => c.working_directory(),
        nr::MKDIR => c.make_directory(AT_CWD, &c.path(0)?, c.int(1) as u32),
        nr::MKDIRAT => c.make_directory(c.int(0), &c.path(1)?, c.int(2) as u32),
        nr::MKNOD => c.make_node(AT_CWD, 0, c.int(1) as u32, c.word(2)),
        nr::MKNODAT => c.make_node(c.int(0), 1, c.int(2) as u32, c.word(3)),
        nr::RMDIR => c.remove(AT_CWD, &c.path(0)?, flag::AT_REMOVE_DIRECTORY),
        nr::UNLINK => c.remove(AT_CWD, &c.path(0)?, 0),
        nr::UNLINKAT => {
            let flags = c.flags(2, flag::AT_REMOVE_DIRECTORY)?;
            c.remove(c.int(0), &c.path(1)?, flags)
        }
        nr::RENAME => c.rename((AT_CWD, 0), (AT_CWD, 1), 0),
        nr::RENAMEAT => c.rename((c.int(0), 1), (c.int(2), 3), 0),
        nr::RENAMEAT2 => c.rename((c.int(0), 1), (c.int(2), 3), c.int(4) as u32),
        nr::LINK => c.link((AT_CWD, &c.path(0)?), (AT_CWD, &c.path(1)?), 0),
        nr::LINKAT => {
            let flags = c.flags(4, flag::AT_FOLLOW | flag::AT_EMPTY_PATH)?;
            c.link((c.int(0), &c.path(1)?), (c.int(2), &c.path(3)?), flags)
        }
        nr::SYMLINK => c.make_link(&c.path(0)?, AT_CWD, 1),
        nr::SYMLINKAT => c.make_link(&c.path(0)?, c.int(1), 2),
        nr::CHMOD => c.change_mode(AT_CWD, 0, &c.path(0)?, c.int(1) as u32),
        nr::FCHMOD => c.change_mode_of(),
        nr::FCHMODAT => c.change_mode(c.int(0), 0, &c.path(1)?, c.int(2) as u32),
        nr::FCHMODAT2 => c.change_mode(
            c.int(0),
            c.flags(3, OF_PATHS)?,
            &c.path(1)?,
            c.int(2) as u32,
        ),
        nr::CHOWN => c.change_owner(AT_CWD, 0, &c.path(0)?, 1),
        nr::LCHOWN => c.change_owner(AT_CWD, flag::AT_NOFOLLOW, &c.path(0)?, 1),
        nr::FCHOWN => c.change_owner_of(),
        nr::FCHOWNAT => c.change_owner(c.int(0), c.flags(4, OF_PATHS)?, &c.path(1)?, 2),
        nr::UTIMENSAT => c.change_times(),
        nr::FUTIMESAT => c.change_times_by(c.int(0), 1, 2, 1000),
        nr::UTIMES => c.change_times_by(AT_CWD, 0, 1, 1000),
        nr::UTIME => c.change_times_in_seconds(),
        nr::TRUNCATE => c.truncate(),
        nr::SETXATTR => c.set_attribute(true),
        nr::LSETXATTR => c.set_attribute(false),
        nr::FSETXATTR => c.set_attribute_of(),
        nr::GETXATTR => c.get_attribute(true),
        nr::LGETXATTR => c.get_attribute(false),
        nr::LISTXATTR => c.list_attributes(true),
        nr::LLISTXATTR => c.list_attributes(false),
        nr::REMOVEXATTR => c.remove_attribute(true),
        nr::LREMOVEXATTR => c.remove_attribute(false),
        nr::FREMOVEXATTR => c.remove_attribute_of(),
        nr::INOTIFY_ADD_WATCH => c.add_watch(),
        nr::BIND => sockets::bind(c),
        number => return other(c, number),
    };
    value.map(Outcome::Value)
}

/// Calls whose first argument is a process (`AskUnlessZero`).
fn other(c: &Caller<'_>, number: i32) -> Result<Outcome, Errno> {
    let row = TABLE.iter().find(|row| row.number as i32 == number);
    match row.map(|row| row.decision) {
        Some(Decision::AskUnlessZero) => of_member(c.int(0)),
        _ => Err(Errno::ENOSYS),
    }
}

fn of_member(pid: i32) -> Result<Outcome, Errno> {
    // A negative number is nobody: the kernel says so by the call.
    if pid <= 0 || processes::is_guest(pid) {
        Ok(Outcome::Native)
    } else {
        Err(Errno::ESRCH)
    }
}

/// setpriority(2), ioprio_set(2): of one process, never of all that an account has. `one`: how that is said.
fn of_processes(c: &Caller<'_>, one: i32) -> Result<Outcome, Errno> {
    if c.int(0) == one {
        of_member(c.int(1))
    } else {
        Err(Errno::EPERM)
    }
}

/// A UNIX socket of datagrams could send to any name without saying so in a register. Where addresses are held to rules,
/// TCP and UDP are what is known to reach no others.
fn socket(c: &Caller<'_>) -> Result<Outcome, Errno> {
    const UNIX: i32 = 1;
    const INTERNET: [i32; 2] = [2, 10];
    const STREAM: i32 = 1;
    const DATAGRAM: i32 = 2;
    const KIND: i32 = 0xf;
    const TCP: [i32; 2] = [0, 6];
    const UDP: [i32; 2] = [0, 17];
    let (family, kind, protocol) = (c.int(0), c.int(1) & KIND, c.int(2));
    let known = match (family, kind) {
        (UNIX, DATAGRAM) => false,
        _ if c.view.reach().is_empty() || !INTERNET.contains(&family) => true,
        (_, STREAM) => TCP.contains(&protocol),
        (_, DATAGRAM) => UDP.contains(&protocol),
        _ => false,
    };
    if known {
        Ok(Outcome::Native)
    } else {
        Err(Errno::EPROTONOSUPPORT)
    }
}

fn enter(c: &Caller<'_>) -> Result<Outcome, Errno> {
    let (place, directory) = c.directory_to_enter()?;
    Ok(Outcome::Enter {
        real: c.real_of(&place)?,
        directory,
    })
}

/// `path`: which argument is it; the two that follow are arguments and environment.
fn execute_call(c: &Caller<'_>, directory: i32, path: usize, flags: u64) -> Result<Outcome, Errno> {
    let words = c.path(path)?;
    let program = execute::find(c, directory, &words, flags)?;
    if program.same {
        // Another thread may change the words yet: then the guest's domain, or a look at what came of them, holds it.
        return Ok(Outcome::Native);
    }
    Ok(Outcome::Execute(Execution {
        program,
        arguments: c.word(path + 1),
        environment: c.word(path + 2),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_for_is_answered() {
        for row in TABLE.iter().filter(|row| row.decision == Decision::Ask) {
            assert!(ANSWERED.contains(&row.name), "{} has no answer", row.name);
        }
        for name in ANSWERED {
            assert!(number(name) >= 0, "{name} has no row");
        }
    }
}
