//! Jobs that live only while somebody is attached (spec/jobs J36), or says that they are to be held on (together.md, T23):
//! how long nobody has been, told once when it is too long.
//! Not here: who is attached ([`Cell::attend`]), what follows (kumiko-job).

use crate::cell::{Cell, Face};
use crate::keeper::Ask;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Asks once a whole `sleep` has passed with nobody attached, however shortly; never, if the job is over before, is to be
/// ended anyway, or does without anybody for another time than `after_s`.
pub async fn count_down<S: Future<Output = ()>>(
    asks: Sender<Ask>,
    ask: Ask,
    after_s: u64,
    cell: Arc<Cell>,
    sleep: impl Fn() -> S,
) {
    let mut face = cell.watch();
    let over = |face: &Face| {
        let job = &face.job;
        let another = job.needs_somebody_s() != Some(after_s);
        face.closing || !job.is_live() || job.cancel_grace_ms.is_some() || another
    };
    loop {
        let came = match face.wait_for(|face| over(face) || face.attached == 0).await {
            Ok(face) if !over(&face) => face.came,
            _ => return,
        };
        tokio::select! {
            _ = face.wait_for(|face| over(face) || face.came != came) => {}
            () = sleep() => {
                // The keeper is gone only when the site goes down: the next one counts anew.
                let _ = asks.send(ask);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiko_job::contract::Caller;
    use kumiko_job::description::JobDescription;
    use kumiko_job::event::Record;
    use kumiko_job::id::JobId;
    use kumiko_job::respond::{Here, submit};
    use kumiko_job::state::replay;
    use std::sync::mpsc;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    const JOB: JobId = JobId(1);
    const AFTER_S: u64 = 60;

    fn cell() -> Arc<Cell> {
        let caller = Caller {
            subject: "/CN=A".into(),
            account: "a".into(),
        };
        let here = Here {
            batch: "fork",
            boot: "b",
            has_room: true,
        };
        let mut description = JobDescription::new("/bin/true", &[]);
        description.attended_s = Some(AFTER_S);
        let events = submit(&caller, None, Arc::new(description), None, here);
        let records: Vec<Record> = (1..)
            .zip(events)
            .map(|(number, event)| Record {
                number,
                at_ms: 0,
                event,
            })
            .collect();
        let job = replay(JOB, &records).unwrap().unwrap();
        Arc::new(Cell::new(Arc::new(job), &records))
    }

    /// A job whose time passes when the test says so.
    struct Attended {
        cell: Arc<Cell>,
        /// Each sleep that begins; it ends when this is sent to, and is given up when this is closed.
        sleeps: UnboundedReceiver<oneshot::Sender<()>>,
        asked: mpsc::Receiver<Ask>,
        countdown: JoinHandle<()>,
    }

    impl Attended {
        fn new() -> Attended {
            let cell = cell();
            let (asks, asked) = mpsc::channel();
            let (begun, sleeps) = unbounded_channel();
            let sleep = move || {
                let (end, ended) = oneshot::channel();
                begun.send(end).unwrap();
                async { ended.await.unwrap() }
            };
            let ask = Ask::Unattended {
                job: JOB,
                after_s: AFTER_S,
            };
            let countdown = count_down(asks, ask, AFTER_S, Arc::clone(&cell), sleep);
            let countdown = tokio::spawn(countdown);
            Attended {
                cell,
                sleeps,
                asked,
                countdown,
            }
        }

        async fn over(self) -> bool {
            self.countdown.await.unwrap();
            self.asked.try_recv().is_ok()
        }
    }

    #[tokio::test]
    async fn a_time_with_nobody_attached_is_told() {
        let mut job = Attended::new();
        job.sleeps.recv().await.unwrap().send(()).unwrap();
        assert!(job.over().await);
    }

    #[tokio::test]
    async fn whoever_comes_stops_the_clock_and_whoever_leaves_last_starts_it_anew() {
        let mut job = Attended::new();
        let mut first = job.sleeps.recv().await.unwrap();
        let one = Arc::clone(&job.cell).attend();
        first.closed().await;
        let two = Arc::clone(&job.cell).attend();
        drop(one);
        tokio::task::yield_now().await;
        assert!(job.sleeps.try_recv().is_err(), "somebody is still there");
        drop(two);
        job.sleeps.recv().await.unwrap().send(()).unwrap();
        assert!(job.over().await);
    }

    #[tokio::test]
    async fn whoever_was_there_for_a_moment_starts_it_anew() {
        let mut job = Attended::new();
        let mut first = job.sleeps.recv().await.unwrap();
        drop(Arc::clone(&job.cell).attend());
        first.closed().await;
        job.sleeps.recv().await.unwrap().send(()).unwrap();
        assert!(job.over().await);
    }

    #[tokio::test]
    async fn a_manager_that_goes_down_asks_nothing() {
        let mut job = Attended::new();
        let mut sleep = job.sleeps.recv().await.unwrap();
        job.cell.close();
        sleep.closed().await;
        assert!(!job.over().await);
    }
}
