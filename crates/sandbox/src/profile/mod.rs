//! What is known of a program before it runs (spec/policy, P81): an earlier run of it, else a look at its file. It is never
//! executed for that.
//!
//! Not in it: running it to be counted (`kumiko sandbox profile`), which any room does that has a supervisor.

mod look;
pub(crate) mod store;

pub use look::{Looked, look};
pub use store::{CalibrationError, Measured};

use kumiko_policy::choice::{Calibration, Known, Profile};
use kumiko_policy::{GuestPath, JOB_DIRECTORY, Policy, Real, Seen};
use std::path::{Path, PathBuf};

/// By what a mechanism is chosen. Asked for only where it makes a difference: looking costs a millisecond.
pub trait Evidence {
    fn calibration(&self) -> Calibration;
    fn profile(&self) -> Profile;
}

/// Nothing is known of machine and program.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Evidence for Nothing {
    fn calibration(&self) -> Calibration {
        Calibration::default()
    }

    fn profile(&self) -> Profile {
        Profile::assumed(Known::Nothing, true)
    }
}

/// A program, as a launch names it, in the view that a policy gives.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub policy: &'a Policy,
    /// On the host.
    pub job_directory: &'a Path,
    pub program: &'a str,
    pub arguments: &'a [String],
    /// Where bare names are looked up; None: as where the environment does not say.
    pub path: Option<&'a str>,
}

impl Program<'_> {
    /// Its file on the host.
    pub fn file(&self) -> Option<PathBuf> {
        let names: Vec<String> = match self.program {
            absolute if absolute.starts_with('/') => vec![absolute.to_owned()],
            relative if relative.contains('/') => vec![format!("{JOB_DIRECTORY}/{relative}")],
            bare => {
                let places = self.path.unwrap_or(crate::PATH).split(':');
                let places = places.filter(|place| place.starts_with('/'));
                places.map(|place| format!("{place}/{bare}")).collect()
            }
        };
        let files = names.iter().filter_map(|name| self.real(name));
        files.into_iter().find(|file| file.is_file())
    }

    /// Of a path of the view.
    fn real(&self, name: &str) -> Option<PathBuf> {
        let Seen::Shown { real, .. } = self.policy.explain(&GuestPath::new(name).ok()?).seen else {
            return None;
        };
        Some(match real {
            Real::Host { root, beneath } => PathBuf::from(root.join(&beneath).as_str()),
            Real::Job { beneath } => self.job_directory.join(beneath),
        })
    }
}

/// What is known of a program, from what was measured and from its file.
#[derive(Clone, Copy, Debug)]
pub struct OfProgram<'a> {
    pub measured: Option<&'a Measured>,
    pub program: Program<'a>,
}

impl Evidence for OfProgram<'_> {
    fn calibration(&self) -> Calibration {
        let kept = self
            .measured
            .and_then(|measured| measured.calibration().ok());
        kept.unwrap_or_default()
    }

    fn profile(&self) -> Profile {
        let Some(file) = self.program.file() else {
            return Profile::assumed(Known::Nothing, true);
        };
        let looked = look(&file);
        let by_library = looked.as_ref().is_ok_and(Looked::by_library);
        let past = self
            .measured
            .and_then(|measured| measured.profile(&file, self.program.arguments));
        match (past, looked) {
            (Some(past), _) => Profile {
                known: Known::Past,
                by_library,
                ..past
            },
            (None, Ok(_)) => Profile::assumed(Known::Looked, by_library),
            (None, Err(_)) => Profile::assumed(Known::Nothing, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiko_policy::parse;

    #[test]
    fn a_program_is_found_where_the_view_shows_it() {
        let folder = tempfile::tempdir().unwrap();
        let tools = folder.path().join("tools");
        std::fs::create_dir(&tools).unwrap();
        for name in ["tools/run", "own"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let text = format!(
            "[paths]\n\"/opt/tools\" = {{ access = \"read\", real = \"{}\" }}\n\"/secret\" = \"hidden\"\n",
            tools.display()
        );
        let policy = parse(&text, "test").unwrap();
        let check = |program: &str, path: Option<&str>, expected: Option<&str>| {
            let program = Program {
                policy: &policy,
                job_directory: folder.path(),
                program,
                arguments: &[],
                path,
            };
            let expected = expected.map(|name| folder.path().join(name));
            assert_eq!(program.file(), expected, "{program:?}");
        };
        check("/opt/tools/run", None, Some("tools/run"));
        check("run", Some("/none:/opt/tools"), Some("tools/run"));
        check("run", None, None);
        check("./own", None, Some("own"));
        check("/job/own", None, Some("own"));
        check("/secret/run", None, None);
        check("/opt/tools", None, None);
        check("/opt/../etc/passwd", None, None);
        check("", None, None);
    }
}
