//! Lists in lists, as Python has arrays of texts and of files. Not here: what stands in them.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

/// All of them, in the order of their addresses.
pub struct Nested<T> {
    pub shape: Vec<usize>,
    pub all: Vec<T>,
}

impl<T> Nested<T> {
    /// `kind`: what they are called; `of`: what one of them is.
    pub fn get(
        value: &Bound<'_, PyAny>,
        dimensions: usize,
        kind: &str,
        of: &dyn Fn(&Bound<'_, PyAny>) -> Result<T, String>,
    ) -> Result<Nested<T>, String> {
        let mut nested = Nested {
            shape: vec![0; dimensions],
            all: Vec::new(),
        };
        nested.add(value, 0, kind, of)?;
        Ok(nested)
    }

    fn add(
        &mut self,
        value: &Bound<'_, PyAny>,
        depth: usize,
        kind: &str,
        of: &dyn Fn(&Bound<'_, PyAny>) -> Result<T, String>,
    ) -> Result<(), String> {
        let Some(size) = self.shape.get_mut(depth) else {
            self.all.push(of(value)?);
            return Ok(());
        };
        let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
        let length = value.len().ok().filter(|_| !is_text);
        let length = length.ok_or_else(|| {
            let given = value.get_type();
            format!("{given} is given, and it takes a list of {kind}")
        })?;
        // Of lists beside each other the first one says how long they are.
        if !self.all.is_empty() && *size != length {
            return Err("its lists have different lengths".to_owned());
        }
        *size = length;
        let parts = value.try_iter().map_err(|error| error.to_string())?;
        for part in parts {
            self.add(
                &part.map_err(|error| error.to_string())?,
                depth + 1,
                kind,
                of,
            )?;
        }
        Ok(())
    }
}

/// Lists of this shape; what is there, as bytes.
pub fn lists<'py>(
    py: Python<'py>,
    flat: &[Option<impl AsRef<[u8]>>],
    shape: &[u64],
) -> PyResult<Bound<'py, PyAny>> {
    let [size, inner @ ..] = shape else {
        let one = flat.first().and_then(Option::as_ref);
        let one = one.map(|text| PyBytes::new(py, text.as_ref()));
        return Ok(one.into_pyobject(py)?.into_any());
    };
    let size = usize::try_from(*size).unwrap_or(0);
    let step = flat.len().checked_div(size).unwrap_or(0);
    let list = PyList::empty(py);
    for at in 0..size {
        let part = flat.get(at * step..(at + 1) * step);
        list.append(lists(py, part.unwrap_or_default(), inner)?)?;
    }
    Ok(list.into_any())
}
