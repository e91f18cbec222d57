//! Checkpoints of calls between attempts (spec/rpc P80 to P84): taken from the folder of a process that ended, looked at, and given
//! to the next one. A guest wrote them. A file that has its name is whole (spec/checkpoint K2) and is not written to any more: it gets
//! another name for it in the site's folder, which needs no room and leaves those that are there where they are. Not here: what they are (kumiko-checkpoint), when an attempt follows (`calls`).

use kumiko_call::id::CallId;
use kumiko_checkpoint::{
    BadCheckpoint, Kept, LEAVE, MOST_FILES, MOST_STATES, Name, apply, is_file_name,
};
use kumiko_linux::Dir;
use kumiko_linux::dir::Kind;
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
pub const PROGRAM: &str = "program";
/// How many safe points were passed (spec/checkpoint K1).
const POINTS: &str = "points";
/// No checkpoint's name: what takes the place of another file.
const NEW: &str = "new";
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

    /// Of a process of this program that has ended, or never began.
    pub fn take(&self, call: CallId, job: &Path, given: u64, program: &str) -> io::Result<Left> {
        let left = self.keep(call, job, given, program)?;
        Dir::open(job)?.remove_all(folder_of(call))?;
        Ok(left)
    }

    /// Of one that may be writing there: what it has stays its own. Those that were here before stay until the new ones are.
    pub fn keep(&self, call: CallId, job: &Path, given: u64, program: &str) -> io::Result<Left> {
        let from = match Dir::open(job)?.open_dir(folder_of(call)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Left::default()),
            from => from?,
        };
        let dir = self.of_program(call, program)?;
        // Before the checkpoints that say how long they are: what is longer is of use to older ones too.
        for name in files(&from)? {
            name_also(&from, &dir, &name)?;
        }
        for name in newest(&from)? {
            name_also(&from, &dir, &name.to_string())?;
        }
        dir.sync()?;
        let kept = scan(&dir)?;
        for name in kept.may_go() {
            dir.remove_all(name.to_string())?;
        }
        let mut made = kept.numbers();
        made.retain(|number| *number > given);
        made.truncate(GENERATIONS);
        made.reverse();
        let points = points(&from);
        leave_points(&dir, points);
        Ok(Left { made, points })
    }

    /// The call's folder here. A state of another program is nobody's any more.
    fn of_program(&self, call: CallId, program: &str) -> io::Result<Dir> {
        let (root, name) = (Dir::open(&self.root)?, call.to_string());
        if let Ok(dir) = root.open_dir(&name) {
            if made_by(&dir).is_ok_and(|made_by| made_by == program) {
                return Ok(dir);
            }
        }
        root.remove_all(&name)?;
        root.mkdir(&name, 0o700)?;
        let dir = root.open_dir(&name)?;
        dir.create_file(PROGRAM, 0o600)?
            .write_all(program.as_bytes())?;
        Ok(dir)
    }

    /// To a process of this program. All of the checkpoint is read first; what is newer is removed. It stays here, for the process may be
    /// lost with all that it has.
    pub fn give(
        &self,
        call: CallId,
        number: u64,
        job: &Path,
        program: &str,
    ) -> Result<(), Unreadable> {
        let dir = Dir::open(&self.root)?.open_dir(call.to_string())?;
        if made_by(&dir)? != program {
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
        let job = Dir::open(job)?;
        job.remove_all(folder_of(call))?;
        job.mkdir(folder_of(call), 0o700)?;
        let to = job.open_dir(folder_of(call))?;
        let checkpoints = newest(&dir)?.into_iter().map(|name| name.to_string());
        for name in files(&dir)?.into_iter().chain(checkpoints) {
            dir.link(&name, &to, &name)?;
        }
        leave_points(&to, points(&dir));
        Ok(())
    }

    /// Has a process that computes the call make one before it ends (spec/checkpoint, K38).
    pub fn ask(&self, call: CallId, job: &Path) -> io::Result<()> {
        let folder = Dir::open(job)?.open_dir(folder_of(call))?;
        let asked = folder.create_file(LEAVE.to_string_lossy().as_ref(), 0o600);
        match asked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            asked => asked.map(|_| ()),
        }
    }

    /// Of a call that was answered.
    pub fn drop_of(&self, call: CallId, job: &Path) -> io::Result<()> {
        Dir::open(job)?.remove_all(folder_of(call))?;
        self.erase(&call.to_string())
    }

    pub fn erase(&self, call: &str) -> io::Result<()> {
        Dir::open(&self.root)?.remove_all(call)
    }

    /// Names of calls that have some.
    pub fn calls(&self) -> io::Result<Vec<String>> {
        calls_in(&self.root)
    }
}

