//! What is refused by its name (spec/rpc P92): remote objects, as the IDL refuses their classes, and data that stay at sites. The functions
//! themselves are c/refused.c. Not here: anything that is built.

use crate::attributes::{Handed, function_of};
use crate::codes::{
    self, CLASS_NOT_FOUND_NP, Code, Failed, INVALID_OBJECT_HANDLE_NP, INVALID_SESSION_ID,
    OTHER_ERROR_CODE,
};
use crate::entries::text;
use crate::sessions::library;
use std::ffi::{CStr, c_char};

/// As the IDL has it of `DefClass`.
const OBJECTS: &str =
    "remote objects are not built yet; define routines that take their state as INOUT";

/// # Safety
/// NULL, or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_gridrpc_no_class(name: *const c_char) -> Code {
    codes::told(library().and_then(|_| {
        // SAFETY: this function's own promise.
        let name = unsafe { text(name) }.map(CStr::to_string_lossy);
        Err(no_class(&name.unwrap_or_default()))
    }))
}

/// # Safety
/// NULL, or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_gridrpc_no_class_of(attributes: *const Handed) -> Code {
    // SAFETY: this function's own promise.
    codes::told(unsafe { function_of(attributes) }.and_then(|name| Err(no_class(&name))))
}

fn no_class(name: &str) -> Failed {
    Failed::new(CLASS_NOT_FOUND_NP, format!("class {name}: {OBJECTS}"))
}

/// # Safety
/// A text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_gridrpc_no_object(function: *const c_char) -> Code {
    // SAFETY: this function's own promise.
    codes::told(unsafe { refused(function, INVALID_OBJECT_HANDLE_NP, OBJECTS) })
}

#[unsafe(no_mangle)]
pub extern "C" fn kumiko_gridrpc_no_object_of(session: i32) -> Code {
    let refused = library().and_then(|_| {
        let message = format!("session {session} is not an object's: {OBJECTS}");
        Err(Failed::new(INVALID_SESSION_ID, message))
    });
    codes::told(refused)
}

/// # Safety
/// A text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_gridrpc_no_data(function: *const c_char) -> Code {
    let why =
        "data that stay at sites (GFD-R-P.186) are not built; give them to the call, or name files";
    // SAFETY: this function's own promise.
    codes::told(unsafe { refused(function, OTHER_ERROR_CODE, why) })
}

/// # Safety
/// A text that ends with a zero.
unsafe fn refused(function: *const c_char, code: Code, why: &str) -> Result<(), Failed> {
    library()?;
    // SAFETY: this function's own promise.
    let function = unsafe { text(function) }.map(CStr::to_string_lossy);
    let message = format!("{}: {why}", function.unwrap_or_default());
    Err(Failed::new(code, message))
}
