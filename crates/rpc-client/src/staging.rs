//! Where a result waits until all of it is here (spec/rpc P41): arrays and texts in memory, what comes back of files in a file that has no
//! name, beside the first that it is for. Arrays that have a place of their own already go there as they come. Not here: blocks.

use crate::error::RpcError;
use bytes::Bytes;
use kumiko_call::id::CallId;
use kumiko_idl::{BadTail, ElementType, Placed, Plan, Span, lengths_bytes};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that comes back: which formal it is, and where it goes; those of an array in their order.
pub type Target = (usize, PathBuf);

/// Memory that an array of a result is written to while it comes. That is for what is `OUT` alone, and overlaps nothing that goes in: after a
/// failure a part of it may be there, and a call that begins anew writes it again.
pub trait Recipient: fmt::Debug + Send + Sync {
    /// Writes what lies from `offset` of the array on; nothing, if its owner does not want it any more.
    ///
    /// # Errors
    /// It can't be written, and the call can't go on.
    fn put(&self, offset: u64, data: &[u8]) -> Result<(), RpcError>;
}

/// Read at once.
const PIECE_BYTES: usize = 256 << 10;

/// Where a part of a result goes, and which.
pub type Place = (Span, Arc<dyn Recipient>);

#[derive(Debug)]
pub struct Staging {
    /// So many bytes stay in memory.
    fixed: usize,
    bytes: Vec<u8>,
    /// What follows.
    file: Option<File>,
    length: u64,
    targets: Vec<Target>,
    /// In order, and without overlaps.
    places: Vec<Place>,
}

fn wrong(path: &Path) -> impl FnOnce(io::Error) -> RpcError {
    let path = path.to_owned();
    move |cause| RpcError::File { path, cause }
}

/// Of a name that nobody else has, in the folder of `path`.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.{ending}", std::process::id()));
    path.with_file_name(name)
}

impl Staging {
    /// `fixed`: bytes of the result without its tail, where files and texts are; where there is one there are no places.
    pub fn new(fixed: u64, targets: &[Target], places: &[Place]) -> Staging {
        let placed: u64 = places.iter().map(|(span, _)| span.bytes).sum();
        let fixed = usize::try_from(fixed.saturating_sub(placed)).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        // If there is no room now there may be some later, or not so much of it comes.
        let _ = bytes.try_reserve_exact(fixed);
        Staging {
            fixed: match targets.is_empty() {
                true => usize::MAX,
                false => fixed,
            },
            bytes,
            file: None,
            length: 0,
            targets: targets.to_vec(),
            places: places.to_vec(),
        }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.file = None;
        self.length = 0;
    }

    pub fn push(&mut self, mut data: &[u8]) -> Result<(), RpcError> {
        while !data.is_empty() {
            let (bytes, place) = self.next();
            let (now, later) = data.split_at_checked(bytes).unwrap_or((data, &[]));
            match place {
                Some((span, recipient)) => recipient.put(self.length - span.at, now),
                None => self.stage(now),
            }?;
            self.length += now.len() as u64;
            data = later;
        }
        Ok(())
    }

    /// So many of the bytes that come next have this place.
    fn next(&self) -> (usize, Option<&Place>) {
        let over = |(span, _): &Place| span.at + span.bytes <= self.length;
        let next = self.places.get(self.places.partition_point(over));
        let (end, place) = match next {
            Some(place) if place.0.at <= self.length => (place.0.at + place.0.bytes, next),
            Some((span, _)) => (span.at, None),
            None => (u64::MAX, None),
        };
        let bytes = usize::try_from(end - self.length).unwrap_or(usize::MAX);
        (bytes, place)
    }

