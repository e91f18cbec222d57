//! What the command line of `kumiko-run --self-checkpointing` asks for.

use kumiko_policy::Policy;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

pub const USAGE: &str = "kumiko-run --self-checkpointing FOLDER [--every SECONDS] [--exit-status N] [--policy FILE] -- PROGRAM [ARGUMENT...]";

/// HTCondor's manual takes this one as its example.
const STATUS: u8 = 85;
/// The machine as it is, to be read; the directory that it works in is written to.
const POLICY: &str =
    "network = \"none\"\ndump = true\n[paths]\n\"/\" = \"read\"\n\"/tmp\" = \"temporary\"\n";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Below the directory that it works in.
    pub folder: PathBuf,
    pub every: Option<Duration>,
    /// With which it ends when it is to begin again.
    pub status: u8,
    pub policy_file: Option<PathBuf>,
    pub program: String,
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
}

impl Asked {
    /// `arguments` behind `--self-checkpointing`; `environment`: what the program will have.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn read(
        arguments: &[OsString],
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Asked, String> {
        let text = |word: &OsString| {
            let text = word.to_str().map(str::to_owned);
            text.ok_or_else(|| format!("{} is not UTF-8", word.to_string_lossy()))
        };
        let mut words = arguments.iter();
        let folder = PathBuf::from(words.next().ok_or("FOLDER is missing")?);
        if folder.to_str().is_none() || !is_below(&folder) {
            return Err(format!(
                "FOLDER {} is not a path below the directory that the program works in: such as checkpoints",
                folder.display()
            ));
        }
        let mut asked = Asked {
            folder,
            every: None,
            status: STATUS,
            policy_file: None,
            program: String::new(),
            arguments: Vec::new(),
            environment: environment
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
        };
        while let Some(word) = words.next() {
            let option = text(word)?;
            if option == "--" {
                asked.program = text(words.next().ok_or("PROGRAM is missing")?)?;
                asked.arguments = words.map(text).collect::<Result<_, _>>()?;
                return Ok(asked);
            }
            let value = words.next().map(text).transpose()?;
            let value = value.ok_or_else(|| format!("{option} is followed by a value"))?;
            match option.as_str() {
                "--every" => {
                    let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
                    let seconds = seconds.ok_or_else(|| {
                        format!("--every {value}: a whole number of seconds, from 1")
                    })?;
                    asked.every = Some(Duration::from_secs(seconds));
                }
                "--exit-status" => {
                    let status = value.parse().ok().filter(|status| *status > 0);
                    asked.status = status
                        .ok_or_else(|| format!("--exit-status {value}: a number from 1 to 255"))?;
                }
                "--policy" => asked.policy_file = Some(PathBuf::from(value)),
                _ => return Err(format!("{option} is no option here")),
            }
        }
        Err("-- and PROGRAM are missing".to_owned())
    }

    pub fn policy(&self) -> Result<Policy, String> {
        let Some(path) = &self.policy_file else {
            return kumiko_policy::parse(POLICY, "usual").map_err(|error| error.to_string());
        };
        let text = std::fs::read_to_string(path);
        let text =
            text.map_err(|error| format!("reading the policy {}: {error}", path.display()))?;
        kumiko_policy::parse(&text, &path.display().to_string()).map_err(|error| error.to_string())
    }
}

fn is_below(folder: &Path) -> bool {
    let mut parts = folder.components();
    folder.components().next().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Asked, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let home = ("HOME".into(), "/home/ada".into());
        Asked::read(&words, std::iter::once(home))
    }

    #[test]
    fn what_is_asked_is_read() {
        let asked = read("ck/of --every 60 --exit-status 77 --policy p.toml -- ./solve --every 7");
        let expected = Asked {
            folder: "ck/of".into(),
            every: Some(Duration::from_secs(60)),
            status: 77,
            policy_file: Some("p.toml".into()),
            program: "./solve".to_owned(),
            arguments: vec!["--every".to_owned(), "7".to_owned()],
            environment: [("HOME".to_owned(), "/home/ada".to_owned())].into(),
        };
        assert_eq!(asked, Ok(expected));
        let usual = read("ck -- ./solve");
        assert_eq!(
            usual.map(|asked| (asked.status, asked.every)),
            Ok((STATUS, None))
        );
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (line, expected) in [
            ("", "FOLDER is missing"),
            ("/ck -- a", "not a path below"),
            ("../ck -- a", "not a path below"),
            (". -- a", "not a path below"),
            ("ck", "-- and PROGRAM are missing"),
            ("ck --", "PROGRAM is missing"),
            ("ck --every 0 -- a", "from 1"),
            ("ck --every", "followed by a value"),
            ("ck --exit-status 256 -- a", "from 1 to 255"),
            ("ck --exit-status 0 -- a", "from 1 to 255"),
            ("ck --often 3 -- a", "--often is no option"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn the_usual_policy_is_one_that_has_its_guest_dumped() {
        let policy = read("ck -- a").and_then(|asked| asked.policy());
        assert_eq!(policy.map(|policy| policy.dump()), Ok(true));
    }
}
