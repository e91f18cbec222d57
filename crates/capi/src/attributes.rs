//! Attributes of handles (Ninf-G), and handles that are made of them: where a routine is, and which. Those that say how it is started
//! over there are refused by name: a site decides that. Not here: one handle by its function's name (`entries`).

use crate::codes::{self, Code, Failed, INVALID_FUNCTION_HANDLE, OTHER_ERROR_CODE};
use crate::entries::{Handle, number, write_handles};
use crate::memory;
use crate::sessions::{Library, library};
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

/// "kmkoattr": attributes that were made here, and not destructed.
const MARK: u64 = u64::from_le_bytes(*b"kmkoattr");

/// Numbers of `grpc_handle_attr_name_t_np`.
const HOSTNAME: i32 = 0;
const PORT: i32 = 1;
const JOBMANAGER: i32 = 2;
const SUBJECT: i32 = 3;
const FUNCNAME: i32 = 4;
const WAIT_ARG_TRANSFER: i32 = 7;
const NAMES: [&str; 10] = [
    "HOSTNAME",
    "PORT",
    "JOBMANAGER",
    "SUBJECT",
    "FUNCNAME",
    "JOBSTARTTIMEOUT",
    "JOBSTOPTIMEOUT",
    "WAIT_ARG_TRANSFER",
    "QUEUENAME",
    "MPI_NCPUS",
];
/// `GRPC_ARGUMENT_TRANSFER_COPY`: what is given is copied before a call returns.
const TRANSFER_COPY: i32 = 3;

/// `grpc_handle_attr_t_np`.
#[derive(Debug)]
#[repr(C)]
pub struct Handed {
    number: u64,
    mark: u64,
}

/// What they are so far; None: as the configuration says.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub function: Option<String>,
}

impl Attributes {
    /// HOST or HOST:PORT. None: the configured site.
    fn server(&self, library: &Library) -> Option<String> {
        let host = match (&self.host, self.port) {
            (None, None) => return None,
            (None, Some(_)) => library.host(),
            (Some(host), _) => host.clone(),
        };
        Some(match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        })
    }
}

fn wrong(what: impl Into<String>) -> Failed {
    Failed::new(OTHER_ERROR_CODE, what)
}

/// # Safety
/// NULL, or readable.
unsafe fn known(attributes: *const Handed) -> Result<(Arc<Library>, u64), Failed> {
    let library = library()?;
    // SAFETY: the caller's promise.
    match unsafe { attributes.as_ref() } {
        Some(one) if one.mark == MARK => Ok((library, one.number)),
        _ => Err(wrong("these are no attributes of a handle")),
    }
}

/// The name of what a handle of these would be for; there is none if it is not set.
///
/// # Safety
/// NULL, or readable.
pub unsafe fn function_of(attributes: *const Handed) -> Result<String, Failed> {
    // SAFETY: this function's own promise.
    let (library, number) = unsafe { known(attributes)? };
    let known = library.attributes(number).unwrap_or_default();
    Ok(known.function.unwrap_or_default())
}

