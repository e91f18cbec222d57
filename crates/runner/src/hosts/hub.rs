//! The first host's end of all connections (spec/jobs/mpi.md, N22 and N27): the other hosts, each once, and what calls them in the
//! place of ssh. It waits for the kernel only. Not here: when it begins and ends.

use super::meeting::{self, Door};
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::tcp;
use kumiko_wire::meeting::Message;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::time::Duration;

const LISTENER: u64 = 0;
const EVENTS: usize = 64;
/// Most callers that have not shown the secret. The first of them goes for another: whoever has it shows it at once.
const UNKNOWN_MOST: usize = 64;
/// As ssh says that it is not the command which failed.
const NOT_REACHED: u8 = 255;

pub struct Hub {
    listener: TcpListener,
    secret: String,
    poll: Poll,
    callers: BTreeMap<u64, Caller>,
    next: u64,
    /// By number, from 1.
    hosts: Vec<Option<Host>>,
}

struct Caller {
    stream: TcpStream,
    incoming: Vec<u8>,
    who: Who,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Unknown,
    /// By its place among the hosts.
    Host(usize),
    /// It called that one.
    Launch(usize),
}

struct Host {
    own: IpAddr,
    /// The first host's address, as it found it.
    first: IpAddr,
    caller: u64,
    /// Who called it.
    launch: Option<u64>,
    ended: bool,
}

impl Hub {
    /// For so many other hosts.
    pub fn open(others: usize) -> io::Result<Hub> {
        let any = |address: IpAddr| TcpListener::bind((address, 0));
        let listener =
            any(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()))?;
        listener.set_nonblocking(true)?;
        let poll = Poll::new()?;
        poll.add(&listener, LISTENER, Interest::Read)?;
        Ok(Hub {
            listener,
            secret: meeting::secret()?,
            poll,
            callers: BTreeMap::new(),
            next: LISTENER + 1,
            hosts: (0..others).map(|_| None).collect(),
        })
    }

    pub fn door(&self) -> io::Result<Door> {
        Ok(Door {
            port: self.listener.local_addr()?.port(),
            secret: self.secret.clone(),
        })
    }

    /// The number of one that is not there yet.
    pub fn missing(&self) -> Option<usize> {
        let place = self.hosts.iter().position(Option::is_none)?;
        Some(place + 1)
    }

    /// Address of each that is there, and the first host's as it found that.
    pub fn addresses(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let there = self.hosts.iter().flatten();
        there.map(|host| (host.own, host.first))
    }

    /// Waits for what comes next, for so long at most (None: for ever); what has failed by it, for people.
    pub fn turn(&mut self, wait: Option<Duration>) -> io::Result<Vec<String>> {
        let mut failed = Vec::new();
        for event in self.poll.wait::<EVENTS>(wait)? {
            match event.token {
                LISTENER => self.accept(),
                token => failed.extend(self.read(token)),
            }
        }
        Ok(failed)
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let unknown = self
                .callers
                .iter()
                .filter(|(_, one)| one.who == Who::Unknown);
            let unknown: Vec<u64> = unknown.map(|(token, _)| *token).collect();
            if unknown.len() >= UNKNOWN_MOST {
                self.callers.remove(&unknown[0]);
            }
            let token = self.next;
            self.next += 1;
            // Blocking: it is read when it has something, and what it is sent it takes at once.
            let ready = stream.set_nonblocking(false).is_ok() && tcp::tune(&stream).is_ok();
            if ready && self.poll.add(&stream, token, Interest::Read).is_ok() {
                let (incoming, who) = (Vec::new(), Who::Unknown);
                self.callers.insert(
                    token,
                    Caller {
                        stream,
                        incoming,
                        who,
                    },
                );
            }
        }
    }

    fn read(&mut self, token: u64) -> Option<String> {
        let caller = self.callers.get_mut(&token)?;
        if !meeting::more(&caller.stream, &mut caller.incoming).unwrap_or(false) {
            return self.gone(token);
        }
        let mut failed = None;
        while let Some(caller) = self.callers.get_mut(&token) {
            match meeting::taken(&mut caller.incoming) {
                Ok(Some(message)) => failed = self.heard(token, message).or(failed),
                Ok(None) => break,
                Err(_) => return self.gone(token).or(failed),
            }
        }
        failed
    }

    fn heard(&mut self, token: u64, message: Message) -> Option<String> {
        let who = self.callers.get(&token)?.who;
        match (who, message) {
            (
                Who::Unknown,
                Message::Here {
                    secret,
                    number,
                    own,
                    first,
                },
            ) if secret == self.secret => {
                let place = usize::try_from(number).ok()?.checked_sub(1)?;
                match self.hosts.get_mut(place) {
                    Some(free @ None) => {
                        *free = Some(Host {
                            own,
                            first,
                            caller: token,
                            launch: None,
                            ended: false,
                        });
                        self.callers.get_mut(&token)?.who = Who::Host(place);
                        None
                    }
                    _ => self.gone(token),
                }
            }
            (
                Who::Unknown,
                Message::Launch {
                    secret,
                    address,
                    command,
                },
            ) if secret == self.secret => self.launch(token, address, command),
            (Who::Host(place), Message::Ended { status, said }) => self.ended(place, status, said),
            _ => self.gone(token),
        }
    }

    /// Has the host with that address run a command; each runs one.
    fn launch(&mut self, token: u64, address: IpAddr, command: Vec<u8>) -> Option<String> {
        let is_free = |host: &Host| host.own == address && host.launch.is_none() && !host.ended;
        let free = self.hosts.iter_mut().enumerate();
        let free = free.filter_map(|(place, host)| Some((place, host.as_mut()?)));
        let Some((place, host)) = { free }.find(|(_, host)| is_free(host)) else {
            let said = format!("{address} is no host of this job that is still to be called");
            self.answer(token, NOT_REACHED, said.into_bytes());
            return None;
        };
        host.launch = Some(token);
        let to = host.caller;
        self.callers.get_mut(&token)?.who = Who::Launch(place);
        let to = &self.callers.get(&to)?.stream;
        // If it cannot be told its end is seen next.
        let _ = meeting::send(to, &Message::Run { command });
        None
    }

    fn ended(&mut self, place: usize, status: u8, said: Vec<u8>) -> Option<String> {
        let host = self.hosts.get_mut(place)?.as_mut()?;
        host.ended = true;
        let failed = (status != 0).then(|| {
            let said = String::from_utf8_lossy(&said);
            let (number, own) = (place + 1, host.own);
            format!("host {number} ({own}) ended with {status}\n{said}")
        });
        if let Some(launch) = host.launch {
            self.answer(launch, status, Vec::new());
        }
        failed
    }

    /// Who does not take it is gone.
    fn answer(&mut self, token: u64, status: u8, said: Vec<u8>) {
        if let Some(caller) = self.callers.get(&token) {
            let _ = meeting::send(&caller.stream, &Message::Ended { status, said });
        }
    }

    /// Its connection has ended, or is to.
    fn gone(&mut self, token: u64) -> Option<String> {
        let Who::Host(place) = self.callers.remove(&token)?.who else {
            return None;
        };
        let host = self.hosts.get_mut(place)?.as_mut()?;
        if host.ended {
            return None;
        }
        host.ended = true;
        let (number, own, launch) = (place + 1, host.own, host.launch);
        if let Some(launch) = launch {
            self.answer(launch, NOT_REACHED, Vec::new());
        }
        Some(format!(
            "host {number} ({own}) is gone: its connection ended before what it runs"
        ))
    }
}

#[cfg(test)]
mod tests;