    fn stage(&mut self, data: &[u8]) -> Result<(), RpcError> {
        let room = self.fixed.saturating_sub(self.bytes.len()).min(data.len());
        let (here, there) = data.split_at_checked(room).unwrap_or((data, &[]));
        self.bytes.extend_from_slice(here);
        if there.is_empty() {
            return Ok(());
        }
        let path = self.targets.first().map_or(Path::new(""), |(_, path)| path);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unnamed(path).map_err(wrong(path))?),
        };
        file.write_all(there).map_err(wrong(path))
    }

    /// The arrays that have no place, with all that lies between them and the arrays of texts behind them ([`texts`]), and the length of all
    /// that came. Files are where they belong.
    pub fn finish(&mut self, plan: Option<&Plan>) -> Result<(Bytes, u64), RpcError> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let Some(plan) = plan.filter(|plan| plan.has_tail()) else {
            return Ok((bytes.into(), self.length));
        };
        let bad = BadTail { bytes: self.length };
        let fixed = usize::try_from(plan.out_bytes).map_err(|_| bad)?;
        let spans = plan.tail(&bytes, self.length)?;
        let here = bytes.split_off(fixed.min(bytes.len()));
        let mut tail = Tail {
            at: plan.out_bytes,
            here,
            file: self.file.take(),
        };
        let mut files = Vec::new();
        // All of it is looked at before anything is changed.
        for (formal, span) in spans {
            let place = plan.places.get(formal).ok_or(bad)?;
            let first = self.targets.first().map_or(Path::new(""), |(_, path)| path);
            if let Placed::Many { array, .. } = place {
                let texts = array.element == ElementType::String;
                let lengths = lengths_bytes(array.moved).ok_or(bad)?;
                let head = match texts {
                    true => span,
                    false => Span {
                        bytes: lengths.min(span.bytes),
                        ..span
                    },
                };
                let packed = tail.read(head).map_err(wrong(first))?;
                if texts {
                    place.texts(&packed).ok_or(bad)?;
                    bytes.extend_from_slice(&packed);
                    continue;
                }
                let parts = place.files(&packed, span.bytes).ok_or(bad)?;
                files.push((formal, parts, span.at));
                continue;
            }
            files.push((formal, place.files(&[], span.bytes).ok_or(bad)?, span.at));
        }
        for (formal, parts, at) in files {
            let targets = self.targets.iter().filter(|(number, _)| *number == formal);
            for (part, (_, path)) in parts.iter().zip(targets) {
                let span = Span {
                    at: at + part.at,
                    ..*part
                };
                let new = beside(path, "new");
                let put = tail.copy(span, &new);
                put.and_then(|()| std::fs::rename(&new, path))
                    .map_err(|cause| {
                        let _ = std::fs::remove_file(&new);
                        wrong(path)(cause)
                    })?;
            }
        }
        Ok((bytes.into(), self.length))
    }
}

/// What follows the fixed part of a result: in memory, or in a file.
struct Tail {
    /// Where it begins in the result.
    at: u64,
    here: Vec<u8>,
    file: Option<File>,
}

impl Tail {
    fn read(&mut self, span: Span) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.each(span, &mut |part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(bytes)
    }

    fn copy(&mut self, span: Span, path: &Path) -> io::Result<()> {
        let mut to = File::create(path)?;
        self.each(span, &mut |part| to.write_all(part))?;
        to.sync_data()
    }

    fn each(
        &mut self,
        span: Span,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let from = span.at.saturating_sub(self.at);
        let Some(file) = &mut self.file else {
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            let bytes = usize::try_from(span.bytes).unwrap_or(usize::MAX);
            let part = self.here.get(from..from.saturating_add(bytes));
            return take(part.ok_or(ErrorKind::UnexpectedEof)?);
        };
        file.seek(SeekFrom::Start(from))?;
        let mut from = file.take(span.bytes);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = from.read(&mut piece)?;
            match piece.get(..count) {
                Some([]) | None => return Ok(()),
                Some(part) => take(part)?,
            }
        }
    }
}

/// Of an array of texts its formal's number, and those that travelled.
pub type Texts<'a> = (usize, Vec<Option<&'a [u8]>>);

/// The arrays of texts of a result that was taken, in the order of the formals. None: they are not as its plan says.
pub fn texts<'a>(plan: &Plan, result: &'a [u8]) -> Option<Vec<Texts<'a>>> {
    let fixed = usize::try_from(plan.out_bytes).ok()?;
    let (fixed, mut rest) = result.split_at_checked(fixed)?;
    let mut all = Vec::new();
    for (number, place) in plan.places.iter().enumerate() {
        let Placed::Many {
            array,
            taken: Some(at),
            ..
        } = place
        else {
            continue;
        };
        if array.element != ElementType::String {
            continue;
        }
        let head = fixed.get(usize::try_from(*at).ok()?..)?.first_chunk()?;
        let bytes = usize::try_from(u64::from_le_bytes(*head)).ok()?;
        let (packed, after) = rest.split_at_checked(bytes)?;
        all.push((number, place.texts(packed)?));
        rest = after;
    }
    Some(all)
}

