//! Where a result waits until all of it is here (spec/rpc P41): arrays in memory, what comes back of files in a file that has no name,
//! beside the first that it is for. Not here: blocks.

use crate::error::RpcError;
use bytes::Bytes;
use kumiko_idl::Plan;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file that comes back: which formal it is, and where it goes.
pub type Target = (usize, PathBuf);

#[derive(Debug)]
pub struct Staging {
    /// So many bytes stay in memory.
    fixed: usize,
    bytes: Vec<u8>,
    /// What follows.
    file: Option<File>,
    length: u64,
    targets: Vec<Target>,
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
    /// `fixed`: bytes of the result without its files, which go to the targets.
    pub fn new(fixed: u64, targets: &[Target]) -> Staging {
        let fixed = usize::try_from(fixed).unwrap_or(usize::MAX);
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
        }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.file = None;
        self.length = 0;
    }

    pub fn push(&mut self, data: &[u8]) -> Result<(), RpcError> {
        let room = self.fixed.saturating_sub(self.bytes.len()).min(data.len());
        let (here, there) = data.split_at_checked(room).unwrap_or((data, &[]));
        self.bytes.extend_from_slice(here);
        self.length += data.len() as u64;
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

    /// The arrays; of more than them the length is told. Files are where they belong.
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
            let mut staging = Staging::new(plan.out_bytes, &targets);
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
        let mut staging = Staging::new(plan.out_bytes, &targets);
        staging.push(&result[..260]).unwrap();
        assert!(staging.finish(Some(&plan)).is_err());
    }
}
