//! Argument stacks of grpc.h: arguments by address, pushed in the order of the routine's. Not here: what a call is (`addresses`).

use crate::addresses::{kumiko_call, kumiko_call_async};
use crate::codes::{self, Code, Failed, OTHER_ERROR_CODE};
use crate::entries::Handle;

/// As in c/entries.c: no routine has more formals.
const MOST: i32 = 256;

/// `grpc_arg_stack_t`.
#[derive(Debug)]
pub struct Stack {
    most: usize,
    addresses: Vec<*mut u8>,
}

fn failed(what: &str) -> Code {
    codes::told(Err(Failed::new(OTHER_ERROR_CODE, what)))
}

/// NULL: no stack has so many.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_arg_stack_new(most: i32) -> *mut Stack {
    if !(0..=MOST).contains(&most) {
        failed("an argument stack has between 0 and 256 places");
        return std::ptr::null_mut();
    }
    let most = usize::try_from(most).unwrap_or(0);
    let addresses = Vec::with_capacity(most);
    Box::into_raw(Box::new(Stack { most, addresses }))
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_arg_stack_push_arg(stack: *mut Stack, address: *mut u8) -> i32 {
    // SAFETY: NULL, or a stack that `grpc_arg_stack_new` gave, used by one thread at a time (grpc.h).
    match unsafe { stack.as_mut() } {
        Some(stack) if stack.addresses.len() < stack.most => {
            stack.addresses.push(address);
            0
        }
        _ => {
            failed("the argument stack is NULL, or full");
            -1
        }
    }
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_arg_stack_pop_arg(stack: *mut Stack) -> *mut u8 {
    // SAFETY: as above.
    let popped = unsafe { stack.as_mut() }.and_then(|stack| stack.addresses.pop());
    popped.unwrap_or_else(|| {
        failed("the argument stack is NULL, or empty");
        std::ptr::null_mut()
    })
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_arg_stack_destruct(stack: *mut Stack) -> i32 {
    if stack.is_null() {
        failed("the argument stack is NULL");
        return -1;
    }
    // SAFETY: `grpc_arg_stack_new` made it of a box, and it is given back once (grpc.h).
    drop(unsafe { Box::from_raw(stack) });
    0
}

/// NULL: no stack has so many.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_stack_create(most: usize) -> *mut Stack {
    grpc_arg_stack_new(i32::try_from(most).unwrap_or(i32::MAX))
}

fn code(is: i32) -> Code {
    match is {
        0 => codes::NO_ERROR,
        _ => OTHER_ERROR_CODE,
    }
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_stack_push(stack: *mut Stack, address: *mut u8) -> Code {
    // SAFETY: this function's own promise.
    code(unsafe { grpc_arg_stack_push_arg(stack, address) })
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_stack_pop(stack: *mut Stack, address: *mut *mut u8) -> Code {
    // SAFETY: as above.
    let popped = unsafe { stack.as_mut() }.and_then(|stack| stack.addresses.pop());
    let Some(popped) = popped else {
        return failed("the argument stack is NULL, or empty");
    };
    if !address.is_null() {
        // SAFETY: not NULL, and the caller's variable (grpc.h).
        unsafe { *address = popped };
    }
    codes::NO_ERROR
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_stack_destruct(stack: *mut Stack) -> Code {
    // SAFETY: this function's own promise.
    code(unsafe { grpc_arg_stack_destruct(stack) })
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_call_arg_stack_async(
    handle: *mut Handle,
    session: *mut i32,
    stack: *const Stack,
) -> Code {
    let (addresses, count) = parts(stack);
    // SAFETY: this function's own promise; NULL with 0 is refused where there are formals.
    unsafe { kumiko_call_async(handle, session, addresses, count) }
}

/// # Safety
/// As grpc.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_call_arg_stack(handle: *mut Handle, stack: *const Stack) -> Code {
    let (addresses, count) = parts(stack);
    // SAFETY: as above.
    unsafe { kumiko_call(handle, addresses, count) }
}

/// Before initialization nothing that is given is looked at: so what is no stack is refused later, as too few arguments.
fn parts(stack: *const Stack) -> (*const *mut u8, usize) {
    if crate::sessions::library().is_err() {
        return (std::ptr::null(), 0);
    }
    // SAFETY: NULL, or a stack that `grpc_arg_stack_new` gave (grpc.h).
    match unsafe { stack.as_ref() } {
        Some(stack) => (stack.addresses.as_ptr(), stack.addresses.len()),
        None => (std::ptr::null(), 0),
    }
}
