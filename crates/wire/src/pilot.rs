//! What a site and a pilot say to each other over the pilot's socket (spec/jobs/pilots.md, PL10 to PL14): lines of words.
//! Bytes only.

use kumiko_job::id::{AttemptId, JobId};
use std::fmt::Write;

/// Most bytes of a line, its end included: a pilot's list of what it holds is the longest.
pub const LINE_LIMIT_BYTES: usize = 32 * 1024;
/// Most attempts that a pilot holds at once: there are no larger hosts in one slot, and the list fits a line.
pub const HELD_LIMIT: usize = 512;

/// What a site asks of a pilot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PilotCommand {
    /// Start the runner of the attempt whose spool is there.
    Start(AttemptId),
    /// Kill that runner.
    Kill(AttemptId),
    /// Take no more, and go once there is nothing left.
    Retire,
}

/// What a pilot tells a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PilotReport {
    /// First on each connection: when this pilot began, in ms since 1970, by which it is told from another in its place;
    /// and whose runners live.
    Holds { since_ms: u64, held: Vec<AttemptId> },
    /// That runner has ended, or none could be started.
    Over(AttemptId),
    /// It takes no more, since it was told so over a connection before this one.
    Retired,
    /// Its engine takes the slot back: it takes no more either.
    Going,
    /// It is there.
    Beat,
}

/// A file in a pilot's place, by which its site says that it listens for `Beat`.
pub const BEATS: &str = "beats";

/// Why a line was refused. The peer is at fault, and the connection is of no more use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PilotLineError {
    #[error("a line is longer than {LINE_LIMIT_BYTES} bytes")]
    TooLong,
    #[error("a line is not what it should be: {what}")]
    Bad { what: &'static str },
}

pub fn encode_command(command: &PilotCommand, out: &mut Vec<u8>) {
    let line = match command {
        PilotCommand::Start(id) => format!("start {id}\n"),
        PilotCommand::Kill(id) => format!("kill {id}\n"),
        PilotCommand::Retire => "retire\n".to_owned(),
    };
    out.extend_from_slice(line.as_bytes());
}

pub fn encode_report(report: &PilotReport, out: &mut Vec<u8>) {
    let mut line = String::new();
    match report {
        PilotReport::Holds { since_ms, held } => {
            let _ = write!(line, "holds {since_ms}");
            for id in held {
                let _ = write!(line, " {id}"); // a String takes all
            }
        }
        PilotReport::Over(id) => {
            let _ = write!(line, "over {id}");
        }
        PilotReport::Retired => line.push_str("retired"),
        PilotReport::Going => line.push_str("going"),
        PilotReport::Beat => line.push_str("beat"),
    }
    line.push('\n');
    out.extend_from_slice(line.as_bytes());
}

/// The first command of these bytes and how many they are; None: its line is not whole yet.
///
/// # Errors
/// What is no line of a site's.
pub fn decode_command(bytes: &[u8]) -> Result<Option<(PilotCommand, usize)>, PilotLineError> {
    let Some((words, taken)) = line(bytes)? else {
        return Ok(None);
    };
    let command = match words[..] {
        ["start", id] => PilotCommand::Start(attempt(id)?),
        ["kill", id] => PilotCommand::Kill(attempt(id)?),
        ["retire"] => PilotCommand::Retire,
        _ => return Err(bad("no command has these words")),
    };
    Ok(Some((command, taken)))
}

/// As [`decode_command`], of reports.
///
/// # Errors
/// What is no line of a pilot's.
pub fn decode_report(bytes: &[u8]) -> Result<Option<(PilotReport, usize)>, PilotLineError> {
    let Some((words, taken)) = line(bytes)? else {
        return Ok(None);
    };
    let report = match &words[..] {
        ["over", id] => PilotReport::Over(attempt(id)?),
        ["retired"] => PilotReport::Retired,
        ["going"] => PilotReport::Going,
        ["beat"] => PilotReport::Beat,
        ["holds", since_ms, held @ ..] if held.len() <= HELD_LIMIT => PilotReport::Holds {
            since_ms: number(since_ms).ok_or_else(|| bad("a time is a number of ms"))?,
            held: held
                .iter()
                .map(|id| attempt(id))
                .collect::<Result<_, _>>()?,
        },
        ["holds", _, ..] => return Err(bad("more attempts than a pilot can hold")),
        _ => return Err(bad("no report has these words")),
    };
    Ok(Some((report, taken)))
}

fn bad(what: &'static str) -> PilotLineError {
    PilotLineError::Bad { what }
}

/// The words of the first line, and its bytes with its end.
fn line(bytes: &[u8]) -> Result<Option<(Vec<&str>, usize)>, PilotLineError> {
    let within = &bytes[..bytes.len().min(LINE_LIMIT_BYTES)];
    let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
        return match bytes.len() >= LINE_LIMIT_BYTES {
            true => Err(PilotLineError::TooLong),
            false => Ok(None),
        };
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| bad("it is no text"))?;
    Ok(Some((text.split(' ').collect(), end + 1)))
}

/// As it is printed, and no other way.
fn number(word: &str) -> Option<u64> {
    let number: u64 = word.parse().ok()?;
    (number.to_string() == word).then_some(number)
}

/// As it is printed, and no other way.
fn attempt(word: &str) -> Result<AttemptId, PilotLineError> {
    let wrong = || bad("an attempt is its job's number, a point and its epoch");
    let (job, epoch) = word.split_once('.').ok_or_else(wrong)?;
    let id = AttemptId {
        job: JobId(job.parse().map_err(|_| wrong())?),
        epoch: epoch.parse().map_err(|_| wrong())?,
    };
    match id.to_string() == word {
        true => Ok(id),
        false => Err(wrong()),
    }
}
