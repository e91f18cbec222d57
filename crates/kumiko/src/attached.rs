//! A job's streams joined to this terminal: output here, input there, signals and window sizes on their way.

use crate::fail::Failure;
use kumiko_client::{Attached, Client, Heard, Input};
use kumiko_job::attempt::{Outcome, OutputStream};
use kumiko_job::description::WindowSize;
use kumiko_job::id::JobId;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::fd::AsFd;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

/// One read of our own stdin; what a pipe holds by default.
const STDIN_READ_BYTES: usize = 64 * 1024;
/// Printed at once: leaving the runtime's thread to its other tasks for it costs more than the printing of a piece.
const PRINT_BYTES: usize = 512 * 1024;
/// By which a shell's children are told that their terminal has gone.
const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGPIPE: u8 = 13;

/// What Ctrl-C means.
pub enum Interrupt<'a> {
    /// The job is ours to end (`job run`).
    Cancels(&'a Client),
    /// The program there gets it, as with ssh -t (`exec`); losing our own terminal or being told to end ends the job.
    IsPassedOn(&'a Client),
}

pub struct End {
    pub job: JobId,
    pub outcome: Outcome,
}

/// Until the job has ended and all its output is here.
pub async fn follow(
    mut job: Attached,
    live_stdin: bool,
    interrupt: Interrupt<'_>,
) -> Result<End, Failure> {
    if live_stdin {
        tokio::spawn(send_stdin(job.input()));
    }
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut quits = signal(SignalKind::quit())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut hangups = signal(SignalKind::hangup())?;
    let mut windows = signal(SignalKind::window_change())?;
    let input = job.input();
    let screen = Screen::open()?;
    let mut number = job.job();
    loop {
        tokio::select! {
            few = job.next_few(PRINT_BYTES) => {
                let few = few?;
                if let Some(Heard::Submitted(job)) = few.first() {
                    number = Some(*job);
                }
                // Our reader may be slow: nothing else here may wait for it (keep-alives of the session least).
                let printed = tokio::task::block_in_place(|| screen.print(&few));
                if printed.is_err() {
                    // Nobody reads us any more (| head): as a local program would, the job ends of it.
                    let (Interrupt::Cancels(client) | Interrupt::IsPassedOn(client)) = interrupt;
                    cancel(client, number).await?;
                    return Err(Failure { status: 128 + SIGPIPE, message: String::new() });
                }
                match few.into_iter().last() {
                    Some(Heard::Ended(outcome)) => {
                        let job = number.ok_or_else(|| Failure::from_text("the site told the end of a job it never named"))?;
                        return Ok(End { job, outcome });
                    }
                    Some(_) => {}
                    None => return Err(Failure::from_text("the site ended the stream before the job's end")),
                }
            }
            _ = windows.recv() => {
                if let Some(size) = window_size() {
                    input.window(size).await;
                }
            }
            _ = interrupts.recv() => match interrupt {
                Interrupt::Cancels(client) => cancel(client, number).await?,
                Interrupt::IsPassedOn(_) => input.signal(SIGINT).await,
            },
            _ = quits.recv() => match interrupt {
                Interrupt::Cancels(client) => cancel(client, number).await?,
                Interrupt::IsPassedOn(_) => input.signal(SIGQUIT).await,
            },
            _ = terminations.recv() => match interrupt {
                Interrupt::Cancels(client) | Interrupt::IsPassedOn(client) => cancel(client, number).await?,
            },
            _ = hangups.recv() => match interrupt {
                Interrupt::Cancels(client) => cancel(client, number).await?,
                Interrupt::IsPassedOn(client) => {
                    input.signal(SIGHUP).await;
                    cancel(client, number).await?;
                }
            },
        }
    }
}

async fn cancel(client: &Client, job: Option<JobId>) -> Result<(), Failure> {
    match job {
        Some(job) => Ok(client.cancel(job, None).await?),
        None => Err(Failure::from_text(
            "interrupted before the site had answered; look with `kumiko job list`",
        )),
    }
}

/// Our own stdout and stderr as plain descriptors: std's stdout looks for the last line's end in all that passes.
struct Screen {
    stdout: File,
    stderr: File,
}

impl Screen {
    fn open() -> io::Result<Screen> {
        Ok(Screen {
            stdout: File::from(io::stdout().as_fd().try_clone_to_owned()?),
            stderr: File::from(io::stderr().as_fd().try_clone_to_owned()?),
        })
    }

    fn print(&self, few: &[Heard]) -> io::Result<()> {
        let output = |heard: &'_ Heard| match heard {
            Heard::Output { stream, .. } => Some(*stream),
            _ => None,
        };
        for pieces in few.chunk_by(|a, b| output(a) == output(b)) {
            match pieces.first().and_then(output) {
                Some(OutputStream::Stdout) => write_all(&self.stdout, pieces)?,
                Some(OutputStream::Stderr) => write_all(&self.stderr, pieces)?,
                None => {}
            }
        }
        Ok(())
    }
}

fn write_all(mut file: &File, pieces: &[Heard]) -> io::Result<()> {
    let mut slices: Vec<IoSlice> = pieces
        .iter()
        .filter_map(|heard| match heard {
            Heard::Output { data, .. } => Some(IoSlice::new(data)),
            _ => None,
        })
        .collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match file.write_vectored(left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut left, count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn send_stdin(input: Input) {
    let mut stdin = tokio::io::stdin();
    loop {
        let mut buffer = bytes::BytesMut::with_capacity(STDIN_READ_BYTES);
        match stdin.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return input.end().await,
            Ok(_) if !input.send(buffer.freeze()).await => return,
            Ok(_) => {}
        }
    }
}

/// Of our own terminal; None if stdout is none.
pub fn window_size() -> Option<WindowSize> {
    let (rows, columns) = kumiko_linux::terminal::size(std::io::stdout()).ok()?;
    Some(WindowSize { rows, columns })
}
