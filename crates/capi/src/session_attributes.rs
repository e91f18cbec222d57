//! Attributes of sessions (Ninf-G): how long one, and what it sends and fetches, may take. Not here: what ends it then (`limits`).

use crate::codes::{self, Code, Failed, OTHER_ERROR_CODE};
use crate::entries::{Handle, number};
use crate::limits::Limits;
use crate::memory;
use crate::sessions::library;
use std::ffi::c_void;
use std::time::Duration;

/// "kmkosess": attributes that were made here, and not destructed.
const MARK: u64 = u64::from_le_bytes(*b"kmkosess");

/// Numbers of `grpc_session_attr_name_t_np`.
const WAIT_ARG_TRANSFER: i32 = 0;
const SESSION_TIMEOUT: i32 = 1;
const TRANSFER_TIMEOUT_ARGUMENT: i32 = 2;
const TRANSFER_TIMEOUT_RESULT: i32 = 3;
const TRANSFER_TIMEOUT_CALLBACK_ARGUMENT: i32 = 4;
const TRANSFER_TIMEOUT_CALLBACK_RESULT: i32 = 5;
/// Of `grpc_argument_transfer_t_np`: what is given is copied before a call returns.
const TRANSFER_COPY: i32 = 3;

/// `grpc_session_attr_t_np`: all that they are.
#[derive(Debug)]
#[repr(C)]
pub struct Attributes {
    /// Seconds; 0: as long as it takes.
    timeout_s: u64,
    arguments_s: u64,
    result_s: u64,
    mark: u64,
}

fn wrong(what: &str) -> Failed {
    Failed::new(OTHER_ERROR_CODE, what)
}

/// # Safety
/// NULL, or readable and nobody else's.
unsafe fn known<'a>(attributes: *mut Attributes) -> Result<&'a mut Attributes, Failed> {
    library()?;
    // SAFETY: the caller's promise.
    match unsafe { attributes.as_mut() } {
        Some(one) if one.mark == MARK => Ok(one),
        _ => Err(wrong("these are no attributes of a session")),
    }
}

/// How long a session with these may take; NULL: as long as it takes.
///
/// # Safety
/// NULL, or readable and nobody else's.
pub unsafe fn limits(attributes: *mut Attributes) -> Result<Limits, Failed> {
    if attributes.is_null() {
        return Ok(Limits::default());
    }
    // SAFETY: this function's own promise.
    let known = unsafe { known(attributes)? };
    let limit = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
    Ok(Limits {
        session: limit(known.timeout_s),
        arguments: limit(known.arguments_s),
        result: limit(known.result_s),
    })
}

impl Attributes {
    /// Seconds of one of the timeouts.
    fn seconds(&mut self, name: i32) -> Option<&mut u64> {
        match name {
            SESSION_TIMEOUT => Some(&mut self.timeout_s),
            TRANSFER_TIMEOUT_ARGUMENT => Some(&mut self.arguments_s),
            TRANSFER_TIMEOUT_RESULT => Some(&mut self.result_s),
            _ => None,
        }
    }
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_session_attr_initialize_np(
    handle: *const Handle,
    attributes: *mut Attributes,
) -> Code {
    let make = || {
        let library = library()?;
        // SAFETY: NULL or the caller's handle (grpc.h).
        library.function(unsafe { number(handle)? })?;
        if attributes.is_null() {
            return Err(wrong("the attributes are NULL"));
        }
        let unlimited = Attributes {
            timeout_s: 0,
            arguments_s: 0,
            result_s: 0,
            mark: MARK,
        };
        // SAFETY: not NULL, and the caller's variable (grpc.h).
        unsafe { attributes.write(unlimited) };
        Ok(())
    };
    codes::told(make())
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_session_attr_destruct_np(attributes: *mut Attributes) -> Code {
    // SAFETY: this function's own promise.
    codes::told(unsafe { known(attributes) }.map(|known| known.mark = 0))
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_session_attr_set_np(
    attributes: *mut Attributes,
    name: i32,
    value: *const i32,
) -> Code {
    let set = || {
        // SAFETY: this function's own promise.
        let known = unsafe { known(attributes)? };
        if value.is_null() {
            return Err(wrong("the value is NULL"));
        }
        // SAFETY: not NULL, so the address of an int (grpc.h).
        let value = unsafe { value.read_unaligned() };
        if let Some(seconds) = known.seconds(name) {
            *seconds =
                u64::try_from(value).map_err(|_| wrong("a timeout of less than 0 seconds"))?;
            return Ok(());
        }
        match name {
            TRANSFER_TIMEOUT_CALLBACK_ARGUMENT | TRANSFER_TIMEOUT_CALLBACK_RESULT => {
                if value != 0 {
                    return Err(wrong(
                        "TRANSFER_TIMEOUT_CALLBACK_ARGUMENT, _RESULT: what a callback takes and gives is one message, which has no \
                         time of its own; SESSION_TIMEOUT limits the session",
                    ));
                }
            }
            // Whatever is asked for: what was given may be changed when the call returns.
            WAIT_ARG_TRANSFER if (1..=TRANSFER_COPY).contains(&value) => {}
            _ => return Err(wrong("a session has no such attribute here")),
        }
        Ok(())
    };
    codes::told(set())
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_session_attr_get_np(
    attributes: *mut Attributes,
    name: i32,
    value: *mut *mut c_void,
) -> Code {
    let get = || {
        // SAFETY: this function's own promise.
        let known = unsafe { known(attributes)? };
        if value.is_null() {
            return Err(wrong("there is no place for the value"));
        }
        let got = match (known.seconds(name), name) {
            (Some(seconds), _) => i32::try_from(*seconds).unwrap_or(i32::MAX),
            (None, TRANSFER_TIMEOUT_CALLBACK_ARGUMENT | TRANSFER_TIMEOUT_CALLBACK_RESULT) => 0,
            (None, WAIT_ARG_TRANSFER) => TRANSFER_COPY,
            _ => return Err(wrong("a session has no such attribute here")),
        };
        // SAFETY: not NULL, and the caller's variable (grpc.h).
        unsafe { *value = memory::copy_of(&got) };
        Ok(())
    };
    codes::told(get())
}

/// # Safety
/// What `grpc_session_attr_get_np` gave, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_session_attr_release_np(value: *mut c_void) -> Code {
    let release = || {
        library()?;
        // SAFETY: this function's own promise.
        unsafe { memory::give_back(value) };
        Ok(())
    };
    codes::told(release())
}
