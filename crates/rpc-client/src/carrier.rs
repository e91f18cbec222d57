//! The runtime of a library in somebody's program. Who waits for a call carries it meanwhile, so that a small call wakes no second thread here; when
//! nobody has waited for a moment, a thread of its own does. Not here: what runs.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

/// Calls that follow one another within this are carried by those who wait for them, and nothing runs between two. Who begins something and does not
/// wait for it says so ([`Carrier::go_on`]).
const BETWEEN: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct Carrier {
    runtime: Runtime,
    /// How many have begun to wait, and how many do: counted in this order.
    begun: AtomicU64,
    waiting: AtomicUsize,
    /// The own thread carries, and is told here to leave it to others.
    carries: AtomicBool,
    leave: Notify,
    /// It is to carry at once.
    wanted: AtomicBool,
    thread: Thread,
}

impl Carrier {
    /// One that stays as long as the process.
    ///
    /// # Errors
    /// There is no thread or no poll for it.
    pub fn start() -> io::Result<&'static Carrier> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (give, given) = std::sync::mpsc::channel::<&'static Carrier>();
        let own = move || {
            if let Ok(carrier) = given.recv() {
                carrier.carry();
            }
        };
        let thread = thread::Builder::new()
            .name("kumiko".to_owned())
            .spawn(own)?;
        let carrier: &'static Carrier = Box::leak(Box::new(Carrier {
            runtime,
            begun: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            carries: AtomicBool::new(false),
            leave: Notify::new(),
            wanted: AtomicBool::new(true),
            thread: thread.thread().clone(),
        }));
        // It waits for that.
        let _ = give.send(carrier);
        Ok(carrier)
    }

    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Runs this in the calling thread, and all that was spawned as well unless another one does.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let at_once = {
            let _entered = self.runtime.enter();
            let mut nobody = Context::from_waker(Waker::noop());
            future.as_mut().poll(&mut nobody)
        };
        match at_once {
            Poll::Ready(output) => output,
            Poll::Pending => self.wait(future),
        }
    }

    /// As [`Carrier::block_on`], of what has to wait: what it wakes at first wakes no thread either.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        let since = Instant::now();
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.carries.load(Ordering::SeqCst) {
            self.leave.notify_one();
        }
        let output = self.runtime.block_on(future);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        // The own thread looks by itself while waits are short.
        if since.elapsed() >= BETWEEN {
            self.thread.unpark();
        }
        output
    }

    /// What was spawned is not waited for, or not now.
    pub fn go_on(&self) {
        self.wanted.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }

    /// As long as the process.
    fn carry(&self) {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            let begun = self.begun.load(Ordering::SeqCst);
            if begun != seen {
                (seen, since) = (begun, Instant::now());
            }
            let is_quiet = since.elapsed() >= BETWEEN;
            let is_wanted = self.wanted.swap(false, Ordering::SeqCst);
            self.carries.store(true, Ordering::SeqCst);
            match self.waiting.load(Ordering::SeqCst) {
                0 if is_quiet || is_wanted => self.runtime.block_on(self.leave.notified()),
                0 => self.rest(Some(BETWEEN)),
                // Those that have waited for so long wake this thread when they go; one that began meanwhile may not.
                _ if is_quiet && self.begun.load(Ordering::SeqCst) == seen => self.rest(None),
                _ => self.rest(Some(BETWEEN)),
            }
        }
    }

    fn rest(&self, most: Option<Duration>) {
        self.carries.store(false, Ordering::SeqCst);
        match most {
            Some(most) => thread::park_timeout(most),
            None => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::sync::mpsc;
    use tokio::sync::oneshot;

    /// What is spawned is done in the end, whoever carries.
    const SURELY: Duration = Duration::from_secs(20);

    #[test]
    fn what_is_spawned_goes_on_when_nobody_waits_and_while_somebody_does() {
        let carrier = Carrier::start().unwrap();
        let (tell, told) = mpsc::channel();
        for round in 0..200 {
            let (say, said) = oneshot::channel();
            let tell = tell.clone();
            carrier.handle().spawn(async move {
                tokio::time::sleep(Duration::from_micros(round * 20)).await;
                let _ = tell.send(round);
                let _ = say.send(round);
            });
            // Waited for at once, after a moment, or never; and all of them are told.
            match round % 4 {
                0 => assert_eq!(carrier.block_on(said).unwrap(), round),
                1 => {
                    carrier.go_on();
                    assert_eq!(told.recv_timeout(SURELY).unwrap(), round);
                    continue;
                }
                2 => {
                    thread::sleep(Duration::from_micros(round * 20));
                    assert_eq!(carrier.block_on(said).unwrap(), round);
                }
                _ => {}
            }
            assert_eq!(told.recv_timeout(SURELY).unwrap(), round);
        }
    }

    #[test]
    fn who_waits_beside_others_is_woken_whoever_goes_first() {
        let carrier = Carrier::start().unwrap();
        let waits = |thread: u64| {
            move || {
                for round in 0..100 {
                    let pause = Duration::from_micros((thread * 37 + round * 61) % 5000);
                    carrier.block_on(async {
                        let slept = tokio::spawn(tokio::time::sleep(pause));
                        tokio::time::timeout(SURELY, slept).await.unwrap().unwrap();
                    });
                }
            }
        };
        let threads: Vec<_> = (0..4).map(|number| thread::spawn(waits(number))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
