//! Dumps of a call's process between attempts (spec/rpc P85 to P88): taken from the folder of one that ended, with what it had in its
//! own, or copied from that of one which may live still, and given to the next one. Not here: what they are (kumiko-runner), when an attempt
//! follows (`calls`).

use crate::checkpoints::{PROGRAM, Unreadable, calls_in, made_by};
use crate::copied::copied;
use kumiko_call::id::{AttemptId, CallId};
use kumiko_linux::Dir;
use kumiko_linux::dir::Kind;
use std::fs::DirBuilder;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// In a worker's folder, and in a call's: what its runner writes.
pub const DUMPS: &str = "dumps";
/// What the process has of files.
pub const JOB: &str = "job";
/// The attempt that the process was told (P61), and that it answers (P62): that in which it began.
const TOLD: &str = "told";
/// Longer than any attempt's name.
const TOLD_MOST_BYTES: u64 = 64;
/// As many as a call knows (P11).
const GENERATIONS: usize = 2;

/// A folder for each call whose attempt ended with some.
#[derive(Debug)]
pub struct Dumps {
    root: PathBuf,
}

impl Dumps {
    pub fn open(root: PathBuf) -> io::Result<Dumps> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&root)?;
        Ok(Dumps { root })
    }

    /// Of a process of this program that has ended, in this folder of its worker's. The numbers of the newest that were made behind the given one, upwards.
    pub fn take(
        &self,
        told: AttemptId,
        worker: &Path,
        given: u64,
        program: &str,
    ) -> io::Result<Vec<u64>> {
        // By the dumps the rest is found again, should this be interrupted.
        self.bring(told, worker, given, program, |worker, call| {
            moved(worker, call, JOB)?;
            moved(worker, call, DUMPS)
        })
    }

    /// Of one that may live still, and goes on in its folder if it does: what it writes there from now on is not the next one's.
    pub fn copy(
        &self,
        told: AttemptId,
        worker: &Path,
        given: u64,
        program: &str,
    ) -> io::Result<Vec<u64>> {
        // Files have to be as long as they were when the dump was made: so first the dumps.
        self.bring(told, worker, given, program, |worker, call| {
            for name in [DUMPS, JOB] {
                call.remove_all(name)?;
            }
            let made = copied_dumps(worker, call).and_then(|()| copied(worker, call, JOB));
            if made.is_err() {
                let _ = call.remove_all(DUMPS); // it would do with the call
                let _ = call.remove_all(JOB);
            }
            made
        })
    }

    fn bring(
        &self,
        told: AttemptId,
        worker: &Path,
        given: u64,
        program: &str,
        bring: impl FnOnce(&Dir, &Dir) -> io::Result<()>,
    ) -> io::Result<Vec<u64>> {
        let worker = Dir::open(worker)?;
        let is_empty = match worker.open_dir(DUMPS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            dumps => numbers(&dumps?)?.is_empty(),
        };
        if is_empty {
            return Ok(Vec::new());
        }
        let (root, name) = (Dir::open(&self.root)?, told.call.to_string());
        match root.mkdir(&name, 0o700) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let call = root.open_dir(&name)?;
        for (name, text) in [(PROGRAM, program), (TOLD, &told.to_string())] {
            call.remove_all(name)?;
            call.create_file(name, 0o600)?.write_all(text.as_bytes())?;
        }
        bring(&worker, &call)?;
        call.sync()?;
        let mut numbers = numbers(&call.open_dir(DUMPS)?)?;
        numbers.retain(|number| *number > given);
        Ok(numbers.split_off(numbers.len().saturating_sub(GENERATIONS)))
    }

    /// To a process of this program, in the folder of its worker. What is newer than `number` is removed. Tells the attempt that it
    /// answers.
    pub fn give(
        &self,
        call: CallId,
        number: u64,
        worker: &Path,
        program: &str,
    ) -> Result<AttemptId, Unreadable> {
        let root = Dir::open(&self.root)?;
        let dir = root.open_dir(call.to_string())?;
        if made_by(&dir)? != program {
            return Err(Unreadable::Program);
        }
        let told = told(&dir, call)?;
        let dumps = dir.open_dir(DUMPS)?;
        let numbers = numbers(&dumps)?;
        if !numbers.contains(&number) {
            return Err(io::Error::from(io::ErrorKind::NotFound).into());
        }
        for newer in numbers.iter().filter(|one| **one > number) {
            dumps.remove_all(newer.to_string())?;
        }
        let worker = Dir::open(worker)?;
        let mut file = worker.create_file(TOLD, 0o600)?;
        file.write_all(told.to_string().as_bytes())?;
        // By these the rest is found again, should this be interrupted.
        moved(&dir, &worker, DUMPS)?;
        moved(&dir, &worker, JOB)?;
        root.remove_all(call.to_string())?;
        Ok(told)
    }

    pub fn erase(&self, call: &str) -> io::Result<()> {
        Dir::open(&self.root)?.remove_all(call)
    }

    /// Names of calls that have some.
    pub fn calls(&self) -> io::Result<Vec<String>> {
        calls_in(&self.root)
    }
}

