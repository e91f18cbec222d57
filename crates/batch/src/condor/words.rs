//! HTCondor's words: submit descriptions (condor_submit(1)), what `condor_q` answers, the events of a job's log (the manual's
//! "Job Event Log Codes", "HoldReasonCode"). Pure.

use crate::engine::order::Order;
use crate::engine::seen::{Garbled, Row, Seen, Time, Verdict};
use kumiko_job::attempt::EngineCause;
use std::collections::BTreeMap;
use std::path::Path;

/// The file in the spool that HTCondor writes the events of the attempt to.
pub const LOG: &str = "condor.log";
/// How long a slot whose job ended stays ours, so that the next one starts in it at once instead of waiting to be matched:
/// long enough for who submits one after the other, too short for others to mind.
const KEEP_CLAIM_S: u32 = 10;
/// A slot that was cut out for a larger job, and kept, is none for this one: small jobs would run in it one after the other, and all
/// else of its host would be idle.
const NO_LARGER: &str = "TARGET.DynamicSlot =!= true || TARGET.Cpus <= MY.RequestCpus";
/// The hold reasons by which a person, or the submission itself, has a job wait: UserRequest, SubmittedOnHold.
const BY_PERSON: [&str; 2] = ["1", "15"];
/// JobOutOfResources, JobDurationExceeded, JobExecuteExceeded.
const OVER_LIMIT: [&str; 3] = ["34", "46", "47"];
/// StartdHeldJob: a policy of the host's, which the subcode tells.
const BY_HOST: &str = "21";
/// Subcodes of HTCondor's own policies of that kind: HOLD_IF_CPUS_EXCEEDED, _MEMORY_, _RUNTIME_EXCEEDS, _DISK_EXCEEDED
/// (param_info.in, HOLD_SUBCODE_*).
const OVER_LIMIT_OF_HOST: [&str; 4] = ["101", "102", "103", "104"];

/// What is asked of each job: the attributes of a row of `condor_q`.
pub const ATTRIBUTES: [&str; 10] = [
    "KumikoTag",
    "ClusterId",
    "JobStatus",
    "HoldReasonCode",
    "HoldReasonSubCode",
    "RemoteHost",
    "AllowedJobDuration",
    "JobCurrentStartDate",
    "ServerTime",
    "HoldReason",
];
const NOTHING: &str = "undefined";
/// The attribute with the pattern of the slots that a job is not to run on.
pub const AVOIDS: &str = "KumikoAvoids";

/// The pattern of the slots of these hosts. A slot is named after its host, or after its startd where a machine has several:
/// `slot1@host`, `slot1@startd@host`.
pub fn slots_of<'a>(hosts: impl Iterator<Item = &'a String>) -> String {
    let hosts: Vec<String> = hosts.map(|host| host.replace('.', "[.]")).collect();
    match hosts.is_empty() {
        true => "^$".to_owned(),
        false => format!("(^|@)({})$", hosts.join("|")),
    }
}

