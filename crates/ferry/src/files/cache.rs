//! Programs that a host has run before, and chunks of files that it has read, it has from its own disk: they are named by their SHA-256, at
//! the site and here. What is kept is bounded, and looked at anew each time, for it may have been harmed.

use super::notice::{self, Sum};
use kumiko_linux::{mounts, spooling};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where another place than the usual one is named.
const PLACE: &str = "KUMIKO_HOST_CACHE";
/// What a host that boots keeps (hier(7)).
const USUAL: &str = "/var/tmp";
/// The folder of programs, among those of the site.
const PROGRAMS: &str = "programs";
const DIGEST_DIGITS: usize = 64;
/// Of the site's programs the newest are looked at when something begins on a host, and no more.
const LOOKED_AT: usize = 16;
const PROGRAM_MOST_BYTES: u64 = 64 << 20;
/// It has no more than this, and no more than this part of what would be free without it.
const MOST_BYTES: u64 = 8 << 30;
const MOST_PART: u64 = 4;
const PIECE_BYTES: usize = 128 * 1024;

#[derive(Debug, Clone)]
pub struct Cache(PathBuf);

/// A program of the site.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    digest: String,
    modified: SystemTime,
}

impl Cache {
    /// # Errors
    /// There is no place for it that is the account's alone, and from which programs can be run.
    pub fn open() -> io::Result<Cache> {
        let usual = || Path::new(USUAL).join(format!("kumiko-cache-{}", spooling::own_uid()));
        Cache::at(std::env::var_os(PLACE).map_or_else(usual, PathBuf::from))
    }

    /// # Errors
    /// As [`Cache::open`].
    pub fn at(place: PathBuf) -> io::Result<Cache> {
        match DirBuilder::new().mode(0o700).create(&place) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let about = fs::symlink_metadata(&place)?;
        let own = about.is_dir() && about.uid() == spooling::own_uid();
        if !own || about.mode() & 0o077 != 0 || !mounts::can_execute(&place)? {
            return Err(ErrorKind::PermissionDenied.into());
        }
        Ok(Cache(place))
    }

    /// Puts what is kept in the place of the site's own, and tells what is not kept.
    pub fn put_in_place(&self, programs: Vec<Program>) -> Vec<Program> {
        let is_missing = |program: &Program| {
            let kept = self.0.join(&program.digest);
            let whole = File::open(&kept).and_then(|file| digest(file, &mut io::sink()));
            if !whole.is_ok_and(|digest| digest == program.digest) {
                return true;
            }
            // That it was used is seen by its time.
            let _ = File::open(&kept).and_then(|file| file.set_modified(SystemTime::now()));
            mounts::bind(&kept, &program.path).is_err()
        };
        programs.into_iter().filter(is_missing).collect()
    }

    /// Keeps programs for later, and removes what was not used for longest.
    ///
    /// # Errors
    /// There is no room.
    pub fn keep(&self, programs: &[Program]) -> io::Result<()> {
        for program in programs {
            self.add("program", &program.digest, 0o500, |file| {
                match digest(File::open(&program.path)?, file)? == program.digest {
                    true => Ok(()),
                    false => Err(ErrorKind::InvalidData.into()),
                }
            })?;
        }
        self.bound()
    }

    /// A chunk that is kept. One that was harmed is not kept any more.
    pub fn load(&self, sum: &Sum) -> Option<Vec<u8>> {
        let path = self.0.join(hex(sum));
        let mut file = File::open(&path).ok()?;
        let mut bytes = Vec::new();
        let read = file.read_to_end(&mut bytes);
        if read.is_err() || notice::sum(&bytes) != *sum {
            let _ = fs::remove_file(&path);
            return None;
        }
        // That it was used is seen by its time.
        let _ = file.set_modified(SystemTime::now());
        Some(bytes)
    }

    /// Keeps a chunk, of which [`Cache::load`] finds out whether it is what its name says.
    ///
    /// # Errors
    /// There is no room.
    pub fn put(&self, sum: &Sum, bytes: &[u8]) -> io::Result<()> {
        self.add("chunk", &hex(sum), 0o400, |file| file.write_all(bytes))
    }

