//! Memory that C is given and gives back. Not here: what stands in it.

use std::ffi::{CString, c_void};

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// A copy of a value; NULL: there is no memory.
pub fn copy_of<T: Copy>(value: &T) -> *mut c_void {
    // SAFETY: malloc gives what is aligned for any C type of this size, or NULL.
    let memory = unsafe { malloc(size_of::<T>().max(1)) };
    if !memory.is_null() {
        // SAFETY: as many bytes were given, and nobody else has them.
        unsafe { memory.cast::<T>().write(*value) };
    }
    memory
}

/// A text with its zero; NULL: there is no memory, or it has a zero within.
pub fn text_of(text: impl Into<Vec<u8>>) -> *mut c_void {
    let Ok(text) = CString::new(text) else {
        return std::ptr::null_mut();
    };
    let bytes = text.as_bytes_with_nul();
    // SAFETY: any number of bytes may be asked for.
    let memory = unsafe { malloc(bytes.len()) };
    if !memory.is_null() {
        // SAFETY: as many bytes were given, and nobody else has them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.cast(), bytes.len()) };
    }
    memory
}

/// # Safety
/// NULL, or what one of these gave, once.
pub unsafe fn give_back(memory: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { free(memory) }
}
