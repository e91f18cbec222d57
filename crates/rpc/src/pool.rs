//! Which processes of routines there are, and which takes the next call (spec/rpc P66, P67). A process is kept for calls of the same
//! program under the same policy, and ends when it had nothing to do for a while. Not here: what one does (`worker`).

use crate::registry::Routine;
use crate::worker::{Order, Run};
use kumiko_call::id::AttemptId;
use kumiko_policy::Policy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

/// What a worker is told.
#[derive(Debug)]
pub enum Ask {
    Run(Box<Run>),
    /// No more calls come.
    End,
    /// Its host is drained: a call that can go on elsewhere is to, and any if it is said so.
    Leave {
        any: bool,
    },
    /// This attempt is to go on elsewhere.
    Migrate(AttemptId),
}

#[derive(Debug)]
struct Entry {
    order: Option<(Arc<Routine>, Arc<Policy>)>,
    busy: bool,
    /// It was told that no more calls come.
    ending: bool,
    /// It is told so once it has nothing to do.
    leaving: bool,
    asks: UnboundedSender<Ask>,
}

impl Entry {
    fn end(&mut self) {
        self.busy = true;
        self.ending = true;
        // One that has gone needs no word.
        let _ = self.asks.send(Ask::End);
    }
}

#[derive(Debug)]
pub struct Pool {
    most: usize,
    freed: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last: u64,
    workers: BTreeMap<u64, Entry>,
    /// Numbers that were promised to calls, of workers that do not exist yet.
    promised: BTreeSet<u64>,
    closed: bool,
}

impl Pool {
    /// At most so many at once; numbers go on after `last`.
    pub fn new(most: usize, last: u64) -> Pool {
        Pool {
            most,
            freed: Notify::new(),
            state: Mutex::new(State {
                last,
                workers: BTreeMap::new(),
                promised: BTreeSet::new(),
                closed: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Pool::pick`]. For a new one, an idle one of those that it may be makes room.
    pub fn pick_there(&self, order: &Order, may: impl Fn(u64) -> bool) -> Option<u64> {
        let picked = self.pick(order, &may);
        if picked.is_none_or(|number| !may(number)) {
            let workers = &mut self.state().workers;
            let mut those = workers.iter_mut().filter(|(number, _)| may(**number));
            if let Some((_, idle)) = those.find(|(_, entry)| !entry.busy) {
                idle.end();
            }
        }
        picked
    }

    /// A worker for this order, which is then the caller's: one that is there, if it may be that one, or a number for a new one. None: all
    /// are busy.
    pub fn pick(&self, order: &Order, may: impl Fn(u64) -> bool) -> Option<u64> {
        let mut state = self.state();
        if state.closed {
            return None;
        }
        let fits = |entry: &Entry| {
            let same = |(routine, policy): &(Arc<Routine>, Arc<Policy>)| {
                let program = routine.digest == order.routine.digest
                    && routine.signature == order.routine.signature;
                (Arc::ptr_eq(routine, &order.routine) || program)
                    && (Arc::ptr_eq(policy, &order.policy) || policy == &order.policy)
            };
            !entry.busy && !entry.asks.is_closed() && entry.order.as_ref().is_some_and(same)
        };
        // The youngest: it is the warmest, and the others can end.
        if let Some((number, entry)) = state
            .workers
            .iter_mut()
            .rev()
            .find(|(number, entry)| fits(entry) && may(**number))
        {
            entry.busy = true;
            return Some(*number);
        }
        if state.workers.len() + state.promised.len() >= self.most {
            // One that is idle makes room; whoever waits is asked for again when it has gone.
            if let Some(idle) = state.workers.values_mut().find(|entry| !entry.busy) {
                idle.end();
            }
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.promised.insert(number);
        Some(number)
    }

    /// The number was promised, and its worker is here.
    pub fn enter(&self, number: u64, order: Option<&Order>, asks: UnboundedSender<Ask>) {
        let mut state = self.state();
        state.promised.remove(&number);
        state.workers.insert(
            number,
            Entry {
                order: order.map(|order| (Arc::clone(&order.routine), Arc::clone(&order.policy))),
                busy: true,
                ending: false,
                leaving: false,
                asks,
            },
        );
    }

    /// One that ran already when the site began.
    pub fn adopt(&self, number: u64, asks: UnboundedSender<Ask>) {
        self.enter(number, None, asks);
    }

    /// # Errors
    /// There is no worker of this number; what was asked is given back.
    pub fn ask(&self, number: u64, ask: Ask) -> Result<(), Ask> {
        let asks = self
            .state()
            .workers
            .get(&number)
            .map(|one| one.asks.clone());
        match asks {
            Some(asks) => asks.send(ask).map_err(|unsent| unsent.0),
            None => Err(ask),
        }
    }

    /// Its worker is still to begin; else it has gone since it was picked.
    pub fn is_promised(&self, number: u64) -> bool {
        self.state().promised.contains(&number)
    }

    pub fn idle(&self, number: u64) {
        let mut state = self.state();
        let closed = state.closed;
        match state.workers.get_mut(&number) {
            Some(entry) => {
                entry.busy = false;
                if closed || entry.leaving {
                    entry.end();
                }
            }
            // It was promised, and is not needed.
            None => {
                state.promised.remove(&number);
            }
        }
    }

    /// Takes an idle worker out of what can be picked; false: it was picked just now.
    pub fn retire(&self, number: u64) -> bool {
        let mut state = self.state();
        match state.workers.get_mut(&number) {
            Some(entry) if !entry.busy => {
                entry.busy = true;
                true
            }
            _ => false,
        }
    }

    pub fn gone(&self, number: u64) {
        self.state().workers.remove(&number);
        self.freed.notify_one();
    }

    /// Waits until there may be room for one that there was none for.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// No more are picked; those that are idle end.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        for entry in state.workers.values_mut().filter(|entry| !entry.busy) {
            entry.end();
        }
    }

    /// Those that leave are given nothing more, and end once they have nothing to do. `leaves`: whether they are to end
    /// whatever they have to do; None: they may stay.
    pub fn leave(&self, leaves: impl Fn(u64) -> Option<bool>) {
        let numbers: Vec<u64> = self.state().workers.keys().copied().collect();
        let leaving = |number: u64| Some((number, leaves(number)?));
        let leaving: Vec<(u64, bool)> = numbers.into_iter().filter_map(leaving).collect();
        let mut state = self.state();
        for (number, any) in leaving {
            match state.workers.get_mut(&number) {
                Some(entry) if entry.busy => {
                    entry.leaving = true;
                    // One that has gone needs no word.
                    let _ = entry.asks.send(Ask::Leave { any });
                }
                Some(entry) => entry.end(),
                None => {}
            }
        }
    }

    /// Workers that were told that no more calls come, and are there still.
    pub fn ending(&self) -> usize {
        let state = self.state();
        let ends = |entry: &&Entry| entry.ending;
        state.workers.values().filter(ends).count()
    }
}
