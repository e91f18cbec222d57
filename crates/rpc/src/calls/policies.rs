//! Calls that compute follow policies that were changed (spec/policy, P78): their runners are told, whoever computes them. Calls
//! that come later are under the new ones anyway. Not here: what a guest sees of it (the runner).

use super::{Calls, Inner, host_number, lock};
use crate::orders::POLICY_FOR;
use crate::worker::with_arguments;
use kumiko_call::call::{Call, Stage};
use kumiko_call::id::CallId;
use kumiko_job::attempt::{AttemptCommand, Limited, Limits};
use kumiko_job::contract::{BatchSystem, Caller};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_linux::spooling;
use kumiko_policy::Policy;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What an attempt began with, in its spool, and beside it what it follows by now (spec/jobs/runner.md R2).
const ATTEMPT: &str = "attempt.json";
const POLICY: &str = "policy.json";
/// A process that is being started has its spool within some milliseconds.
const SPOOL_SOON: Duration = Duration::from_millis(20);

impl<B: BatchSystem> Calls<B> {
    /// Policies were changed: calls that compute get what they give now.
    pub async fn policies_changed(&self) {
        let inner = &self.inner;
        let change = inner.changes.fetch_add(1, Ordering::AcqRel) + 1;
        let mut known = HashSet::new();
        // Once more for those that came with a policy that was made just before.
        for after in [Duration::ZERO, POLICY_FOR] {
            tokio::time::sleep(after).await;
            let calls: Vec<CallId> = lock(&inner.live).keys().copied().collect();
            for call in calls.into_iter().filter(|call| known.insert(*call)) {
                tokio::spawn(Arc::clone(inner).have_followed(call, change));
            }
        }
    }
}

impl<B: BatchSystem> Inner<B> {
    /// Until the call is done, for it may be tried again with the policy that it came with; or until policies change again.
    async fn have_followed(self: Arc<Self>, id: CallId, change: u64) {
        let mut told = None;
        loop {
            let Some(mut changes) = self.live(id).map(|live| live.changes()) else {
                return;
            };
            let call = self.book(id.client).call(id);
            let Some(call) = call.filter(|call| !matches!(call.stage, Stage::Done { .. })) else {
                return;
            };
            if self.changes.load(Ordering::Acquire) != change {
                return;
            }
            let number = call.attempt().and_then(|one| host_number(&one.host));
            match number.filter(|number| told != Some(*number)) {
                Some(number) => match self.tell_policy(&call, number).await {
                    true => told = Some(number),
                    false => tokio::time::sleep(SPOOL_SOON).await,
                },
                None if changes.changed().await.is_err() => return,
                None => {}
            }
        }
    }

    /// False: its process is being started.
    async fn tell_policy(&self, call: &Call, number: u64) -> bool {
        let attempt = AttemptId {
            job: JobId(number),
            epoch: 1,
        };
        let spool = self.shop.batch.spool(attempt);
        if !spool.join(ATTEMPT).exists() {
            return false;
        }
        let Some(subject) = self.book(call.id.client).subject(call.id.client) else {
            return true;
        };
        let caller = Caller {
            subject,
            account: self.setup.account.clone(),
        };
        let now = match (self.setup.effective)(&caller) {
            Ok(policy) => policy,
            Err(refusal) => {
                tracing::warn!(call = %call.id, %refusal, "a call keeps its policy, although policies were changed");
                return true;
            }
        };
        let arguments = self.shop.root.join(number.to_string()).join("arguments");
        if let Err(error) = lay(&spool, &now, &arguments) {
            tracing::warn!(call = %call.id, %error, "a call keeps its policy, although policies were changed");
            return true;
        }
        // The largest that can be said is none.
        let mut limits = Limits::default();
        for of in Limited::ALL {
            limits.set(of, Some(now.limits.get(of).unwrap_or(of.most())));
        }
        let look = AttemptCommand::Limits(limits);
        self.shop.batch.command(attempt, look).await;
        true
    }
}

fn lay(spool: &Path, now: &Policy, arguments: &Path) -> io::Result<()> {
    let now = with_arguments(now, arguments)?;
    spooling::replace_private(&spool.join(POLICY), &serde_json::to_vec(&now)?)
}