/// # Safety
/// NULL, or writable.
unsafe fn hand_out(attributes: *mut Handed, with: Attributes) -> Result<(), Failed> {
    let library = library()?;
    if attributes.is_null() {
        return Err(wrong("the attributes are NULL"));
    }
    let number = library.keep_attributes(with);
    // SAFETY: not NULL, and the caller's promise.
    unsafe { attributes.write(Handed { number, mark: MARK }) };
    Ok(())
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_handle_attr_initialize_np(attributes: *mut Handed) -> Code {
    // SAFETY: this function's own promise.
    codes::told(unsafe { hand_out(attributes, Attributes::default()) })
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_handle_attr_destruct_np(attributes: *mut Handed) -> Code {
    let forget = || {
        // SAFETY: this function's own promise.
        let (library, number) = unsafe { known(attributes)? };
        // SAFETY: it was found to be attributes.
        unsafe { (*attributes).mark = 0 };
        library.forget_attributes(number);
        Ok(())
    };
    codes::told(forget())
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_handle_attr_set_np(
    attributes: *mut Handed,
    name: i32,
    value: *const c_void,
) -> Code {
    let set = || {
        // SAFETY: this function's own promise.
        let (library, number) = unsafe { known(attributes)? };
        let text = || match value.is_null() {
            true => None,
            false => {
                // SAFETY: not NULL, so a text that ends with a zero (grpc.h).
                let text = unsafe { CStr::from_ptr(value.cast::<c_char>()) };
                Some(text.to_string_lossy().into_owned())
            }
        };
        let whole = || match value.is_null() {
            true => Err(wrong("the value is NULL")),
            // SAFETY: not NULL, so the address of an int (grpc.h).
            false => Ok(unsafe { value.cast::<i32>().read_unaligned() }),
        };
        let mut now = library.attributes(number).unwrap_or_default();
        match name {
            HOSTNAME => now.host = text(),
            FUNCNAME => now.function = text(),
            PORT => {
                let port = whole()?;
                now.port = match port {
                    0 => None, // as it was
                    _ => {
                        let valid = u16::try_from(port);
                        Some(valid.map_err(|_| wrong(format!("{port} is no port")))?)
                    }
                };
            }
            // Whatever is asked for: what was given may be changed when the call returns.
            WAIT_ARG_TRANSFER if (1..=TRANSFER_COPY).contains(&whole()?) => {}
            _ => {
                let name = usize::try_from(name).ok().and_then(|at| NAMES.get(at));
                let name = name.unwrap_or(&"attribute of this number");
                return Err(wrong(format!(
                    "{name}: the site decides how a routine is started; only HOSTNAME, PORT, FUNCNAME and WAIT_ARG_TRANSFER can be set"
                )));
            }
        }
        library.set_attributes(number, now);
        Ok(())
    };
    codes::told(set())
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_handle_attr_get_np(
    attributes: *const Handed,
    name: i32,
    value: *mut *mut c_void,
) -> Code {
    let get = || {
        // SAFETY: this function's own promise.
        let (library, number) = unsafe { known(attributes)? };
        if value.is_null() {
            return Err(wrong("there is no place for the value"));
        }
        let now = library.attributes(number).unwrap_or_default();
        let text = |text: Option<String>| match text {
            Some(text) => Ok(memory::text_of(text)),
            None => Ok(std::ptr::null_mut()),
        };
        let got = match name {
            HOSTNAME => text(now.host),
            FUNCNAME => text(now.function),
            PORT => Ok(memory::copy_of(&i32::from(now.port.unwrap_or(0)))),
            JOBMANAGER | SUBJECT => Ok(std::ptr::null_mut()),
            WAIT_ARG_TRANSFER => Ok(memory::copy_of(&TRANSFER_COPY)),
            _ => Err(wrong("a routine has no such attribute here")),
        }?;
        // SAFETY: not NULL, and the caller's variable (grpc.h).
        unsafe { *value = got };
        Ok(())
    };
    codes::told(get())
}

/// # Safety
/// What `grpc_handle_attr_get_np` gave, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_handle_attr_release_np(value: *mut c_void) -> Code {
    let release = || {
        library()?;
        // SAFETY: this function's own promise.
        unsafe { memory::give_back(value) };
        Ok(())
    };
    codes::told(release())
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_array_init_with_attr_np(
    handles: *mut Handle,
    count: usize,
    attributes: *const Handed,
) -> Code {
    let make = || {
        // SAFETY: this function's own promise.
        let (library, number) = unsafe { known(attributes)? };
        let now = library.attributes(number).unwrap_or_default();
        let Some(function) = &now.function else {
            return Err(wrong("FUNCNAME is not set"));
        };
        if handles.is_null() {
            return Err(Failed::bare(INVALID_FUNCTION_HANDLE));
        }
        let numbers = library.handles(now.server(&library).as_deref(), function, count)?;
        // SAFETY: not NULL, and `count` of them (grpc.h).
        unsafe { write_handles(handles, &numbers) };
        Ok(())
    };
    codes::told(make())
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_init_with_attr_np(
    handle: *mut Handle,
    attributes: *const Handed,
) -> Code {
    // SAFETY: this function's own promise.
    unsafe { grpc_function_handle_array_init_with_attr_np(handle, 1, attributes) }
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_get_attr_np(
    handle: *const Handle,
    attributes: *mut Handed,
) -> Code {
    let get = || {
        let library = library()?;
        // SAFETY: NULL or the caller's handle (grpc.h).
        let function = library.function(unsafe { number(handle)? })?;
        let with = Attributes {
            host: Some(function.server.host.clone()),
            port: Some(function.server.port),
            function: Some(function.name.clone()),
        };
        // SAFETY: this function's own promise.
        unsafe { hand_out(attributes, with) }
    };
    codes::told(get())
}
