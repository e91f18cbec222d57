//! What comes back, as memory that Python's arrays look at: one piece of a result for each array, writable, without a copy.
//! Not here: which piece is whose (`call`).

use kumiko_idl::ElementType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes that live as long as any array that looks at a part of them.
#[derive(Debug)]
pub struct Memory {
    address: NonNull<u8>,
    length: usize,
    capacity: usize,
}

// SAFETY: it is owned memory without an owner among threads; Rust itself reads and writes none of it after it was made, and who
// of Python's threads does is Python's concern, as with every array.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(bytes: Vec<u8>) -> Arc<Memory> {
        let mut bytes = ManuallyDrop::new(bytes);
        Arc::new(Memory {
            address: NonNull::new(bytes.as_mut_ptr()).unwrap_or(NonNull::dangling()),
            length: bytes.len(),
            capacity: bytes.capacity(),
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the three are those of a Vec that was not dropped.
        drop(unsafe { Vec::from_raw_parts(self.address.as_ptr(), self.length, self.capacity) });
    }
}

/// One array of a result: `numpy.asarray` and `memoryview` take it.
#[pyclass(frozen)]
#[derive(Debug)]
pub struct Piece {
    memory: Arc<Memory>,
    at: usize,
    bytes: usize,
    width: usize,
    format: &'static CStr,
    shape: Vec<ffi::Py_ssize_t>,
    /// In bytes.
    strides: Vec<ffi::Py_ssize_t>,
}

impl Piece {
    /// None: the memory is shorter than that.
    pub fn new(
        memory: Arc<Memory>,
        at: usize,
        element: ElementType,
        sizes: &[u64],
    ) -> Option<Piece> {
        let width = usize::try_from(element.bytes()?).ok()?;
        let shape: Option<Vec<ffi::Py_ssize_t>> =
            sizes.iter().map(|size| (*size).try_into().ok()).collect();
        let shape = shape?;
        let mut strides = vec![0; shape.len()];
        let mut step = ffi::Py_ssize_t::try_from(width).ok()?;
        for (stride, size) in strides.iter_mut().zip(&shape).rev() {
            *stride = step;
            step = step.checked_mul(*size)?;
        }
        let bytes = usize::try_from(step).ok()?;
        (at.checked_add(bytes)? <= memory.length).then_some(Piece {
            memory,
            at,
            bytes,
            width,
            format: crate::buffers::format(element),
            shape,
            strides,
        })
    }
}

#[pymethods]
impl Piece {
    /// # Safety
    /// `view` is the interpreter's, to be filled (PEP 3118).
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let piece = slf.get();
        let asked = |flag: c_int| flags & flag == flag;
        let flat = piece.shape.len() < 2;
        if asked(ffi::PyBUF_F_CONTIGUOUS) && !asked(ffi::PyBUF_ANY_CONTIGUOUS) && !flat {
            return Err(PyBufferError::new_err("it is in C order"));
        }
        let told = |flag: c_int, list: &Vec<ffi::Py_ssize_t>| match asked(flag) {
            true => list.as_ptr().cast_mut(),
            false => std::ptr::null_mut(),
        };
        let length = ffi::Py_ssize_t::try_from(piece.bytes)?;
        let width = ffi::Py_ssize_t::try_from(piece.width)?;
        let dimensions = c_int::try_from(piece.shape.len())?;
        // SAFETY: `at` lies within the memory (`Piece::new`).
        let address = unsafe { piece.memory.address.as_ptr().add(piece.at) };
        // SAFETY: the interpreter's view; what it points at lives as long as the piece, which the view holds by `obj`.
        unsafe {
            (*view).buf = address.cast::<c_void>();
            (*view).len = length;
            (*view).readonly = 0;
            (*view).itemsize = width;
            (*view).format = match asked(ffi::PyBUF_FORMAT) {
                true => piece.format.as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).ndim = dimensions;
            (*view).shape = told(ffi::PyBUF_ND, &piece.shape);
            (*view).strides = told(ffi::PyBUF_STRIDES, &piece.strides);
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }
}
