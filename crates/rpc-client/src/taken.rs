//! Results that are where they belong, of which the site has not heard (spec/rpc P42): it hears of them ahead of the next call, or a moment
//! later. Not here: how it is said.

use kumiko_call::id::CallId;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct Taken {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<CallId>,
    /// Somebody says it soon, if no call does before.
    soon: bool,
}

/// On its way; whatever of it may be lost is said again.
#[derive(Debug)]
pub struct Saying<'a> {
    taken: &'a Taken,
    calls: Vec<CallId>,
}

impl Taken {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True: whoever adds this is to see to it that it is said soon.
    pub fn add(&self, call: CallId) -> bool {
        let mut state = self.state();
        state.calls.push(call);
        !std::mem::replace(&mut state.soon, true)
    }

    /// All of it, by whoever was to say it soon.
    pub fn soon(&self) -> Saying<'_> {
        self.state().soon = false;
        self.say()
    }

    /// All of it, ahead of something else.
    pub fn say(&self) -> Saying<'_> {
        let calls = std::mem::take(&mut self.state().calls);
        Saying { taken: self, calls }
    }
}

impl Saying<'_> {
    pub fn calls(&self) -> &[CallId] {
        &self.calls
    }

    /// The site has answered to what was said after it.
    pub fn was_heard(mut self) {
        self.calls.clear();
    }
}

impl Drop for Saying<'_> {
    fn drop(&mut self) {
        if !self.calls.is_empty() {
            self.taken.state().calls.append(&mut self.calls);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(sequence: u64) -> CallId {
        let client = 1;
        CallId { client, sequence }
    }

    #[test]
    fn what_was_not_heard_is_said_again_with_what_came_meanwhile() {
        let taken = Taken::default();
        assert!(taken.add(call(1)) && !taken.add(call(2)));
        let saying = taken.say();
        assert_eq!(saying.calls(), [call(1), call(2)]);
        taken.add(call(3));
        drop(saying);
        let saying = taken.soon();
        assert_eq!(saying.calls(), [call(3), call(1), call(2)]);
        saying.was_heard();
        assert_eq!(taken.say().calls(), []);
        assert!(taken.add(call(4)), "nobody else is to say it");
    }
}