/// A submit description. `script`: what is to be run in place of the order's own line, and is sent to hosts that do not have the site's
/// files.
pub fn submission(order: &Order, script: Option<&Path>) -> String {
    let path = |path: &std::path::Path| plain(&path.to_string_lossy());
    let spool = path(&order.spool);
    let line = order.line();
    let (program, arguments) = line
        .split_first()
        .map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    let arguments: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
    let mut lines = vec!["universe = vanilla".to_owned()];
    lines.extend(match script {
        // The site's directory is there on every host.
        None => [
            format!("executable = {}", plain(program)),
            plain(&format!("arguments = \"{}\"", arguments.join(" "))),
            "transfer_executable = false".to_owned(),
            "should_transfer_files = NO".to_owned(),
        ],
        // Nothing comes back this way.
        Some(script) => [
            format!("executable = {}", path(script)),
            "should_transfer_files = IF_NEEDED".to_owned(),
            "when_to_transfer_output = ON_EXIT".to_owned(),
            "transfer_output_files =".to_owned(),
        ],
    });
    lines.extend([
        "initialdir = /".to_owned(),
        "notification = never".to_owned(),
        format!("log = {spool}/{LOG}"),
        format!("keep_claim_idle = {KEEP_CLAIM_S}"),
        format!("batch_name = {}", order.tag),
        format!("request_cpus = {}", order.cpus),
        format!("+KumikoTag = \"{}\"", order.tag),
        format!("+KumikoSite = \"{}\"", order.site),
        plain(&format!(
            "+{AVOIDS} = \"{}\"",
            slots_of(order.avoids.iter())
        )),
        format!("requirements = (regexp(MY.{AVOIDS}, TARGET.Name) =!= true) && ({NO_LARGER})"),
    ]);
    // A runner does not heed SIGTERM (spec/jobs R8), so who holds, removes or evicts it here would only wait. A pilot heeds it (PL37),
    // and is to hear it whoever ends it: HTCondor 23.9 sends `remove_kill_sig` for condor_vacate_job too.
    if !order.is_pilot() {
        lines.push("kill_sig = SIGKILL".to_owned());
    }
    let resources = &order.resources;
    let given = [
        (
            "request_memory",
            resources.memory_mib.map(|mib| mib.to_string()),
        ),
        (
            "request_gpus",
            resources
                .gpus
                .filter(|gpus| *gpus > 0)
                .map(|gpus| gpus.to_string()),
        ),
        ("accounting_group", resources.project.clone()),
        (
            "allowed_job_duration",
            order
                .time_limit_ms
                .map(|limit| limit.div_ceil(1000).to_string()),
        ),
    ];
    for (name, value) in given {
        lines.extend(value.map(|value| format!("{name} = {value}")));
    }
    lines.push("queue 1\n".to_owned());
    lines.join("\n")
}

/// One word of an `arguments` line (condor_submit(1), "New Syntax").
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "''").replace('"', "\"\""))
}

/// Nothing that HTCondor would put something else in the place of.
fn plain(value: &str) -> String {
    value.replace('$', "$(DOLLAR)")
}

/// An expression that is true for the jobs with this value.
pub fn constraint(attribute: &str, value: &str) -> String {
    format!("{attribute} == \"{value}\"")
}

/// Reads what `condor_q -af:t` printed of `ATTRIBUTES`. What is not wholly of its lines is not believed at all.
pub fn rows(output: &[u8]) -> Result<Vec<Row>, Garbled> {
    let text = std::str::from_utf8(output).map_err(|_| Garbled::new("bytes that are no text"))?;
    let row = |line: &str| {
        let parts: Vec<&str> = line.splitn(10, '\t').map(str::trim).collect();
        let [
            tag,
            number,
            state,
            code,
            subcode,
            host,
            whole,
            since,
            now,
            reason,
        ] = parts[..]
        else {
            return Err(Garbled::new(line));
        };
        if number.parse::<u64>().is_err() {
            return Err(Garbled::new(line));
        }
        Ok(Row {
            hosts: hosts(host),
            time: time(state, whole, since, now),
            ..Row::new(
                tag.to_owned(),
                number.to_owned(),
                seen(state, [code, subcode], reason),
            )
        })
    };
    text.lines().map(row).collect()
}

/// The names that a slot's host has: its startd's, and its own.
fn hosts(slot: &str) -> Vec<String> {
    if slot == NOTHING {
        return Vec::new();
    }
    let startd = slot.split_once('@').map_or(slot, |(_, startd)| startd);
    let machine = startd.rsplit_once('@').map(|(_, machine)| machine);
    let names = [Some(startd), machine].into_iter().flatten();
    names.map(str::to_owned).collect()
}

/// In seconds, the last two since 1970.
fn time(state: &str, whole: &str, since: &str, now: &str) -> Option<Time> {
    let number = |text: &str| text.parse::<u64>().ok();
    let (whole, since, now) = (number(whole)?, number(since)?, number(now)?);
    let left = whole.saturating_sub(now.saturating_sub(since));
    (state == "2").then_some(Time {
        left_ms: left.saturating_mul(1000),
        whole_ms: whole.saturating_mul(1000),
    })
}

