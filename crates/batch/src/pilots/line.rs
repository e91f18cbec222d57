//! The connection to one pilot (spec/jobs/pilots.md, PL10 to PL14): commands out, reports in, again after it broke.

use super::pool::Number;
use crate::engine::program::Program;
use kumiko_job::id::AttemptId;
use kumiko_wire::pilot::{BEATS, PilotCommand, PilotReport, decode_report, encode_command};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

/// Before it is tried again whether a pilot is there, which an engine starts within a second or within days.
const SOON: Duration = Duration::from_millis(25);
const LATER: Duration = Duration::from_millis(500);
/// How often soon comes before later.
const SOONS: u32 = 200;
const READ_BYTES: usize = 4096;
/// A pilot that says every second that it is there is taken to be away after so many looks without a word: ten seconds, as of a host of
/// calls (spec/rpc P37). Looks are counted, so that the site's own pauses are nobody's silence.
const LOOKS: u32 = 20;
const LOOK: Duration = Duration::from_millis(500);

/// Who is told what a pilot says.
pub trait Heard: Send + Sync + 'static {
    fn ready(self: &Arc<Self>, number: Number, since_ms: u64, held: &[AttemptId]);
    fn over(self: &Arc<Self>, number: Number, id: AttemptId);
    /// It takes no more.
    fn retired(self: &Arc<Self>, number: Number);
    /// It takes no more, for its engine takes the slot back.
    fn going(self: &Arc<Self>, number: Number);
    /// The connection broke.
    fn away(self: &Arc<Self>, number: Number);
}

/// Dropped, it is closed; the pilot goes on by itself.
#[derive(Debug)]
pub struct Line {
    commands: UnboundedSender<PilotCommand>,
    task: AbortHandle,
}

impl Line {
    /// `program`: by which the pilot was started.
    pub fn open(place: PathBuf, program: Program, number: Number, heard: Weak<impl Heard>) -> Line {
        let (commands, to_say) = unbounded_channel();
        let task = tokio::spawn(keep(place, program, number, heard, to_say));
        Line {
            commands,
            task: task.abort_handle(),
        }
    }

    /// Of a broken line it is lost.
    pub fn say(&self, command: PilotCommand) {
        let _ = self.commands.send(command); // the task ends with the line only
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(
    place: PathBuf,
    program: Program,
    number: Number,
    heard: Weak<impl Heard>,
    mut to_say: UnboundedReceiver<PilotCommand>,
) {
    let mut tries: u32 = 0;
    loop {
        if let Ok(stream) = connect(&place, &program).await {
            // What was said while nobody was there was said in vain.
            while to_say.try_recv().is_ok() {}
            let beats = place.join(BEATS).exists();
            talk(stream, number, beats, &heard, &mut to_say).await;
            match heard.upgrade() {
                Some(heard) => heard.away(number),
                None => return,
            }
            tries = 0;
        }
        tokio::time::sleep(if tries < SOONS { SOON } else { LATER }).await;
        tries = tries.saturating_add(1);
    }
}

async fn connect(place: &Path, program: &Program) -> io::Result<UnixStream> {
    UnixStream::from_std(program.connect(place).await?)
}

/// Until the connection breaks, or the pilot speaks wrongly, or no longer though it `beats`.
async fn talk(
    mut stream: UnixStream,
    number: Number,
    beats: bool,
    heard: &Weak<impl Heard>,
    to_say: &mut UnboundedReceiver<PilotCommand>,
) {
    let (mut reading, mut writing) = stream.split();
    let mut bytes = Vec::new();
    let mut piece = [0; READ_BYTES];
    let mut looking = tokio::time::interval(LOOK);
    looking.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks = 0;
    loop {
        tokio::select! {
            read = reading.read(&mut piece) => match read {
                Ok(count) if count > 0 => {
                    bytes.extend_from_slice(&piece[..count]);
                    looks = 0;
                }
                _ => return,
            },
            _ = looking.tick(), if beats => {
                looks += 1;
                if looks > LOOKS {
                    tracing::warn!(pilot = number, "nothing is heard of a pilot: it is taken to be away");
                    return;
                }
                continue;
            }
            command = to_say.recv() => {
                let Some(command) = command else {
                    return;
                };
                let mut line = Vec::new();
                encode_command(&command, &mut line);
                if writing.write_all(&line).await.is_err() {
                    return;
                }
                continue;
            }
        }
        loop {
            let (report, taken) = match decode_report(&bytes) {
                Ok(Some(decoded)) => decoded,
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(pilot = number, %error, "a pilot speaks wrongly");
                    return;
                }
            };
            bytes.drain(..taken);
            let Some(heard) = heard.upgrade() else {
                return;
            };
            match report {
                PilotReport::Holds { since_ms, held } => heard.ready(number, since_ms, &held),
                PilotReport::Over(id) => heard.over(number, id),
                PilotReport::Retired => heard.retired(number),
                PilotReport::Going => heard.going(number),
                PilotReport::Beat => {}
            }
        }
    }
}
