//! What calls are named that their site had forgotten, so that they were begun anew (spec/rpc P15, P40). Not here: that they were.

use crate::notes::Notes;
use kumiko_call::id::CallId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

#[derive(Debug, Default)]
pub struct Names {
    now: Mutex<HashMap<CallId, CallId>>,
    /// Where calls are noted, and the site's name there.
    noted: OnceLock<(Notes, String)>,
}

impl Names {
    fn all(&self) -> MutexGuard<'_, HashMap<CallId, CallId>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, notes: Notes, site: String) {
        // Calls at one site are noted in one place.
        let _ = self.noted.set((notes, site));
    }

    /// What this call is named now.
    pub fn now(&self, mut call: CallId) -> CallId {
        let all = self.all();
        while let Some(now) = all.get(&call) {
            call = *now;
        }
        call
    }

    /// Its note goes with it.
    pub fn rename(&self, call: CallId, now: CallId) {
        if let Some((notes, site)) = self.noted.get() {
            notes.rename(site, call, now);
        }
        self.all().insert(call, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_begun_anew_twice_has_its_last_name() {
        let names = Names::default();
        let [first, second, third] = [1, 2, 3].map(|client| CallId {
            client,
            sequence: 1,
        });
        names.rename(first, second);
        names.rename(second, third);
        assert_eq!(
            [first, second, third].map(|call| names.now(call)),
            [third; 3]
        );
    }
}