fn seen(state: &str, codes: [&str; 2], reason: &str) -> Seen {
    match state {
        "1" => Seen::Waiting("Idle".to_owned()),
        "2" => Seen::Running("Running".to_owned()),
        "3" => Seen::Over(Verdict::Ended(EngineCause::Removed, "Removed".to_owned())),
        "4" => Seen::Over(Verdict::ByItself("Completed".to_owned())),
        "5" => held(codes, reason),
        "6" => Seen::Running("Transferring Output".to_owned()),
        "7" => Seen::Running("Suspended".to_owned()),
        other => Seen::Unknown(format!("JobStatus {other}")),
    }
}

fn held([code, subcode]: [&str; 2], reason: &str) -> Seen {
    let words = format!("Held ({reason}, code {code})");
    let by_host = code == BY_HOST && OVER_LIMIT_OF_HOST.contains(&subcode);
    if BY_PERSON.contains(&code) {
        Seen::Held(words)
    } else if by_host || OVER_LIMIT.contains(&code) {
        Seen::Over(Verdict::Ended(EngineCause::Limit, words))
    } else {
        Seen::Over(Verdict::Ended(EngineCause::Held, words))
    }
}

/// What the log of an attempt says in the end; of several jobs in it, of the one that is the farthest from its end. An event
/// of which the last line is not there yet does not count, and neither does one that is not known.
pub fn last_event(log: &[u8]) -> Option<Seen> {
    let text = String::from_utf8_lossy(log);
    let mut jobs: BTreeMap<&str, Seen> = BTreeMap::new();
    let mut evicted: BTreeMap<&str, String> = BTreeMap::new();
    let mut event: Vec<&str> = Vec::new();
    for line in text.split_inclusive('\n') {
        if line != "...\n" {
            event.push(line.trim());
            continue;
        }
        if let Some((job, mut seen)) = one_event(&event) {
            if event.iter().any(|line| line.starts_with("004 ")) {
                evicted.insert(job, seen.words().to_owned());
            }
            // Run again after that, it came to the end that nothing runs twice (spec/jobs R5).
            if let (Seen::Over(Verdict::ByItself(_)), Some(words)) = (&seen, evicted.get(job)) {
                seen = Seen::Over(Verdict::Ended(EngineCause::Evicted, words.clone()));
            }
            jobs.insert(job, seen);
        }
        event.clear();
    }
    jobs.into_values().max()
}

/// The job and what it says of it.
fn one_event<'a>(lines: &[&'a str]) -> Option<(&'a str, Seen)> {
    let (first, rest) = lines.split_first()?;
    let mut parts = first.splitn(5, ' ');
    let (number, job) = (parts.next()?, parts.next()?);
    let (_date, _time, words) = (parts.next()?, parts.next()?, parts.next()?);
    let detail = rest.first().copied().unwrap_or_default();
    let told = match detail {
        "" => words.to_owned(),
        detail => format!("{words} {detail}"),
    };
    let seen = match number {
        "000" | "013" => Seen::Waiting(words.to_owned()),
        "001" | "010" | "011" | "022" | "023" => Seen::Running(words.to_owned()),
        "004" | "007" | "024" => Seen::Waiting(told),
        "005" => Seen::Over(Verdict::ByItself(told)),
        "009" => Seen::Over(Verdict::Ended(EngineCause::Removed, told)),
        "012" => {
            let line = rest.iter().find_map(|line| line.strip_prefix("Code "));
            let (code, subcode) = line
                .unwrap_or_default()
                .split_once(" Subcode ")
                .unwrap_or_default();
            held([code, subcode], detail)
        }
        _ => return None,
    };
    Some((job, seen))
}

/// Whether what a command complains of is that nobody was there to answer, and not an answer.
pub fn is_unreachable(complaint: &str) -> bool {
    const WORDS: [&str; 9] = [
        "Failed to connect",
        "Can't find address",
        "Can't connect",
        "Couldn't contact",
        "Unable to locate",
        "SECMAN",
        "AUTHENTICATE",
        "does not exist",
        "timed out",
    ];
    WORDS.iter().any(|words| complaint.contains(words)) || complaint.contains("ended with signal")
}
