//! Slurm's words: the lines of its commands, and what `squeue` answers (sbatch(1), squeue(1)). Pure. Not here: its lists of
//! hosts, its times (`spelt`).

use super::spelt;
use crate::engine::order::Order;
use crate::engine::seen::{Garbled, Row, Seen, Time, Verdict};
use kumiko_ferry::files::Others;
use kumiko_job::attempt::EngineCause;

const MS_A_MINUTE: u64 = 60_000;
/// The variable that tells the tasks of a step apart.
const NUMBER: &str = "SLURM_PROCID";

/// What `squeue` prints of a job: id, name, state, hosts, time that is left, time limit, reason. The name is ours and holds no
/// bar; the reason is the last.
pub const FORMAT: &str = "%i|%j|%T|%N|%L|%l|%r";

/// The file in the spool that Slurm's own words on the host go to: that a job used more memory than it asked for stands nowhere
/// else where no control group tells it (slurm.conf(5), OverMemoryKill).
pub const LOG: &str = "slurm.log";

/// What that file says.
pub fn said_on_host(log: &[u8]) -> Option<Seen> {
    let text = String::from_utf8_lossy(log);
    let line = text.lines().find(|line| {
        let line = line.to_ascii_lowercase();
        line.starts_with("slurmstepd") && line.contains("exceeded") && line.contains("memory limit")
    })?;
    let words = line.trim().to_owned();
    Some(Seen::Over(Verdict::Ended(EngineCause::Limit, words)))
}

/// A path without what `sbatch` would put something else in the place of.
fn literal(path: &std::path::Path) -> String {
    path.to_string_lossy().replace('%', "%%")
}

/// Arguments of `sbatch`. The script comes on its stdin. `carried`: on a host without the spool Slurm would start nothing, if its own words were to
/// go there.
pub fn submission(order: &Order, carried: bool) -> Vec<String> {
    let mut line: Vec<String> = [
        "--parsable",
        // What is tried again is another attempt (spec/jobs J30): of this one, nothing runs twice.
        "--no-requeue",
        "--ntasks-per-node=1",
        "--chdir=/",
        // Guests' output is the runner's business.
        "--input=/dev/null",
        "--output=/dev/null",
        // The environment of this very command, which holds next to nothing. With NONE or NIL Slurm runs a login shell.
        "--export=ALL",
    ]
    .map(str::to_owned)
    .into();
    let own_words = match carried {
        true => "/dev/null".to_owned(),
        false => literal(&order.spool.join(LOG)),
    };
    line.push(format!("--error={own_words}"));
    line.push(format!("--nodes={}", order.hosts));
    line.push(format!("--ntasks={}", order.hosts));
    line.push(format!("--job-name={}", order.tag));
    line.push(format!("--cpus-per-task={}", order.cpus));
    if let Some(limit) = order.time_limit_ms {
        line.push(format!("--time={}", limit.div_ceil(MS_A_MINUTE)));
    }
    let resources = &order.resources;
    let given = [
        ("mem", of_each(resources.memory_mib, order.hosts)),
        (
            "gpus",
            resources
                .gpus
                .filter(|gpus| *gpus > 0)
                .map(|gpus| gpus.to_string()),
        ),
        ("partition", resources.queue.clone()),
        ("account", resources.project.clone()),
    ];
    for (name, value) in given {
        line.extend(value.map(|value| format!("--{name}={value}")));
    }
    if resources.exclusive {
        line.push("--exclusive".to_owned());
    }
    if !order.avoids.is_empty() {
        line.push(format!("--exclude={}", order.avoids.join(",")));
    }
    line
}

/// Memory on each of so many hosts, where it is asked for on all together.
fn of_each(memory_mib: Option<u64>, hosts: u32) -> Option<String> {
    memory_mib.map(|mib| format!("{}M", mib.div_ceil(u64::from(hosts.max(1)))))
}

/// The batch script. An `exec`, so that what Slurm signals and waits for is the runner. Of several hosts it runs on the first;
/// the runners of the others are a step, which Slurm ends with the job. They are told the address by which the first was seen.
pub fn script(order: &Order) -> String {
    let line = |words: &[String]| {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    };
    let step = step(order, "none").map_or_else(String::new, |start| {
        let runner = order.runner.line(&runner_of_another(order));
        format!("({start} \\\n{} &)\n", line(&runner))
    });
    format!(
        "#!/bin/sh\n{step}exec {} 2>/dev/null\n",
        line(&order.line())
    )
}

/// The runners of the other hosts, where these may have none of the site's folders; None: there are none.
pub fn others(order: &Order) -> Option<Others> {
    Some(Others {
        hosts: order.hosts,
        start: format!("{} /bin/sh -s others", step(order, "all")?),
        number: NUMBER,
        line: order.runner.line(&runner_of_another(order)),
    })
}

