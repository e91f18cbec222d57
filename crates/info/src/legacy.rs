//! Registrants in the manner of MDS 2 (spec/info, G1 to G5), switched on by naming them: they add a registration by LDAP
//! again and again, and are asked for everything as long as it holds. One task for each address that the operator has
//! listed; no other address is ever contacted.

use crate::config::Legacy;
use crate::error::StartError;
use crate::index::Index;
use crate::register::is_of_hosts;
use crate::time::{generalized, millis, parse_generalized};
use crate::uplink::split;
use kumiko_directory::grrp::{self, Grrp};
use kumiko_directory::ldap::{self, Add, Answer, Reply, code};
use kumiko_directory::provider::Told;
use kumiko_directory::source::{Hello, Kind};
use kumiko_directory::{Dn, Entry, SourceId, ldif};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// Of one answer: ten thousand hosts of a large index of MDS 2.
const ANSWER_MOST_BYTES: usize = 64 << 20;
const LOOK_UP_WITHIN: Duration = Duration::from_secs(5);

/// An address that may register, and its registration if there is one.
#[derive(Debug)]
pub(crate) struct Listed {
    host: String,
    port: u16,
    /// Globs for the hosts that it may tell about.
    hosts: String,
    granted: watch::Sender<Option<Grant>>,
}

/// A registration that holds.
#[derive(Clone, Debug)]
struct Grant {
    said: Grrp,
    source: SourceId,
    connection: u64,
    until: Instant,
}

/// Why an asking came to nothing.
#[derive(Debug, thiserror::Error)]
enum PullError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("its answer cannot be read: {0}")]
    Answer(#[from] ldap::LdapError),
    #[error("it says {code}: {message}")]
    Refused { code: i64, message: String },
    #[error("its answer is longer than {ANSWER_MOST_BYTES} bytes, or has too many entries")]
    TooLong,
    #[error("it did not answer within {0:?}")]
    Late(Duration),
}

impl Listed {
    pub fn new(listed: &Legacy) -> Result<Listed, StartError> {
        let (host, port) = split(&listed.address).ok_or_else(|| StartError::Address {
            address: listed.address.clone(),
        })?;
        Ok(Listed {
            host,
            port,
            hosts: listed.hosts.clone(),
            granted: watch::Sender::new(None),
        })
    }

    /// Does this connection come from the host that is listed?
    async fn is_at(&self, peer: IpAddr) -> bool {
        let found = timeout(LOOK_UP_WITHIN, lookup_host((self.host.as_str(), self.port))).await;
        let is_it = |a: std::net::SocketAddr| a.ip().to_canonical() == peer.to_canonical();
        found.is_ok_and(|f| f.is_ok_and(|mut all| all.any(is_it)))
    }
}

/// Answers an add. The same again is as good as the first.
pub(crate) async fn register(index: &Index, peer: IpAddr, add: &Add) -> Answer {
    let suffix = index.read(|inner| inner.directory.suffix().clone());
    let said = match grrp::read(add, &suffix, parse_generalized) {
        Ok(said) => said,
        Err(error) => return Answer::new(code::CONSTRAINT_VIOLATION, error.to_string()),
    };
    let is_it = |l: &&Listed| l.host.eq_ignore_ascii_case(&said.host) && l.port == said.port;
    let Some(listed) = index.legacy.iter().find(is_it) else {
        let (host, port) = (&said.host, said.port);
        tracing::info!(%peer, host, port, "a registration of MDS 2 from an address that is not listed");
        let words = format!(
            "the operator of this index has not listed {host}:{port} ([[legacy]] in info.toml)"
        );
        return Answer::new(code::INSUFFICIENT_ACCESS_RIGHTS, words);
    };
    if !listed.is_at(peer).await {
        let words = format!("{} is not where this comes from", said.host);
        return Answer::new(code::INSUFFICIENT_ACCESS_RIGHTS, words);
    }
    let until = Instant::now() + Duration::from_millis(said.ttl_ms);
    let held = listed.granted.borrow().clone();
    let lives = |g: &Grant| index.read(|inner| inner.registrations.get(g.source).is_some());
    let grant = match held.filter(|g| g.said.suffix == said.suffix && lives(g)) {
        Some(held) => Grant {
            said,
            until,
            ..held
        },
        None => {
            let now_ms = index.clock.now_ms();
            let hello = hello(&said, index.epoch, now_ms);
            let subject = hello.id.clone();
            let registered =
                index.change(|inner| inner.registrations.register(&subject, hello, now_ms));
            match registered {
                Ok(registered) => Grant {
                    said,
                    until,
                    source: registered.source,
                    connection: registered.connection,
                },
                Err(error) => return Answer::new(code::UNWILLING_TO_PERFORM, error.to_string()),
            }
        }
    };
    listed.granted.send_replace(Some(grant));
    Answer::ok()
}

fn hello(said: &Grrp, epoch: u64, now_ms: u64) -> Hello {
    Hello {
        name: said.name.clone(),
        kind: said.kind,
        id: format!("ldap://{}:{}", said.host, said.port)
            .chars()
            .take(64)
            .collect(),
        epoch,
        ttl_ms: said.ttl_ms,
        heartbeat_ms: said.every_ms,
        below: BTreeSet::new(),
        now_ms,
        first: 1,
        last: 0,
    }
}

