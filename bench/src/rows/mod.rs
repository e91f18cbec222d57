//! The rows of the speed table, one file each: what is reached for, and how it is measured. Guests are programs that
//! every Debian has; an instant in a guest is what `date +%s%N` says, compared with the same clock of the same machine.

mod cancel;
mod event;
mod exec;
mod memory;
mod next;
pub mod sandbox;
mod small;
mod stdout;

use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::Row;
use crate::site::Site;
use crate::wait;
use kumiko_client::{Attached, Client, Heard};
use kumiko_job::attempt::{Outcome, OutputStream};
use kumiko_job::description::{JobDescription, OutputMode};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

type Measure = fn(&Bench) -> Row;

/// In the order of the table.
pub const ALL: [(&str, Measure); 8] = [
    (exec::KEY, exec::measure),
    (next::KEY, next::measure),
    (event::KEY, event::measure),
    (cancel::KEY, cancel::measure),
    (stdout::KEY, stdout::measure),
    (memory::KEY, memory::measure),
    (sandbox::KEY, sandbox::measure),
    (small::KEY, small::measure),
];

/// Longer than any step of a measurement here, shorter than a person's patience.
const STEP_WITHIN: Duration = Duration::from_secs(60);

/// A row that could not even begin says why.
pub fn or_missing(mut row: Row, measured: impl FnOnce(&mut Row) -> Result<(), Failure>) -> Row {
    if let Err(failure) = measured(&mut row) {
        row.lacks(None, &failure);
    }
    row
}

/// A site of its own and one session with it.
fn connected(bench: &Bench) -> Result<(Site, Client), Failure> {
    let site = Site::start(bench)?;
    let client = bench.runtime.block_on(site.connect())?;
    Ok((site, client))
}

/// A job without stdin whose output is not kept.
pub fn job(executable: &str, arguments: &[&str]) -> JobDescription {
    let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
    JobDescription {
        output: OutputMode::Flow,
        ..JobDescription::new(executable, &arguments)
    }
}

/// Hears a job to its end: what it said on stdout is given to `take`. It must exit with 0.
pub async fn to_the_end(
    attached: &mut Attached,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Failure> {
    let said = |e| Failure::said("following a job", &e);
    loop {
        match within("the next of a job", attached.next())
            .await?
            .map_err(said)?
        {
            Some(Heard::Submitted(_)) => {}
            Some(Heard::Output {
                stream: OutputStream::Stdout,
                data,
            }) => take(&data),
            Some(Heard::Output { data, .. }) => {
                return Err(Failure::unexpected(format!(
                    "a job said {:?}",
                    String::from_utf8_lossy(&data)
                )));
            }
            Some(Heard::Ended(Outcome::Exited { status: 0 })) => return Ok(()),
            Some(Heard::Ended(other)) => {
                return Err(Failure::unexpected(format!("a job ended with {other:?}")));
            }
            None => return Err(Failure::unexpected("a job's stream ended before the job")),
        }
    }
}

/// One run of a command that ends with 0.
pub fn seconds_of(command: &mut Command) -> Result<f64, Failure> {
    Ok(wait::timed(command)?.as_secs_f64())
}

/// A step with a deadline.
pub async fn within<T>(what: &str, step: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(STEP_WITHIN, step)
        .await
        .map_err(|_| Failure::Deadline {
            what: what.to_owned(),
            within: STEP_WITHIN,
        })
}

/// Since 1970, as `date +%s%N` counts.
fn now() -> Duration {
    // A clock before 1970 makes nonsense of the sample, not of the program.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// What `date +%s%N` said, as the last line of `said`.
fn instant(said: &[u8]) -> Result<Duration, Failure> {
    let text = String::from_utf8_lossy(said);
    text.lines()
        .last()
        .and_then(|l| l.trim().parse().ok())
        .map(Duration::from_nanos)
        .ok_or_else(|| Failure::unexpected(format!("the guest said {text:?}, not an instant")))
}

/// From one instant to a later one of the same clock, in seconds; negative if it was set in between.
fn seconds(from: Duration, to: Duration) -> f64 {
    to.as_secs_f64() - from.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_the_last_line_that_date_says() {
        assert_eq!(
            instant(b"ready\n1234567890123\n").unwrap(),
            Duration::from_nanos(1_234_567_890_123)
        );
        assert!(instant(b"ready\n").is_err());
        assert!(instant(b"").is_err());
        let said = std::process::Command::new("date")
            .arg("+%s%N")
            .output()
            .unwrap()
            .stdout;
        assert!(seconds(instant(&said).unwrap(), now()) < STEP_WITHIN.as_secs_f64());
    }
}
