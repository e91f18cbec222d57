//! How far a call is, and how long each stage took, as its caller sees it: arguments go, the routine computes, the result comes. Not here:
//! what the site records (spec/rpc P58).

use crate::conversation::BLOCK_BYTES;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

const LOOK: Duration = Duration::from_millis(250);

/// In their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Arguments are on their way.
    Sending,
    /// All of them were sent, and no outcome is told: it waits, computes, or is tried again.
    Computing,
    /// There is an outcome, and its bytes are on their way.
    Fetching,
    Over,
}

#[derive(Debug)]
struct State {
    begun: Instant,
    /// The site may have heard of it.
    said: bool,
    /// It has told something of it.
    known: bool,
    sent: Option<Instant>,
    outcome: Option<Instant>,
    over: Option<Instant>,
    moved: Moved,
    questions: u64,
    answering: Duration,
}

/// Of one call; whoever carries it marks, whoever likes looks.
#[derive(Debug)]
pub struct Stages {
    state: Mutex<State>,
    outcome: Notify,
}

/// What lasts is counted until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    pub sending: Duration,
    pub computing: Duration,
    pub fetching: Duration,
    /// How often the caller's functions were asked, and how long they worked.
    pub questions: u64,
    pub answering: Duration,
}

/// Bytes of arguments and of the result: those that went, or came, and all of them as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub sent: u64,
    pub to_send: u64,
    pub fetched: u64,
    pub to_fetch: u64,
}

impl State {
    fn new() -> State {
        State {
            begun: Instant::now(),
            said: false,
            known: false,
            sent: None,
            outcome: None,
            over: None,
            moved: Moved::default(),
            questions: 0,
            answering: Duration::ZERO,
        }
    }
}

impl Default for Stages {
    fn default() -> Stages {
        Stages {
            state: Mutex::new(State::new()),
            outcome: Notify::new(),
        }
    }
}

impl Stages {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call begins anew, at another site.
    pub fn anew(&self) {
        *self.state() = State::new();
    }

    /// The site is told of it now.
    pub(crate) fn said(&self) {
        self.state().said = true;
    }

    /// The site has it.
    pub(crate) fn known(&self) {
        self.state().known = true;
    }

    pub(crate) fn is_known(&self) -> bool {
        self.state().known
    }

    /// All arguments were sent, maybe again.
    pub(crate) fn sent(&self) {
        self.state().sent = Some(Instant::now());
    }

    /// So many bytes of the arguments went, of so many.
    pub(crate) fn sending(&self, sent: u64, to_send: u64) {
        let moved = &mut self.state().moved;
        (moved.sent, moved.to_send) = (sent, to_send);
    }

    /// Of a failure no bytes come.
    pub(crate) fn outcome(&self, to_fetch: u64) {
        let mut state = self.state();
        state.outcome.get_or_insert_with(Instant::now);
        state.moved.to_fetch = to_fetch;
        self.outcome.notify_one();
    }

    /// Waits until there is an outcome, of which bytes may be on their way; for one who waits.
    pub async fn outcome_is_there(&self) {
        self.outcome.notified().await;
    }

    pub(crate) fn fetched(&self, bytes: u64) {
        self.state().moved.fetched += bytes;
    }

    pub(crate) fn over(&self) {
        self.state().over.get_or_insert_with(Instant::now);
    }

    /// A function of the caller's has worked for so long.
    pub fn answered(&self, took: Duration) {
        let mut state = self.state();
        state.questions += 1;
        state.answering += took;
    }

    pub fn stage(&self) -> Stage {
        let state = self.state();
        match (state.over, state.outcome, state.sent) {
            (Some(_), _, _) => Stage::Over,
            (None, Some(_), _) => Stage::Fetching,
            (None, None, Some(_)) => Stage::Computing,
            (None, None, None) => Stage::Sending,
        }
    }

