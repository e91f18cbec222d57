//! The control groups of one job (P58): made when the first limit needs one, and where this account may; what they keep is
//! kept by the kernel. Not here: what is kept where there are none (the rest of limits/).

use kumiko_linux::limits::group::{Controller, Group, Place};

#[derive(Debug, Default)]
pub(super) struct Groups {
    all: Vec<Group>,
    /// What the kernel has taken a bound for.
    kept: Vec<Controller>,
}

impl Groups {
    /// None: no bound any more.
    pub fn bound(&mut self, controller: Controller, most: Option<u64>) {
        self.kept.retain(|kept| *kept != controller);
        if most.is_some() && self.with(controller).is_none() {
            let made = Place::find(controller).and_then(|place| place.make().ok());
            // A kernel may have a controller, and not what bounds by it; a process is in one group of version 2.
            let second = |group: &Group| group.is_of_two() && self.all.iter().any(Group::is_of_two);
            let made = made.filter(|group| group.has(controller) && !second(group));
            self.all.extend(made);
        }
        let Some(group) = self.with(controller) else {
            return;
        };
        if group.bound(controller, most).is_ok() && most.is_some() {
            self.kept.push(controller);
        }
    }

    fn with(&self, controller: Controller) -> Option<&Group> {
        self.all.iter().find(|group| group.has(controller))
    }

    /// Does the kernel keep this limit?
    pub fn keep(&self, controller: Controller) -> bool {
        self.kept.contains(&controller)
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn add(&self, pid: i32) {
        for group in &self.all {
            let _ = group.add(pid); // it may have ended
        }
    }

    pub fn ended_for_memory(&self) -> u64 {
        self.all.iter().map(Group::ended_for_memory).sum()
    }
}
