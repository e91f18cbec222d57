//! Programs that a host has run before it has from its own disk: they are named by their SHA-256, at the site and here. What is kept is
//! bounded, and looked at anew each time, for it may have been harmed.

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
const MOST_BYTES: u64 = 512 << 20;
const PIECE_BYTES: usize = 128 * 1024;

#[derive(Debug)]
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
        let place = std::env::var_os(PLACE).map_or_else(usual, PathBuf::from);
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
            let new = self.0.join(format!("new-{}", std::process::id()));
            let put = || -> io::Result<()> {
                let mut file = OpenOptions::new();
                file.write(true).create(true).truncate(true).mode(0o500);
                let mut file = file.open(&new)?;
                match digest(File::open(&program.path)?, &mut file)? == program.digest {
                    true => fs::rename(&new, self.0.join(&program.digest)),
                    false => Err(ErrorKind::InvalidData.into()),
                }
            };
            put().inspect_err(|_| drop(fs::remove_file(&new)))?;
        }
        self.bound()
    }

    fn bound(&self) -> io::Result<()> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let about = entry.metadata()?;
            kept.push((about.modified()?, about.len(), entry.path()));
        }
        kept.sort_unstable();
        let mut all: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in kept {
            if all <= MOST_BYTES {
                break;
            }
            fs::remove_file(path)?;
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
    let sum = hash.finalize();
    Ok(sum.iter().map(|byte| format!("{byte:02x}")).collect())
}