    /// The site has not heard of it, or the last block of its arguments was not begun to be sent.
    pub fn cannot_have_begun(&self) -> bool {
        let state = self.state();
        let moved = &state.moved;
        let lacks_blocks = moved.sent.saturating_add(BLOCK_BYTES) < moved.to_send;
        let sending = state.sent.is_none() && state.outcome.is_none();
        !state.said || (sending && lacks_blocks)
    }

    /// Waits until for so long none of the arguments went, of a call that was begun to be said and cannot have begun.
    pub async fn stands_still(&self, within: Duration) {
        let (mut sent, mut since) = (self.moved().sent, Instant::now());
        loop {
            tokio::time::sleep(LOOK.min(within)).await;
            let moved = self.moved();
            let waits = moved.to_send == 0 || !self.cannot_have_begun();
            if moved.sent != sent || waits {
                (sent, since) = (moved.sent, Instant::now());
            } else if since.elapsed() >= within {
                return;
            }
        }
    }

    pub fn moved(&self) -> Moved {
        self.state().moved
    }

    pub fn took(&self) -> Took {
        let state = self.state();
        let end = state.over.unwrap_or_else(Instant::now);
        let outcome = state.outcome.unwrap_or(end);
        // What is told before all was sent ends the sending too.
        let sent = state.sent.unwrap_or(outcome).min(outcome);
        Took {
            sending: sent.saturating_duration_since(state.begun),
            computing: outcome.saturating_duration_since(sent),
            fetching: end.saturating_duration_since(outcome),
            questions: state.questions,
            answering: state.answering,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn arguments_stand_still_as_long_as_the_last_block_was_not_begun_to_be_sent() {
        let within = Duration::from_millis(20);
        let stands_still = async |stages: &Stages| {
            let waited = tokio::time::timeout(10 * within, stages.stands_still(within));
            waited.await.is_ok()
        };
        let stages = Stages::default();
        assert!(!stands_still(&stages).await, "nothing is known yet");
        assert!(stages.cannot_have_begun(), "nobody was told");
        stages.said();
        assert!(!stages.cannot_have_begun(), "it may have none");
        stages.sending(0, 2 * BLOCK_BYTES);
        assert!(stands_still(&stages).await);
        stages.sending(BLOCK_BYTES, 2 * BLOCK_BYTES);
        assert!(
            !stands_still(&stages).await,
            "the last one may be on its way"
        );
        stages.sending(0, 2 * BLOCK_BYTES);
        stages.sent();
        assert!(!stands_still(&stages).await, "all was there before a break");
        stages.anew();
        assert!(stages.cannot_have_begun());
        assert_eq!(
            (stages.stage(), stages.moved()),
            (Stage::Sending, Moved::default())
        );
    }

    #[test]
    fn stages_come_in_their_order_and_their_times_make_the_whole() {
        let stages = Stages::default();
        assert_eq!(stages.stage(), Stage::Sending);
        stages.sent();
        assert_eq!(stages.stage(), Stage::Computing);
        assert_eq!(stages.took().fetching, Duration::ZERO);
        stages.answered(Duration::from_secs(2));
        stages.answered(Duration::from_secs(1));
        stages.sending(10, 10);
        stages.outcome(30);
        stages.fetched(20);
        let moved = Moved {
            sent: 10,
            to_send: 10,
            fetched: 20,
            to_fetch: 30,
        };
        assert_eq!((stages.stage(), stages.moved()), (Stage::Fetching, moved));
        stages.over();
        assert_eq!(stages.stage(), Stage::Over);
        let took = stages.took();
        assert_eq!(
            (took.questions, took.answering),
            (2, Duration::from_secs(3))
        );
        assert_eq!(took, stages.took(), "nothing lasts any more");
        // A failure before all was sent ends the sending, and there is nothing else.
        let refused = Stages::default();
        refused.over();
        let took = refused.took();
        assert_eq!(
            (took.computing, took.fetching),
            (Duration::ZERO, Duration::ZERO)
        );
    }
}
