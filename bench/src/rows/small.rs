//! A small message beside a bulk stream of the same session: a question to the site and its answer, while a job's stdout
//! comes as fast as it can. The round trip is an upper bound of either way.

use super::{connected, job, or_missing, within};
use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::stats::Unit;
use kumiko_client::{Client, Heard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub const KEY: &str = "small";
const BESIDE: &str = "round trip beside bulk";
const ALONE: &str = "round trip alone";
/// The bulk stream flows once this much has come.
const FLOWING_BYTES: u64 = 16 * 1024 * 1024;

pub fn measure(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "p99 ≤ 5 ms",
        ours: BESIDE,
        reach: Reach::P99AtMost { limit: 5e-3 },
    }];
    or_missing(
        Row::new(KEY, "A small message beside a bulk stream", goals),
        |row| {
            let (_site, client) = connected(bench)?;
            let count = bench.rounds(2000);
            bench.runtime.block_on(async {
                for _ in 0..count {
                    row.series(ALONE, Unit::Seconds)
                        .push(round_trip(&client).await?);
                }
                let exec = within(
                    "the submission",
                    client.exec(job("/bin/dd", &["if=/dev/zero", "bs=64k", "status=none"])),
                )
                .await?;
                let mut attached = exec.map_err(|e| Failure::said("submitting", &e))?;
                let came = Arc::new(AtomicU64::new(0));
                let bulk = tokio::spawn({
                    let came = Arc::clone(&came);
                    async move {
                        while let Ok(Some(Heard::Output { .. } | Heard::Submitted(_))) =
                            match attached.next().await {
                                Ok(Some(Heard::Output { data, stream })) => {
                                    came.fetch_add(data.len() as u64, Ordering::Relaxed);
                                    Ok(Some(Heard::Output { data, stream }))
                                }
                                other => other,
                            }
                        {}
                    }
                });
                let sent = |_: ()| came.load(Ordering::Relaxed);
                while sent(()) < FLOWING_BYTES {
                    if bulk.is_finished() {
                        return Err(Failure::unexpected("the bulk stream ended"));
                    }
                    round_trip(&client).await?;
                }
                let (begun, before) = (Instant::now(), sent(()));
                for _ in 0..count {
                    row.series(BESIDE, Unit::Seconds)
                        .push(round_trip(&client).await?);
                }
                let rate = (sent(()) - before) as f64 / begun.elapsed().as_secs_f64();
                row.note(format!(
                    "Meanwhile the bulk stream brought {}.",
                    Unit::BytesPerSecond.show(rate)
                ));
                bulk.abort();
                Ok(())
            })
        },
    )
}

async fn round_trip(client: &Client) -> Result<f64, Failure> {
    let begun = Instant::now();
    within("the site's answer", client.site())
        .await?
        .map_err(|e| Failure::said("asking the site", &e))?;
    Ok(begun.elapsed().as_secs_f64())
}
