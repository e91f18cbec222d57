//! The output of one job at the client: guest, pipe, spool, site, TLS, client; beside raw TLS of one process to another
//! and ssh. The same `dd` writes for all but raw TLS.

use super::{connected, job, or_missing, to_the_end, within};
use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::peers::raw_tls::RawTls;
use crate::peers::ssh::Ssh;
use crate::rounds::{self, Contender};
use crate::stats::Unit;
use crate::wait;
use kumiko_client::Client;
use std::time::Instant;

pub const KEY: &str = "stdout";
const OURS: &str = "kumiko exec";
const LIBRARY: &str = "client library";
const RAW: &str = "openssl s_time";
const SSH: &str = "ssh";
const BLOCK_BYTES: u64 = 64 * 1024;

pub fn measure(bench: &Bench) -> Row {
    let goals = vec![
        Goal {
            text: "≥ 60 % of raw TLS",
            ours: OURS,
            reach: Reach::AtLeastTimes {
                theirs: RAW,
                times: 0.6,
            },
        },
        Goal {
            text: "≥ ssh",
            ours: OURS,
            reach: Reach::AtLeastTimes {
                theirs: SSH,
                times: 1.0,
            },
        },
    ];
    or_missing(
        Row::new(KEY, "stdout of one job through TLS to the client", goals),
        |row| {
            let (site, client) = connected(bench)?;
            let bytes: u64 = if bench.options.quick {
                256 << 20
            } else {
                1 << 30
            };
            let count = format!("count={}", bytes / BLOCK_BYTES);
            let writer = ["/bin/dd", "if=/dev/zero", "bs=64k", &count, "status=none"];
            let mut contenders = vec![
                Contender::new(OURS, Unit::BytesPerSecond, || {
                    let arguments = [["exec", "-T", "local", "--"].as_slice(), &writer].concat();
                    Ok(bytes as f64 / wait::timed(&mut site.command(&arguments))?.as_secs_f64())
                }),
                Contender::new(LIBRARY, Unit::BytesPerSecond, || {
                    bench
                        .runtime
                        .block_on(through_library(&client, &writer[1..], bytes))
                }),
            ];
            match RawTls::start(site.home(), bytes) {
                Ok(raw) => contenders.push(Contender::new(RAW, Unit::BytesPerSecond, move || {
                    raw.rate()
                })),
                Err(failure) => row.lacks(Some(RAW), &failure),
            }
            match Ssh::start() {
                Ok(ssh) => contenders.push(Contender::new(SSH, Unit::BytesPerSecond, move || {
                    Ok(bytes as f64
                        / wait::timed(&mut ssh.command(&writer.join(" ")))?.as_secs_f64())
                })),
                Err(failure) => row.lacks(Some(SSH), &failure),
            }
            rounds::take(row, bench.rounds(8), contenders);
            row.note(format!(
                "{} a sample; starting and connecting are part of it.",
                Unit::Bytes.show(bytes as f64)
            ));
            row.note("Raw TLS: openssl s_server sends a file from the page cache to openssl s_time, TLS 1.3, the same suite.");
            row.note("ssh: aes128-gcm@openssh.com, its fastest cipher here.");
            Ok(())
        },
    )
}

async fn through_library(client: &Client, arguments: &[&str], bytes: u64) -> Result<f64, Failure> {
    let begun = Instant::now();
    let exec = within("the submission", client.exec(job("/bin/dd", arguments))).await?;
    let mut attached = exec.map_err(|e| Failure::said("submitting", &e))?;
    let mut came = 0;
    to_the_end(&mut attached, |data| came += data.len() as u64).await?;
    if came != bytes {
        return Err(Failure::unexpected(format!(
            "{came} bytes came instead of {bytes}"
        )));
    }
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}
