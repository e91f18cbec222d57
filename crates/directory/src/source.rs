//! Registrations as soft state (spec/info, R1 to R4 and R10 to R14): who is registered, heard, stale, gone. Pure:
//! instants come in, verdicts come out. Not here: what sources tell (`delta`), who may register (`info`).

use crate::rows::SourceId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Registrations at one index: hosts of a large site, each by itself.
pub const REGISTRATIONS_MOST: usize = 100_000;
/// Servers below one registrant that it may name; a tree of the world.
pub const BELOW_MOST: usize = 10_000;
/// Heartbeats that may fail to come before a source is stale.
const MISSED_HEARTBEATS: u64 = 2;
/// The shortest and the longest time for which a silent source is kept.
pub const TTL_LEAST_MS: u64 = 500;
pub const TTL_MOST_MS: u64 = 7 * 24 * 3600 * 1000;

/// Where the entries of a registrant appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Directly in the index: hosts of a site.
    Leaf,
    /// Below `Mds-Vo-name=NAME` in the index.
    Index,
}

/// What a registrant says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Its name in the index.
    pub name: String,
    pub kind: Kind,
    /// The registrant itself, the same for its whole life: loops are found by it.
    pub id: String,
    /// Of this run of it: numbers of changes are comparable within one.
    pub epoch: u64,
    /// How long it is kept when it is not heard.
    pub ttl_ms: u64,
    pub heartbeat_ms: u64,
    /// Identities of all servers below it.
    #[serde(default)]
    pub below: BTreeSet<String>,
    /// Its clock.
    pub now_ms: u64,
    /// The first change that it still has, and the last.
    pub first: u64,
    pub last: u64,
}

/// What the index answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Go on after this change; None: begin with a snapshot.
    pub after: Option<u64>,
    pub ttl_ms: u64,
    pub heartbeat_ms: u64,
    /// The index itself.
    pub id: String,
}

/// Why a registration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    #[error(
        "the name {name:?} is registered by {owner}; choose another name, or end that registration first"
    )]
    NameTaken { name: String, owner: String },
    #[error(
        "{name} is above this index as well as below it: one of the registrations in the circle must go"
    )]
    Loop { name: String },
    #[error("the registration cannot be used: {0}")]
    Unusable(&'static str),
    #[error("no more than {REGISTRATIONS_MOST} registrations")]
    Full,
}

/// How a source stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    Live,
    /// Not heard since (Unix time, ms).
    Stale {
        since_ms: u64,
    },
}

/// One registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    pub subject: String,
    pub hello: Hello,
    pub standing: Standing,
    pub heard_ms: u64,
    /// All changes up to this number of `hello.epoch` have been carried out.
    pub reached: u64,
    /// Which connection speaks for it; an older one is not listened to.
    pub connection: u64,
}

/// What has become of a source with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Stale { source: SourceId, since_ms: u64 },
    Gone { source: SourceId },
}

/// What is to be done to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub source: SourceId,
    pub connection: u64,
    /// None: a snapshot is wanted.
    pub after: Option<u64>,
    pub ttl_ms: u64,
    pub heartbeat_ms: u64,
}

/// All registrations of one index.
#[derive(Clone, Debug)]
pub struct Registrations {
    id: String,
    by_source: BTreeMap<SourceId, Registration>,
    by_name: BTreeMap<String, SourceId>,
    last_source: u32,
    last_connection: u64,
    generation: u64,
}

