//! Checkpoints of calls between attempts (spec/rpc P80 to P84): taken from the folder of a process that ended, looked at, and given
//! to the next one. A guest wrote them. Not here: what they are (kumiko-checkpoint), when an attempt follows (`calls`).

use kumiko_call::id::CallId;
use kumiko_checkpoint::{BadCheckpoint, Kept, Name, apply};
use kumiko_linux::Dir;
use std::fs::DirBuilder;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The newest, and the one before for when it cannot be read (P11).
const GENERATIONS: usize = 2;

/// A folder for each call whose attempt ended with some.
#[derive(Debug)]
pub struct Checkpoints {
    root: PathBuf,
}

/// What an attempt left.
#[derive(Debug, Default)]
pub struct Left {
    /// Numbers of the newest that it made, upwards.
    pub made: Vec<u64>,
    /// Safe points that it passed.
    pub points: u64,
}

/// What the next attempt was to begin at is not there.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{}", told(.0))]
    Bad(Vec<(Name, BadCheckpoint)>),
    #[error("another program made it: the routine was registered anew")]
    Program,
}

fn told(bad: &[(Name, BadCheckpoint)]) -> String {
    let one = |(name, cause): &(Name, BadCheckpoint)| format!("{name}: {cause}");
    let all: Vec<String> = bad.iter().map(one).collect();
    match all.is_empty() {
        true => "its files are not there".to_owned(),
        false => all.join("; "),
    }
}

/// In a call's folder the digest of the program whose state is in its checkpoints.
const PROGRAM: &str = "program";
/// More than its digits.
const PROGRAM_MOST_BYTES: u64 = 1024;

/// Where a routine's process has them, in its own folder (spec/rpc P80).
fn folder_of(call: CallId) -> String {
    format!("{call}.checkpoint")
}

impl Checkpoints {
    pub fn open(root: PathBuf) -> io::Result<Checkpoints> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&root)?;
        Ok(Checkpoints { root })
    }

    /// Of a process of this program that has ended, or never began: what it was given comes back too.
    pub fn take(&self, call: CallId, job: &Path, given: u64, program: &str) -> io::Result<Left> {
        let (root, job) = (Dir::open(&self.root)?, Dir::open(job)?);
        let name = call.to_string();
        match job.stat(folder_of(call)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Left::default()),
            told => told?,
        };
        root.remove_all(&name)?;
        job.rename(folder_of(call), &root, &name)?;
        seen(&root.open_dir(&name)?, given, program)
    }

    /// As [`Checkpoints::take`], of a process that may be writing there: what it has stays its own.
    pub fn copy(&self, call: CallId, job: &Path, given: u64, program: &str) -> io::Result<Left> {
        let (root, job) = (Dir::open(&self.root)?, Dir::open(job)?);
        let name = call.to_string();
        let from = match job.open_dir(folder_of(call)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Left::default()),
            from => from?,
        };
        root.remove_all(&name)?;
        root.mkdir(&name, 0o700)?;
        let dir = root.open_dir(&name)?;
        for entry in from.list()? {
            let Some(name) = entry.name.to_str().and_then(Name::parse) else {
                continue;
            };
            let mut file = match from.open_file(&entry.name) {
                // It has made newer ones, and needs this one no longer.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            io::copy(&mut file, &mut dir.create_file(name.to_string(), 0o600)?)?;
        }
        seen(&dir, given, program)
    }

    /// To a process of this program. All of the checkpoint is read first; what is newer is removed.
    pub fn give(
        &self,
        call: CallId,
        number: u64,
        job: &Path,
        program: &str,
    ) -> Result<(), Unreadable> {
        let root = Dir::open(&self.root)?;
        let name = call.to_string();
        let dir = root.open_dir(&name)?;
        let mut made_by = String::new();
        dir.open_file(PROGRAM)?
            .take(PROGRAM_MOST_BYTES)
            .read_to_string(&mut made_by)?;
        if made_by != program {
            return Err(Unreadable::Program);
        }
        let kept = scan(&dir)?;
        let mut bad = Vec::new();
        let mut chains = kept.chains(number).into_iter();
        let sound = chains.any(|chain| {
            let read = apply(&chain, |name| open(&dir, name), |_, _, _| Ok(()));
            read.map_err(|one| bad.push(one)).is_ok()
        });
        if !sound {
            bad.extend(kept.bad);
            bad.retain(|(name, _)| name.number <= number);
            return Err(Unreadable::Bad(bad));
        }
        for entry in dir.list()? {
            let newer = entry.name.to_str().and_then(Name::parse);
            if newer.is_some_and(|name| name.number > number) {
                dir.remove_all(&entry.name)?;
            }
        }
        Ok(root.rename(&name, &Dir::open(job)?, folder_of(call))?)
    }

    /// What a process that has answered has no use for.
    pub fn drop_of(&self, call: CallId, job: &Path) -> io::Result<()> {
        Dir::open(job)?.remove_all(folder_of(call))
    }

    pub fn erase(&self, call: &str) -> io::Result<()> {
        Dir::open(&self.root)?.remove_all(call)
    }

    /// Names of calls that have some.
    pub fn calls(&self) -> io::Result<Vec<String>> {
        let entries = Dir::open(&self.root)?.list()?.into_iter();
        let names = entries.map(|entry| entry.name.into_string());
        Ok(names.filter_map(Result::ok).collect())
    }
}

