//! What the maker, enterer and program tell the process that started them: sixteen bytes a message over a sequenced
//! socket, whose end means that each of them has ended or executed. Both ends are this very program: no decoder for
//! strangers.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Where a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// Before anything was started.
    Prepare,
    /// Making the namespaces: not permitted to this account, or too many.
    Unshare,
    /// Mapping the account into its user namespace.
    Map,
    /// Starting process 1.
    Init,
    Loopback,
    /// The real path of step `index`.
    Real,
    /// A symbolic link in the part of it that must have none.
    Link,
    /// Copying the tree of step `index`.
    Tree,
    /// The new root.
    Root,
    /// The place of step `index` in the view.
    Place,
    /// Mounting step `index` there.
    Mount,
    /// Leaving the host's root.
    Pivot,
    /// Joining the cell.
    Enter,
    /// Starting the program's process.
    Program,
    /// Its descriptors, session, terminal.
    Descriptors,
    Terminal,
    Directory,
    /// Giving up rights.
    Privileges,
    Filter,
    /// Executing; `index`: which candidate.
    Execute,
    /// The file is there, its interpreter or loader is not.
    Interpreter,
    /// A helper ended without a word.
    Lost,
}

impl Stage {
    const ALL: [Stage; 22] = [
        Stage::Prepare,
        Stage::Unshare,
        Stage::Map,
        Stage::Init,
        Stage::Loopback,
        Stage::Real,
        Stage::Link,
        Stage::Tree,
        Stage::Root,
        Stage::Place,
        Stage::Mount,
        Stage::Pivot,
        Stage::Enter,
        Stage::Program,
        Stage::Descriptors,
        Stage::Terminal,
        Stage::Directory,
        Stage::Privileges,
        Stage::Filter,
        Stage::Execute,
        Stage::Interpreter,
        Stage::Lost,
    ];
}

/// What failed, at which step, and the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    pub stage: Stage,
    pub index: usize,
    pub errno: i32,
}

impl Failure {
    pub(crate) const LOST: Failure = Failure {
        stage: Stage::Lost,
        index: 0,
        errno: 0,
    };

    pub(crate) fn new(stage: Stage, error: &io::Error) -> Failure {
        Failure {
            stage,
            index: 0,
            errno: error.raw_os_error().unwrap_or(0),
        }
    }

    pub(crate) fn at(stage: Stage) -> impl Fn(Errno) -> Failure {
        move |errno| Failure {
            stage,
            index: 0,
            errno: errno.raw_os_error(),
        }
    }

    pub(crate) fn step(stage: Stage, index: usize) -> impl Fn(Errno) -> Failure {
        move |errno| Failure {
            stage,
            index,
            errno: errno.raw_os_error(),
        }
    }

    /// As numbers, for who tells it to another copy of this program.
    pub fn words(&self) -> [u32; 3] {
        [self.stage as u32, self.index as u32, self.errno as u32]
    }

    pub fn of_words([stage, index, errno]: [u32; 3]) -> Failure {
        let stage = Stage::ALL.get(stage as usize).copied();
        Failure {
            stage: stage.unwrap_or(Stage::Lost),
            index: index as usize,
            errno: errno as i32,
        }
    }

    /// The kernel's word as an error.
    pub fn cause(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno)
    }
}

/// errno of the last libc call of this thread.
pub(crate) fn errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

const INIT: u32 = 1;
const PROGRAM: u32 = 2;
const FDS: u32 = 3;
const FAILED: u32 = 4;
const GO: u32 = 5;

/// One message, in the host's byte order.
pub(crate) struct Message([u32; 4]);

impl Message {
    pub(crate) fn init(pid: i32) -> Message {
        Message([INIT, pid as u32, 0, 0])
    }

    pub(crate) fn program(pid: i32) -> Message {
        Message([PROGRAM, pid as u32, 0, 0])
    }

    pub(crate) fn go() -> Message {
        Message([GO, 0, 0, 0])
    }

    /// A descriptor of who tells it, for who may take copies of them (pidfd_getfd(2)).
    pub(crate) fn descriptor(number: i32) -> Message {
        Message([FDS, number as u32, 0, 0])
    }

    pub(crate) fn failed(failure: &Failure) -> Message {
        Message([
            FAILED,
            failure.stage as u32,
            failure.index as u32,
            failure.errno as u32,
        ])
    }

    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (to, word) in bytes.chunks_exact_mut(4).zip(self.0) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Reports(OwnedFd);

/// All that was told.
#[derive(Default)]
pub(crate) struct Told {
    pub init: Option<i32>,
    pub program: Option<i32>,
    /// The program's terminal, its master.
    pub terminal: Option<OwnedFd>,
    pub failure: Option<Failure>,
}

/// Receiving and sending end; both close on exec, and neither is a standard descriptor, which the program replaces.
pub(crate) fn pair() -> io::Result<(Reports, OwnedFd)> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let theirs = match theirs.as_raw_fd() {
        0..=2 => rustix::io::fcntl_dupfd_cloexec(&theirs, 3)?,
        _ => theirs,
    };
    Ok((Reports(ours), theirs))
}

impl Reports {
    /// Never waits long: the buffer holds far more than is ever sent. An error means that nobody listens any more.
    pub(crate) fn tell(to: BorrowedFd<'_>, message: &Message) {
        let _ = rustix::net::send(to, &message.bytes(), SendFlags::NOSIGNAL);
    }