    fn add(
        &self,
        what: &str,
        name: &str,
        mode: u32,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let new = self.0.join(format!("new-{what}-{}", std::process::id()));
        let put = || -> io::Result<()> {
            let _ = fs::remove_file(&new);
            let mut file = OpenOptions::new();
            file.write(true).create_new(true).mode(mode);
            fill(&mut file.open(&new)?)?;
            fs::rename(&new, self.0.join(name))
        };
        put().inspect_err(|_| drop(fs::remove_file(&new)))
    }

    /// Removes what was not used for longest, as long as there is too much.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn bound(&self) -> io::Result<()> {
        let free = spooling::free_bytes(&self.0)?;
        self.keep_within(|all| MOST_BYTES.min((free + all) / MOST_PART))
    }

    /// `most` of what all of it has.
    fn keep_within(&self, most: impl FnOnce(u64) -> u64) -> io::Result<()> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            // Others remove it as well.
            if let Ok(about) = entry.metadata() {
                kept.push((about.modified()?, about.len(), entry.path()));
            }
        }
        kept.sort_unstable();
        let mut all: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
        let most = most(all);
        for (_, bytes, path) in kept {
            if all <= most {
                break;
            }
            let _ = fs::remove_file(path);
            all -= bytes;
        }
        Ok(())
    }
}

/// The newest programs in these folders that are named by their digest, or lie in a directory that is.
pub fn programs(folders: &[PathBuf]) -> Vec<Program> {
    let own = folders.iter().filter(|folder| folder.ends_with(PROGRAMS));
    let beneath = folders.iter().map(|folder| folder.join(PROGRAMS));
    let mut found: Vec<Program> = own
        .cloned()
        .chain(beneath)
        .flat_map(|folder| entries(&folder))
        .filter_map(|path| {
            let digest = path.file_name()?.to_str()?.to_owned();
            let is_digest = digest.len() == DIGEST_DIGITS
                && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            let path = match path.is_dir() {
                true => entries(&path).into_iter().next()?,
                false => path,
            };
            let about = fs::symlink_metadata(&path).ok()?;
            let fits = is_digest && about.is_file() && about.len() <= PROGRAM_MOST_BYTES;
            let modified = about.modified().ok()?;
            fits.then_some(Program {
                path,
                digest,
                modified,
            })
        })
        .collect();
    found.sort_unstable_by_key(|program| std::cmp::Reverse(program.modified));
    found.truncate(LOOKED_AT);
    found
}

/// None where there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Passes all of it on, and tells its SHA-256.
fn digest(mut from: File, to: &mut impl Write) -> io::Result<String> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE_BYTES]);
    loop {
        let count = from.read(&mut piece)?;
        let bytes = piece.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        hash.update(bytes);
        to.write_all(bytes)?;
    }
    Ok(hex(&hash.finalize()))
}

fn hex(sum: &[u8]) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::time::Duration;

    #[test]
    fn what_was_used_last_is_kept_and_what_a_killed_host_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        let cache = Cache::at(place.clone()).unwrap();
        let chunk = |number: u8| vec![number; 1000];
        let hour = Duration::from_secs(3600);
        let age = |name: &str, hours: u32| {
            let file = File::open(place.join(name)).unwrap();
            file.set_modified(SystemTime::now() - hours * hour).unwrap();
        };
        fs::write(place.join("new-chunk-1"), [0; 500]).unwrap();
        age("new-chunk-1", 10);
        let sums: Vec<Sum> = (0..6).map(|number| notice::sum(&chunk(number))).collect();
        for (number, sum) in (0..6).zip(&sums) {
            cache.put(sum, &chunk(number)).unwrap();
            age(&hex(sum), 9 - u32::from(number));
        }
        // The oldest is used once more.
        assert_eq!(cache.load(&sums[0]), Some(chunk(0)));
        let mut all = 0;
        let most = |found: u64| {
            all = found;
            3100
        };
        cache.keep_within(most).unwrap();
        assert_eq!(all, 6500);
        let is_kept = |sum: &Sum| cache.load(sum).is_some();
        let kept: Vec<bool> = sums.iter().map(is_kept).collect();
        assert_eq!(kept, [true, false, false, false, true, true]);
        assert!(!place.join("new-chunk-1").exists());
    }
}
