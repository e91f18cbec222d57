//! What is known of a session (Ninf-G): how far it is, and how long its stages took, as this end sees them. Not here: what the site
//! records (`kumiko rpc show`), and times of processors.

use crate::codes::{self, Code, Failed, INVALID_SESSION_ID, OTHER_ERROR_CODE};
use crate::memory;
use crate::sessions::library;
use kumiko_rpc_client::{Stage, Took};
use std::ffi::c_void;
use std::time::Duration;

/// `GRPC_SESSION_DONE` and what follows it.
const DONE: i32 = 1;
const ARG_IS_NOT_TRANSMITED: i32 = 2;
const EXECUTING: i32 = 3;
const DOWN: i32 = 4;

/// `struct timeval`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Time {
    seconds: i64,
    microseconds: i64,
}

impl From<Duration> for Time {
    fn from(time: Duration) -> Time {
        Time {
            seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            microseconds: i64::from(time.subsec_micros()),
        }
    }
}

/// Time that went by, and that of processors, which is not known.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Times {
    real: Time,
    processor: Time,
}

impl From<Duration> for Times {
    fn from(time: Duration) -> Times {
        Times {
            real: time.into(),
            processor: Time::default(),
        }
    }
}

/// `grpc_exec_info_executable_t_np`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct OfExecutable {
    callbacks: i32,
    arguments: Times,
    files_in: Times,
    calculation: Times,
    result: Times,
    files_out: Times,
    callback_arguments: Times,
    callback: Times,
    callback_result: Times,
}

/// `grpc_exec_info_client_t_np`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct OfClient {
    callbacks: i32,
    machine_info: Times,
    class_info: Times,
    invocation: Times,
    arguments: Times,
    calculation: Times,
    result: Times,
    callback_arguments: Times,
    callback: Times,
    callback_result: Times,
}

/// The compression that there is none of.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Compression {
    elements: i32,
    to_remote: *mut c_void,
    to_client: *mut c_void,
}

/// `grpc_session_info_t_np`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Info {
    executable: OfExecutable,
    client: OfClient,
    compression: Compression,
}

fn info(took: Took) -> Info {
    let callbacks = i32::try_from(took.questions).unwrap_or(i32::MAX);
    Info {
        executable: OfExecutable {
            callbacks,
            ..OfExecutable::default()
        },
        client: OfClient {
            callbacks,
            arguments: took.sending.into(),
            calculation: took.computing.into(),
            result: took.fetching.into(),
            callback: took.answering.into(),
            ..OfClient::default()
        },
        compression: Compression {
            elements: 0,
            to_remote: std::ptr::null_mut(),
            to_client: std::ptr::null_mut(),
        },
    }
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_session_info_get_np(
    session: i32,
    to: *mut *mut Info,
    status: *mut i32,
) -> Code {
    let get = || {
        let library = library()?;
        let (stages, end) = library
            .stages_of(session)
            .ok_or_else(|| Failed::bare(INVALID_SESSION_ID))?;
        let is = match (end, stages.stage()) {
            (Some(true), _) => DONE,
            (Some(false), _) => DOWN,
            (None, Stage::Sending) => ARG_IS_NOT_TRANSMITED,
            (None, _) => EXECUTING,
        };
        if !to.is_null() {
            let info = memory::copy_of(&info(stages.took()));
            if info.is_null() {
                return Err(Failed::new(OTHER_ERROR_CODE, "there is no memory"));
            }
            // SAFETY: not NULL, and the caller's variable (grpc.h).
            unsafe { *to = info.cast() };
        }
        if !status.is_null() {
            // SAFETY: likewise.
            unsafe { *status = is };
        }
        Ok(())
    };
    codes::told(get())
}

/// # Safety
/// What `grpc_session_info_get_np` gave, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_session_info_release_np(info: *mut Info) -> Code {
    let release = || {
        library()?;
        // SAFETY: this function's own promise.
        unsafe { memory::give_back(info.cast()) };
        Ok(())
    };
    codes::told(release())
}
