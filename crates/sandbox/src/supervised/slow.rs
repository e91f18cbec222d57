//! Answers that take as long as somebody else likes: opening a pipe with a name, connecting, sending. Whoever waits for
//! one is woken by a signal as natively: the call that is made in its place is broken off, and it fails or is made again,
//! as the signal's handler wants. Not in it: how the thread is told (notify.rs, trace.rs).

use super::serve::{Outcome, Slow};
use kumiko_linux::supervise::Errno;
use kumiko_linux::supervise::breakable::Breakable;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// How often a thread that waits is looked at. A signal does not tell of itself to us.
const LOOK: Duration = Duration::from_millis(10);
/// Of more that wait at once, each is looked at less often: thousands of looks in that time would fill a processor.
const LOOKED_AT_SO_OFTEN: u32 = 64;
/// What waits calls a few functions; there may be thousands.
const STACK_BYTES: usize = 256 << 10;

/// Calls that wait.
static WAITING: AtomicU32 = AtomicU32::new(0);

pub(super) enum Over {
    Told(Result<Outcome, Errno>),
    /// For a signal.
    BrokenOff,
    /// Nobody wants it any more.
    Gone,
}

/// A thread that waits for a call; EAGAIN: there can be no more.
pub(super) fn thread(wait: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    let builder = thread::Builder::new().stack_size(STACK_BYTES);
    Ok(builder.spawn(wait).map(drop)?)
}

/// Makes it in another thread, for as long as `is_wanted`.
pub(super) fn wait(tid: i32, slow: Slow, is_wanted: impl Fn() -> bool) -> Over {
    WAITING.fetch_add(1, Ordering::Relaxed);
    let over = wait_for(tid, slow, is_wanted);
    WAITING.fetch_sub(1, Ordering::Relaxed);
    over
}

fn wait_for(tid: i32, slow: Slow, is_wanted: impl Fn() -> bool) -> Over {
    let call = match Breakable::begin(STACK_BYTES, slow) {
        Ok(call) => call,
        Err(error) => return Over::Told(Err(error.into())),
    };
    loop {
        let waiting = WAITING.load(Ordering::Relaxed);
        if let Some(result) = call.wait(LOOK * (1 + waiting / LOOKED_AT_SO_OFTEN)) {
            return Over::Told(result);
        }
        let wanted = is_wanted();
        if wanted && !is_signalled(tid) {
            continue;
        }
        return match call.break_off() {
            _ if !wanted => Over::Gone,
            Some(Err(Errno::EINTR)) | None => Over::BrokenOff,
            Some(result) => Over::Told(result),
        };
    }
}

/// Is there a signal that the thread has not blocked? One that is ignored is not kept.
fn is_signalled(tid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let set = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        value.map_or(0, |value| {
            u64::from_str_radix(value.trim(), 16).unwrap_or(0)
        })
    };
    (set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiko_linux::spooling;
    use std::io::Read;

    #[test]
    fn what_nobody_wants_any_more_is_broken_off() {
        let (from, to) = spooling::pipe().unwrap();
        let slow: Slow = Box::new(move || {
            let read = std::fs::File::from(from).read(&mut [0; 1]);
            read.map(|count| Outcome::Value(count as i64))
                .map_err(Errno::from)
        });
        let me = std::process::id() as i32;
        assert!(matches!(wait(me, slow, || false), Over::Gone));
        drop(to);
        let slow: Slow = Box::new(|| Ok(Outcome::Value(7)));
        assert!(matches!(
            wait(me, slow, || true),
            Over::Told(Ok(Outcome::Value(7)))
        ));
    }
}
