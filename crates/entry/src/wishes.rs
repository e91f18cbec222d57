//! Where a `sandbox run` hears of other limits, paths and addresses: a socket of the account's own, by the number of its
//! process (spec/policy, P55). One line is asked, words parted by blanks, and one is answered: what holds, or `error: ` and
//! why not. Not here: keeping it (kumiko-sandbox).

use kumiko_linux::{spooling, unix_socket};
use kumiko_policy::{
    Change, Limited, Limits, MechanismKind, Policy, amend, heeded, limits_of, narrow,
    parse_amendment, parse_change, text_of,
};
use kumiko_sandbox::{Obey, Wishes};
use std::fs::DirBuilder;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// Longest line: a few of the longest paths.
const LINE_BYTES: u64 = 16 << 10;
/// Blanks, and what stands for them within a word.
const ESCAPED: [(&str, &str); 2] = [("%", "%25"), (" ", "%20")];
/// Who asks has written already when it is heard; who has not does not hold up the guest's end.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long an answer is waited for: the other side looks up every 20 ms, on a machine that may be busy.
const ANSWER: Duration = Duration::from_secs(10);

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum WishError {
    #[error("no `kumiko sandbox run` of yours with limits or a policy is process {pid}: {cause}")]
    Nobody { pid: u32, cause: io::Error },
    #[error("process {pid} does not answer: {cause}")]
    Silent { pid: u32, cause: io::Error },
    #[error("{0}")]
    Refused(String),
}

/// Asks the `sandbox run` of this process for changes (words of kumiko-policy's `parse_change`); what holds then, in words.
pub fn ask(pid: u32, words: &[String]) -> Result<String, WishError> {
    let nobody = |cause| WishError::Nobody { pid, cause };
    let silent = |cause| WishError::Silent { pid, cause };
    let path = folder().map_err(nobody)?.join(pid.to_string());
    let mut stream = unix_socket::connect(&path).map_err(nobody)?;
    stream.set_read_timeout(Some(ANSWER)).map_err(silent)?;
    let escaped = |word: &String| {
        let all = ESCAPED.iter();
        all.fold(word.clone(), |word, (from, to)| word.replace(from, to))
    };
    let line = words.iter().map(escaped).collect::<Vec<_>>().join(" ") + "\n";
    stream.write_all(line.as_bytes()).map_err(silent)?;
    let answer = line_of(&stream).map_err(silent)?;
    match answer.strip_prefix("error: ") {
        Some(why) => Err(WishError::Refused(why.to_owned())),
        None => Ok(answer),
    }
}

/// The side of the guest.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    path: PathBuf,
    /// Not above these.
    bound: Limits,
    /// What the guest began with, under which mechanism, and what was asked for since.
    began: Policy,
    mechanism: MechanismKind,
    asked: Option<Policy>,
}