impl Registrations {
    /// `id`: this index itself.
    pub fn new(id: String) -> Registrations {
        Registrations {
            id,
            by_source: BTreeMap::new(),
            by_name: BTreeMap::new(),
            last_source: 0,
            last_connection: 0,
            generation: 1,
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Another number whenever `below` may have changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn get(&self, source: SourceId) -> Option<&Registration> {
        self.by_source.get(&source)
    }

    pub fn all(&self) -> impl Iterator<Item = (SourceId, &Registration)> {
        self.by_source.iter().map(|(s, r)| (*s, r))
    }

    /// A source that is no registration: own providers, legacy registrants.
    pub fn own_source(&mut self) -> SourceId {
        self.last_source += 1;
        SourceId(self.last_source)
    }

    /// Identities of this index and of all below it.
    pub fn below(&self) -> BTreeSet<String> {
        let mut below = BTreeSet::from([self.id.clone()]);
        for registration in self.by_source.values() {
            below.insert(registration.hello.id.clone());
            below.extend(registration.hello.below.iter().cloned());
        }
        below
    }

    /// A registrant comes, or comes back.
    ///
    /// # Errors
    /// `RegisterError`; nothing changes then.
    pub fn register(
        &mut self,
        subject: &str,
        hello: Hello,
        now_ms: u64,
    ) -> Result<Registered, RegisterError> {
        usable(&hello).map_err(RegisterError::Unusable)?;
        if hello.id == self.id || hello.below.contains(&self.id) {
            return Err(RegisterError::Loop { name: hello.name });
        }
        let ttl_ms = hello.ttl_ms.clamp(TTL_LEAST_MS, TTL_MOST_MS);
        let heartbeat_ms = hello.heartbeat_ms.clamp(TTL_LEAST_MS / 4, ttl_ms / 2);
        let key = hello.name.to_lowercase();
        let known = self.by_name.get(&key).copied();
        let mut after = None;
        let source = match known.and_then(|s| self.by_source.get(&s).map(|r| (s, r))) {
            Some((source, old)) => {
                // A host that was set up anew may take its place when the old one has fallen silent.
                let same = old.hello.id == hello.id;
                let silent = matches!(old.standing, Standing::Stale { .. });
                if old.subject != subject || !(same || silent) {
                    return Err(RegisterError::NameTaken {
                        name: hello.name,
                        owner: old.subject.clone(),
                    });
                }
                // What came back from a restart of ours (no connection) may lack something.
                let goes_on = same
                    && old.connection != 0
                    && old.hello.epoch == hello.epoch
                    && old.hello.kind == hello.kind
                    && hello.first <= old.reached + 1
                    && old.reached <= hello.last;
                after = goes_on.then_some(old.reached);
                source
            }
            None if self.by_source.len() >= REGISTRATIONS_MOST => return Err(RegisterError::Full),
            None => {
                self.last_source += 1;
                SourceId(self.last_source)
            }
        };
        self.last_connection += 1;
        let connection = self.last_connection;
        let registration = Registration {
            subject: subject.to_owned(),
            standing: Standing::Live,
            heard_ms: now_ms,
            reached: after.unwrap_or(0),
            connection,
            hello: Hello {
                ttl_ms,
                heartbeat_ms,
                ..hello
            },
        };
        self.by_name.insert(key, source);
        self.by_source.insert(source, registration);
        self.generation += 1;
        Ok(Registered {
            source,
            connection,
            after,
            ttl_ms,
            heartbeat_ms,
        })
    }

    /// Does this connection still speak for the source? If so it was heard.
    pub fn heard(
        &mut self,
        source: SourceId,
        connection: u64,
        reached: Option<u64>,
        now_ms: u64,
    ) -> bool {
        let current = self.by_source.get_mut(&source);
        let Some(registration) = current.filter(|r| r.connection == connection) else {
            return false;
        };
        registration.heard_ms = now_ms;
        registration.standing = Standing::Live;
        registration.reached = reached.unwrap_or(registration.reached);
        true
    }

    /// The registrant has told who is below it now.
    ///
    /// # Errors
    /// `Loop`: this index is; the registration must end.
    pub fn set_below(
        &mut self,
        source: SourceId,
        below: BTreeSet<String>,
    ) -> Result<(), RegisterError> {
        let Some(registration) = self.by_source.get_mut(&source) else {
            return Ok(());
        };
        if below.contains(&self.id) {
            let name = registration.hello.name.clone();
            return Err(RegisterError::Loop { name });
        }
        if below.len() > BELOW_MOST {
            return Err(RegisterError::Unusable("too many servers below it"));
        }
        registration.hello.below = below;
        self.generation += 1;
        Ok(())
    }

    /// The connection of a source is lost; true if it was the one that spoke for it.
    pub fn cut(&mut self, source: SourceId, connection: u64, now_ms: u64) -> bool {
        let current = self.by_source.get_mut(&source);
        let Some(registration) = current.filter(|r| r.connection == connection) else {
            return false;
        };
        registration.standing = Standing::Stale { since_ms: now_ms };
        true
    }

    /// The source says goodbye; true if it was this connection's to say.
    pub fn leave(&mut self, source: SourceId, connection: u64) -> bool {
        let speaks = self.get(source).is_some_and(|r| r.connection == connection);
        if speaks {
            self.remove(source);
        }
        speaks
    }

    fn remove(&mut self, source: SourceId) {
        self.generation += 1;
        self.by_source.remove(&source);
        self.by_name.retain(|_, other| *other != source);
    }

    /// What time has brought. To be asked a few times a second.
    pub fn tick(&mut self, now_ms: u64) -> Vec<Due> {
        let mut due = Vec::new();
        for (source, registration) in &mut self.by_source {
            let silent = now_ms.saturating_sub(registration.heard_ms);
            match registration.standing {
                _ if silent >= registration.hello.ttl_ms => due.push(Due::Gone { source: *source }),
                Standing::Live if silent >= registration.hello.heartbeat_ms * MISSED_HEARTBEATS => {
                    let since_ms = registration.heard_ms;
                    registration.standing = Standing::Stale { since_ms };
                    due.push(Due::Stale {
                        source: *source,
                        since_ms,
                    });
                }
                _ => {}
            }
        }
        for gone in &due {
            if let Due::Gone { source } = gone {
                self.remove(*source);
            }
        }
        due
    }

    /// A registration from before a restart: stale since it was heard last, and kept for its time from now on.
    pub fn restore(&mut self, registration: Registration, now_ms: u64) -> SourceId {
        self.last_source += 1;
        let source = SourceId(self.last_source);
        self.by_name
            .insert(registration.hello.name.to_lowercase(), source);
        let since_ms = registration.heard_ms.min(now_ms);
        self.by_source.insert(
            source,
            Registration {
                standing: Standing::Stale { since_ms },
                heard_ms: now_ms,
                connection: 0,
                ..registration
            },
        );
        source
    }
}

fn usable(hello: &Hello) -> Result<(), &'static str> {
    let name = hello.name.trim();
    if name.is_empty() || hello.name.len() > 255 || hello.name.chars().any(char::is_control) {
        return Err("its name is empty, longer than 255 bytes or not on one line");
    }
    if hello.id.is_empty() || hello.id.len() > 64 {
        return Err("its identity is empty or longer than 64 bytes");
    }
    if hello.below.len() > BELOW_MOST || hello.below.iter().any(|id| id.len() > 64) {
        return Err("too many servers below it, or their identities are too long");
    }
    if hello.first > hello.last.saturating_add(1) {
        return Err("its first change comes after its last");
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn hello(name: &str, id: &str) -> Hello {
        Hello {
            name: name.into(),
            kind: Kind::Leaf,
            id: id.into(),
            epoch: 1,
            ttl_ms: 2500,
            heartbeat_ms: 800,
            below: BTreeSet::new(),
            now_ms: 0,
            first: 1,
            last: 10,
        }
    }

    #[test]
    fn a_silent_source_is_stale_then_gone_and_one_that_speaks_is_neither() {
        let mut all = Registrations::new("top".into());
        let a = all.register("/CN=a", hello("a", "1"), 0).unwrap();
        let b = all.register("/CN=b", hello("b", "2"), 0).unwrap();
        assert!(all.tick(1500).is_empty());
        assert!(all.heard(b.source, b.connection, Some(3), 1500));
        let since_ms = 0;
        let source = a.source;
        assert_eq!(all.tick(1600), [Due::Stale { source, since_ms }]);
        assert!(all.tick(1700).is_empty(), "said once");
        assert!(all.heard(b.source, b.connection, None, 2400));
        assert_eq!(all.tick(2500), [Due::Gone { source }]);
        assert!(all.get(a.source).is_none() && all.get(b.source).is_some());
    }

    #[test]
    fn one_that_comes_back_goes_on_where_it_was_and_its_old_connection_is_not_heard() {
        let mut all = Registrations::new("top".into());
        let first = all.register("/CN=a", hello("a", "1"), 0).unwrap();
        assert_eq!(first.after, None);
        all.heard(first.source, first.connection, Some(7), 100);
        assert!(all.cut(first.source, first.connection, 200));
        let again = all.register("/CN=a", hello("A", "1"), 300).unwrap();
        assert_eq!((again.source, again.after), (first.source, Some(7)));
        assert!(!all.heard(first.source, first.connection, None, 400));
        assert!(!all.leave(first.source, first.connection));
        for (change, after) in [
            (
                Hello {
                    epoch: 2,
                    ..hello("a", "1")
                },
                None,
            ),
            (
                Hello {
                    first: 9,
                    ..hello("a", "1")
                },
                None,
            ),
            (
                Hello {
                    last: 3,
                    ..hello("a", "1")
                },
                None,
            ),
        ] {
            let mut all = all.clone();
            assert_eq!(all.register("/CN=a", change, 500).unwrap().after, after);
        }
    }

    #[test]
    fn a_name_belongs_to_one_until_that_one_is_gone() {
        let mut all = Registrations::new("top".into());
        let a = all.register("/CN=a", hello("a", "1"), 0).unwrap();
        let taken = |r: Result<Registered, RegisterError>| {
            assert!(matches!(r, Err(RegisterError::NameTaken { .. })), "{r:?}");
        };
        taken(all.register("/CN=b", hello("a", "2"), 0));
        taken(all.register("/CN=a", hello("a", "2"), 0));
        all.cut(a.source, a.connection, 1);
        taken(all.register("/CN=b", hello("a", "2"), 1));
        let anew = all.register("/CN=a", hello("a", "2"), 1).unwrap();
        assert_eq!((anew.source, anew.after), (a.source, None));
        all.tick(100_000);
        assert!(all.register("/CN=b", hello("a", "3"), 100_001).is_ok());
    }

    #[test]
    fn circles_are_found_at_once_and_later() {
        let mut all = Registrations::new("top".into());
        let is_loop = |e: RegisterError| assert!(matches!(e, RegisterError::Loop { .. }));
        is_loop(all.register("/CN=a", hello("a", "top"), 0).unwrap_err());
        let below = BTreeSet::from(["x".to_owned(), "top".to_owned()]);
        let circle = Hello {
            below: below.clone(),
            ..hello("a", "1")
        };
        is_loop(all.register("/CN=a", circle, 0).unwrap_err());
        let a = all.register("/CN=a", hello("a", "1"), 0).unwrap();
        is_loop(all.set_below(a.source, below).unwrap_err());
        all.set_below(a.source, BTreeSet::from(["y".to_owned()]))
            .unwrap();
        let expected: BTreeSet<String> = ["top", "1", "y"].map(str::to_owned).into();
        assert_eq!(all.below(), expected);
    }

    #[test]
    fn what_a_registrant_lies_about_time_is_bounded() {
        let mut all = Registrations::new("top".into());
        let eternal = Hello {
            ttl_ms: u64::MAX,
            heartbeat_ms: u64::MAX,
            now_ms: u64::MAX,
            ..hello("a", "1")
        };
        let a = all.register("/CN=a", eternal, 0).unwrap();
        assert_eq!(a.ttl_ms, TTL_MOST_MS);
        assert!(!all.tick(TTL_MOST_MS).is_empty());
        let restless = Hello {
            ttl_ms: 0,
            heartbeat_ms: 0,
            ..hello("b", "2")
        };
        let b = all.register("/CN=b", restless, 0).unwrap();
        assert_eq!((b.ttl_ms, b.heartbeat_ms), (TTL_LEAST_MS, TTL_LEAST_MS / 4));
    }
}
