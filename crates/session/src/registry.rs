//! The sessions of a server (S8, S9): who may attach to which, and how long, how many and how large detached ones wait.

use crate::core::{Core, Role};
use crate::server::{Served, Stats};
use crate::shared::Shared;
use crate::{LostReason, Options, SessionError};
use kumiko_wire::frame::{Hello, goodbye};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Owner and name: sessions of other owners cannot even be asked for.
pub(crate) type Key = (Arc<str>, [u8; 16]);

#[derive(Debug)]
pub(crate) struct Registry {
    pub options: Options,
    sessions: Mutex<Sessions>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Sessions {
    entries: HashMap<Key, Entry>,
    per_owner: HashMap<Arc<str>, usize>,
    cuts: u64,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    shared: Arc<Shared>,
    token: [u8; 16],
    detached: Option<Detached>,
}

/// Since which cut (they are counted), and what the session may come to hold.
#[derive(Clone, Copy, Debug)]
struct Detached {
    cut: u64,
    bytes: usize,
}

/// A session with the connection of `epoch`. Dropped, it leaves the session detached.
#[derive(Debug)]
pub(crate) struct Attached {
    registry: Arc<Registry>,
    key: Key,
    pub shared: Arc<Shared>,
    pub epoch: u64,
}

impl Registry {
    pub fn new(options: Options) -> Self {
        Registry {
            options,
            sessions: Mutex::default(),
            count: watch::Sender::new(0),
        }
    }

    /// Finds or makes the session of a HELLO and gives it the new connection.
    pub fn attach(self: &Arc<Self>, key: Key, hello: &Hello) -> Result<Attached, SessionError> {
        let refused = |code, text: &str| {
            let text = text.to_owned();
            Err(SessionError::Refused { code, text })
        };
        let mut sessions = self.sessions();
        if sessions.closed {
            return refused(goodbye::GOING_DOWN, "the server is going down");
        }
        let shared = match (sessions.entries.get_mut(&key), hello.resume) {
            (Some(entry), Some(_)) if same(&entry.token, &hello.token) => {
                entry.detached = None;
                entry.shared.clone()
            }
            (_, Some(_)) => return refused(goodbye::UNKNOWN_SESSION, "there is no such session"),
            (Some(_), None) => return refused(goodbye::VIOLATION, "a session of this name exists"),
            (None, None) => {
                let of_owner = sessions.per_owner.get(&key.0).copied().unwrap_or(0);
                if of_owner >= self.options.max_sessions_per_owner {
                    // Who comes now goes before a connection of the same owner that has gone.
                    let Some(oldest) = sessions.oldest_detached_of(&key.0) else {
                        let text = "too many sessions of this owner";
                        return refused(goodbye::TOO_MANY_SESSIONS, text);
                    };
                    oldest.with(|core| core.end(SessionError::Lost(LostReason::Evicted)));
                }
                sessions.insert(&key, hello, self.options.clone())
            }
        };
        let welcomed = shared.with(|core| core.welcome(hello.resume));
        if let Err(error) = &welcomed {
            // Only the owner with the token comes here: its session cannot be gone on with.
            sessions.remove(&key, &shared);
            shared.with(|core| core.end(error.clone()));
        }
        let count = sessions.entries.len();
        drop(sessions);
        self.count.send_replace(count);
        let epoch = welcomed?;
        shared.take_over(epoch);
        let registry = self.clone();
        Ok(Attached {
            registry,
            key,
            shared,
            epoch,
        })
    }

    /// Ends all sessions and admits nobody any more; returns the word of when all have gone.
    pub fn close(&self) -> watch::Receiver<usize> {
        let mut sessions = self.sessions();
        sessions.closed = true;
        for entry in sessions.entries.values() {
            let error = SessionError::Lost(LostReason::GoingDown);
            let text = "the server is going down".to_owned();
            entry
                .shared
                .with(|core| core.end_saying(error, goodbye::GOING_DOWN, text));
        }
        let detached: Vec<(Key, Arc<Shared>)> = sessions
            .entries
            .iter()
            .filter(|(_, entry)| entry.detached.is_some())
            .map(|(key, entry)| (key.clone(), entry.shared.clone()))
            .collect();
        for (key, shared) in detached {
            sessions.remove(&key, &shared);
        }
        self.count.send_replace(sessions.entries.len());
        self.count.subscribe()
    }

    pub fn stats(&self) -> Stats {
        let sessions = self.sessions();
        let mut stats = Stats::default();
        for entry in sessions.entries.values() {
            match entry.detached {
                Some(_) => stats.detached += 1,
                None => stats.attached += 1,
            }
            let (streams, bytes) = entry
                .shared
                .with(|core| (core.stream_count(), core.held_bytes()));
            stats.streams += streams;
            stats.held_bytes += bytes;
        }
        stats
    }

