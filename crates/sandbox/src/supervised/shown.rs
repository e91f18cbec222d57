//! What a room's guests see now: the view that they began with, or what the policies leave of it (P78). Every call is
//! answered by the view that holds when it is looked at. Not in it: which view that is (follow.rs).

use super::processes;
use super::view::View;
use crate::library::{self, Given};
use crate::limits::Inside;
use kumiko_policy::Followed;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Debug)]
pub(super) struct Shown {
    begun: Arc<View>,
    now: RwLock<Arc<View>>,
    /// What is put into every program.
    given: Option<Arc<Given>>,
}

impl Shown {
    pub(super) fn new(view: View, library: bool, inside: Option<Inside>) -> Shown {
        let begun = Arc::new(view);
        Shown {
            given: library.then(|| Arc::new(Given::of(&begun, inside))),
            now: RwLock::new(Arc::clone(&begun)),
            begun,
        }
    }

    pub(super) fn view(&self) -> Arc<View> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn given(&self) -> Option<Arc<Given>> {
        self.given.clone()
    }

    /// Other decisions from now on.
    pub(super) fn change(&self, followed: &Followed) {
        let view = Arc::new(self.begun.followed(followed));
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&view);
        if let Some(given) = &self.given {
            given.change(&view);
            forget_tables();
        }
    }
}

/// Programs that run have the places of another view: they ask for everything from now on.
fn forget_tables() {
    let mut known = BTreeSet::new();
    loop {
        let new: Vec<i32> = processes::members()
            .into_iter()
            .filter(|pid| known.insert(*pid))
            .collect();
        if new.is_empty() {
            return;
        }
        // A copy that was made meanwhile is found by the next look.
        new.into_iter().for_each(library::forget);
    }
}
