//! Calls whose arguments are all given by address, for who has no variable number of them: Fortran above all. Not here: what a call is.

use crate::codes::{self, Code, Failed, RPC_REFUSED};
use crate::entries::{Handle, kumiko_gridrpc_begin, kumiko_gridrpc_call, number};
use crate::outputs::Slot;
use crate::sessions::library;
use kumiko_idl::Formal;

/// # Safety
/// `addresses` are `count`, of what the routine's IDL says; all else as grpc.h says.
unsafe fn slots(
    handle: *const Handle,
    addresses: *const *mut u8,
    count: usize,
) -> Result<Vec<Slot>, Failed> {
    let library = library()?;
    // SAFETY: NULL or the caller's handle (grpc.h).
    let function = library.function(unsafe { number(handle)? })?;
    let formals = &function.signature.formals;
    let wrong = |what: String| Failed::new(RPC_REFUSED, format!("{}: {what}", function.name));
    if count != formals.len() || (addresses.is_null() && count > 0) {
        let takes = formals.len();
        return Err(wrong(format!(
            "{count} arguments are given, and it takes {takes}"
        )));
    }
    let addresses = match count {
        0 => &[],
        // SAFETY: not NULL, and `count` of them (grpc.h).
        _ => unsafe { std::slice::from_raw_parts(addresses, count) },
    };
    let mut slots = Vec::with_capacity(count);
    for (formal, address) in formals.iter().zip(addresses) {
        let Formal::Parameter(parameter) = formal else {
            slots.push(Slot::pointer(*address));
            continue;
        };
        // SAFETY: the address is that of what the IDL says (grpc.h).
        let slot = unsafe { Slot::of(parameter, *address) };
        slots.push(slot.ok_or_else(|| wrong(format!("{} is NULL", parameter.name)))?);
    }
    Ok(slots)
}

/// # Safety
/// `addresses` are `count`, of what the routine's IDL says; all else as grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_call_async(
    handle: *mut Handle,
    session: *mut i32,
    addresses: *const *mut u8,
    count: usize,
) -> Code {
    let none = std::ptr::null_mut();
    // SAFETY: this function's own promise.
    match unsafe { slots(handle, addresses, count) } {
        // SAFETY: one slot for each formal; all else is this function's own promise.
        Ok(slots) => unsafe {
            kumiko_gridrpc_begin(handle, none, slots.as_ptr(), slots.len(), session)
        },
        Err(failed) => codes::told(Err(failed)),
    }
}

/// # Safety
/// As [`kumiko_call_async`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_call(
    handle: *mut Handle,
    addresses: *const *mut u8,
    count: usize,
) -> Code {
    let none = std::ptr::null_mut();
    // SAFETY: this function's own promise.
    match unsafe { slots(handle, addresses, count) } {
        // SAFETY: as above.
        Ok(slots) => unsafe { kumiko_gridrpc_call(handle, none, slots.as_ptr(), slots.len()) },
        Err(failed) => codes::told(Err(failed)),
    }
}
