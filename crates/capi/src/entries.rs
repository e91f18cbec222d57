//! The functions of bindings/c/kumiko/grpc.h, but for those with a variable number of arguments. Not here: what they do.

use crate::codes::{
    self, Code, Failed, INVALID_FUNCTION_HANDLE, INVALID_SESSION_ID, NONE_COMPLETED, NOT_COMPLETED,
};
use crate::loans::Loans;
use crate::outputs::{Slot, kind, take};
use crate::session_attributes::{Attributes, limits};
use crate::sessions::{self, Asked, Library, library};
use kumiko_idl::Formal;
use std::ffi::{CStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

const VOID: i32 = -1;
/// Most formals of a routine; c/entries.c has as many slots.
const MOST: usize = 256;
/// "kmkohndl": a handle that was made here, and not destructed.
const MARK: u64 = u64::from_le_bytes(*b"kmkohndl");

/// `grpc_function_handle_t`.
#[derive(Debug)]
#[repr(C)]
pub struct Handle {
    number: u64,
    mark: u64,
}

/// # Safety
/// NULL, or a text that ends with a zero.
pub unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// The number of a handle, which was checked for being one only after the library is.
///
/// # Safety
/// NULL, or readable.
pub unsafe fn number(handle: *const Handle) -> Result<u64, Failed> {
    // SAFETY: the caller's promise.
    match unsafe { handle.as_ref() } {
        Some(handle) if handle.mark == MARK => Ok(handle.number),
        _ => Err(Failed::bare(INVALID_FUNCTION_HANDLE)),
    }
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_initialize(config_file: *const c_char) -> Code {
    // SAFETY: a text or NULL (grpc.h).
    let file = unsafe { text(config_file) };
    let path = file.map(|file| Path::new(std::ffi::OsStr::from_bytes(file.to_bytes())));
    codes::told(sessions::initialize(path))
}

#[unsafe(no_mangle)]
pub extern "C" fn grpc_finalize() -> Code {
    codes::told(sessions::finalize())
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_default(
    handle: *mut Handle,
    func_name: *const c_char,
) -> Code {
    // SAFETY: this function's own promise.
    unsafe { grpc_function_handle_init(handle, std::ptr::null(), func_name) }
}

/// # Safety
/// As many handles as numbers.
pub unsafe fn write_handles(handles: *mut Handle, numbers: &[u64]) {
    for (at, number) in numbers.iter().enumerate() {
        let (number, mark) = (*number, MARK);
        // SAFETY: the caller's promise.
        unsafe { handles.add(at).write(Handle { number, mark }) };
    }
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_init(
    handle: *mut Handle,
    server_name: *const c_char,
    func_name: *const c_char,
) -> Code {
    // SAFETY: this function's own promise.
    unsafe { grpc_function_handle_array_init_np(handle, 1, server_name, func_name) }
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_array_default_np(
    handles: *mut Handle,
    count: usize,
    func_name: *const c_char,
) -> Code {
    // SAFETY: this function's own promise.
    unsafe { grpc_function_handle_array_init_np(handles, count, std::ptr::null(), func_name) }
}

/// All of them, or none.
///
/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_array_init_np(
    handles: *mut Handle,
    count: usize,
    server_name: *const c_char,
    func_name: *const c_char,
) -> Code {
    let make = || {
        let library = library()?;
        // SAFETY: texts or NULL (grpc.h).
        let (server, name) = unsafe { (text(server_name), text(func_name)) };
        let name = name.map(CStr::to_string_lossy).unwrap_or_default();
        let server = server.map(CStr::to_string_lossy);
        if handles.is_null() {
            return Err(Failed::bare(INVALID_FUNCTION_HANDLE));
        }
        let numbers = library.handles(server.as_deref(), &name, count)?;
        // SAFETY: not NULL, and `count` of them (grpc.h).
        unsafe { write_handles(handles, &numbers) };
        Ok(())
    };
    codes::told(make())
}

/// The first failure, after all.
///
/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_array_destruct_np(
    handles: *mut Handle,
    count: usize,
) -> Code {
    let forget = || {
        let library = library()?;
        let mut end = Ok(());
        for at in 0..count {
            // SAFETY: NULL, of which nothing is looked at, or `count` of them (grpc.h).
            let handle = unsafe { handles.add(if handles.is_null() { 0 } else { at }) };
            // SAFETY: this function's own promise.
            end = end.and(unsafe { destruct(&library, handle) });
        }
        end
    };
    codes::told(forget())
}

/// # Safety
/// NULL or the caller's handle.
unsafe fn destruct(library: &Library, handle: *mut Handle) -> Result<(), Failed> {
    // SAFETY: this function's own promise.
    let number = unsafe { number(handle)? };
    // SAFETY: it was found to be a handle.
    unsafe { (*handle).mark = 0 };
    library.forget(number)
}

/// For c/entries.c: `Ninf_call`, with what it needs of initialization and handles.
///
/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_gridrpc_named(handle: *mut Handle, name: *const c_char) -> Code {
    let find = || {
        // SAFETY: a text or NULL (grpc.h).
        let name = unsafe { text(name) }
            .map(CStr::to_string_lossy)
            .unwrap_or_default();
        if library().is_err() {
            match sessions::initialize(None) {
                Ok(()) => {}
                // By another thread, just now.
                Err(failed) if failed.code == codes::ALREADY_INITIALIZED => {}
                Err(failed) => return Err(failed),
            }
        }
        let (server, name) = match name.strip_prefix("ninf://") {
            None => (None, &*name),
            Some(rest) => match rest.split_once('/') {
                Some(("", name)) => (None, name),
                Some((server, name)) => (Some(server), name),
                None => (None, rest),
            },
        };
        let number = [library()?.named(server, name)?];
        // SAFETY: the variable of c/entries.c.
        unsafe { write_handles(handle, &number) };
        Ok(())
    };
    codes::told(find())
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_destruct(handle: *mut Handle) -> Code {
    // SAFETY: this function's own promise.
    codes::told(library().and_then(|library| unsafe { destruct(&library, handle) }))
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_get_handle(handle: *mut *mut Handle, session: i32) -> Code {
    let find = || {
        let address = library()?.handle_of(session)?;
        if handle.is_null() {
            return Err(Failed::bare(INVALID_FUNCTION_HANDLE));
        }
        // SAFETY: not NULL, and the caller's variable (grpc.h).
        unsafe { *handle = address as *mut Handle };
        Ok(())
    };
    codes::told(find())
}

/// For c/entries.c: how arguments are passed, and how many there are; less than 0: an error.
///
/// # Safety
/// `kinds` has room for 256; the handle is NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_gridrpc_kinds(handle: *const Handle, kinds: *mut u8) -> i32 {
    let find = || {
        let library = library()?;
        // SAFETY: this function's own promise.
        library.function(unsafe { number(handle)? })
    };
    let function = match find() {
        Ok(function) => function,
        Err(failed) => return -codes::told(Err(failed)),
    };
    let formals = function.signature.formals.iter().take(MOST);
    let mut count = 0;
    for formal in formals {
        let one = match formal {
            Formal::Parameter(parameter) => kind(parameter),
            Formal::Callback(_) => b'p',
        };
        // SAFETY: fewer than 256 were written.
        unsafe { kinds.add(count).write(one) };
        count += 1;
    }
    i32::try_from(count).unwrap_or(0)
}

/// Has a session begun by `begin`.
///
/// # Safety
/// `slots` are `count`, as [`kumiko_gridrpc_kinds`] said; all else as grpc.h says, and [`take`].
unsafe fn asked<T>(
    handle: *mut Handle,
    attributes: *mut Attributes,
    (slots, count): (*const Slot, usize),
    loans: Option<&mut Loans>,
    begin: impl FnOnce(&Arc<Library>, Asked<'_>) -> Result<T, Failed>,
) -> Result<T, Failed> {
    let library = library()?;
    // SAFETY: NULL or the caller's handle.
    let function = library.function(unsafe { number(handle)? })?;
    // SAFETY: NULL or the caller's attributes (grpc.h).
    let limits = unsafe { limits(attributes)? };
    // SAFETY: `count` of them were written; of none, the address is that of an array all the same.
    let slots = unsafe { std::slice::from_raw_parts(slots, count) };
    // SAFETY: they were read as the signature's kinds say, and addresses are the caller's (grpc.h).
    let given = unsafe { take(&function.signature, slots, loans)? };
    let asked = Asked {
        function: &function,
        handle: handle as usize,
        given,
        limits,
    };
    begin(&library, asked)
}

/// For c/entries.c.
///
/// # Safety
/// `slots` are `count`, as [`kumiko_gridrpc_kinds`] said; all else as grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_gridrpc_begin(
    handle: *mut Handle,
    attributes: *mut Attributes,
    slots: *const Slot,
    count: usize,
    session: *mut i32,
) -> Code {
    let begun = || {
        if session.is_null() {
            library()?;
            return Err(Failed::bare(INVALID_SESSION_ID));
        }
        // SAFETY: this function's own promise.
        let number = unsafe { asked(handle, attributes, (slots, count), None, Library::begin)? };
        library()?.go_on();
        // SAFETY: not NULL, and the caller's variable.
        unsafe { *session = number };
        Ok(())
    };
    codes::told(begun())
}

/// For c/entries.c: the same, until it is over. Big arrays are not copied, for nobody changes them meanwhile.
///
/// # Safety
/// As [`kumiko_gridrpc_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_gridrpc_call(
    handle: *mut Handle,
    attributes: *mut Attributes,
    slots: *const Slot,
    count: usize,
) -> Code {
    let mut loans = Loans::default();
    let mut call = || {
        // SAFETY: this function's own promise; the caller waits until the loans are dropped.
        unsafe {
            asked(
                handle,
                attributes,
                (slots, count),
                Some(&mut loans),
                Library::call,
            )
        }
    };
    codes::told(call())
}

/// # Safety
/// NULL with `length` 0, or as many numbers.
unsafe fn list<'a>(sessions: *const i32, length: usize) -> &'a [i32] {
    match sessions.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts(sessions, length) },
    }
}

/// # Safety
/// NULL or a variable.
unsafe fn put(variable: *mut i32, value: i32) {
    if !variable.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *variable = value };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn grpc_wait(session: i32) -> Code {
    codes::told(library().and_then(|library| library.wait_or(&[session])?.1))
}

fn wait_for(sessions: &[i32]) -> Result<(), Failed> {
    let library = library()?;
    if let Some(unknown) = sessions.iter().find(|one| library.is_over(**one).is_err()) {
        let message = format!("there is no session {unknown}");
        return Err(Failed::new(INVALID_SESSION_ID, message));
    }
    let mut end = Ok(());
    for session in sessions {
        let (_, one) = library.wait_or(&[*session])?;
        end = end.and(one);
    }
    end
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_wait_and(sessions: *const i32, length: usize) -> Code {
    // SAFETY: this function's own promise.
    codes::told(wait_for(unsafe { list(sessions, length) }))
}

#[unsafe(no_mangle)]
pub extern "C" fn grpc_wait_all() -> Code {
    codes::told(library().and_then(|library| wait_for(&library.sessions())))
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_wait_or(sessions: *const i32, length: usize, id: *mut i32) -> Code {
    // SAFETY: this function's own promise.
    let sessions = unsafe { list(sessions, length) };
    // SAFETY: likewise.
    codes::told(library().and_then(|_| unsafe { wait_any(sessions, id) }))
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_wait_any(id: *mut i32) -> Code {
    let wait = || {
        let all = library()?.sessions();
        // SAFETY: this function's own promise.
        unsafe { wait_any(&all, id) }
    };
    codes::told(wait())
}

/// Of none, the void one is over.
///
/// # Safety
/// `id` is NULL or a variable.
unsafe fn wait_any(sessions: &[i32], id: *mut i32) -> Result<(), Failed> {
    // SAFETY: the caller's promise.
    unsafe { put(id, VOID) };
    if sessions.is_empty() {
        return Ok(());
    }
    let (session, end) = library()?.wait_or(sessions)?;
    // SAFETY: likewise.
    unsafe { put(id, session) };
    end
}

#[unsafe(no_mangle)]
pub extern "C" fn grpc_probe(session: i32) -> Code {
    let probe = || match library()?.is_over(session)? {
        true => Ok(()),
        false => Err(Failed::bare(NOT_COMPLETED)),
    };
    codes::told(probe())
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_probe_or(sessions: *const i32, length: usize, id: *mut i32) -> Code {
    let probe = || {
        let library = library()?;
        // SAFETY: this function's own promise.
        let sessions = unsafe { list(sessions, length) };
        // SAFETY: likewise.
        unsafe { put(id, VOID) };
        let mut over = None;
        for session in sessions {
            if library.is_over(*session)? {
                over.get_or_insert(*session);
            }
        }
        match over {
            Some(session) => {
                // SAFETY: likewise.
                unsafe { put(id, session) };
                Ok(())
            }
            None => Err(Failed::bare(NONE_COMPLETED)),
        }
    };
    codes::told(probe())
}

#[unsafe(no_mangle)]
pub extern "C" fn grpc_cancel(session: i32) -> Code {
    codes::told(library().and_then(|library| library.cancel(session)))
}

#[unsafe(no_mangle)]
pub extern "C" fn grpc_cancel_all() -> Code {
    let cancel = || {
        let library = library()?;
        for session in library.sessions() {
            // One that was waited for meanwhile needs none.
            let _ = library.cancel(session);
        }
        Ok(())
    };
    codes::told(cancel())
}

#[unsafe(no_mangle)]
pub extern "C" fn grpc_error_string(code: Code) -> *const c_char {
    codes::text(code).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn grpc_get_error(session: i32) -> Code {
    match library().and_then(|library| library.error_of(session)) {
        Ok(code) => code,
        Err(failed) => codes::told(Err(failed)),
    }
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_get_failed_sessionid(id: *mut i32) -> Code {
    let next = || {
        let failed = library()?.next_failed();
        // SAFETY: this function's own promise.
        unsafe { put(id, failed.unwrap_or(VOID)) };
        Ok(())
    };
    codes::told(next())
}

#[unsafe(no_mangle)]
pub extern "C" fn grpc_last_error_get_np() -> Code {
    codes::last_code()
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_perror_np(before: *const c_char) -> Code {
    // SAFETY: a text or NULL (grpc.h).
    let before = unsafe { text(before) }.map(CStr::to_string_lossy);
    let said = codes::text(codes::last_code()).to_string_lossy();
    eprintln!("{}: {said}", before.unwrap_or_default());
    codes::NO_ERROR
}

#[unsafe(no_mangle)]
pub extern "C" fn kumiko_last_message() -> *const c_char {
    codes::last()
}