/// What is told to the runner of another host than the first.
fn runner_of_another(order: &Order) -> [String; 4] {
    let spool = order.spool.to_string_lossy().into_owned();
    ["--host-by", NUMBER, "SLURM_LAUNCH_NODE_IPADDR", &spool].map(str::to_owned)
}

/// What starts something on each other host, whose stdin is `input` of srun's own; None: there is none.
fn step(order: &Order, input: &str) -> Option<String> {
    let others = order.hosts.checked_sub(1).filter(|others| *others > 0)?;
    Some(format!(
        "srun --nodes={others} --ntasks={others} --relative=1 --cpus-per-task={} --mpi=none --kill-on-bad-exit=0 \\\n\
         --input={input} --output=/dev/null --error=/dev/null --export=ALL",
        order.cpus
    ))
}

/// One word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Reads what `squeue` printed; jobs of others are left out. What is not wholly of its lines is not believed at all.
pub fn rows(output: &[u8], prefix: &str) -> Result<Vec<Row>, Garbled> {
    let text = std::str::from_utf8(output).map_err(|_| Garbled::new("bytes that are no text"))?;
    let mut rows = Vec::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.splitn(7, '|').map(str::trim).collect();
        let [number, tag, state, hosts, left, whole, reason] = parts[..] else {
            return Err(Garbled::new(line));
        };
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Garbled::new(line));
        }
        if tag.starts_with(prefix) {
            let hosts = spelt::hosts(hosts).ok_or_else(|| Garbled::new(line))?;
            rows.push(Row {
                time: time(state, left, whole),
                hosts,
                ..Row::new(tag.to_owned(), number.to_owned(), seen(state, reason))
            });
        }
    }
    Ok(rows)
}

/// Of what has no limit Slurm says that a year is left.
fn time(state: &str, left: &str, whole: &str) -> Option<Time> {
    let (left_ms, whole_ms) = (spelt::time_ms(left)?, spelt::time_ms(whole)?);
    (state == "RUNNING").then_some(Time { left_ms, whole_ms })
}

fn seen(state: &str, reason: &str) -> Seen {
    let words = match reason {
        "" | "None" => state.to_owned(),
        reason => format!("{state} ({reason})"),
    };
    let ended = |cause| Seen::Over(Verdict::Ended(cause, words.clone()));
    match state {
        "PENDING" if reason.starts_with("JobHeld") => Seen::Held(words),
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED"
        | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => Seen::Waiting(words),
        "RUNNING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "STAGE_OUT" | "RESIZING" => {
            Seen::Running(words)
        }
        "COMPLETING" => Seen::Ending(words),
        "COMPLETED" | "FAILED" => Seen::Over(Verdict::ByItself(words)),
        "TIMEOUT" | "DEADLINE" | "OUT_OF_MEMORY" => ended(EngineCause::Limit),
        "PREEMPTED" => ended(EngineCause::Preempted),
        "NODE_FAIL" | "BOOT_FAIL" | "LAUNCH_FAILED" | "RECONFIG_FAIL" => {
            ended(EngineCause::HostLost)
        }
        "CANCELLED" | "REVOKED" => ended(EngineCause::Removed),
        _ => Seen::Unknown(words),
    }
}

/// Whether what `sbatch` or `squeue` complains of is that nobody was there to answer, and not an answer.
pub fn is_unreachable(complaint: &str) -> bool {
    const WORDS: [&str; 10] = [
        "Unable to contact slurm controller",
        "Connection refused",
        "Connection timed out",
        "Socket timed out",
        "connect failure",
        "Zero Bytes were transmitted",
        "Unable to process configuration file",
        "Could not establish a configuration source",
        "temporarily unable to accept job",
        "Munge",
    ];
    WORDS.iter().any(|words| complaint.contains(words))
        || complaint.contains("authentication")
        || complaint.contains("ended with signal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_ends_for_its_memory_it_says_on_the_host_only() {
        for line in [
            "slurmstepd: error: Exceeded job memory limit",
            "slurmstepd: error: StepId=7.batch exceeded memory limit (149405696 > 134217728), being killed",
        ] {
            let log = format!("slurmstepd: error: something\n{line}\n");
            let expected = Verdict::Ended(EngineCause::Limit, line.to_owned());
            assert_eq!(said_on_host(log.as_bytes()), Some(Seen::Over(expected)));
        }
        for log in [
            "",
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-22T19:11:41 ***\n",
        ] {
            assert_eq!(said_on_host(log.as_bytes()), None);
        }
    }

    #[test]
    fn a_host_without_slurms_configuration_has_refused_nothing() {
        // As Debian 12's sbatch says it where no slurm.conf is.
        assert!(is_unreachable(
            "sbatch: error: fetch_config: DNS SRV lookup failed\nsbatch: fatal: Could not establish a configuration source"
        ));
        assert!(!is_unreachable(
            "sbatch: error: invalid partition specified: nowhere"
        ));
    }
}
