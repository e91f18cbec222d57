//! Arrays of NumPy in files (numpy.org, "NPY format", versions 1.0 to 3.0): what is in C order, of numbers. Pure. Not here: arrays of
//! objects, texts or records.

use crate::signature::ElementType;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Data begin at a multiple of this, so that they can be mapped.
const ALIGN_BYTES: usize = 64;
/// Longest header: dimensions and a type are less than a page.
const HEADER_MOST_BYTES: usize = 16 << 10;

/// What a file's beginning says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Npy {
    pub element: ElementType,
    /// Outermost first; empty for one number.
    pub shape: Vec<u64>,
    /// Where the elements begin.
    pub data_at: usize,
}

/// A file that is no array which can be an argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NpyError {
    #[error("this is no .npy file: its first bytes are others")]
    Magic,
    #[error("version {major} of the format is unknown")]
    Version { major: u8 },
    #[error("the header is not complete, or too long")]
    Header,
    #[error("the header has no {what} that can be read")]
    Field { what: &'static str },
    #[error("elements of type {descr} cannot be sent: use numbers, little-endian")]
    Type { descr: String },
    #[error("the array is in Fortran order: save numpy.ascontiguousarray of it")]
    Fortran,
    #[error("the file has {got} bytes of elements, and by its shape {expected}")]
    Length { got: u64, expected: u128 },
}

/// Longest beginning of a file, up to where the elements stand.
pub const HEAD_MOST_BYTES: usize = 12 + HEADER_MOST_BYTES;

/// Reads the beginning of a file; `file_bytes`: of all of it, which must have the elements that its shape says.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8], file_bytes: Option<u64>) -> Result<Npy, NpyError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
    let (length, at) = match *rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([a, b])), 10),
        [2 | 3, _, a, b, c, d, ..] => {
            let length = u32::from_le_bytes([a, b, c, d]);
            (usize::try_from(length).unwrap_or(usize::MAX), 12)
        }
        [1..=3, ..] | [] => return Err(NpyError::Header),
        [major, ..] => return Err(NpyError::Version { major }),
    };
    if length > HEADER_MOST_BYTES {
        return Err(NpyError::Header);
    }
    let header = bytes.get(at..at + length).ok_or(NpyError::Header)?;
    let header = std::str::from_utf8(header).map_err(|_| NpyError::Header)?;
    let descr = value(header, "descr").ok_or(NpyError::Field { what: "descr" })?;
    let descr = descr
        .strip_prefix('\'')
        .and_then(|rest| rest.split_once('\''))
        .or_else(|| {
            descr
                .strip_prefix('"')
                .and_then(|rest| rest.split_once('"'))
        })
        .map(|(descr, _)| descr)
        .ok_or(NpyError::Field { what: "descr" })?;
    let element = element(descr).ok_or_else(|| NpyError::Type {
        descr: descr.to_owned(),
    })?;
    let order = value(header, "fortran_order");
    let order = order.ok_or(NpyError::Field {
        what: "fortran_order",
    })?;
    let shape = shape(header).ok_or(NpyError::Field { what: "shape" })?;
    if !order.starts_with("False") && shape.iter().filter(|size| **size > 1).count() > 1 {
        return Err(NpyError::Fortran);
    }
    let data_at = at + length;
    if let Some(file_bytes) = file_bytes {
        let elements = shape.iter().try_fold(1u128, |product, size| {
            product.checked_mul(u128::from(*size))
        });
        let width = u128::from(element.bytes().unwrap_or(1));
        let expected = elements.and_then(|elements| elements.checked_mul(width));
        let expected = expected.ok_or(NpyError::Field { what: "shape" })?;
        let got = file_bytes.saturating_sub(data_at as u64);
        if u128::from(got) != expected {
            return Err(NpyError::Length { got, expected });
        }
    }
    Ok(Npy {
        element,
        shape,
        data_at,
    })
}

/// What stands after a key of the header's dictionary.
fn value<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let after = ['\'', '"'].iter().find_map(|quote| {
        let key = format!("{quote}{key}{quote}");
        header.find(&key).map(|at| at + key.len())
    })?;
    let rest = header.get(after..)?.trim_start();
    Some(rest.strip_prefix(':')?.trim_start())
}

fn shape(header: &str) -> Option<Vec<u64>> {
    let (inside, _) = value(header, "shape")?.strip_prefix('(')?.split_once(')')?;
    let sizes = inside.split(',').map(str::trim);
    // Python ends a tuple of one by a comma.
    let sizes = sizes.filter(|size| !size.is_empty());
    sizes
        .map(|size| size.trim_end_matches('L').parse().ok())
        .collect()
}

const TYPES: [(&str, ElementType); 12] = [
    ("i1", ElementType::Int8),
    ("u1", ElementType::Uint8),
    ("i2", ElementType::Int16),
    ("u2", ElementType::Uint16),
    ("i4", ElementType::Int32),
    ("u4", ElementType::Uint32),
    ("i8", ElementType::Int64),
    ("u8", ElementType::Uint64),
    ("f4", ElementType::Float32),
    ("f8", ElementType::Float64),
    ("c8", ElementType::Complex64),
    ("c16", ElementType::Complex128),
];

fn element(descr: &str) -> Option<ElementType> {
    let of = |code: &str| {
        let known = TYPES.iter().find(|(known, _)| *known == code);
        known.map(|(_, element)| *element)
    };
    match descr.split_at_checked(1)? {
        ("<" | "=", code) => of(code),
        // A byte has no order.
        ("|", code @ ("i1" | "u1")) => of(code),
        _ => None,
    }
}

/// A file's beginning, up to where the elements stand; None: elements of this type have no file.
pub fn header(element: ElementType, shape: &[u64]) -> Option<Vec<u8>> {
    let (code, _) = TYPES.iter().find(|(_, known)| *known == element)?;
    let order = if element.bytes() == Some(1) { '|' } else { '<' };
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let text = format!(
        "{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        sizes.join(", ")
    );
    let used = MAGIC.len() + 4 + text.len() + 1;
    let padded = used.next_multiple_of(ALIGN_BYTES) - used;
    let length = u16::try_from(text.len() + padded + 1).ok()?;
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    out.extend(length.to_le_bytes());
    out.extend(text.as_bytes());
    out.extend(std::iter::repeat_n(b' ', padded));
    out.push(b'\n');
    Some(out)
}
