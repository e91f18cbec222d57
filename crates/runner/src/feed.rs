//! Live stdin on its way to the guest: what was received goes over as the guest takes it (spec/jobs/runner.md, R25).

use crate::input::Input;
use crate::start::Stdin;
use kumiko_job::description::WindowSize;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::{spooling, terminal};
use std::io::{self, ErrorKind, Write};

/// Closed until it is opened: without live stdin it stays so.
#[derive(Debug, Default)]
pub struct Feed {
    pub input: Input,
    stdin: Option<Stdin>,
    token: u64,
    /// Whether the poll tells when the guest takes more.
    waits: bool,
}

impl Feed {
    pub fn open(&mut self, stdin: Stdin, token: u64, poll: &Poll) -> io::Result<()> {
        poll.add(&stdin, token, Interest::Errors)?;
        self.token = token;
        self.stdin = Some(stdin);
        Ok(())
    }

    /// Bytes that were handed over and that the guest has not read; of a terminal that is not known.
    pub fn unread(&self) -> u64 {
        match &self.stdin {
            Some(Stdin::Pipe(pipe)) => spooling::unread(pipe).unwrap_or(0),
            _ => 0,
        }
    }

    /// More is of no use.
    pub fn closed(&self) -> bool {
        self.stdin.is_none()
    }

    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Hands over as much as the guest takes. An error is the poll's.
    pub fn hand_over(&mut self, poll: &Poll) -> io::Result<()> {
        while let Some(stdin) = &mut self.stdin {
            if self.input.pending().is_empty() {
                break;
            }
            match stdin.write(self.input.pending()) {
                Ok(count) => self.input.took(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(_) => self.close(),
            }
        }
        if self.input.finished() {
            self.end();
        }
        let waits = !self.input.pending().is_empty();
        if let Some(stdin) = self.stdin.as_ref().filter(|_| waits != self.waits) {
            let interest = match waits {
                true => Interest::Write,
                false => Interest::Errors,
            };
            poll.change(stdin, self.token, interest)?;
            self.waits = waits;
        }
        Ok(())
    }

    /// Sets the size of the guest's terminal, if it has one.
    pub fn resize(&self, size: WindowSize) {
        if let Some(Stdin::Terminal(master)) = &self.stdin {
            let _ = terminal::set_size(master, size.rows, size.columns); // one that is gone has no size
        }
    }

    fn end(&mut self) {
        match &mut self.stdin {
            // The terminal goes on: it is the output, too.
            Some(Stdin::Terminal(keyboard)) => keyboard.end_of_file(),
            Some(Stdin::Pipe(_)) => self.close(),
            None => (),
        }
    }
}