/// Gone when it is closed.
fn unnamed(path: &Path) -> io::Result<File> {
    let path = beside(path, "part");
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// All came that the plan says; but for arrays that have a place.
pub fn whole(call: CallId, plan: &Plan, (bytes, got): (Bytes, u64)) -> Result<Bytes, RpcError> {
    let expected = plan.out_bytes;
    // Where there is a tail, that was seen when it was put where it belongs.
    let whole = match plan.has_tail() {
        true => bytes.len() as u64 >= expected,
        false => got == expected,
    };
    match whole {
        true => Ok(bytes),
        false => Err(RpcError::Result {
            call,
            got,
            expected,
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use kumiko_idl::{Limits, Signature, pack_lengths, pack_texts};

    #[test]
    fn files_of_a_result_are_where_they_belong_when_all_of_it_is_here_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let text = "Module m; Define f(OUT int x[1], OUT filename a, OUT filename b) {}";
        let signature = Signature::from_text(text).unwrap();
        let plan = signature.plan(&[[0; 16]; 3], Limits::WIDEST).unwrap();
        let mut result = vec![0; 144];
        result[0] = 7;
        result[64] = 3;
        result[128] = 5;
        result.resize(192, 0);
        result.extend(b"one");
        result.resize(256, 0);
        result.extend(b"other");
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        let targets = [(1, a.clone()), (2, b.clone())];
        for piece in [1, 7, 300] {
            let mut staging = Staging::new(plan.out_bytes, &targets, &[]);
            for data in result.chunks(piece) {
                staging.push(data).unwrap();
            }
            let names = folder.path().read_dir().unwrap().count();
            assert!(piece != 1 || names == 0, "{names}");
            let (bytes, length) = staging.finish(Some(&plan)).unwrap();
            assert_eq!((&bytes[..], length), (&result[..144], 261));
            assert_eq!(std::fs::read(&a).unwrap(), b"one");
            assert_eq!(std::fs::read(&b).unwrap(), b"other");
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
        // One that is shorter than it tells changes nothing.
        let mut staging = Staging::new(plan.out_bytes, &targets, &[]);
        staging.push(&result[..260]).unwrap();
        assert!(staging.finish(Some(&plan)).is_err());
    }

    #[test]
    fn texts_and_files_of_arrays_are_told_apart_however_they_came() {
        let folder = tempfile::tempdir().unwrap();
        let text = "Module m; Define f(OUT string s[2], OUT filename f[2], OUT string t[1]) {}";
        let signature = Signature::from_text(text).unwrap();
        let plan = signature.plan(&[[0; 16]; 3], Limits::WIDEST).unwrap();
        let s = pack_texts(&[Some("one"), None]).unwrap();
        let t = pack_texts(&[Some("")]).unwrap();
        let files = [pack_lengths([3, 0]), b"abc".to_vec()].concat();
        let mut result = vec![0; 144];
        for (at, tail) in [(0, &s), (64, &files), (128, &t)] {
            let length = tail.len() as u64;
            result[at..at + 8].copy_from_slice(&length.to_le_bytes());
        }
        for tail in [&s, &files, &t] {
            result.resize(result.len().next_multiple_of(64), 0);
            result.extend(tail);
        }
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        for targets in [vec![(1, a.clone()), (1, b.clone())], Vec::new()] {
            let mut staging = Staging::new(plan.out_bytes, &targets, &[]);
            for data in result.chunks(7) {
                staging.push(data).unwrap();
            }
            let (bytes, length) = staging.finish(Some(&plan)).unwrap();
            assert_eq!(length, result.len() as u64);
            let one: &[u8] = b"one";
            let told = texts(&plan, &bytes).unwrap();
            assert_eq!(
                told,
                [(0, vec![Some(one), None]), (2, vec![Some(&b""[..])])]
            );
        }
        assert_eq!(std::fs::read(&a).unwrap(), b"abc");
        assert_eq!(std::fs::read(&b).unwrap(), b"");
        // A guest's program that tells what is not there changes nothing.
        std::fs::remove_file(&a).unwrap();
        for at in [192, 200, 256, 264, 320] {
            let mut wrong = result.clone();
            wrong[at] = wrong[at].wrapping_add(1);
            let mut staging = Staging::new(plan.out_bytes, &[(1, a.clone()), (1, b.clone())], &[]);
            staging.push(&wrong).unwrap();
            let finished = staging.finish(Some(&plan));
            assert!(
                matches!(finished, Err(RpcError::Files(_))),
                "{at}: {finished:?}"
            );
            assert!(!a.exists(), "{at}");
        }
    }

    #[derive(Debug, Default)]
    struct Kept(std::sync::Mutex<Vec<u8>>);

    impl Recipient for Kept {
        fn put(&self, offset: u64, data: &[u8]) -> Result<(), RpcError> {
            let mut kept = self.0.lock().unwrap();
            let offset = usize::try_from(offset).unwrap();
            kept.truncate(offset);
            assert_eq!(kept.len(), offset);
            kept.extend_from_slice(data);
            Ok(())
        }
    }

    #[test]
    fn arrays_with_a_place_go_there_as_they_come_and_the_rest_is_side_by_side() {
        let result: Vec<u8> = (0..200).collect();
        let place = |at, bytes| -> (Arc<Kept>, Place) {
            let kept = Arc::new(Kept::default());
            (Arc::clone(&kept), (Span { at, bytes }, kept))
        };
        for piece in [1, 7, 64, 300] {
            let (first, one) = place(10, 20);
            let (second, other) = place(30, 70);
            let (last, end) = place(150, 50);
            let mut staging = Staging::new(200, &[], &[one, other, end]);
            let push = |staging: &mut Staging, result: &[u8]| {
                for data in result.chunks(piece) {
                    staging.push(data).unwrap();
                }
            };
            push(&mut staging, &result[..90]);
            // As for a site that has forgotten it.
            staging.clear();
            push(&mut staging, &result);
            let (bytes, length) = staging.finish(None).unwrap();
            assert_eq!(*bytes, [&result[..10], &result[100..150]].concat());
            assert_eq!(length, 200);
            assert_eq!(*first.0.lock().unwrap(), result[10..30]);
            assert_eq!(*second.0.lock().unwrap(), result[30..100]);
            assert_eq!(*last.0.lock().unwrap(), result[150..]);
        }
    }
}
