//! Where calibrations and profiles are kept: a folder of the account's own in the state directory (spec/policy, P83, P84).
//! What cannot be read, or was measured elsewhere, is as if it were not there. Not in it: the texts (kumiko-policy).

use kumiko_linux::this_process;
use kumiko_policy::choice::{Calibration, MAX_MEASURED_BYTES, MeasuredError, Profile};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Most programs of which a run is kept; the one that was written first goes: 256 texts of 300 bytes.
const MOST_PROGRAMS: usize = 256;
/// More of an executable is not read for its digest: two that differ beyond are taken for one.
const DIGEST_BYTES: u64 = 64 << 20;
const PROGRAMS: &str = "programs";

/// Why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    #[error("this machine was not measured: `kumiko sandbox probe --calibrate` does")]
    None,
    #[error("what was measured ({path}) cannot be read: {cause}")]
    Unreadable { path: String, cause: io::Error },
    #[error("what was measured ({path}) is of no use: {problem}")]
    Bad {
        path: String,
        problem: MeasuredError,
    },
    #[error(
        "{what} has changed since it was measured: `kumiko sandbox probe --calibrate` measures anew"
    )]
    Stale { what: &'static str },
}

/// The folder.
#[derive(Clone, Debug)]
pub struct Measured {
    folder: PathBuf,
}

impl Measured {
    /// Need not be there.
    pub fn at(folder: impl Into<PathBuf>) -> Measured {
        Measured {
            folder: folder.into(),
        }
    }

    /// Of this machine and this sandbox.
    ///
    /// # Errors
    /// There is none that holds here.
    pub fn calibration(&self) -> Result<Calibration, CalibrationError> {
        let path = self.costs();
        let name = || path.display().to_string();
        let text = read(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => CalibrationError::None,
            _ => CalibrationError::Unreadable {
                path: name(),
                cause,
            },
        })?;
        let kept = Calibration::from_text(&text).map_err(|problem| CalibrationError::Bad {
            path: name(),
            problem,
        })?;
        if kept.kernel != kernel() {
            return Err(CalibrationError::Stale { what: "the kernel" });
        }
        if kept.program != DIGEST {
            return Err(CalibrationError::Stale { what: "kumiko" });
        }
        Ok(kept)
    }

    /// In the place of the one that was kept; where it is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_calibration(&self, calibration: &Calibration) -> io::Result<PathBuf> {
        let path = self.costs();
        write(&path, &calibration.to_text())?;
        Ok(path)
    }

    /// By host: several may share a home.
    fn costs(&self) -> PathBuf {
        let host = digest([this_process::host_name().as_bytes()]);
        self.folder.join(format!("costs-{host:016x}.toml"))
    }

    /// The last run of this executable with these arguments that was counted, else with others.
    pub fn profile(&self, file: &Path, arguments: &[String]) -> Option<Profile> {
        let keys = keys(file, arguments).ok()?;
        let mut kept = keys.into_iter().flatten().map(|key| self.program(key));
        kept.find_map(|path| Profile::from_text(&read(&path).ok()?).ok())
    }

    /// # Errors
    /// It cannot be written.
    pub fn keep_profile(
        &self,
        file: &Path,
        arguments: &[String],
        profile: &Profile,
    ) -> io::Result<()> {
        for key in keys(file, arguments)?.into_iter().flatten() {
            write(&self.program(key), &profile.to_text())?;
        }
        self.thin_out()
    }

    fn program(&self, key: u64) -> PathBuf {
        self.folder.join(PROGRAMS).join(format!("{key:016x}.toml"))
    }

    fn thin_out(&self) -> io::Result<()> {
        let mut all: Vec<(SystemTime, PathBuf)> = fs::read_dir(self.folder.join(PROGRAMS))?
            .flatten()
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        if all.len() > MOST_PROGRAMS {
            all.sort();
            for (_, path) in all.iter().take(all.len() - MOST_PROGRAMS) {
                // Another may have done so.
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }
}

/// Of executable and arguments, and of the executable alone; not of an interpreter's, whose runs are its scripts'.
fn keys(file: &Path, arguments: &[String]) -> io::Result<[Option<u64>; 2]> {
    let of_file = of_file(file)?;
    let words = arguments.iter().flat_map(|word| [word.as_bytes(), b"\0"]);
    let exact = digest([of_file.to_le_bytes().as_slice()].into_iter().chain(words));
    Ok([Some(exact), Some(of_file).filter(|_| !interprets(file))])
}

fn interprets(file: &Path) -> bool {
    const INTERPRETERS: [&str; 12] = [
        "sh", "bash", "dash", "ksh", "zsh", "busybox", "python", "perl", "ruby", "node", "java",
        "env",
    ];
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&name)
}

