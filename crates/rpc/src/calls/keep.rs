//! Calls that begin in memory: when they are recorded after all (spec/rpc P15). Not here: what is held until then (`book`).

use super::{Inner, lock};
use kumiko_call::id::CallId;
use kumiko_call::ledger::is_passing;
use kumiko_job::contract::BatchSystem;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// What lasts longer is to outlive the machine.
const LASTS: Duration = Duration::from_secs(1);
/// Those that began about then are recorded at once; and a log that cannot be written is tried again.
const TOGETHER: Duration = Duration::from_millis(100);

pub(super) async fn keep_what_lasts<B: BatchSystem>(calls: Weak<Inner<B>>) {
    while let Some(oldest) = calls.upgrade().map(|calls| calls.logged.oldest()) {
        match oldest {
            Ok(since) => {
                let is_due = LASTS.saturating_sub(since.elapsed());
                tokio::time::sleep(is_due + TOGETHER).await;
            }
            Err(begins) => begins.notified().await,
        }
        if let Some(calls) = calls.upgrade() {
            calls.keep_older(LASTS);
        }
    }
}

impl<B: BatchSystem> Inner<B> {
    /// What is known of it is recorded from now on, and what is said of it waits for that.
    pub(crate) fn keep(&self, call: CallId) {
        if is_passing(call.client) {
            let names = self.logged.keep(call);
            self.has_along(Some(call), &names);
        }
    }

    pub(super) fn keep_older(&self, age: Duration) {
        for (call, names) in self.logged.keep_older(age) {
            self.has_along(Some(call), &names);
        }
    }

    /// Of this call the log has these bytes, until it is erased.
    pub(super) fn has_along(&self, call: Option<CallId>, names: &[String]) {
        let Some(call) = call.filter(|_| !names.is_empty()) else {
            return;
        };
        let now = Instant::now();
        let all = lock(&self.live);
        match all.get(&call) {
            // Who erases it takes it out of these before.
            Some(live) => lock(&live.along).extend(names.iter().map(|name| (name.clone(), now))),
            None => self.book(call.client).erase_along(names.to_vec()),
        }
    }
}
