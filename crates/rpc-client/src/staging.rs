//! Where a result waits until all of it is here (spec/rpc P41): arrays in memory, what comes back of files in a file that has no name,
//! beside the first that it is for. Arrays that have a place of their own already go there as they come. Not here: blocks.

use crate::error::RpcError;
use bytes::Bytes;
use kumiko_call::id::CallId;
use kumiko_idl::{Plan, Span};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that comes back: which formal it is, and where it goes.
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
    /// `fixed`: bytes of the result without its files, which go to the targets; where there are files there are no places.
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

    /// The arrays that have no place, with all that lies between them, and the length of all that came. Files are where they belong.
    pub fn finish(&mut self, plan: Option<&Plan>) -> Result<(Bytes, u64), RpcError> {
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        let Some(plan) = plan.filter(|plan| plan.has_files()) else {
            return Ok((bytes, self.length));
        };
        for (formal, span) in plan.files(&bytes, self.length)? {
            let target = self.targets.iter().find(|(number, _)| *number == formal);
            let Some((_, path)) = target else { continue };
            let new = beside(path, "new");
            let mut put = || {
                let mut to = File::create(&new)?;
                if let Some(from) = &mut self.file {
                    from.seek(SeekFrom::Start(span.at - bytes.len() as u64))?;
                    io::copy(&mut from.take(span.bytes), &mut to)?;
                }
                to.sync_data()?;
                std::fs::rename(&new, path)
            };
            put().map_err(|cause| {
                let _ = std::fs::remove_file(&new);
                let path = path.clone();
                RpcError::File { path, cause }
            })?;
        }
        Ok((bytes, self.length))
    }
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
    let got = match plan.has_files() {
        true => bytes.len() as u64,
        false => got,
    };
    let expected = plan.out_bytes;
    match got == expected {
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
    use kumiko_idl::{Limits, Signature};

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
