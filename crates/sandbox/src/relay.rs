//! A guest's terminal joined to the one this process runs on, which is raw meanwhile: keys there, output here.
//! Not here: terminals of jobs (kumiko-runner).

use kumiko_linux::poll::{Event, Interest, Poll};
use kumiko_linux::spooling::set_nonblocking;
use kumiko_linux::terminal::{self, RawTerminal};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

/// Bytes copied at once: a terminal's buffer is of about this size.
const COPY_BYTES: usize = 4096;

/// By what numbers the two are watched.
pub(crate) const MASTER: u64 = 2;
pub(crate) const KEYS: u64 = 3;

pub(crate) struct Relay {
    master: File,
    /// This process's stdin and stdout.
    keys: File,
    screen: File,
    /// Keys that the guest has not taken yet; no more are read until it has.
    pending: Vec<u8>,
    _raw: RawTerminal,
}

impl Relay {
    /// # Errors
    /// ENOTTY if stdin is no terminal.
    pub fn begin(master: OwnedFd, poll: &Poll) -> io::Result<Relay> {
        set_nonblocking(&master, true)?;
        let keys = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let screen = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let raw = RawTerminal::enter(&keys)?;
        poll.add(&keys, KEYS, Interest::Read)?;
        poll.add(&master, MASTER, Interest::Read)?;
        Ok(Relay {
            master: File::from(master),
            keys,
            screen,
            pending: Vec::new(),
            _raw: raw,
        })
    }

    pub fn hear(&mut self, event: Event, poll: &Poll) -> io::Result<()> {
        match event.token {
            KEYS => self.read_keys(poll),
            MASTER => {
                if event.writable {
                    self.press_keys(poll)?;
                }
                match self.show() {
                    // EIO: the last process has closed it (tty_ioctl(4) calls that hung up).
                    Err(error) if !passes(&error) => poll.remove(&self.master),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Our terminal has another size now.
    pub fn resize(&self) {
        if let Ok((rows, columns)) = terminal::size(&self.keys) {
            let _ = terminal::set_size(&self.master, rows, columns); // one that is gone has no size
        }
    }

    /// Shows what the guest wrote last.
    pub fn finish(mut self) {
        while let Ok(1..) = self.show() {}
    }

    fn show(&mut self) -> io::Result<usize> {
        let mut bytes = [0; COPY_BYTES];
        let count = self.master.read(&mut bytes)?;
        // A terminal that is gone shows nothing. Its SIGHUP is passed on, and the guest need not hang until it obeys.
        let _ = self.screen.write_all(&bytes[..count]);
        Ok(count)
    }

    fn read_keys(&mut self, poll: &Poll) -> io::Result<()> {
        let mut bytes = [0; COPY_BYTES];
        match self.keys.read(&mut bytes) {
            Ok(count @ 1..) => {
                self.pending.extend_from_slice(&bytes[..count]);
                poll.remove(&self.keys)?;
                poll.change(&self.master, MASTER, Interest::Both)
            }
            Err(error) if passes(&error) => Ok(()),
            _ => poll.remove(&self.keys), // hung up
        }
    }

    fn press_keys(&mut self, poll: &Poll) -> io::Result<()> {
        match self.master.write(&self.pending) {
            Ok(count) => drop(self.pending.drain(..count)),
            Err(error) if passes(&error) => {}
            Err(_) => self.pending.clear(), // nobody reads them any more
        }
        if self.pending.is_empty() {
            poll.change(&self.master, MASTER, Interest::Read)?;
            poll.add(&self.keys, KEYS, Interest::Read)?;
        }
        Ok(())
    }
}

fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