/// Of a folder with one for each call, their names.
pub fn calls_in(root: &Path) -> io::Result<Vec<String>> {
    let entries = Dir::open(root)?.list()?.into_iter();
    let names = entries.map(|entry| entry.name.into_string());
    Ok(names.filter_map(Result::ok).collect())
}

pub fn made_by(dir: &Dir) -> io::Result<String> {
    let mut made_by = String::new();
    let file = dir.open_file(PROGRAM)?;
    file.take(PROGRAM_MOST_BYTES).read_to_string(&mut made_by)?;
    Ok(made_by)
}

fn points(dir: &Dir) -> u64 {
    let mut points = [0; 8];
    let counted = dir
        .open_file(POINTS)
        .and_then(|mut file| file.read_exact(&mut points));
    counted.map_or(0, |()| u64::from_le_bytes(points))
}

/// On a full disk they are not known: then a crash is told with those of the attempt alone.
fn leave_points(dir: &Dir, points: u64) {
    let left = dir.remove_all(POINTS).and_then(|()| {
        let mut file = dir.create_file(POINTS, 0o600)?;
        file.write_all(&points.to_le_bytes())
    });
    if let Err(error) = left {
        tracing::warn!(%error, "how many safe points a call passed is not kept");
    }
}

/// Files of checkpoints, of the newest as many as are looked at; upwards, so that what one builds on is there before it.
fn newest(dir: &Dir) -> io::Result<Vec<Name>> {
    let entries = dir.list()?;
    let files = entries.iter().filter(|one| one.kind == Kind::File);
    let mut names: Vec<Name> = files
        .filter_map(|one| Name::parse(one.name.to_str()?))
        .collect();
    names.sort_unstable();
    Ok(names.split_off(names.len().saturating_sub(MOST_FILES)))
}

/// Files of the program's own, which its checkpoints say how long they are of (spec/checkpoint, K37).
fn files(dir: &Dir) -> io::Result<Vec<String>> {
    let entries = dir.list()?.into_iter();
    let files = entries.filter(|one| one.kind == Kind::File);
    let names = files.filter_map(|one| one.name.into_string().ok());
    Ok(names
        .filter(|name| is_file_name(name))
        .take(MOST_STATES)
        .collect())
}

/// A file of the process's gets its name here too, in the place of another of that name.
fn name_also(from: &Dir, dir: &Dir, name: &str) -> io::Result<()> {
    let linked = match from.link(name, dir, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => replaced(from, dir, name),
        linked => linked,
    };
    match linked {
        // The process has made newer ones, and needs this one no longer.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        linked => linked,
    }
}

fn replaced(from: &Dir, dir: &Dir, name: &str) -> io::Result<()> {
    if from.stat(name)?.inode == dir.stat(name)?.inode {
        return Ok(());
    }
    dir.remove_all(NEW)?;
    from.link(name, dir, NEW)?;
    dir.rename(NEW, dir, name)
}

