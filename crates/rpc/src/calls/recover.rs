//! What is done when a site begins, and now and then: workers are found again, calls without one are tried again, and who is away
//! for too long is noted (spec/rpc P24, P38, P66). Not here: what is done because of an event.

use super::{Inner, Live, OpenError, Outcome, host_number, lock};
use crate::log::Along;
use crate::store::Held;
use crate::worker::{self, Begin};
use kumiko_call::call::{Call, Stage};
use kumiko_call::event::End;
use kumiko_call::id::CallId;
use kumiko_call::ledger::Known;
use kumiko_call::respond;
use kumiko_job::contract::BatchSystem;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most calls are over sooner, and nothing of them is written twice.
const IN_LOG: Duration = Duration::from_secs(30);

impl<B: BatchSystem> Inner<B> {
    /// After the last process of the site: its workers are found again, and calls without one are placed.
    ///
    /// # Errors
    /// What the log has of calls cannot be put back: they are to wait for that, and not to be computed from something else.
    pub(super) async fn recover(self: &Arc<Self>, left: &[u64]) -> Result<(), OpenError> {
        let calls: Vec<(Call, String)> = self.logged.look(|ledger| {
            let of = |call: &Call| {
                let client = ledger.clients.get(&call.id.client)?;
                Some((call.clone(), client.subject.clone()))
            };
            ledger.calls().filter_map(of).collect()
        });
        let mut along = self.restore(&calls)?;
        let mut theirs = Vec::new();
        for (call, subject) in calls {
            if matches!(call.stage, Stage::Done { .. }) {
                continue;
            }
            let order = self.order(&subject, &call.invocation.routine);
            if let Err(refusal) = &order {
                tracing::error!(call = %call.id, %refusal, "a call cannot be computed any more");
            }
            let live = match self.enter(call.id, &call.invocation, order.ok(), false) {
                Ok(live) => live,
                Err(error) => {
                    tracing::error!(call = %call.id, %error, "a call's arguments cannot be opened");
                    continue;
                }
            };
            let names = along.remove(&call.id).unwrap_or_default().into_iter();
            *lock(&live.along) = names.map(|name| (name, Instant::now())).collect();
            let epoch = match &call.stage {
                Stage::Waiting { last_epoch } => *last_epoch,
                Stage::Computing(attempt) => attempt.epoch,
                Stage::Kept(Outcome::Result { epoch, .. }) => {
                    let path = self.shop.store.result(call.attempt_id(*epoch));
                    *lock(&live.result) = Some(Held::File(path));
                    *epoch
                }
                _ => respond::MOST_FRUITLESS,
            };
            live.epoch.store(epoch, Ordering::Relaxed);
            live.cancelled.send_replace(call.cancelled);
            let Some(attempt) = call.attempt() else {
                continue;
            };
            let id = call.attempt_id(attempt.epoch);
            let number = host_number(&attempt.host).unwrap_or(0);
            let end = match self.make_run(id) {
                // A log that an older version wrote may have two calls in one process, which computes one of them (P65).
                Some(Ok((run, _))) if left.contains(&number) && !theirs.contains(&number) => {
                    theirs.push(number);
                    let begin = Begin::Adopt(Box::new(run), attempt.started);
                    worker::begin(&self.shop, number, begin);
                    continue;
                }
                Some(Err(end)) => end,
                _ => End::Killed {
                    cause: "the site died before its process began".to_owned(),
                },
            };
            self.end(id, end, None);
        }
        for number in left.iter().filter(|number| !theirs.contains(number)) {
            worker::begin(&self.shop, *number, Begin::Leave);
        }
        self.shop.store.sweep(|name| {
            let known = lock(&self.live);
            known.keys().any(|call| call.to_string() == name)
        });
        self.place(&self.logged);
        Ok(())
    }

    /// Files of what the log has of these calls are as they were, whatever the machine has left of them. The names of it.
    fn restore(&self, calls: &[(Call, String)]) -> Result<HashMap<CallId, Vec<String>>, OpenError> {
        let known = calls.iter().map(|(call, _)| call);
        let known = known.filter(|call| !matches!(call.stage, Stage::Done { .. }));
        let known: HashMap<String, CallId> =
            known.map(|call| (call.id.to_string(), call.id)).collect();
        let (mut names, mut unknown) = (HashMap::<_, Vec<String>>::new(), Vec::new());
        let mut restored = Ok(());
        self.logged.each_along(|Along { name, data }| {
            let of = name.split('.').next().and_then(|call| known.get(call));
            match of {
                Some(call) => {
                    if let Err(cause) = self.shop.store.restore(&name, &data) {
                        let path = self.shop.store.path(&name);
                        restored = Err(OpenError::File { path, cause });
                    }
                    names.entry(*call).or_default().push(name);
                }
                None => unknown.push(name),
            }
        })?;
        restored?;
        if !unknown.is_empty() {
            self.logged.erase_along(unknown);
        }
        Ok(names)
    }

    /// What has been in the log for a while is brought to the disk as files, and leaves it.
    async fn out_of_log(&self) {
        let all: Vec<Arc<Live>> = lock(&self.live).values().cloned().collect();
        let old =
            |(name, since): &(String, Instant)| (since.elapsed() > IN_LOG).then(|| name.clone());
        let names = |live: &Arc<Live>| lock(&live.along).iter().filter_map(old).collect::<Vec<_>>();
        let names: Vec<String> = all.iter().flat_map(names).collect();
        if names.is_empty() {
            return;
        }
        let store = Arc::clone(&self.shop.store);
        let synced = tokio::task::spawn_blocking(move || store.sync(names)).await;
        match synced.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(names) => {
                let gone: HashSet<&String> = names.iter().collect();
                for live in all {
                    lock(&live.along).retain(|(name, _)| !gone.contains(name));
                }
                self.logged.erase_along(names);
            }
            Err(error) => {
                tracing::warn!(%error, "bytes of calls stay in the log: they cannot be brought to the disk otherwise");
            }
        }
    }

    /// Who is away for too long.
    pub(super) async fn look(self: &Arc<Self>) {
        self.out_of_log().await;
        for book in [&self.logged, &self.volatile] {
            let (calls, clients): (Vec<CallId>, Vec<u64>) = book.look(|ledger| {
                let open = |call: &&Call| !matches!(call.stage, Stage::Done { .. });
                let calls = ledger.calls().filter(open).map(|call| call.id);
                let calls = calls.collect();
                (calls, ledger.clients.keys().copied().collect())
            });
            for id in calls {
                let absent_ms = book.silent_ms(id);
                let told = book.ask(|ledger| {
                    let event = match ledger.find(id) {
                        Known::Call(client, call) => {
                            let absence = respond::to_absence(call, absent_ms);
                            absence.or_else(|| self.not_answered(client, call, absent_ms))
                        }
                        _ => None,
                    };
                    let events = event.into_iter().collect();
                    respond::Answer { events, say: () }
                });
                if let Ok(pending) = told {
                    let told = book.recorded(pending).await;
                    self.act(book, told);
                }
            }
            let many = clients.len();
            for client in clients {
                let sequence = 0;
                let silent_ms = book.silent_ms(CallId { client, sequence });
                let told = book.ask(|ledger| {
                    let one = ledger.clients.get(&client);
                    let event = one.and_then(|one| respond::to_lease(client, one, silent_ms, many));
                    let events = event.into_iter().collect();
                    respond::Answer { events, say: () }
                });
                if let Ok(pending) = told {
                    book.recorded(pending).await;
                }
            }
            book.prune().await;
        }
    }
}
