//! What a function of the caller's gives back (spec/idl I46), and the files that it is given and gives. Not here: how it is called.

use crate::functions::Question;
use bytes::Bytes;
use kumiko_idl::{ALIGN_BYTES, HEAD_BYTES, Placed, Plan, Span, pack_lengths};
use kumiko_wire::routine::CALLBACK_BYTES;
use std::io;
use std::path::{Path, PathBuf};

/// A result of a callback while it is put together: what has its own length is added in the order of the formals.
#[derive(Debug)]
pub struct Answer {
    bytes: Vec<u8>,
}

impl Answer {
    pub fn new(plan: &Plan) -> Answer {
        // At most what a callback may have (`Question::plan`).
        let bytes = usize::try_from(plan.out_bytes).unwrap_or(0);
        Answer {
            bytes: vec![0; bytes],
        }
    }

    /// The elements that travel of an array; None: there are more or fewer of them.
    pub fn array(&mut self, span: Span, elements: &[u8]) -> Option<()> {
        let at = usize::try_from(span.at).ok()?;
        let to = self.bytes.get_mut(at..at.checked_add(elements.len())?)?;
        (elements.len() as u64 == span.bytes).then(|| to.copy_from_slice(elements))
    }

    /// A file, or packed texts or files, whose head is there; None: the plan has no such head.
    pub fn add(&mut self, head: u64, tail: &[u8]) -> Option<()> {
        let head = usize::try_from(head).ok()?;
        let length = (tail.len() as u64).to_le_bytes();
        let to = self.bytes.get_mut(head..head.checked_add(HEAD_BYTES)?)?;
        to.iter_mut().zip(length).for_each(|(to, from)| *to = from);
        let align = usize::try_from(ALIGN_BYTES).ok()?;
        self.bytes
            .resize(self.bytes.len().next_multiple_of(align), 0);
        self.bytes.extend_from_slice(tail);
        Some(())
    }

    /// # Errors
    /// It is more than may come back.
    pub fn done(self) -> Result<Bytes, String> {
        match self.bytes.len() as u64 > CALLBACK_BYTES {
            true => Err(format!(
                "{} bytes come back, and at most {CALLBACK_BYTES} may",
                self.bytes.len()
            )),
            false => Ok(self.bytes.into()),
        }
    }
}

/// A folder for the files of one question, which is gone with it.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// None: the function has no files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn of(plan: &Plan) -> io::Result<Option<Scratch>> {
        match plan.places.iter().any(|place| place.files_count() > 0) {
            true => Ok(Some(Scratch(tempfile::tempdir()?))),
            false => Ok(None),
        }
    }

    /// The names of the files of one formal, with what goes in.
    ///
    /// # Errors
    /// One cannot be made.
    pub fn give(
        &self,
        question: &Question,
        number: usize,
        place: &Placed,
    ) -> io::Result<Vec<PathBuf>> {
        let name = |index: u64| self.0.path().join(format!("{number}.{index}"));
        let names: Vec<PathBuf> = (0..place.files_count()).map(name).collect();
        let (Placed::File { given, .. } | Placed::Many { given, .. }) = place else {
            return Ok(Vec::new());
        };
        let packed = given.and_then(|span| question.part(span));
        let Some(packed) = packed else {
            return Ok(names);
        };
        let spans = place.files(packed, packed.len() as u64);
        for (span, name) in spans.unwrap_or_default().iter().zip(&names) {
            let at = usize::try_from(span.at).unwrap_or(usize::MAX);
            let bytes = usize::try_from(span.bytes).unwrap_or(usize::MAX);
            let content = packed.get(at..at.saturating_add(bytes));
            std::fs::write(name, content.unwrap_or_default())?;
        }
        Ok(names)
    }

    /// What is there of them now, as it travels; of one that is not there, nothing.
    ///
    /// # Errors
    /// One cannot be read, or is too long to come back.
    pub fn take(place: &Placed, names: &[PathBuf]) -> io::Result<Vec<u8>> {
        let contents: io::Result<Vec<Vec<u8>>> = names.iter().map(|name| content(name)).collect();
        let contents = contents?;
        let mut packed = match place {
            Placed::File { .. } => Vec::new(),
            _ => pack_lengths(contents.iter().map(|content| content.len() as u64)),
        };
        packed.extend(contents.concat());
        Ok(packed)
    }
}

fn content(name: &Path) -> io::Result<Vec<u8>> {
    match std::fs::metadata(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(meta) if meta.len() > CALLBACK_BYTES => Err(io::Error::other(format!(
            "a file of {} bytes comes back, and at most {CALLBACK_BYTES} may",
            meta.len()
        ))),
        Ok(_) => std::fs::read(name),
    }
}