fn scan(dir: &Dir) -> io::Result<Kept> {
    Ok(Kept::scan(newest(dir)?, |name| open(dir, name)))
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
    use std::process::{Command, Stdio};

    const CALL: CallId = CallId {
        client: 7,
        sequence: 3,
    };

    struct Site {
        place: PathBuf,
        checkpoints: Checkpoints,
        job: PathBuf,
    }

    fn site() -> (tempfile::TempDir, Site) {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::at(folder.path());
        (folder, site)
    }

    impl Site {
        fn at(place: &Path) -> Site {
            let site = Site {
                checkpoints: Checkpoints::open(place.join("checkpoints")).unwrap(),
                place: place.to_owned(),
                job: place.join("job"),
            };
            std::fs::create_dir(&site.job).unwrap();
            site
        }

        /// Another process's folder from here on.
        fn next_job(&mut self, name: &str) {
            self.job = self.place.join(name);
            std::fs::create_dir(&self.job).unwrap();
        }

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
        let (_folder, site) = site();
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
    fn a_file_of_the_programs_goes_along_and_is_not_written_to_by_the_next_process() {
        let (_folder, mut site) = site();
        site.made("1.whole", None);
        let made = site.job.join("7-3.checkpoint");
        std::fs::write(made.join("trace.file"), "one\n").unwrap();
        std::fs::write(made.join("other"), "nobody's").unwrap();
        site.checkpoints.keep(CALL, &site.job, 0, "a").unwrap();
        site.next_job("second");
        site.checkpoints.give(CALL, 1, &site.job, "a").unwrap();
        let given = site.job.join("7-3.checkpoint");
        let text = |folder: &Path| std::fs::read_to_string(folder.join("trace.file")).unwrap();
        assert_eq!(text(&given), "one\n");
        assert!(!given.join("other").exists());
        // It has one of its own now; the one that was given is as it was.
        std::fs::write(given.join("new"), "one\ntwo\n").unwrap();
        std::fs::rename(given.join("new"), given.join("trace.file")).unwrap();
        assert_eq!(text(&made), "one\n");
        site.made("2.part", Some(1));
        site.checkpoints.take(CALL, &site.job, 1, "a").unwrap();
        site.next_job("third");
        site.checkpoints.give(CALL, 2, &site.job, "a").unwrap();
        assert_eq!(text(&site.job.join("7-3.checkpoint")), "one\ntwo\n");
    }

    #[test]
    fn one_that_is_torn_is_not_given_and_the_one_before_is() {
        let (_folder, site) = site();
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
        let error = site.checkpoints.give(CALL, 2, &site.job, "a").unwrap_err();
        assert_eq!(error.to_string(), "its files are not there");
    }

    #[test]
    fn a_link_in_the_place_of_checkpoints_leads_nowhere() {
        let (_folder, site) = site();
        let other = site.job.join("other");
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, site.job.join("7-3.checkpoint")).unwrap();
        assert!(site.checkpoints.take(CALL, &site.job, 0, "a").is_err());
        assert!(site.checkpoints.give(CALL, 1, &site.job, "a").is_err());
        assert!(other.exists());
    }

    #[test]
    fn what_was_given_is_there_still_when_its_process_is_lost_with_all_that_it_has() {
        let (_folder, mut site) = site();
        site.made("1.whole", None);
        site.made("2.part", Some(1));
        site.checkpoints.take(CALL, &site.job, 0, "a").unwrap();
        site.checkpoints.give(CALL, 2, &site.job, "a").unwrap();
        std::fs::remove_dir_all(&site.job).unwrap();
        site.next_job("second");
        let left = site.checkpoints.keep(CALL, &site.job, 2, "a").unwrap();
        assert_eq!(left.made, [0; 0]);
        site.checkpoints.give(CALL, 2, &site.job, "a").unwrap();
        assert!(site.job.join("7-3.checkpoint/2.part").exists());
        // A state of another program takes nobody's place.
        site.made("3.part", Some(2));
        let left = site.checkpoints.keep(CALL, &site.job, 2, "a").unwrap();
        assert_eq!(left.made, [3]);
        site.checkpoints.drop_of(CALL, &site.job).unwrap();
        assert_eq!(site.checkpoints.calls().unwrap(), [""; 0]);
    }

    #[test]
    fn one_of_the_same_number_takes_the_place_of_another_attempts() {
        let (_folder, mut site) = site();
        site.made("1.whole", None);
        site.made("2.whole", None);
        site.checkpoints.take(CALL, &site.job, 0, "a").unwrap();
        let torn = site.checkpoints.root.join("7-3/2.whole");
        std::fs::write(&torn, "").unwrap();
        site.next_job("second");
        site.checkpoints.give(CALL, 1, &site.job, "a").unwrap();
        site.made("2.part", Some(1));
        std::fs::write(&torn, "").unwrap();
        site.made("2.whole", None);
        let left = site.checkpoints.keep(CALL, &site.job, 1, "a").unwrap();
        assert_eq!(left.made, [2]);
        site.checkpoints.give(CALL, 2, &site.job, "a").unwrap();
        assert!(site.job.join("7-3.checkpoint/2.whole").exists());
    }

    /// A file system of its own; unmounted when dropped.
    struct SmallDisk(tempfile::TempDir);

    impl SmallDisk {
        fn mount(options: &str) -> Option<SmallDisk> {
            let place = tempfile::tempdir().unwrap();
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]);
            let mounted = mount.arg(place.path()).stderr(Stdio::null()).status();
            let well = mounted.is_ok_and(|status| status.success());
            well.then_some(SmallDisk(place))
        }
    }

    impl Drop for SmallDisk {
        fn drop(&mut self) {
            let mut umount = Command::new("umount");
            let _ = umount.arg("-l").arg(self.0.path()).status();
        }
    }

    /// Fills what is left, by `one` more after the other.
    fn fill(mut one: impl FnMut(u32) -> io::Result<()>) {
        let full = (0..100_000).find_map(|number| one(number).err());
        assert_eq!(full.unwrap().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn checkpoints_of_a_process_that_is_lost_need_no_room_on_a_full_disk() {
        let test = "checkpoints_of_a_process_that_is_lost_need_no_room_on_a_full_disk";
        let Some(disk) = SmallDisk::mount("size=256k") else {
            return kumiko_testkit::skip(test, "the right to mount a small tmpfs (root)");
        };
        let mut site = Site::at(disk.0.path());
        site.made("1.whole", None);
        site.checkpoints.take(CALL, &site.job, 0, "a").unwrap();
        site.checkpoints.give(CALL, 1, &site.job, "a").unwrap();
        site.made("2.part", Some(1));
        let filling = site.place.join("filling");
        let mut file = std::fs::File::create(&filling).unwrap();
        fill(|_| file.write_all(&[3; 4096]));
        let left = site.checkpoints.keep(CALL, &site.job, 1, "a").unwrap();
        assert_eq!(left.made, [2]);
        site.next_job("second");
        site.checkpoints.give(CALL, 2, &site.job, "a").unwrap();
        assert!(site.job.join("7-3.checkpoint/2.part").exists());
    }

    #[test]
    fn a_new_checkpoint_that_finds_no_room_leaves_the_earlier_ones_to_begin_at() {
        let test = "a_new_checkpoint_that_finds_no_room_leaves_the_earlier_ones_to_begin_at";
        // A name is an inode's worth there (tmpfs(5)).
        let Some(disk) = SmallDisk::mount("size=1m,nr_inodes=64") else {
            return kumiko_testkit::skip(test, "the right to mount a small tmpfs (root)");
        };
        let mut site = Site::at(disk.0.path());
        site.made("1.whole", None);
        site.made("2.part", Some(1));
        site.checkpoints.take(CALL, &site.job, 0, "a").unwrap();
        site.checkpoints.give(CALL, 2, &site.job, "a").unwrap();
        site.made("3.whole", None);
        site.made("4.whole", None);
        let filling = site.place.join("filling");
        std::fs::create_dir(&filling).unwrap();
        fill(|number| std::fs::File::create(filling.join(number.to_string())).map(drop));
        // There is room for one of the two.
        std::fs::remove_file(filling.join("0")).unwrap();
        let full = site.checkpoints.keep(CALL, &site.job, 2, "a").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        std::fs::remove_dir_all(&filling).unwrap();
        std::fs::remove_dir_all(&site.job).unwrap();
        site.next_job("second");
        site.checkpoints.give(CALL, 2, &site.job, "a").unwrap();
        assert!(site.job.join("7-3.checkpoint/1.whole").exists());
    }
}
