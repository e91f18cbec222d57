//! How soon a watching client knows that a job has ended: from what `date`, the guest, says as its last act.

use super::{connected, instant, job, now, or_missing, seconds, to_the_end, within};
use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::stats::Unit;
use kumiko_client::Client;
use kumiko_job::attempt::OutputStream;
use kumiko_job::description::{JobDescription, OutputMode};

pub const KEY: &str = "event";
const WATCH: &str = "event of a watch";
const ATTACHED: &str = "end of an attached job";

pub fn measure(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "≤ 2 ms in the median",
        ours: WATCH,
        reach: Reach::AtMost { limit: 2e-3 },
    }];
    or_missing(
        Row::new(KEY, "Exit of a job to its event at the client", goals),
        |row| {
            let (_site, client) = connected(bench)?;
            let contenders = vec![
                Contender::new(WATCH, Unit::Seconds, || {
                    bench.runtime.block_on(watched(&client))
                }),
                Contender::new(ATTACHED, Unit::Seconds, || {
                    bench.runtime.block_on(attached(&client))
                }),
            ];
            rounds::take(row, bench.rounds(200), contenders);
            row.note("The guest is date +%s%N: its own end after it has read the clock counts against us.");
            row.note("For comparison: a GRAM job manager polls every 1, 10 or 30 s.");
            Ok(())
        },
    )
}

async fn watched(client: &Client) -> Result<f64, Failure> {
    let said = |e| Failure::said("watching a job", &e);
    let description = JobDescription {
        output: OutputMode::Keep,
        ..job("/bin/date", &["+%s%N"])
    };
    let id = within("the submission", client.submit(description, None))
        .await?
        .map_err(said)?;
    let mut events = client.watch(id, 0).await.map_err(said)?;
    while let Some(event) = within("an event", events.next()).await?.map_err(said)? {
        if event.outcome.is_some() {
            let heard = now();
            let mut output = client
                .output(id, OutputStream::Stdout, 0)
                .await
                .map_err(said)?;
            let mut text = Vec::new();
            while let Some(data) = within("the output", output.next()).await?.map_err(said)? {
                text.extend_from_slice(&data);
            }
            return Ok(seconds(instant(&text)?, heard));
        }
    }
    Err(Failure::unexpected("a job's events ended before the job"))
}

async fn attached(client: &Client) -> Result<f64, Failure> {
    let exec = within("the submission", client.exec(job("/bin/date", &["+%s%N"]))).await?;
    let mut attached = exec.map_err(|e| Failure::said("submitting", &e))?;
    let mut text = Vec::new();
    to_the_end(&mut attached, |data| text.extend_from_slice(data)).await?;
    let heard = now();
    Ok(seconds(instant(&text)?, heard))
}