    /// Hands over a descriptor: init its processes, a program its terminal.
    pub(crate) fn tell_fd(to: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let bytes = Message([FDS, 0, 0, 0]).bytes();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        let fds = [fd];
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let message = &[IoSlice::new(&bytes)];
        rustix::net::sendmsg(to, message, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
    }

    pub(crate) fn tell_failure(to: BorrowedFd<'_>, failure: &Failure) {
        Reports::tell(to, &Message::failed(failure));
    }

    /// Waits for a descriptor, or the failure that is told in its place. Allocates nothing.
    pub(crate) fn fd_or_failure(&self) -> Result<OwnedFd, Failure> {
        let mut bytes = [0; 16];
        match self.receive(&mut bytes) {
            Ok((_, Some(fd))) => Ok(fd),
            Ok((16, None)) => Err(failure(&bytes)),
            Ok(_) => Err(Failure::LOST),
            Err(errno) => Err(Failure::at(Stage::Lost)(errno)),
        }
    }

    /// This end, for who is started with a copy of it and must not keep it open.
    pub(crate) fn end(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Waits for the word to go on; false: there is nobody to say it.
    pub(crate) fn told_to_go(from: BorrowedFd<'_>) -> bool {
        let mut bytes = [0; 16];
        let got = rustix::net::recv(from, &mut bytes, RecvFlags::empty());
        matches!(got, Ok((16, _))) && word(&bytes, 0) == GO
    }

    /// The number of the descriptor that is told first of all, or the failure that is told in its place.
    pub(crate) fn descriptor_or_failure(&self) -> Result<i32, Failure> {
        let mut bytes = [0; 16];
        match self.receive(&mut bytes) {
            Ok((16, None)) if word(&bytes, 0) == FDS => Ok(word(&bytes, 1) as i32),
            Ok((16, None)) => Err(failure(&bytes)),
            Ok(_) => Err(Failure::LOST),
            Err(errno) => Err(Failure::at(Stage::Lost)(errno)),
        }
    }

    /// Waits for the word that it is ready, or the failure that is told in its place.
    pub(crate) fn ready_or_failure(&self) -> Result<(), Failure> {
        let mut bytes = [0; 16];
        match self.receive(&mut bytes) {
            Ok((16, None)) if word(&bytes, 0) == GO => Ok(()),
            Ok((16, None)) => Err(failure(&bytes)),
            Ok(_) => Err(Failure::LOST),
            Err(errno) => Err(Failure::at(Stage::Lost)(errno)),
        }
    }

    /// One message: its length, and the descriptor that came with it.
    fn receive(&self, bytes: &mut [u8; 16]) -> Result<(usize, Option<OwnedFd>), Errno> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut room);
        let got = rustix::net::recvmsg(
            &self.0,
            &mut [IoSliceMut::new(bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let fd = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Ok((got.bytes, fd))
    }

    /// Whether the other ends are all closed within this time; reads nothing.
    pub(crate) fn over_within(&self, within: Duration) -> bool {
        let begun = Instant::now();
        loop {
            let left = within.saturating_sub(begun.elapsed());
            // Closing is told whatever is asked for (poll(2), POLLHUP).
            let mut fds = [PollFd::new(&self.0, PollFlags::empty())];
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut fds, Some(&timeout)) {
                Err(Errno::INTR) => {}
                Ok(0) => return false,
                // What poll cannot say, reading will.
                Ok(_) | Err(_) => return true,
            }
        }
    }

    /// Reads until the other ends are all closed.
    pub(crate) fn collect(self) -> Told {
        let mut told = Told::default();
        loop {
            let mut bytes = [0; 16];
            match self.receive(&mut bytes) {
                Ok((got, fd)) if got == bytes.len() => {
                    told.terminal = fd.or(told.terminal.take());
                }
                Err(Errno::INTR) => continue,
                _ => return told,
            }
            let word = |at| word(&bytes, at);
            match word(0) {
                INIT => told.init = Some(word(1) as i32),
                PROGRAM => told.program = Some(word(1) as i32),
                FAILED => {
                    let failure = failure(&bytes);
                    // A program that nobody told to go may be heard before the maker says why.
                    if told.failure.is_none_or(|known| known.stage == Stage::Lost) {
                        told.failure = Some(failure);
                    }
                }
                _ => {}
            }
        }
    }
}

fn failure(bytes: &[u8; 16]) -> Failure {
    Failure::of_words([word(bytes, 1), word(bytes, 2), word(bytes, 3)])
}

fn word(bytes: &[u8; 16], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(bytes.get(at * 4..at * 4 + 4).unwrap_or(&[0; 4]));
    u32::from_ne_bytes(word)
}

/// A second descriptor of the same thing with a number from `least` on.
pub(crate) fn above(fd: BorrowedFd<'_>, least: usize) -> Result<OwnedFd, Errno> {
    let least = libc::c_int::try_from(least).map_err(|_| Errno::MFILE)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let raw = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    if raw < 0 {
        return Err(errno());
    }
    // SAFETY: as above, it is open and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn who_ends_without_the_descriptor_that_is_waited_for_is_lost_and_nothing_else_is_wrong() {
        let (ours, theirs) = pair().unwrap();
        drop(theirs);
        assert_eq!(ours.fd_or_failure().unwrap_err(), Failure::LOST);
        let (ours, theirs) = pair().unwrap();
        let failure = Failure::at(Stage::Mount)(Errno::PERM);
        Reports::tell_failure(theirs.as_fd(), &failure);
        assert_eq!(ours.fd_or_failure().unwrap_err(), failure);
        let (ours, theirs) = pair().unwrap();
        Reports::tell_fd(theirs.as_fd(), theirs.as_fd()).unwrap();
        assert!(ours.fd_or_failure().is_ok());
    }
}
