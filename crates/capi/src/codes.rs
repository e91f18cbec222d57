//! Errors of GridRPC: names of the standard, numbers of Ninf-G 5; and what the last one was about. Not here: where they come from.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};

pub type Code = i32;

macro_rules! codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        $(pub const $name: Code = $number;)*

        /// What a code says; for any number.
        pub fn text(code: Code) -> &'static CStr {
            match code {
                $($name => $text,)*
                _ => c"unknown error code",
            }
        }
    };
}

codes! {
    NO_ERROR = 0, c"no error";
    NOT_INITIALIZED = 1, c"the GridRPC client is not initialized";
    ALREADY_INITIALIZED = 2, c"the GridRPC client is initialized already";
    CONFIGFILE_NOT_FOUND = 3, c"the configuration file is not there";
    CONFIGFILE_ERROR = 4, c"the configuration file cannot be used";
    SERVER_NOT_FOUND = 5, c"the server cannot be reached";
    FUNCTION_NOT_FOUND = 6, c"the server has no such function";
    INVALID_FUNCTION_HANDLE = 7, c"this is no function handle";
    INVALID_SESSION_ID = 8, c"there is no such session";
    RPC_REFUSED = 9, c"the server refuses the call";
    COMMUNICATION_FAILED = 10, c"communication with the server failed";
    SESSION_FAILED = 11, c"the session failed";
    NOT_COMPLETED = 12, c"the call is not completed";
    NONE_COMPLETED = 13, c"no call is completed";
    INVALID_OBJECT_HANDLE_NP = 14, c"this is no object handle";
    CLASS_NOT_FOUND_NP = 15, c"the server has no such class";
    TIMEOUT_NP = 16, c"the session took too long";
    CANCELED_NP = 17, c"the session was cancelled";
    OTHER_ERROR_CODE = 18, c"internal error";
}

/// A code, and what it is about.
#[derive(Clone, Debug)]
pub struct Failed {
    pub code: Code,
    pub message: String,
}

impl Failed {
    pub fn new(code: Code, message: impl Into<String>) -> Failed {
        let message = message.into();
        Failed { code, message }
    }

    pub fn bare(code: Code) -> Failed {
        Failed::new(code, text(code).to_string_lossy())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
    static LAST_CODE: Cell<Code> = const { Cell::new(NO_ERROR) };
}

/// The code of a result; the message of a failure is kept for its thread.
pub fn told(result: Result<(), Failed>) -> Code {
    match result {
        Ok(()) => NO_ERROR,
        Err(failed) => {
            LAST_CODE.set(failed.code);
            warned(&failed.message);
            failed.code
        }
    }
}

/// What is no failure of this thread's, and worth to be known: kept as the message of one is.
pub fn warned(message: &str) {
    let message = message.replace('\0', " ");
    LAST.with_borrow_mut(|last| *last = CString::new(message).unwrap_or_default());
}

/// Of the last function of this thread that failed.
pub fn last_code() -> Code {
    LAST_CODE.get()
}

/// Good until the next failure or warning of this thread.
pub fn last() -> *const std::ffi::c_char {
    LAST.with_borrow(|last| last.as_ptr())
}