    /// Nobody came back for the session that was cut then.
    fn abandon(&self, key: &Key, shared: &Arc<Shared>, cut: u64) {
        let mut sessions = self.sessions();
        let detached = sessions.entries.get(key).and_then(|entry| entry.detached);
        if detached.is_none_or(|detached| detached.cut != cut) || !sessions.remove(key, shared) {
            return;
        }
        self.count.send_replace(sessions.entries.len());
        drop(sessions);
        let window_ms = self.options.resume_within.as_millis();
        let window_ms = window_ms.try_into().unwrap_or(u64::MAX);
        shared.with(|core| core.end(SessionError::Lost(LostReason::Abandoned { window_ms })));
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attached {
    /// The connection is cut: the session waits, and is given up when nobody comes back.
    pub fn detach(&self) -> Served {
        let Attached {
            registry,
            key,
            shared,
            epoch,
        } = self;
        let mut sessions = registry.sessions();
        let held = shared.with(|core| {
            let mine = core.epoch() == *epoch;
            if mine {
                core.cut();
            }
            mine.then(|| (core.held_bytes_at_most(), core.is_over().is_some()))
        });
        let Some((bytes, over)) = held else {
            return Served::Superseded;
        };
        if over {
            drop(sessions);
            self.remove();
            return Served::Closed;
        }
        sessions.cuts += 1;
        let cut = sessions.cuts;
        if let Some(entry) = sessions.entries.get_mut(key) {
            entry.detached = Some(Detached { cut, bytes });
        }
        let evicted = sessions.make_room(&registry.options);
        registry.count.send_replace(sessions.entries.len());
        drop(sessions);
        for shared in evicted {
            shared.with(|core| core.end(SessionError::Lost(LostReason::Evicted)));
        }
        let (registry, key, shared, epoch) =
            (registry.clone(), key.clone(), shared.clone(), *epoch);
        match tokio::runtime::Handle::try_current() {
            Err(_) => registry.abandon(&key, &shared, cut),
            Ok(runtime) => {
                _ = runtime.spawn(async move {
                    tokio::select! {
                        () = tokio::time::sleep(registry.options.resume_within) => {}
                        () = shared.superseded(epoch) => {}
                    }
                    registry.abandon(&key, &shared, cut);
                })
            }
        }
        Served::Detached
    }

    /// The session is over.
    pub fn remove(&self) {
        let mut sessions = self.registry.sessions();
        sessions.remove(&self.key, &self.shared);
        self.registry.count.send_replace(sessions.entries.len());
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Whoever let the future of `serve` go has cut the connection with it.
        let mut cut = false;
        self.shared
            .with(|core| cut = core.epoch() == self.epoch && !core.is_cut());
        if cut {
            self.detach();
        }
    }
}

impl Sessions {
    fn insert(&mut self, key: &Key, hello: &Hello, options: Options) -> Arc<Shared> {
        let core = Core::new(Role::Server, options, hello.session, hello.token);
        let shared = Arc::new(Shared::new(core));
        let entry = Entry {
            shared: shared.clone(),
            token: hello.token,
            detached: None,
        };
        self.entries.insert(key.clone(), entry);
        *self.per_owner.entry(key.0.clone()).or_default() += 1;
        shared
    }

    /// Takes the session out, if it is still this one.
    fn remove(&mut self, key: &Key, shared: &Arc<Shared>) -> bool {
        let is_this = |entry: &Entry| Arc::ptr_eq(&entry.shared, shared);
        if !self.entries.get(key).is_some_and(is_this) {
            return false;
        }
        self.entries.remove(key);
        if let Some(count) = self.per_owner.get_mut(&key.0) {
            *count -= 1;
            if *count == 0 {
                self.per_owner.remove(&key.0);
            }
        }
        true
    }

    /// Takes out the session of this owner whose connection has been gone for longest.
    fn oldest_detached_of(&mut self, owner: &Arc<str>) -> Option<Arc<Shared>> {
        let (_, key, shared) = self
            .entries
            .iter()
            .filter(|(key, _)| key.0 == *owner)
            .filter_map(|(key, entry)| {
                Some((entry.detached?.cut, key.clone(), entry.shared.clone()))
            })
            .min_by_key(|(cut, ..)| *cut)?;
        self.remove(&key, &shared);
        Some(shared)
    }

    /// Takes out the oldest detached sessions until number and bytes are within their limits.
    fn make_room(&mut self, options: &Options) -> Vec<Arc<Shared>> {
        let mut waiting: Vec<(Detached, Key, Arc<Shared>)> = self
            .entries
            .iter()
            .filter_map(|(key, entry)| Some((entry.detached?, key.clone(), entry.shared.clone())))
            .collect();
        waiting.sort_by_key(|(detached, ..)| std::cmp::Reverse(detached.cut));
        let mut bytes: usize = waiting.iter().map(|(detached, ..)| detached.bytes).sum();
        let mut evicted = Vec::new();
        while waiting.len() > options.max_detached || bytes > options.max_detached_bytes {
            let Some((detached, key, shared)) = waiting.pop() else {
                break;
            };
            bytes -= detached.bytes;
            self.remove(&key, &shared);
            evicted.push(shared);
        }
        evicted
    }
}

/// Takes as long for any two tokens.
fn same(one: &[u8; 16], other: &[u8; 16]) -> bool {
    one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
