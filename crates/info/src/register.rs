//! The receiving side of registrations (spec/info, R1 to R14): who may, what they tell, and what time does to those
//! that fall silent.

use crate::config::{Allow, glob};
use crate::desk::{Refusal, Stop, send};
use crate::index::{Index, Inner};
use crate::time::generalized;
use kumiko_directory::ask::kind as answer;
use kumiko_directory::delta::{self, DeltaError, kind};
use kumiko_directory::source::{Due, Hello, RegisterError, Registered, Standing, Welcome};
use kumiko_directory::{Dn, Op, SourceId, Stamp};
use kumiko_session::{Message, Receiver, Sender};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How often silent sources are looked for: a tenth of what "within 3 s" leaves.
const TICK: Duration = Duration::from_millis(100);
/// Clocks that differ by less are taken for equal.
const SKEW_MS: i64 = 2_000;

/// A registration that is being served.
struct Served {
    source: SourceId,
    connection: u64,
    base: Dn,
    /// Globs for the hosts that it may tell about.
    hosts: Option<String>,
    /// What is added to the registrant's times.
    skew_ms: i64,
    in_snapshot: bool,
}

/// Serves one registration until the registrant leaves, is lost, or is told to.
pub(crate) async fn serve(
    index: &Arc<Index>,
    subject: &str,
    hello: Hello,
    sender: &mut Sender,
    mut receiver: Receiver,
) -> Result<(), Stop> {
    let hosts = may_register(index, subject, &hello)?;
    let name = hello.name.clone();
    let base = index.place_of(&name, hello.kind);
    let now_ms = index.clock.now_ms();
    let skew_ms = skew(now_ms, hello.now_ms);
    if skew_ms != 0 {
        tracing::warn!(
            name,
            skew_ms,
            "the registrant's clock differs; its times are corrected"
        );
    }
    let registered = index.change(|inner| {
        let registered = inner.registrations.register(subject, hello, now_ms)?;
        inner.directory.mark_fresh(registered.source);
        Ok::<Registered, RegisterError>(registered)
    });
    let registered = registered.map_err(|e| refuse(&e))?;
    tracing::info!(name, subject, after = registered.after, "registered");
    let mut served = Served {
        source: registered.source,
        connection: registered.connection,
        base,
        hosts,
        skew_ms,
        in_snapshot: false,
    };
    let id = index.read(|inner| inner.registrations.id().to_owned());
    let welcome = Welcome {
        after: registered.after,
        ttl_ms: registered.ttl_ms,
        heartbeat_ms: registered.heartbeat_ms,
        id,
    };
    let result = match send(sender, answer::REPLY, &welcome).await {
        Ok(()) => served.listen(index, &mut receiver).await,
        Err(stop) => Err(stop),
    };
    let now_ms = index.clock.now_ms();
    match &result {
        Ok(()) => index.change(|inner| {
            if inner.registrations.leave(served.source, served.connection) {
                let entries = inner.directory.remove_source(served.source);
                tracing::info!(name, entries, "left");
            }
        }),
        Err(_) => index.change(|inner| {
            if inner
                .registrations
                .cut(served.source, served.connection, now_ms)
            {
                inner
                    .directory
                    .mark_stale(served.source, &generalized(now_ms));
                tracing::info!(name, "lost");
            }
        }),
    }
    result
}

fn refuse(error: &RegisterError) -> Refusal {
    Refusal {
        code: code(error),
        message: error.to_string(),
    }
}

/// The row of spec/errors.toml.
fn code(error: &RegisterError) -> &'static str {
    match error {
        RegisterError::NameTaken { .. } => "name_taken",
        RegisterError::Loop { .. } => "registration_loop",
        RegisterError::Unusable(_) => "bad_registration",
        RegisterError::Full => "too_many_registrations",
    }
}

/// How far the other's clock is from ours; 0 within what a network does.
fn skew(ours_ms: u64, theirs_ms: u64) -> i64 {
    let difference = i128::from(ours_ms) - i128::from(theirs_ms);
    let difference = difference.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    if difference.saturating_abs() < SKEW_MS {
        0
    } else {
        difference
    }
}

/// The hosts that this subject may tell about under this name; None for all.
fn may_register(index: &Index, subject: &str, hello: &Hello) -> Result<Option<String>, Refusal> {
    let admits = |a: &&Allow| glob(&a.subject, subject) && glob(&a.name, &hello.name);
    match index.config.allow.iter().find(admits) {
        Some(allow) if allow.hosts == "*" => Ok(None),
        Some(allow) => Ok(Some(allow.hosts.clone())),
        None => Err(Refusal::new(
            "not_allowed_to_register",
            format!(
                "{subject} may not register as {:?} here: the operator of this index can allow it ([[allow]] in info.toml)",
                hello.name
            ),
        )),
    }
}

impl Served {
    async fn listen(&mut self, index: &Index, receiver: &mut Receiver) -> Result<(), Stop> {
        while let Some(message) = receiver.recv().await? {
            self.take(index, &message)?;
        }
        Ok(())
    }

