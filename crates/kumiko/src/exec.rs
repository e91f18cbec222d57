//! `kumiko exec SITE -- COMMAND`: as ssh, inside the sandbox.

use crate::args::Exec;
use crate::attached::{self, Interrupt};
use crate::connect;
use crate::fail::Failure;
use crate::home::Home;
use crate::job::describe;
use crate::job::run::{delegate, status_of};
use kumiko_job::description::WindowSize;
use kumiko_linux::terminal::RawTerminal;
use std::io::IsTerminal;

/// What a terminal is taken to be when ours is none (-t in a pipe).
const USUAL_WINDOW: WindowSize = WindowSize {
    rows: 24,
    columns: 80,
};

pub async fn exec(exec: Exec, home: &Home) -> Result<u8, Failure> {
    let ours = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    // As ssh: a shell gets a terminal if we have one, a command only when asked.
    let wanted = exec.terminal || (ours && !exec.no_terminal && exec.command.is_empty());
    let terminal = wanted.then(|| attached::window_size().unwrap_or(USUAL_WINDOW));
    let mut description = describe::of_exec(&exec, terminal)?;
    let end = connect::with(Some(&exec.site), home, async |client| {
        delegate(client, exec.delegation, &mut description).await?;
        let job = client.exec(description).await?;
        // Dropped before anything is printed.
        let _raw = if terminal.is_some() && ours {
            Some(RawTerminal::enter(std::io::stdin())?)
        } else {
            None
        };
        attached::follow(job, true, Interrupt::IsPassedOn(client)).await
    })
    .await?;
    let (status, word) = status_of(&end.outcome);
    if let Some(word) = word {
        eprintln!("kumiko: {word}");
    }
    Ok(status)
}
