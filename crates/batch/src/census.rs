//! How full an engine is, asked now and then by questions that are about all of it (spec/jobs/placement.md, PM1 to PM3).
//! Nobody waits for an answer: what was answered last is what is told. Not here: engines' words, who is told.

use crate::engine::Trouble;
use kumiko_job::census::{Census, PilotCensus};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Between two questions: an engine's queue changes all the time, and who chooses by it is as well served by what was so a
/// few breaths ago.
pub const EVERY: Duration = Duration::from_secs(5);
/// An engine is busy with our counting for one part in so many at most.
const SHARE: u32 = 20;

/// An engine that can be counted.
pub trait Counted: Send + 'static {
    fn census(&self) -> impl Future<Output = Result<Census, Trouble>> + Send;
}

/// Counts until nobody is told any more. What is not known is told as such. `pilots`: None, there are none. `every`: at most.
pub async fn keep(
    engine: impl Counted,
    pilots: impl Fn() -> Option<PilotCensus> + Send + 'static,
    told: watch::Sender<Option<Census>>,
    every: Duration,
) {
    let mut well = true;
    while !told.is_closed() {
        let begun = Instant::now();
        let answer = engine.census().await;
        if let (Err(trouble), true) = (&answer, well) {
            tracing::warn!(%trouble, "the engine does not say how full it is");
        }
        well = answer.is_ok();
        let census = answer.ok().map(|census| Census {
            pilots: pilots(),
            ..census
        });
        told.send_if_modified(|last| {
            let other = *last != census;
            *last = census;
            other
        });
        let pause = every.max(begun.elapsed() * SHARE);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = told.closed() => {}
        }
    }
}