impl Listening {
    pub fn begin(bound: Limits, began: Policy, mechanism: MechanismKind) -> io::Result<Listening> {
        let path = folder()?.join(std::process::id().to_string());
        // Of one that was killed, and had our number.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = unix_socket::listen(&path)?;
        listener.set_nonblocking(true)?;
        Ok(Listening {
            listener,
            path,
            bound,
            began,
            mechanism,
            asked: None,
        })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Wishes for Listening {
    fn readable(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    fn hear(&mut self, of: &mut dyn Obey) {
        let Ok((stream, _)) = self.listener.accept() else {
            return;
        };
        let own = unix_socket::peer(&stream).is_ok_and(|(_, uid)| uid == spooling::own_uid());
        if !own || stream.set_read_timeout(Some(PATIENCE)).is_err() {
            return;
        }
        let Ok(line) = line_of(&stream) else {
            return;
        };
        let answer = match self.change(of, &line) {
            Ok(answer) => answer,
            Err(why) => format!("error: {why}"),
        };
        // Who does not wait for the answer is not heard of.
        let _ = (&stream).write_all(format!("{answer}\n").as_bytes());
    }
}

impl Listening {
    /// All of a line, or nothing of it.
    fn change(&mut self, of: &mut dyn Obey, line: &str) -> Result<String, String> {
        let changes = read(line)?;
        let limits = match (of.limits(), limits_of(&changes) == Limits::default()) {
            (Some(now), false) => Some(within(now, &self.bound, &changes)?),
            (None, false) => return Err("it was started without limits, and keeps none".to_owned()),
            (_, true) => None,
        };
        let mut not = Vec::new();
        if let Some(text) = text_of(&changes) {
            let named = parse_amendment(&text, "sandbox set").map_err(|e| e.to_string())?;
            let asked = amend(self.asked.as_ref(), &named);
            let now = narrow(&self.began, &asked).map_err(|e| e.to_string())?;
            heeded(&self.began, &named, &now, self.mechanism).map_err(|e| e.to_string())?;
            not = of.follow(&now).map_err(|e| e.to_string())?;
            self.asked = Some(asked);
        }
        if let Some(limits) = &limits {
            of.set_limits(limits);
        }
        let mut hold = of.limits().map(Limits::in_words).unwrap_or_default();
        hold.extend(self.asked.as_ref().map(Policy::in_words));
        hold.extend(not.iter().map(|what| format!("not followed: {what}")));
        Ok(hold.join(", "))
    }
}

/// The words of a line.
fn read(line: &str) -> Result<Vec<Change>, String> {
    let words = line.split_ascii_whitespace().map(|word| {
        let all = ESCAPED.iter().rev();
        let word = all.fold(word.to_owned(), |word, (to, from)| word.replace(from, to));
        // As in P1, too.
        let by_key = word
            .split_once('=')
            .and_then(|(key, number)| Some((Limited::from_key(key)?, number.parse::<u64>().ok()?)));
        match by_key {
            Some((limited, amount)) => Ok(Change::Limit(limited, amount)),
            None => parse_change(&word).map_err(|error| error.to_string()),
        }
    });
    words.collect()
}

/// The limits with those of changes.
fn within(now: &Limits, bound: &Limits, changes: &[Change]) -> Result<Limits, String> {
    let mut limits = now.clone();
    for (limited, amount) in limits_of(changes).each() {
        if !(1..=limited.most()).contains(&amount) {
            return Err(format!("{amount} is out of range for {}", limited.key()));
        }
        if let Some(most) = bound.get(limited).filter(|most| amount > *most) {
            let most = Limits::words(limited, most);
            return Err(format!("the site's policy has a {most}"));
        }
        limits.set(limited, Some(amount));
    }
    Ok(limits)
}

fn line_of(stream: &UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES)).read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A directory that nobody else writes to.
fn folder() -> io::Result<PathBuf> {
    let own = spooling::own_uid();
    let named = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty());
    let folder = match named {
        Some(runtime) => PathBuf::from(runtime).join("kumiko"),
        None => std::env::temp_dir().join(format!("kumiko-sandbox-{own}")),
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let is = std::fs::symlink_metadata(&folder)?;
    match is.is_dir() && is.uid() == own && is.mode() & 0o022 == 0 {
        true => Ok(folder),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} is not yours alone", folder.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_change_what_they_name_within_the_bound() {
        let now = Limits {
            network_kbyte_s: Some(1000),
            cpu_percent: Some(50),
            ..Limits::default()
        };
        let bound = Limits {
            network_kbyte_s: Some(2000),
            ..Limits::default()
        };
        let check = |line: &str, expected: Result<(u64, u64), &str>| {
            let told = read(line).and_then(|changes| within(&now, &bound, &changes));
            let told = told.map(|limits| {
                let network = limits.network_kbyte_s.unwrap_or(0);
                (network, limits.cpu_percent.unwrap_or(0))
            });
            match (told, expected) {
                (Err(why), Err(words)) => assert!(why.contains(words), "{line}: {why}"),
                (told, expected) => assert_eq!(told, expected.map_err(str::to_owned), "{line}"),
            }
        };
        check("", Ok((1000, 50)));
        check("net=2MB/s", Ok((2000, 50)));
        check("network_kbyte_s=500 cpu=75%", Ok((500, 75)));
        check(
            "net=3MB/s",
            Err("the site's policy has a network limit of 2000"),
        );
        check("net=fast", Err("100Mbit/s"));
        check("cpu_percent=0", Err("out of range"));
        check("speed=9", Err("no limit"));
        check("/data=hidden", Ok((1000, 50)));
    }
}
