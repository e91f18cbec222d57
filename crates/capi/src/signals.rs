//! Handlers of signals, as Ninf-G has them set. Not here: how they are called (c/signals.c).

use crate::codes::{self, Code, Failed, OTHER_ERROR_CODE};
use crate::sessions::library;

unsafe extern "C" {
    fn kumiko_gridrpc_signal(signal: i32, handler: usize) -> i32;
    fn kumiko_gridrpc_signals_back();
}

/// # Safety
/// `handler` is a function of a signal's number, or `SIG_DFL` or `SIG_IGN` (grpc.h).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_signal_handler_set_np(signal: i32, handler: usize) -> Code {
    let set = || {
        library()?;
        // SAFETY: this function's own promise.
        match unsafe { kumiko_gridrpc_signal(signal, handler) } {
            0 => Ok(()),
            error => {
                let why = std::io::Error::from_raw_os_error(error);
                let message = format!("signal {signal} cannot be handled so: {why}");
                Err(Failed::new(OTHER_ERROR_CODE, message))
            }
        }
    };
    codes::told(set())
}

/// As they were before the first was set.
pub fn set_back() {
    // SAFETY: what was there before is put back, and nothing else is touched.
    unsafe { kumiko_gridrpc_signals_back() }
}
