//! One session's core, shared by its driver and the holders of its streams.

use crate::State;
use crate::core::{Core, Phase};
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    born: Instant,
    state: watch::Sender<State>,
    epoch: watch::Sender<u64>,
}

impl Shared {
    pub fn new(core: Core) -> Self {
        Shared {
            core: Mutex::new(core),
            born: Instant::now(),
            state: watch::Sender::new(State::Connecting),
            epoch: watch::Sender::new(0),
        }
    }

    /// Acts on the core under its lock, with the time told, and wakes whom it names after.
    pub fn with<R>(&self, act: impl FnOnce(&mut Core) -> R) -> R {
        // A panic while the lock was held is one of a waker; the core itself is whole.
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        core.set_now(u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX));
        let result = act(&mut core);
        let wakes = core.take_wakes();
        drop(core);
        wakes.into_iter().for_each(std::task::Waker::wake);
        result
    }

    /// Ends the session once all that is queued is written.
    pub fn close(&self) {
        self.with(Core::close);
        self.publish();
    }

    pub fn at(&self, us: u64) -> Instant {
        self.born + std::time::Duration::from_micros(us)
    }

    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// The connection of `epoch` is the one now; drivers of older ones stop.
    pub fn take_over(&self, epoch: u64) {
        self.epoch.send_replace(epoch);
    }

    /// Returns when a newer connection than that of `epoch` has the session.
    pub async fn superseded(&self, epoch: u64) {
        // The sender lives as long as `self`, so that this cannot fail.
        let _ = self.epoch.subscribe().wait_for(|now| *now > epoch).await;
    }

    /// Tells watchers what the core has come to. Looked at and told as one: of two who do so at once, the one who looked
    /// first must not be the one who tells last.
    pub fn publish(&self) {
        self.state.send_if_modified(|state| {
            let now = self.with(|core| match (core.is_over(), core.phase()) {
                (Some(crate::SessionError::Closed), _) => State::Closed,
                (Some(_), _) => State::Lost,
                (None, Phase::Up) => State::Connected,
                (None, _) if core.was_welcomed() => State::Reconnecting,
                (None, _) => State::Connecting,
            });
            std::mem::replace(state, now) != now
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::Role;
    use crate::{Options, SessionError};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Who closes a session tells that it is closing while its driver tells that it is over.
    #[test]
    fn of_two_who_tell_the_state_at_once_the_later_state_stays() {
        for round in 0..2000 {
            let core = Core::new(Role::Client, Options::default(), [0; 16], [0; 16]);
            let shared = Shared::new(core);
            let (start, last) = (Barrier::new(2), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    while !last.load(Ordering::Relaxed) {
                        shared.publish();
                    }
                });
                start.wait();
                last.store(true, Ordering::Relaxed);
                shared.with(|core| core.end(SessionError::Closed));
                shared.publish();
            });
            assert_eq!(*shared.state().borrow(), State::Closed, "round {round}");
        }
    }
}
