//! The folder of an attempt's dumps (spec/checkpoint, K54, K55): what is whole there, what is put into it, what goes. Blocks.
//! Not here: when, and CRIU.

use kumiko_checkpoint::sum_of;
use kumiko_linux::Dir;
use kumiko_linux::dir::Kind;
use kumiko_sandbox::{Open, Still};
use lz4_flex::frame::{FrameDecoder, FrameEncoder};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A dump that is being written.
const NEW: &str = "new";
/// The images of one, as CRIU reads them.
const PLAIN: &str = "plain";
const PACKED: &str = "lz4";
const MANIFEST: &str = "dump.json";
/// What CRIU says of its way, beside the images.
const LOG: &str = "log";
/// Read of a log that tells why nothing came of it.
const LOG_MOST_BYTES: u64 = 1 << 20;
/// A dump of tens of thousands of processes has about as many images.
const MANIFEST_MOST_BYTES: u64 = 16 << 20;
/// Dumps that are kept: the newest, and the one before, should that be torn.
const KEPT: usize = 2;
/// Of a mapped file what it held, with its place among the files of `still`.
const MAPPED: &str = "mapped-";
/// They are copied while the guest stands still.
const MAPPED_MOST_BYTES: u64 = 1 << 30;
/// What a routine asks its caller, which it waits for an answer to.
const QUESTION: &str = "question";
/// What was printed until a dump lies here, under the names of the streams.
pub const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// What belongs to a dump besides its images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub still: Still,
    /// The highest number that a process or thread of it has.
    pub last: i32,
    /// Numbers (st_ino) that the pipes of stdout and stderr had.
    pub pipes: [u64; 2],
    /// And that of stdin, if somebody speaks to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<u64>,
    /// How much was printed to each.
    pub printed: [u64; 2],
    /// Empty until they are written.
    pub images: Vec<Image>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// CRIU's, in bytes; what lies here is packed (LZ4 frame), and has that ending.
    name: String,
    bytes: u64,
    /// CRC-32 of the file that lies here.
    sum: u32,
}

#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    folder: Dir,
}

impl Store {
    pub fn open(path: &Path) -> io::Result<Store> {
        use std::os::unix::fs::DirBuilderExt;
        let made = std::fs::DirBuilder::new().mode(0o700).create(path);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Ok(Store {
            path: path.to_owned(),
            folder: Dir::open(path)?,
        })
    }

    pub fn again(&self) -> io::Result<Store> {
        Store::open(&self.path)
    }

    /// Numbers of the dumps that are there, the newest first.
    pub fn numbers(&self) -> io::Result<Vec<u64>> {
        let all = self.folder.list()?;
        let directories = all.iter().filter(|entry| entry.kind == Kind::Directory);
        let numbers = directories.filter_map(|entry| entry.name.to_str()?.parse().ok());
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        Ok(numbers)
    }

    /// Where CRIU is to write.
    pub fn fresh(&self) -> io::Result<Dir> {
        self.folder.remove_all(NEW)?;
        self.folder.mkdir(NEW, 0o700)?;
        self.folder.open_dir(NEW)
    }

    /// Numbers of the processes and threads in what was written just now.
    pub fn written(&self) -> io::Result<Vec<i32>> {
        let all = self.folder.open_dir(NEW)?.list()?;
        let number = |name: &OsStr| {
            let number = name.to_str()?.strip_prefix("core-")?.strip_suffix(".img")?;
            number.parse().ok()
        };
        Ok(all.iter().filter_map(|entry| number(&entry.name)).collect())
    }

    pub fn abandon(&self) -> io::Result<()> {
        self.folder.remove_all(NEW)
    }

    /// What CRIU complained of.
    pub fn complaint(images: &Dir) -> String {
        let read = || -> io::Result<String> {
            let mut text = Vec::new();
            let log = images.open_file(LOG)?;
            log.take(LOG_MOST_BYTES).read_to_end(&mut text)?;
            let text = String::from_utf8_lossy(&text);
            // Always said without privileges, and of no consequence.
            let of_no_consequence = |line: &&str| !line.contains("RLIMIT_NOFILE");
            let mut errors = text.lines().filter(|line| line.contains("Error"));
            let error = errors.find(of_no_consequence);
            Ok(error.unwrap_or("it says nothing of why").to_owned())
        };
        read().unwrap_or_else(|error| format!("its log cannot be read: {error}"))
    }

    pub fn complaint_of_new(&self) -> String {
        match self.folder.open_dir(NEW) {
            Ok(images) => Store::complaint(&images),
            Err(error) => error.to_string(),
        }
    }