/// Of a process that has answered, nobody goes on from what is in its worker's folder.
pub fn answered(worker: &Path) -> io::Result<()> {
    let dumps = Dir::open(worker)?.open_dir(DUMPS)?;
    let old = numbers(&dumps)?;
    old.iter()
        .try_for_each(|number| dumps.remove_all(number.to_string()))
}

/// Which attempt of the call a process in this worker's folder answers, if it is not the one that it is.
pub fn told_in(worker: &Path, call: CallId) -> Option<AttemptId> {
    told(&Dir::open(worker).ok()?, call).ok()
}

fn told(dir: &Dir, call: CallId) -> io::Result<AttemptId> {
    let mut text = String::new();
    let file = dir.open_file(TOLD)?;
    file.take(TOLD_MOST_BYTES).read_to_string(&mut text)?;
    let epoch = text.strip_prefix(&format!("{call}."));
    let epoch = epoch.and_then(|epoch| epoch.parse().ok());
    let epoch = epoch.ok_or(io::ErrorKind::InvalidData)?;
    Ok(AttemptId { call, epoch })
}

/// Numbers of whole dumps, upwards.
fn numbers(dumps: &Dir) -> io::Result<Vec<u64>> {
    let entries = dumps.list()?.into_iter();
    let numbers = entries.filter_map(|entry| entry.name.to_str()?.parse().ok());
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Whole dumps, of which no file is written to any more: their files get another name. What was printed until the newest is written to still.
fn copied_dumps(worker: &Dir, call: &Dir) -> io::Result<()> {
    let from = worker.open_dir(DUMPS)?;
    call.mkdir(DUMPS, 0o700)?;
    let to = call.open_dir(DUMPS)?;
    for number in numbers(&from)? {
        let name = number.to_string();
        match named_also(&from, &to, &name) {
            // Another took its place.
            Err(error) if error.kind() == io::ErrorKind::NotFound => to.remove_all(&name)?,
            named => named?,
        }
    }
    for entry in from.list()? {
        if let (Kind::File, Some(name)) = (entry.kind, entry.name.to_str()) {
            copied(&from, &to, name)?;
        }
    }
    to.sync()
}

fn named_also(from: &Dir, to: &Dir, name: &str) -> io::Result<()> {
    let dump = from.open_dir(name)?;
    to.mkdir(name, 0o700)?;
    let also = to.open_dir(name)?;
    for entry in dump.list()? {
        dump.link(&entry.name, &also, &entry.name)?;
    }
    also.sync()
}

/// To take the place of what is there; what is not in `from` was moved before.
fn moved(from: &Dir, to: &Dir, name: &str) -> io::Result<()> {
    if let Err(error) = from.stat(name) {
        return match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        };
    }
    to.remove_all(name)?;
    from.rename(name, to, name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const TOLD_FIRST: AttemptId = AttemptId {
        call: CallId {
            client: 7,
            sequence: 3,
        },
        epoch: 1,
    };

    fn worker(place: &Path, name: &str) -> PathBuf {
        let worker = place.join(name);
        std::fs::create_dir(&worker).unwrap();
        worker
    }

    fn made(worker: &Path, numbers: &[u64]) {
        for number in numbers {
            let dump = worker.join(format!("dumps/{number}"));
            std::fs::create_dir_all(dump).unwrap();
        }
    }

    #[test]
    fn what_an_attempt_made_is_taken_with_its_files_and_given_to_the_next() {
        let place = tempfile::tempdir().unwrap();
        let dumps = Dumps::open(place.path().join("root")).unwrap();
        let call = TOLD_FIRST.call;
        let first = worker(place.path(), "1");
        assert!(dumps.take(TOLD_FIRST, &first, 0, "a").unwrap().is_empty());
        made(&first, &[2, 3, 4]);
        std::fs::create_dir(first.join("dumps/new")).unwrap();
        std::fs::create_dir(first.join("job")).unwrap();
        std::fs::write(first.join("job/7-3.1"), "half").unwrap();
        assert_eq!(told_in(&first, call), None);
        assert_eq!(dumps.take(TOLD_FIRST, &first, 0, "a").unwrap(), [3, 4]);
        assert_eq!(dumps.calls().unwrap(), ["7-3"]);

        let second = worker(place.path(), "2");
        let error = dumps.give(call, 4, &second, "b").unwrap_err();
        assert!(matches!(error, Unreadable::Program), "{error}");
        dumps.give(call, 5, &second, "a").unwrap_err();
        let told = dumps.give(call, 3, &second, "a").unwrap();
        assert_eq!((told, told_in(&second, call)), (TOLD_FIRST, Some(told)));
        let other = CallId {
            sequence: 4,
            ..call
        };
        assert_eq!(told_in(&second, other), None);
        assert!(!second.join("dumps/4").exists() && second.join("dumps/3").exists());
        assert_eq!(
            std::fs::read_to_string(second.join("job/7-3.1")).unwrap(),
            "half"
        );
        // Nothing new was made: what was given is there again.
        assert!(dumps.take(told, &second, 3, "a").unwrap().is_empty());
        let third = worker(place.path(), "3");
        assert_eq!(dumps.give(call, 3, &third, "a").unwrap(), TOLD_FIRST);
        made(&third, &[4]);
        assert_eq!(dumps.take(told, &third, 3, "a").unwrap(), [4]);
        dumps.erase("7-3").unwrap();
        assert!(dumps.calls().unwrap().is_empty());
    }

    #[test]
    fn of_one_that_may_live_still_all_is_copied_and_goes_its_own_way() {
        let place = tempfile::tempdir().unwrap();
        let dumps = Dumps::open(place.path().join("root")).unwrap();
        let call = TOLD_FIRST.call;
        let first = worker(place.path(), "1");
        assert!(dumps.copy(TOLD_FIRST, &first, 0, "a").unwrap().is_empty());
        made(&first, &[3, 4]);
        std::fs::create_dir(first.join("dumps/new")).unwrap();
        std::fs::create_dir(first.join("job")).unwrap();
        for (name, text) in [
            ("dumps/4/core.lz4", "image"),
            ("dumps/stdout", "so"),
            ("job/y", "half"),
        ] {
            std::fs::write(first.join(name), text).unwrap();
        }
        assert_eq!(dumps.copy(TOLD_FIRST, &first, 0, "a").unwrap(), [3, 4]);
        // It goes on.
        for (name, text) in [("dumps/stdout", "sofar"), ("job/y", "HALF more")] {
            std::fs::write(first.join(name), text).unwrap();
        }
        std::fs::remove_dir_all(first.join("dumps/4")).unwrap();
        let second = worker(place.path(), "2");
        assert_eq!(dumps.give(call, 4, &second, "a").unwrap(), TOLD_FIRST);
        let read = |name: &str| std::fs::read_to_string(second.join(name)).unwrap();
        let texts = ["dumps/4/core.lz4", "dumps/stdout", "job/y"].map(read);
        assert_eq!(texts, ["image", "so", "half"]);
        assert!(!second.join("dumps/new").exists());
        // Nothing new was made, and what was given is there again.
        assert!(dumps.copy(TOLD_FIRST, &second, 4, "a").unwrap().is_empty());
        let third = worker(place.path(), "3");
        assert_eq!(dumps.give(call, 4, &third, "a").unwrap(), TOLD_FIRST);
    }

    #[test]
    fn a_giving_that_was_interrupted_is_taken_back_whole() {
        let place = tempfile::tempdir().unwrap();
        let dumps = Dumps::open(place.path().join("root")).unwrap();
        let call = TOLD_FIRST.call;
        let first = worker(place.path(), "1");
        made(&first, &[1]);
        std::fs::create_dir(first.join("job")).unwrap();
        dumps.take(TOLD_FIRST, &first, 0, "a").unwrap();
        // The dumps had moved, and the files had not.
        let second = worker(place.path(), "2");
        let of_call = place.path().join("root/7-3");
        std::fs::rename(of_call.join("dumps"), second.join("dumps")).unwrap();
        assert!(dumps.take(TOLD_FIRST, &second, 1, "a").unwrap().is_empty());
        let third = worker(place.path(), "3");
        dumps.give(call, 1, &third, "a").unwrap();
        assert!(third.join("job").exists() && third.join("dumps/1").exists());
    }
}