fn of_file(path: &Path) -> io::Result<u64> {
    // A pipe would keep us waiting at the opening.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = File::open(path)?.take(DIGEST_BYTES);
    let mut buffer = vec![0; 128 * 1024];
    let mut sum = Fnv::new();
    loop {
        let count = file.read(&mut buffer)?;
        match buffer.get(..count) {
            None | Some([]) => return Ok(sum.0),
            Some(bytes) => sum.take(bytes),
        }
    }
}

fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut sum = Fnv::new();
    parts.into_iter().for_each(|part| sum.take(part));
    sum.0
}

/// FNV-1a over words of 8 bytes, so that a program of megabytes takes a millisecond. Who makes two files alike on purpose
/// misleads the prediction for their own jobs, and nothing else.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn take(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut()
                .zip(chunk)
                .for_each(|(to, from)| *to = *from);
            let word = u64::from_le_bytes(word) ^ ((chunk.len() as u64) << 56);
            self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
            self.0 ^= self.0 >> 32;
        }
    }
}

/// Release and version.
pub(crate) fn kernel() -> String {
    this_process::kernel()
}

/// Of the sources of this crate and of those that it measures (build.rs).
pub(crate) const DIGEST: &str = env!("KUMIKO_SANDBOX_DIGEST");

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let most = MAX_MEASURED_BYTES as u64 + 1;
    File::open(path)?.take(most).read_to_string(&mut text)?;
    Ok(text)
}

/// As a whole or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&beside);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    drop(file);
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Calibration {
        Calibration {
            kernel: kernel(),
            program: DIGEST.to_owned(),
            rounds: 3,
            ..Calibration::default()
        }
    }

    #[test]
    fn a_calibration_holds_for_its_kernel_and_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Measured::at(folder.path().join("of/ours"));
        let told = |kept: &Measured| kept.calibration().unwrap_err().to_string();
        assert!(told(&kept).contains("was not measured"));
        let path = kept.keep_calibration(&measured()).unwrap();
        assert_eq!(kept.calibration().unwrap(), measured());
        let check = |changed: Calibration, expected: &str| {
            kept.keep_calibration(&changed).unwrap();
            assert!(told(&kept).contains(expected), "{}", told(&kept));
        };
        let kernel = "2.4.20".to_owned();
        check(
            Calibration {
                kernel,
                ..measured()
            },
            "the kernel has changed",
        );
        let program = "0".to_owned();
        check(
            Calibration {
                program,
                ..measured()
            },
            "kumiko has changed",
        );
        fs::write(path, "rounds = \"many\"").unwrap();
        assert!(told(&kept).contains("of no use"));
    }

    #[test]
    fn a_run_is_kept_by_what_was_executed_and_how() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Measured::at(folder.path().join("kept"));
        let file = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let run = |opens| Profile {
            opens,
            ..Profile::default()
        };
        let (one, copy) = (file("one", "content"), file("copy", "content"));
        let (other, shell) = (file("other", "contents"), file("python3.11", "a shell"));
        kept.keep_profile(&one, &words("a b"), &run(1)).unwrap();
        kept.keep_profile(&one, &words("c"), &run(2)).unwrap();
        kept.keep_profile(&shell, &words("a"), &run(3)).unwrap();
        let check = |path: &Path, arguments: &str, expected: Option<u64>| {
            let found = kept.profile(path, &words(arguments)).map(|run| run.opens);
            assert_eq!(found, expected, "{path:?} {arguments}");
        };
        check(&one, "a b", Some(1));
        check(&copy, "a b", Some(1));
        check(&one, "ab", Some(2)); // the last of the executable
        check(&other, "a b", None);
        check(&shell, "a", Some(3));
        check(&shell, "b", None);
        check(Path::new("/no such file"), "a", None);
    }

    #[test]
    fn no_more_runs_are_kept_than_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Measured::at(folder.path());
        let file = folder.path().join("sh");
        fs::write(&file, "x").unwrap();
        for number in 0..MOST_PROGRAMS + 20 {
            let words = [number.to_string()];
            kept.keep_profile(&file, &words, &Profile::default())
                .unwrap();
        }
        let count = fs::read_dir(folder.path().join(PROGRAMS)).unwrap().count();
        assert_eq!(count, MOST_PROGRAMS);
    }
}