    fn take(&mut self, index: &Index, message: &Message) -> Result<(), Stop> {
        let wrong = |e: DeltaError| Refusal::new("bad_registration", e);
        let data = &message.data;
        let now_ms = index.clock.now_ms();
        match message.kind {
            kind::OPS => {
                let (reached, ops) = delta::read_ops(data).map_err(wrong)?;
                let ops = self.admitted(ops, now_ms);
                self.heard(index, Some(reached), now_ms, |inner| {
                    index.apply(inner, self.source, &self.base, &ops);
                })
            }
            kind::SNAPSHOT => {
                let number = delta::read_number(data).map_err(wrong)?;
                index.counts.snapshots.fetch_add(1, Relaxed);
                self.in_snapshot = true;
                // Until it is complete, going on after it is not possible.
                tracing::debug!(source = self.source.0, number, "snapshot begins");
                self.heard(index, Some(0), now_ms, |inner| {
                    inner.directory.begin_round(self.source);
                })
            }
            kind::SNAPSHOT_OPS if self.in_snapshot => {
                let ops = delta::read_snapshot(data).map_err(wrong)?;
                let ops = self.admitted(ops, now_ms);
                self.heard(index, None, now_ms, |inner| {
                    index.apply(inner, self.source, &self.base, &ops);
                })
            }
            kind::SNAPSHOT_END if self.in_snapshot => {
                self.in_snapshot = false;
                let number = delta::read_number(data).map_err(wrong)?;
                self.heard(index, Some(number), now_ms, |inner| {
                    let gone = inner.directory.end_round(self.source);
                    tracing::debug!(source = self.source.0, gone, "snapshot complete");
                })
            }
            kind::HEARTBEAT => {
                let (theirs_ms, _) = delta::read_heartbeat(data).map_err(wrong)?;
                self.skew_ms = skew(now_ms, theirs_ms);
                self.heard(index, None, now_ms, |_| ())
            }
            kind::BELOW => {
                let below: BTreeSet<String> = serde_json::from_slice(data)
                    .map_err(|e| Refusal::new("bad_registration", e))?;
                let set = index.change(|inner| {
                    let set = inner.registrations.set_below(self.source, below);
                    if set.is_err() {
                        // A circle: what goes round in it must not stay.
                        inner.directory.remove_source(self.source);
                    }
                    set
                });
                Ok(set.map_err(|e| refuse(&e))?)
            }
            other => Err(Refusal::new(
                "bad_registration",
                format!("a message of kind {other:#04x} has no place here"),
            )
            .into()),
        }
    }

    /// Does `change` if this connection still speaks for the source.
    fn heard(
        &self,
        index: &Index,
        reached: Option<u64>,
        now_ms: u64,
        change: impl FnOnce(&mut Inner),
    ) -> Result<(), Stop> {
        let speaks = index.change(|inner| {
            let before = inner.registrations.get(self.source).map(|r| r.standing);
            let speaks = inner
                .registrations
                .heard(self.source, self.connection, reached, now_ms);
            if speaks {
                if matches!(before, Some(Standing::Stale { .. })) {
                    inner.directory.mark_fresh(self.source);
                }
                change(inner);
            }
            speaks
        });
        if speaks {
            Ok(())
        } else {
            let message = "this registration is over: it was silent for too long, or another connection has taken its place";
            Err(Refusal::new("registration_over", message).into())
        }
    }

    /// What it may tell, with times by our clock, none of them in the future.
    fn admitted(&self, ops: Vec<Op>, now_ms: u64) -> Vec<Op> {
        let correct = |stamp: &mut Stamp| {
            if stamp.measured_ms > 0 {
                let ours = stamp.measured_ms.saturating_add_signed(self.skew_ms);
                stamp.measured_ms = ours.clamp(1, now_ms);
            }
        };
        let mut admitted = ops;
        if let Some(pattern) = &self.hosts {
            admitted.retain(|op| is_of_hosts(op.dn(), pattern));
        }
        for op in &mut admitted {
            match op {
                Op::Put(entry) => entry
                    .attributes
                    .iter_mut()
                    .for_each(|a| correct(&mut a.stamp)),
                Op::Set { attribute, .. } => correct(&mut attribute.stamp),
                Op::Remove { .. } => {}
            }
        }
        admitted
    }
}

/// The uppermost level of a name below a leaf is its host.
pub(crate) fn is_of_hosts(dn: &Dn, pattern: &str) -> bool {
    let mut at = dn.clone();
    while let Some(parent) = at.parent().filter(|p| !p.is_root()) {
        at = parent;
    }
    let pairs = at.own().map_or(&[][..], |rdn| rdn.pairs());
    pairs
        .iter()
        .any(|(kind, value)| kind.eq_ignore_ascii_case("Mds-Host-hn") && glob(pattern, value))
}

/// Looks after silent sources until the server ends.
pub(crate) async fn watch_time(index: Arc<Index>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now_ms = index.clock.now_ms();
        index.change(|inner| {
            for due in inner.registrations.tick(now_ms) {
                match due {
                    Due::Stale { source, since_ms } => {
                        tracing::info!(source = source.0, "not heard");
                        inner.directory.mark_stale(source, &generalized(since_ms));
                    }
                    Due::Gone { source } => {
                        let entries = inner.directory.remove_source(source);
                        tracing::info!(source = source.0, entries, "gone");
                    }
                }
            }
        });
    }
}
