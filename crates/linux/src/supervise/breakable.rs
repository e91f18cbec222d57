//! Calls that wait for somebody, each made in a thread of its own, that can be broken off as a signal would: the thread
//! gets one, whose handler does nothing. Not in it: why.

use std::io;
use std::sync::Once;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Nobody else's in a supervisor, which has all signals blocked.
const SIGNAL: i32 = libc::SIGUSR1;
/// A signal that comes just before the thread goes to wait is lost: it is sent again until it was heard.
const AGAIN: Duration = Duration::from_millis(10);

/// A thread of this process that may be waiting in a call.
#[derive(Clone, Copy, Debug)]
pub struct Waiting(i32);

impl Waiting {
    /// This thread: its calls are broken off (EINTR) from now on when it is asked.
    pub fn this() -> Waiting {
        static READY: Once = Once::new();
        READY.call_once(|| {
            extern "C" fn nothing(_: libc::c_int) {}
            // SAFETY: all zeros is an empty mask and no flags; the handler touches nothing.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
                libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
            }
        });
        // SAFETY: a live set of one signal, unblocked for this thread alone; gettid takes nothing.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut set, SIGNAL);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
            Waiting(libc::gettid())
        }
    }

    /// Breaks off the call that it waits in, if it does. Of a thread that has ended it means nothing.
    pub fn wake(self) {
        // SAFETY: plain numbers; a thread of this process, or nobody.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, SIGNAL) };
    }
}

/// A call that is under way.
#[derive(Debug)]
pub struct Breakable<T> {
    thread: Option<Waiting>,
    result: Receiver<T>,
}

impl<T: Send + 'static> Breakable<T> {
    /// Fails where there can be no more threads.
    pub fn begin(
        stack_bytes: usize,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Breakable<T>> {
        let (say, said) = channel();
        let (tell, result) = channel();
        thread::Builder::new()
            .stack_size(stack_bytes)
            .spawn(move || {
                let _ = say.send(Waiting::this());
                let _ = tell.send(call());
            })?;
        Ok(Breakable {
            thread: said.recv().ok(),
            result,
        })
    }

    /// What came of it; None: it is not over within that time.
    pub fn wait(&self, time: Duration) -> Option<T> {
        self.result.recv_timeout(time).ok()
    }

    /// Breaks it off; what came of it (which may be that it was over already).
    pub fn break_off(self) -> Option<T> {
        loop {
            if let Some(thread) = self.thread {
                thread.wake();
            }
            match self.result.recv_timeout(AGAIN) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn a_call_that_waits_is_broken_off_and_one_that_is_over_is_told() {
        let (from, to) = crate::spooling::pipe().unwrap();
        let stack = 256 << 10;
        let read = move || rustix::io::read(&from, &mut [0; 1]);
        let call = Breakable::begin(stack, read).unwrap();
        assert!(call.wait(Duration::from_millis(1)).is_none());
        let told = call.break_off().unwrap().unwrap_err();
        assert_eq!(std::io::Error::from(told).kind(), ErrorKind::Interrupted);
        drop(to);
        let seven = Breakable::begin(stack, || 7).unwrap();
        assert_eq!(seven.break_off(), Some(7));
    }
}