    /// Puts beside the images what files hold that are memory of the guest, which stands still.
    pub fn copy_mapped(&self, job_directory: &Path, still: &Still) -> io::Result<()> {
        let (from, new) = (Dir::open(job_directory)?, self.folder.open_dir(NEW)?);
        let bytes: u64 = mapped(still).map(|(_, open)| open.bytes).sum();
        if bytes > MAPPED_MOST_BYTES {
            let why = format!(
                "its mapped files have {bytes} bytes, and are copied up to {MAPPED_MOST_BYTES}"
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        for (name, open) in mapped(still) {
            let file = from.open_file(&open.path)?;
            let mut to = new.create_file(name, 0o600)?;
            io::copy(&mut file.take(open.bytes), &mut to)?;
        }
        Ok(())
    }

    /// Puts it beside the images.
    pub fn put_question(&self, question: &[u8]) -> io::Result<()> {
        let new = self.folder.open_dir(NEW)?;
        new.create_file(QUESTION, 0o600)?.write_all(question)
    }

    /// Makes a dump of what was written, that outlasts the host; older ones go. `printed`: the files of the streams, to read, if what
    /// was printed belongs to it.
    pub fn keep(&self, mut manifest: Manifest, printed: Option<[File; 2]>) -> io::Result<u64> {
        let printed = printed.into_iter().flatten();
        for ((name, mut from), length) in STREAMS.iter().zip(printed).zip(manifest.printed) {
            let mut to = self.folder.append_file(name, 0o600)?;
            let have = to.metadata()?.len().min(length);
            to.set_len(have)?;
            io::Seek::seek(&mut from, io::SeekFrom::Start(have))?;
            io::copy(&mut from.take(length - have), &mut to)?;
            to.sync_all()?;
        }
        let new = self.folder.open_dir(NEW)?;
        for entry in new.list()? {
            let name = entry.name.to_string_lossy().into_owned();
            if name == LOG {
                continue;
            }
            let mut plain = new.open_file(&name)?;
            let packed = packed(&name);
            let mut packs = FrameEncoder::new(new.create_file(&packed, 0o600)?);
            let bytes = io::copy(&mut plain, &mut packs)?;
            packs.finish().map_err(io::Error::other)?.sync_all()?;
            let (_, sum) = sum_of(&mut new.open_file(&packed)?)?;
            manifest.images.push(Image { name, bytes, sum });
        }
        for image in &manifest.images {
            new.remove_file(&image.name)?;
        }
        let mut file = new.create_file(MANIFEST, 0o600)?;
        file.write_all(&serde_json::to_vec(&manifest)?)?;
        file.sync_all()?;
        new.sync()?;
        let numbers = self.numbers()?;
        let number = numbers.first().map_or(1, |newest| newest + 1);
        self.folder.rename(NEW, &self.folder, number.to_string())?;
        self.folder.sync()?;
        for old in numbers.iter().skip(KEPT - 1) {
            self.discard(*old)?;
        }
        Ok(number)
    }

    pub fn discard(&self, number: u64) -> io::Result<()> {
        self.folder.remove_all(number.to_string())
    }

    /// Nobody will go on from any.
    pub fn clear(&self) {
        for entry in self.folder.list().unwrap_or_default() {
            // What stays goes with the job.
            let _ = self.folder.remove_all(&entry.name);
        }
    }

    /// A dump of which every byte is as it was written, and its images for CRIU, until [`Store::read_over`].
    pub fn read(&self, number: u64) -> io::Result<(Manifest, Dir)> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let images = self.folder.open_dir(number.to_string())?;
        let mut text = Vec::new();
        let file = images.open_file(MANIFEST)?;
        file.take(MANIFEST_MOST_BYTES).read_to_end(&mut text)?;
        let manifest: Manifest = serde_json::from_slice(&text)?;
        self.folder.remove_all(PLAIN)?;
        self.folder.mkdir(PLAIN, 0o700)?;
        let plain = self.folder.open_dir(PLAIN)?;
        for image in &manifest.images {
            let packed = packed(&image.name);
            let (_, sum) = sum_of(&mut images.open_file(&packed)?)?;
            if sum != image.sum {
                return Err(invalid(format!("{packed} is not as it was written")));
            }
            let unpacks = FrameDecoder::new(images.open_file(&packed)?);
            let mut to = plain.create_file(&image.name, 0o600)?;
            // Never more than it was, and one more would be seen.
            let bytes = io::copy(&mut unpacks.take(image.bytes.saturating_add(1)), &mut to)?;
            if bytes != image.bytes {
                return Err(invalid(format!("{packed} is not what was packed")));
            }
        }
        Ok((manifest, plain))
    }

    /// What was read is of no more use.
    pub fn read_over(&self) -> io::Result<()> {
        self.folder.remove_all(PLAIN)
    }

    /// What was printed until then, to read. What was printed later is forgotten: the guest goes on from here.
    pub fn printed(&self, manifest: &Manifest) -> io::Result<[File; 2]> {
        let [stdout, stderr] = STREAMS;
        for (name, length) in STREAMS.iter().zip(manifest.printed) {
            let file = self.folder.append_file(name, 0o600)?;
            if file.metadata()?.len() < length {
                let why = "of what it had printed, less is there";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            file.set_len(length)?;
        }
        let open = |name| self.folder.open_file(name);
        Ok([open(stdout)?, open(stderr)?])
    }
}

/// What lies beside these images, to read, and its length.
pub fn question(images: &Dir) -> io::Result<Option<(File, u64)>> {
    match images.open_file(QUESTION) {
        Ok(file) => {
            let bytes = file.metadata()?.len();
            Ok(Some((file, bytes)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn packed(name: &str) -> String {
    format!("{name}.{PACKED}")
}

/// Mapped files, under the names of their copies.
fn mapped(still: &Still) -> impl Iterator<Item = (String, &Open)> {
    let all = still.files.iter().enumerate();
    let mapped = all.filter(|(_, open)| open.mapped);
    mapped.map(|(at, open)| (format!("{MAPPED}{at}"), open))
}

/// Files that the guest wrote to have the length again that they had, and those that are its memory what they held, which lies beside
/// these images.
pub fn roll_back(job_directory: &Path, still: &Still, images: &Dir) -> io::Result<()> {
    let folder = Dir::open(job_directory)?;
    let named = |open: &Open, error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", open.path))
    };
    for (name, open) in mapped(still) {
        let of = |error| named(open, error);
        let mut held = images.open_file(name).map_err(of)?;
        if folder.stat(&open.path).map_err(of)?.kind != Kind::File {
            return Err(of(io::Error::other("it is no file any more")));
        }
        let mut file = folder.append_file(&open.path, 0o600).map_err(of)?;
        file.set_len(0).map_err(of)?;
        io::copy(&mut held, &mut file).map_err(of)?;
    }
    for open in &still.files {
        let of = |error| named(open, error);
        let now = folder.stat(&open.path).map_err(of)?;
        if now.kind != Kind::File || now.size_bytes < open.bytes {
            let why = format!("{} is shorter than it was", open.path);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        if now.size_bytes > open.bytes {
            let file = folder.append_file(&open.path, 0).map_err(of)?;
            file.set_len(open.bytes).map_err(of)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn manifest(printed: [u64; 2]) -> Manifest {
        Manifest {
            still: Still {
                number: 1000,
                processes: vec![1000],
                files: Vec::new(),
                obstacle: None,
            },
            last: 1000,
            pipes: [1, 2],
            stdin: None,
            printed,
            images: Vec::new(),
        }
    }

    /// Has a dump of these images, when so much was printed, in `dumps` of this folder.
    fn keep(folder: &Path, images: &[(&str, &[u8])], printed: [&str; 2]) -> u64 {
        let store = Store::open(&folder.join("dumps")).unwrap();
        let new = store.fresh().unwrap();
        for (name, bytes) in images {
            let mut file = new.create_file(name, 0o600).unwrap();
            file.write_all(bytes).unwrap();
        }
        let lengths = printed.map(|text| text.len() as u64);
        let files = STREAMS.map(|name| folder.join(name));
        for (file, text) in files.iter().zip(printed) {
            std::fs::write(file, text).unwrap();
        }
        let files = files.map(|file| File::open(file).unwrap());
        store.keep(manifest(lengths), Some(files)).unwrap()
    }

    #[test]
    fn the_two_newest_are_kept_with_all_that_was_printed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("dumps")).unwrap();
        assert_eq!(store.numbers().unwrap(), [0; 0]);
        for (number, printed) in [(1, "a"), (2, "ab"), (3, "abc")] {
            let kept = keep(folder.path(), &[("core-1000.img", b"core")], [printed, ""]);
            assert_eq!(kept, number);
        }
        assert_eq!(store.numbers().unwrap(), [3, 2]);
        let (manifest, images) = store.read(2).unwrap();
        let mut image = String::new();
        let mut core = images.open_file("core-1000.img").unwrap();
        core.read_to_string(&mut image).unwrap();
        assert_eq!((image.as_str(), images.list().unwrap().len()), ("core", 1));
        store.read_over().unwrap();
        assert_eq!(manifest.printed, [2, 0]);
        let [stdout, _] = store.printed(&manifest).unwrap();
        let mut text = String::new();
        (&stdout).take(2).read_to_string(&mut text).unwrap();
        assert_eq!(text, "ab");
        // Of one that was gone back from, another end may follow.
        let (manifest, _) = store.read(2).unwrap();
        store.discard(3).unwrap();
        store.printed(&manifest).unwrap();
        keep(folder.path(), &[], ["abX", "e"]);
        let text = std::fs::read_to_string(folder.path().join("dumps/stdout")).unwrap();
        assert_eq!(text, "abX");
        store.clear();
        assert_eq!(store.numbers().unwrap(), [0; 0]);
    }

    #[test]
    fn what_is_not_as_it_was_written_is_of_no_use() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("dumps")).unwrap();
        keep(
            folder.path(),
            &[("pages-1.img", b"pages"), (LOG, b"says")],
            ["out", "err"],
        );
        let dump = folder.path().join("dumps/1");
        store.read(1).unwrap();
        std::fs::write(dump.join(LOG), "may be another").unwrap();
        let (manifest, _) = store.read(1).unwrap();
        let refused = |name: &str, bytes: &[u8], why: &str| {
            let file = dump.join(name);
            let before = std::fs::read(&file).unwrap();
            std::fs::write(&file, bytes).unwrap();
            let error = store.read(1).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            std::fs::write(&file, before).unwrap();
        };
        let packed = std::fs::read(dump.join("pages-1.img.lz4")).unwrap();
        let torn = &packed[..packed.len() - 1];
        refused("pages-1.img.lz4", torn, "pages-1.img.lz4 is not as it was");
        refused("pages-1.img.lz4", b"", "pages-1.img.lz4 is not as it was");
        refused(MANIFEST, b"", "EOF");
        refused(MANIFEST, b"{\"still\": 1}", "invalid type");
        refused(MANIFEST, b"{\"more\": 1}", "unknown field");
        store.read(1).unwrap();
        std::fs::write(folder.path().join("dumps/stdout"), "ou").unwrap();
        assert!(store.printed(&manifest).is_err());
        std::fs::remove_file(dump.join("pages-1.img.lz4")).unwrap();
        assert!(store.read(1).is_err());
    }

    fn still(path: &str, bytes: u64, mapped: bool) -> Still {
        let path = path.to_owned();
        Still {
            files: vec![Open {
                path,
                bytes,
                mapped,
            }],
            ..manifest([0, 0]).still
        }
    }

    #[test]
    fn files_get_their_lengths_back_and_no_link_leads_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (job, images) = (folder.path().join("job"), Dir::open(folder.path()).unwrap());
        std::fs::create_dir(&job).unwrap();
        let roll_back = |path, bytes| roll_back(&job, &still(path, bytes, false), &images);
        std::fs::write(job.join("grown"), "abcdef").unwrap();
        roll_back("grown", 4).unwrap();
        roll_back("grown", 4).unwrap();
        assert_eq!(std::fs::read(job.join("grown")).unwrap(), b"abcd");
        assert!(roll_back("grown", 5).is_err());
        assert!(roll_back("gone", 0).is_err());
        std::fs::write(folder.path().join("outside"), "abcdef").unwrap();
        std::os::unix::fs::symlink("../outside", job.join("link")).unwrap();
        for path in ["link", "../outside"] {
            assert!(roll_back(path, 0).is_err());
        }
        let outside = std::fs::read(folder.path().join("outside")).unwrap();
        assert_eq!(outside, b"abcdef");
    }

    #[test]
    fn mapped_files_hold_again_what_they_held() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job");
        std::fs::create_dir(&job).unwrap();
        let memory = job.join("memory");
        std::fs::write(&memory, "half").unwrap();
        let store = Store::open(&folder.path().join("dumps")).unwrap();
        store.fresh().unwrap();
        let at = still("memory", 4, true);
        store.copy_mapped(&job, &at).unwrap();
        let larger = still("memory", MAPPED_MOST_BYTES + 1, true);
        let error = store.copy_mapped(&job, &larger).unwrap_err();
        assert!(error.to_string().contains("its mapped files"), "{error}");
        let manifest = Manifest {
            still: at.clone(),
            ..manifest([0, 0])
        };
        let number = store.keep(manifest, None).unwrap();
        std::fs::write(&memory, "another, and longer").unwrap();
        let (_, images) = store.read(number).unwrap();
        roll_back(&job, &at, &images).unwrap();
        assert_eq!(std::fs::read(&memory).unwrap(), b"half");
        // What CRIU would map is not there, or is none of its own.
        std::fs::remove_file(&memory).unwrap();
        assert!(roll_back(&job, &at, &images).is_err());
        std::os::unix::fs::symlink("../dumps/1/dump.json", &memory).unwrap();
        assert!(roll_back(&job, &at, &images).is_err());
        std::fs::remove_file(&memory).unwrap();
        std::fs::write(&memory, "").unwrap();
        images.remove_file("mapped-0").unwrap();
        assert!(roll_back(&job, &at, &images).is_err());
    }
}