/// Asks one listed registrant, while it is registered, until the server ends.
pub(crate) async fn follow(index: Arc<Index>, number: usize) {
    let Some(listed) = index.legacy.get(number) else {
        return;
    };
    let mut granted = listed.granted.subscribe();
    let mut told = Taken::default();
    loop {
        let Some(grant) = granted.borrow_and_update().clone() else {
            if granted.changed().await.is_err() {
                return;
            }
            continue;
        };
        if grant.until <= Instant::now() {
            end(&index, listed, &grant);
            continue;
        }
        let begun = Instant::now();
        let within = Duration::from_millis(grant.said.timeout_ms);
        let pulled = timeout(within, pull(&index, listed, &grant.said.suffix)).await;
        match pulled.unwrap_or(Err(PullError::Late(within))) {
            Ok(entries) => told.take(&index, listed, &grant, entries),
            Err(error) => {
                tracing::warn!(host = listed.host, port = listed.port, %error, "a registrant of MDS 2 was not heard");
            }
        }
        let next = begun + Duration::from_millis(grant.said.every_ms);
        tokio::select! {
            () = sleep_until(next.min(grant.until)) => {}
            // Renewed, most often; what it says now counts from the next time on.
            changed = granted.changed() => match changed {
                Ok(()) => sleep_until(next).await,
                Err(_) => return,
            },
        }
    }
}

/// What was taken in from a registrant, under which registration.
#[derive(Default)]
struct Taken {
    of: Option<(SourceId, u64)>,
    told: Told,
}

impl Taken {
    fn take(&mut self, index: &Index, listed: &Listed, grant: &Grant, mut entries: Vec<Entry>) {
        let now_ms = index.clock.now_ms();
        let base = index.place_of(&grant.said.name, grant.said.kind);
        let all = listed.hosts == "*" || grant.said.kind == Kind::Index;
        entries.retain(|e| !e.dn.is_root() && (all || is_of_hosts(&e.dn, &listed.hosts)));
        let (source, connection) = (grant.source, grant.connection);
        let anew = self.of != Some((source, connection));
        if anew {
            self.told = Told::default();
        }
        let ops = self.told.tell(entries);
        let heard = index.change(|inner| {
            let heard = inner.registrations.heard(source, connection, None, now_ms);
            if heard {
                if anew {
                    inner.directory.begin_round(source);
                }
                inner.directory.mark_fresh(source);
                index.apply(inner, source, &base, &ops);
                if anew {
                    inner.directory.end_round(source);
                }
            }
            heard
        });
        // Of one that is over nothing was taken.
        self.of = heard.then_some((source, connection));
    }
}

/// Nobody has renewed it.
fn end(index: &Index, listed: &Listed, grant: &Grant) {
    let over = listed.granted.send_if_modified(|now| {
        let over = now.as_ref().is_some_and(|g| g.until <= Instant::now());
        if over {
            *now = None;
        }
        over
    });
    if !over {
        return;
    }
    index.change(|inner| {
        if inner.registrations.leave(grant.source, grant.connection) {
            let entries = inner.directory.remove_source(grant.source);
            let at = generalized(index.clock.now_ms());
            tracing::info!(
                host = listed.host,
                entries,
                at,
                "a registration of MDS 2 is over"
            );
        }
    });
}

/// All entries below its suffix, named relative to it.
async fn pull(index: &Index, listed: &Listed, suffix: &Dn) -> Result<Vec<Entry>, PullError> {
    let mut stream = TcpStream::connect((listed.host.as_str(), listed.port)).await?;
    stream
        .write_all(&ldap::ask_for_all(&suffix.to_string()))
        .await?;
    let most = index.config.limits.entries_of_source;
    let (mut entries, mut input, mut bytes) = (Vec::new(), Vec::new(), 0);
    loop {
        let mut at = 0;
        while let Some((reply, length)) = ldap::read_reply(input.get(at..).unwrap_or_default())? {
            at += length;
            match reply {
                Reply::Entry(entry) if entries.len() < most => {
                    entries.extend(placed(entry, suffix))
                }
                Reply::Entry(_) => return Err(PullError::TooLong),
                Reply::Done {
                    code: code::SUCCESS,
                    tag: 0x65,
                    ..
                } => return Ok(entries),
                Reply::Done {
                    code: code::SUCCESS,
                    ..
                }
                | Reply::Other => {}
                Reply::Done { code, message, .. } => {
                    return Err(PullError::Refused { code, message });
                }
            }
        }
        input.drain(..at);
        let read = stream.read_buf(&mut input).await?;
        bytes += read;
        match (read, bytes) {
            (0, _) => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
            (_, bytes) if bytes > ANSWER_MOST_BYTES => return Err(PullError::TooLong),
            _ => {}
        }
    }
}

fn placed(mut entry: Entry, suffix: &Dn) -> Option<Entry> {
    entry.dn = entry.dn.relative_to(suffix)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = millis(now.unwrap_or_default());
    Some(ldif::stamp(entry, now_ms, 0, parse_generalized))
}
