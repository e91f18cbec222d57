//! The control socket: one site at a time, told what it does not know yet (spec/jobs/runner.md, R20 to R24).

use crate::news::{Facts, Told};
use kumiko_job::attempt::AttemptCommand;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::{spooling, unix_socket};
use kumiko_wire::runner::{decode_command, encode_report};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

/// Bytes read at once.
const READ_BYTES: usize = 8192;

#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    token: u64,
    site: Option<Site>,
}

#[derive(Debug)]
struct Site {
    stream: UnixStream,
    told: Told,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Whether the poll tells when the socket takes bytes.
    waits: bool,
}

impl Control {
    /// `token`: what a connection is watched by.
    pub fn new(listener: UnixListener, token: u64) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            token,
            site: None,
        })
    }

    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    pub fn connected(&self) -> bool {
        self.site.is_some()
    }

    /// Takes the newest connection of this account. A connection that fails is nobody's loss: its site comes again.
    pub fn accept(&mut self, poll: &Poll) {
        while let Ok((stream, _)) = self.listener.accept() {
            let own = unix_socket::peer(&stream).is_ok_and(|(_, uid)| uid == spooling::own_uid());
            if own
                && stream.set_nonblocking(true).is_ok()
                && poll.add(&stream, self.token, Interest::Read).is_ok()
            {
                self.site = Some(Site {
                    stream,
                    told: Told::default(),
                    incoming: Vec::new(),
                    outgoing: Vec::new(),
                    waits: false,
                });
            }
        }
    }

    /// Tells the site what it does not know, as far as the socket takes it.
    pub fn tell(&mut self, facts: &Facts, poll: &Poll) {
        let Some(site) = &mut self.site else {
            return;
        };
        if !site.tell(facts) {
            self.site = None;
            return;
        }
        let waits = !site.outgoing.is_empty();
        if waits != site.waits {
            let interest = if waits {
                Interest::Both
            } else {
                Interest::Read
            };
            site.waits = waits;
            if poll.change(&site.stream, self.token, interest).is_err() {
                self.site = None;
            }
        }
    }

    /// Nobody is there who would have to be told how much of stdin was taken.
    pub fn knows_stdin(&self, facts: &Facts) -> bool {
        let site = self.site.as_ref();
        site.is_none_or(|site| site.told.knows_stdin(facts))
    }

    /// Passes on the commands that have come. A site that ends, or that speaks wrongly, is let go.
    pub fn hear(&mut self, mut obey: impl FnMut(AttemptCommand)) -> Result<(), String> {
        let Some(site) = &mut self.site else {
            return Ok(());
        };
        match site.hear(&mut obey) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.site = None;
                Ok(())
            }
            Err(complaint) => {
                self.site = None;
                Err(complaint)
            }
        }
    }
}

impl Site {
    /// False: the connection is of no more use.
    fn tell(&mut self, facts: &Facts) -> bool {
        loop {
            if self.outgoing.is_empty() {
                let outgoing = &mut self.outgoing;
                self.told
                    .catch_up(facts, |report| encode_report(report, outgoing));
                if self.outgoing.is_empty() {
                    return true;
                }
            }
            match self.stream.write(&self.outgoing) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(_) => return false,
            }
        }
    }

    fn hear(&mut self, obey: &mut impl FnMut(AttemptCommand)) -> Result<bool, String> {
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(count) => self.incoming.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(_) => return Ok(false),
        }
        let mut done = 0;
        while let Some((command, taken)) =
            decode_command(&self.incoming[done..]).map_err(|error| error.to_string())?
        {
            done += taken;
            obey(command);
        }
        self.incoming.drain(..done);
        if self.incoming.is_empty() {
            self.incoming = Vec::new(); // a runner at rest holds no buffer
        }
        Ok(true)
    }
}