/// What there is, and whose.
fn seen(dir: &Dir, given: u64, program: &str) -> io::Result<Left> {
    dir.remove_all(PROGRAM)?;
    dir.create_file(PROGRAM, 0o600)?
        .write_all(program.as_bytes())?;
    let mut made = scan(dir)?.numbers();
    made.retain(|number| *number > given);
    made.truncate(GENERATIONS);
    made.reverse();
    let mut points = [0; 8];
    let counted = dir
        .open_file("points")
        .and_then(|mut file| file.read_exact(&mut points));
    Ok(Left {
        made,
        points: counted.map_or(0, |()| u64::from_le_bytes(points)),
    })
}

fn scan(dir: &Dir) -> io::Result<Kept> {
    let entries = dir.list()?;
    let names = entries
        .iter()
        .filter_map(|one| Name::parse(one.name.to_str()?));
    Ok(Kept::scan(names, |name| open(dir, name)))
}

fn open(dir: &Dir, name: Name) -> io::Result<impl Read + use<>> {
    let file = dir.open_file(name.to_string())?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use kumiko_checkpoint::{Block, Head, State, sum};

    const CALL: CallId = CallId {
        client: 7,
        sequence: 3,
    };

    struct Site {
        _folder: tempfile::TempDir,
        checkpoints: Checkpoints,
        job: PathBuf,
    }

    fn site() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job");
        std::fs::create_dir(&job).unwrap();
        Site {
            checkpoints: Checkpoints::open(folder.path().join("checkpoints")).unwrap(),
            _folder: folder,
            job,
        }
    }

    impl Site {
        fn made(&self, name: &str, base: Option<u64>) {
            let dir = self.job.join("7-3.checkpoint");
            std::fs::create_dir_all(&dir).unwrap();
            let (state, data) = ("x".to_owned(), [1; 8]);
            let block = Block {
                state: 0,
                offset: 0,
                bytes: 8,
                sum: sum(&data),
            };
            let head = Head {
                number: Name::parse(name).unwrap().number,
                base,
                points: 0,
                states: vec![State {
                    name: state,
                    bytes: 8,
                }],
                blocks: vec![block],
            };
            std::fs::write(dir.join(name), [&head.to_bytes()[..], &data].concat()).unwrap();
            std::fs::write(dir.join("points"), 41u64.to_le_bytes()).unwrap();
        }
    }

    #[test]
    fn what_an_attempt_made_is_taken_and_given_to_the_next() {
        let site = site();
        let nothing = site.checkpoints.take(CALL, &site.job, 0, "a").unwrap();
        assert_eq!((nothing.made.len(), nothing.points), (0, 0));
        site.made("1.whole", None);
        site.made("2.part", Some(1));
        site.made("3.part", Some(2));
        let left = site.checkpoints.take(CALL, &site.job, 0, "a").unwrap();
        assert_eq!((left.made, left.points), (vec![2, 3], 41));
        assert_eq!(site.checkpoints.calls().unwrap(), ["7-3"]);
        let error = site.checkpoints.give(CALL, 3, &site.job, "b").unwrap_err();
        assert!(matches!(error, Unreadable::Program), "{error}");
        site.checkpoints.give(CALL, 3, &site.job, "a").unwrap();
        // It made none of its own.
        let left = site.checkpoints.take(CALL, &site.job, 3, "a").unwrap();
        assert_eq!(left.made, [0; 0]);
        site.checkpoints.erase("7-3").unwrap();
        assert_eq!(site.checkpoints.calls().unwrap(), [""; 0]);
    }

    #[test]
    fn one_that_is_torn_is_not_given_and_the_one_before_is() {
        let site = site();
        site.made("1.whole", None);
        site.made("2.part", Some(1));
        site.checkpoints.take(CALL, &site.job, 0, "a").unwrap();
        let torn = site.checkpoints.root.join("7-3/2.part");
        let bytes = std::fs::read(&torn).unwrap();
        std::fs::write(&torn, &bytes[..bytes.len() - 1]).unwrap();
        let error = site.checkpoints.give(CALL, 2, &site.job, "a").unwrap_err();
        assert_eq!(error.to_string(), "2.part: it breaks off");
        site.checkpoints.give(CALL, 1, &site.job, "a").unwrap();
        assert!(!site.job.join("7-3.checkpoint/2.part").exists());
        let error = site.checkpoints.give(CALL, 1, &site.job, "a").unwrap_err();
        assert!(matches!(error, Unreadable::Io(_)), "{error}");
    }

    #[test]
    fn a_link_in_the_place_of_checkpoints_leads_nowhere() {
        let site = site();
        let other = site.job.join("other");
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, site.job.join("7-3.checkpoint")).unwrap();
        assert!(site.checkpoints.take(CALL, &site.job, 0, "a").is_err());
        assert!(site.checkpoints.give(CALL, 1, &site.job, "a").is_err());
        assert!(other.exists());
    }
}
