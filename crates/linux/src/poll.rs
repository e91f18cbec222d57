//! Waiting for descriptors: epoll, level-triggered (epoll(7)). Each descriptor goes by a number of the caller's.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::Timespec;
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// What is waited for; errors and hang-ups are told always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
    Both,
    /// Errors and hang-ups only.
    Errors,
}

/// What became of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number it was added with.
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// Hung up or in error: reading shows the rest, writing is useless.
    pub closed: bool,
}

/// An epoll instance.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
}

impl Poll {
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll })
    }

    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, fd, data, flags(interest))?)
    }

    pub fn change(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::modify(&self.epoll, fd, data, flags(interest))?)
    }

    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something happens or the timeout is over (None: for ever) and tells up to `N` events.
    /// A signal that was handled meanwhile ends the wait with no event.
    pub fn wait<const N: usize>(
        &self,
        timeout: Option<Duration>,
    ) -> io::Result<impl Iterator<Item = Event> + use<N>> {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); N];
        let mut seen = [None; N];
        match epoll::wait(&self.epoll, &mut space[..], timeout.as_ref()) {
            Ok((events, _)) => {
                for (place, event) in seen.iter_mut().zip(events.iter()) {
                    let flags = event.flags;
                    *place = Some(Event {
                        token: event.data.u64(),
                        readable: flags.contains(EventFlags::IN),
                        writable: flags.contains(EventFlags::OUT),
                        closed: flags.intersects(EventFlags::HUP | EventFlags::ERR),
                    });
                }
            }
            Err(Errno::INTR) => (),
            Err(error) => return Err(error.into()),
        }
        Ok(seen.into_iter().flatten())
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn flags(interest: Interest) -> EventFlags {
    match interest {
        Interest::Read => EventFlags::IN,
        Interest::Write => EventFlags::OUT,
        Interest::Both => EventFlags::IN | EventFlags::OUT,
        Interest::Errors => EventFlags::empty(),
    }
}
