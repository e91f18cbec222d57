//! What Python gives as arrays (PEP 3118): held while it is sent from where it lies. Not here: what comes back (`pieces`).

use bytes::Bytes;
use kumiko_idl::{ElementType, Section};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// An array of Python's that stays where it is.
#[derive(Debug)]
pub struct Held(PyUntypedBuffer);

impl Held {
    pub fn get(value: &Bound<'_, PyAny>) -> PyResult<Held> {
        PyUntypedBuffer::get(value).map(Held)
    }

    pub fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    /// What of it is not as it must be.
    pub fn check(&self, element: ElementType, sections: &[Section]) -> Result<(), String> {
        let takes = name(element);
        let format = self.0.format().to_string_lossy();
        if !fits(&format, self.0.item_size(), element) {
            let has = dtype(&format, self.0.item_size());
            return Err(format!("its elements are {has}, and it takes {takes}"));
        }
        let sizes = || sections.iter().map(|section| section.size);
        let same = self.shape().len() == sections.len()
            && self
                .shape()
                .iter()
                .zip(sizes())
                .all(|(a, b)| *a as u64 == b);
        if !same {
            let has = shape_text(self.shape().iter().map(|size| *size as u64));
            let takes = shape_text(sizes());
            return Err(format!("its shape is {has}, and it takes {takes}"));
        }
        match (self.0.is_c_contiguous(), self.0.is_fortran_contiguous()) {
            (true, _) => Ok(()),
            (false, true) => Err(
                "it is in Fortran order, and rows must stand side by side: give numpy.ascontiguousarray of it".to_owned(),
            ),
            (false, false) => Err(
                "it is a view with gaps: give numpy.ascontiguousarray of it".to_owned(),
            ),
        }
    }

    /// After [`Held::check`].
    pub fn bytes(&self) -> &[u8] {
        let length = self.0.len_bytes();
        if length == 0 || self.0.buf_ptr().is_null() {
            return &[];
        }
        // SAFETY: the buffer is held, so its memory stays, and `check` has found it without gaps. That nobody writes there
        // while it is read is the caller's promise, as with all that numpy does without the interpreter's lock.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), length) }
    }

    /// Without a copy.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(Owner(Some(self)))
    }
}

/// Buffers that nobody reads any more. Only a thread of Python's may give them back, and threads of the runtime drop them.
static LEFT: Mutex<Vec<Held>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Owner(Option<Held>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], Held::bytes)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        left.extend(self.0.take());
    }
}

/// Gives back what is not read any more.
pub fn give_back(_py: Python<'_>) {
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    drop(left);
}

/// As Python writes a shape.
fn shape_text(sizes: impl Iterator<Item = u64>) -> String {
    let sizes: Vec<String> = sizes.map(|size| size.to_string()).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    format!("({}{comma})", sizes.join(", "))
}

/// What NumPy calls it.
pub fn name(element: ElementType) -> &'static str {
    match element {
        ElementType::Int8 => "int8",
        ElementType::Uint8 => "uint8",
        ElementType::Int16 => "int16",
        ElementType::Uint16 => "uint16",
        ElementType::Int32 => "int32",
        ElementType::Uint32 => "uint32",
        ElementType::Int64 => "int64",
        ElementType::Uint64 => "uint64",
        ElementType::Float32 => "float32",
        ElementType::Float64 => "float64",
        ElementType::Complex64 => "complex64",
        ElementType::Complex128 => "complex128",
        ElementType::String => "str",
        ElementType::Filename => "file name",
    }
}

/// A format of the struct module, as the element type that it is; None: another.
fn of_format(format: &str, width: usize) -> Option<ElementType> {
    let code = format.trim_start_matches(['@', '=', '<', '^']);
    Some(match (code, width) {
        ("b", 1) => ElementType::Int8,
        ("B" | "c", 1) => ElementType::Uint8,
        ("h", 2) => ElementType::Int16,
        ("H", 2) => ElementType::Uint16,
        ("i" | "l", 4) => ElementType::Int32,
        ("I" | "L", 4) => ElementType::Uint32,
        ("l" | "q" | "n", 8) => ElementType::Int64,
        ("L" | "Q" | "N", 8) => ElementType::Uint64,
        ("f", 4) => ElementType::Float32,
        ("d", 8) => ElementType::Float64,
        ("Zf", 8) => ElementType::Complex64,
        ("Zd", 16) => ElementType::Complex128,
        _ => return None,
    })
}

fn fits(format: &str, width: usize, element: ElementType) -> bool {
    // C's char has no sign of its own, and bytes are unsigned.
    let byte = |one| matches!(one, ElementType::Int8 | ElementType::Uint8);
    of_format(format, width).is_some_and(|one| one == element || (byte(one) && byte(element)))
}

fn dtype(format: &str, width: usize) -> String {
    match of_format(format, width) {
        Some(element) => name(element).to_owned(),
        None => format!("'{format}' of {width} bytes"),
    }
}

/// The format of an element that comes back.
pub fn format(element: ElementType) -> &'static std::ffi::CStr {
    match element {
        ElementType::Int8 => c"b",
        ElementType::Uint8 => c"B",
        ElementType::Int16 => c"h",
        ElementType::Uint16 => c"H",
        ElementType::Int32 => c"i",
        ElementType::Uint32 => c"I",
        ElementType::Int64 => c"l",
        ElementType::Uint64 => c"L",
        ElementType::Float32 => c"f",
        ElementType::Float64 => c"d",
        ElementType::Complex64 => c"Zf",
        ElementType::Complex128 => c"Zd",
        // Arrays of them are refused before a call.
        ElementType::String | ElementType::Filename => c"B",
    }
}
