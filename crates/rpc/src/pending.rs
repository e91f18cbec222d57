//! What was decided of calls, and what follows from it when it is recorded. Not here: recording (`book`).

use kumiko_call::decide::Action;
use kumiko_call::id::CallId;

/// What is said, and what is to be done now that it is recorded.
#[derive(Debug)]
pub struct Told<T> {
    pub say: T,
    pub actions: Vec<Action>,
    /// Calls whose state is another now.
    pub changed: Vec<CallId>,
}

/// Decided, and not yet on the disk.
#[derive(Debug)]
#[must_use]
pub struct Pending<T> {
    /// 0: it waits for none.
    pub(crate) record: u64,
    pub(crate) along: Vec<String>,
    pub(crate) told: Told<T>,
}

impl<T> Pending<T> {
    /// What is said when it is.
    pub fn say(&self) -> &T {
        &self.told.say
    }

    /// Names of bytes that are written with it.
    pub fn along(&self) -> &[String] {
        &self.along
    }

    /// The last that it was decided by.
    pub fn record(&self) -> u64 {
        self.record
    }

    /// Something of what follows cannot be done again.
    pub fn erases(&self) -> bool {
        let erases = |action: &Action| matches!(action, Action::Erase { .. });
        self.told.actions.iter().any(erases)
    }
}
