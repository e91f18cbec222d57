//! Deadlines for tests: a wait that does not end says what it waited for, instead of hanging.

use std::future::Future;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine of two cores; a test that needs it all has failed anyway.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Runs a future; panics after `DEADLINE`, saying what was waited for.
pub async fn deadline<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {DEADLINE:?}: {what}"),
    }
}

/// Asks until there is an answer; for facts without an event (a file that another program writes). Panics after
/// `DEADLINE`.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            start.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}
