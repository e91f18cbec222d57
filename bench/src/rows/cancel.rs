//! How soon a guest feels that its job is cancelled: a shell that traps SIGTERM and has `date` say when.

use super::{connected, instant, job, now, or_missing, seconds, within};
use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::stats::Unit;
use kumiko_client::{Client, Heard};

pub const KEY: &str = "cancel";
const SIGNAL: &str = "cancel to signal";
const SCRIPT: &str = "trap 'date +%s%N; exit 0' TERM; echo ready; sleep 1000 & wait";

pub fn measure(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "≤ 50 ms",
        ours: SIGNAL,
        reach: Reach::AtMost { limit: 50e-3 },
    }];
    or_missing(Row::new(KEY, "Cancel to signal", goals), |row| {
        let (_site, client) = connected(bench)?;
        let contender = Contender::new(SIGNAL, Unit::Seconds, || {
            bench.runtime.block_on(cancelled(&client))
        });
        rounds::take(row, bench.rounds(100), vec![contender]);
        row.note("The guest is a shell; that it starts date after the signal counts against us.");
        row.note("For comparison: a GRAM job manager takes 5.1 s.");
        Ok(())
    })
}

async fn cancelled(client: &Client) -> Result<f64, Failure> {
    let said = |e| Failure::said("cancelling a job", &e);
    let exec = within(
        "the submission",
        client.exec(job("/bin/sh", &["-c", SCRIPT])),
    )
    .await?;
    let mut attached = exec.map_err(said)?;
    let mut id = None;
    let mut asked = None;
    let mut text = Vec::new();
    loop {
        match within("the next of a job", attached.next())
            .await?
            .map_err(said)?
        {
            Some(Heard::Submitted(job)) => id = Some(job),
            Some(Heard::Output { data, .. }) => text.extend_from_slice(&data),
            Some(Heard::Ended(_)) | None => break,
        }
        if let (Some(id), None, true) = (id, asked, text.starts_with(b"ready\n")) {
            asked = Some(now());
            within("the answer to a cancel", client.cancel(id, None))
                .await?
                .map_err(said)?;
        }
    }
    let asked = asked.ok_or_else(|| Failure::unexpected("the guest ended before it was ready"))?;
    Ok(seconds(asked, instant(&text)?))
}
