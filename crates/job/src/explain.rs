//! Why a job waits, runs, failed: in words, from its log alone (`kumiko job explain`).

use crate::attempt::Outcome;
use crate::description::Destination;
use crate::event::{Event, LimitsBy, Record};
use crate::respond::CREDENTIAL_WARNING_MS;
use crate::staging::Item;
use crate::state::{Job, Stage};
use kumiko_policy::Limits;

/// One event in words.
pub fn event(event: &Event) -> String {
    match event {
        Event::Submitted {
            caller,
            description,
            ..
        } => {
            format!(
                "submitted by {} to run {}",
                caller.subject, description.executable
            )
        }
        Event::CredentialGiven { .. } => "it has a delegated credential".to_owned(),
        Event::CredentialEnding { .. } => format!(
            "its credential ends within {} min: renew it with `kumiko job renew`",
            CREDENTIAL_WARNING_MS / 60_000
        ),
        Event::StagingIn { files } => format!("{files} files are to be fetched first"),
        Event::Transferred {
            item: Item::CleanUp,
            ..
        } => "what was to be removed is removed".to_owned(),
        Event::Transferred { item, bytes } => format!("{item} is moved: {bytes} bytes"),
        Event::TransferFailed {
            item,
            code,
            message,
        } => format!("{item} is not moved: {message} ({code})"),
        Event::Redirected { stdout, stderr } => {
            let told = |name: &str, list: &Option<Vec<Destination>>| {
                list.as_ref().map(|list| {
                    let list: Vec<&str> = list.iter().map(|one| one.to.as_str()).collect();
                    format!("{name} goes to {} from now on", words(&list))
                })
            };
            let both = [told("stdout", stdout), told("stderr", stderr)];
            both.into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
        Event::StagedOut {
            outcome: Outcome::StagingFailed { .. },
        } => "not all is sent".to_owned(),
        Event::StagedOut { .. } => "all is sent".to_owned(),
        Event::Queued {} => "it waits until what it reserves is left".to_owned(),
        Event::Planned { epoch, batch, .. } => format!("attempt {epoch} goes to {batch}"),
        Event::Held { epoch } => {
            format!("attempt {epoch} is ready, and held until it is released")
        }
        Event::Released {} => "it is released".to_owned(),
        Event::Started {
            epoch,
            pid,
            mechanism,
            not_enforced,
            why,
        } => {
            let mut text = format!(
                "attempt {epoch} runs under mechanism {mechanism}, its runner is process {pid}"
            );
            if !not_enforced.is_empty() {
                text.push_str("; not enforced: ");
                text.push_str(&not_enforced.join(", "));
            }
            for why in why {
                text.push_str("; ");
                text.push_str(why);
            }
            text
        }
        Event::LimitsSet { by, limits } => {
            let who = match by {
                LimitsBy::Owner => "its owner",
                LimitsBy::Policies => "changed policies of the site, the organisation or the user",
            };
            format!("other limits hold, by {who}: {}", of_limits(limits))
        }
        Event::Narrowed { policy } => format!(
            "its owner narrowed what it may see and reach: {}",
            policy.in_words()
        ),
        Event::Unfollowed { epoch, not } if not.is_empty() => {
            format!("attempt {epoch} follows all of the policies that hold by now")
        }
        Event::Unfollowed { epoch, not } => format!(
            "attempt {epoch} does not follow all of the policies that hold by now: {}",
            not.join("; ")
        ),
        Event::Requeued {
            epoch,
            host: Some(host),
            ..
        } => format!(
            "attempt {epoch} is to leave {host}, which is drained, or whose slot the engine takes back: it is told to end, and its job runs again elsewhere"
        ),
        Event::Requeued {
            epoch,
            host: None,
            to,
        } => {
            let to = to.as_deref().map(|to| format!(" to {to}"));
            format!(
                "its owner has it migrate{}: attempt {epoch} is told to end, and its job runs again",
                to.unwrap_or_default()
            )
        }
        Event::Suspended { epoch } => format!("attempt {epoch} is stopped by a signal"),
        Event::Resumed { epoch } => format!("attempt {epoch} goes on"),
        Event::Unattended { after_s } => format!(
            "nobody has been attached for {after_s} s, as long as was asked for: it is cancelled"
        ),
        Event::CancelRequested { grace_ms } => {
            format!("a cancel was asked for: SIGTERM, and SIGKILL {grace_ms} ms later")
        }
        Event::AttemptEnded {
            epoch,
            outcome: how,
            retry,
            cost,
            ..
        } => {
            let again = match (retry, how) {
                (false, _) => "",
                (true, Outcome::NeverStarted { .. }) => "; it is tried again",
                (true, _) => "; the job runs again, from its start",
            };
            let cost = cost.map_or(String::new(), |cost| format!("; {}", cost.words()));
            format!("attempt {epoch}: {}{again}{cost}", outcome(how))
        }
        Event::Removed { expired: false } => "removed by its owner".to_owned(),
        Event::Removed { expired: true } => "removed: its time to be kept is over".to_owned(),
    }
}

fn words(list: &[&str]) -> String {
    match list {
        [] => "nobody".to_owned(),
        list => list.join(", "),
    }
}

/// The largest that can be said is no limit.
fn of_limits(limits: &Limits) -> String {
    let each = limits.each().map(|(of, value)| match value == of.most() {
        true => format!("no {} limit", of.short_name()),
        false => Limits::words(of, value),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// An outcome in words.
pub fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { status: 0 } => "the program ended well".to_owned(),
        Outcome::Exited { status } => format!("the program ended with status {status}"),
        Outcome::Signalled { signal } => {
            format!("the program was killed by signal {signal}, which nobody here sent")
        }
        Outcome::Cancelled => "cancelled".to_owned(),
        Outcome::TimeLimit => "the job's time limit was over".to_owned(),
        Outcome::OutputQuota { stream } => {
            format!("{} outgrew the site's quota for output", stream.name())
        }
        Outcome::NeverStarted { code, message } => {
            format!("the program never ran: {message} ({code})")
        }
        Outcome::SpoolFailed { message } => {
            format!("the site could not keep the output, which is incomplete: {message}")
        }
        Outcome::StagingFailed {
            item,
            code,
            message,
        } => format!("{item} could not be moved: {message} ({code})"),
        Outcome::EngineEnded { cause, message } => {
            format!(
                "its batch system ended it, since {}: {message}",
                cause.words()
            )
        }
        Outcome::Lost { message } => {
            format!("runner and program are gone without a word: {message}")
        }
    }
}

const MAY_RUN_AGAIN: &str = "it may run again from its start";

/// The job's whole story, and last what it waits for or why it ended.
pub fn job(job: &Job, records: &[Record]) -> Vec<String> {
    let since = |record: &Record| record.at_ms.saturating_sub(job.submitted_ms);
    let mut lines = Vec::new();
    for record in records {
        lines.push(format!("{:>8} ms  {}", since(record), event(&record.event)));
        if let Event::Submitted { description, .. } = &record.event {
            let placement = description.placement.iter().flat_map(|one| one.words());
            let together = description.together.iter().map(|one| one.words());
            let rerun = description.rerun.then(|| MAY_RUN_AGAIN.to_owned());
            lines.extend(
                placement
                    .chain(together)
                    .chain(rerun)
                    .map(|words| format!("{:13}{words}", "")),
            );
        }
    }
    let unattended_s = records.iter().find_map(|record| match record.event {
        Event::Unattended { after_s } => Some(after_s),
        _ => None,
    });
    lines.push(conclusion(job, unattended_s));
    lines
}

fn conclusion(job: &Job, unattended_s: Option<u64>) -> String {
    let cancelling = job.cancel_grace_ms.is_some();
    match &job.stage {
        Stage::StagingIn(_) | Stage::StagingOut(..) => {
            let left = job.to_move();
            let next = left.first().map(Item::to_string).unwrap_or_default();
            let what = match &job.stage {
                Stage::StagingIn(_) => "fetched",
                _ => "sent",
            };
            format!(
                "It waits for its files to be {what}: {} are left, {next} is next.",
                left.len()
            )
        }
        Stage::Waiting { .. } => "It waits until what it reserves is left.".to_owned(),
        Stage::Planned(attempt) if job.is_held() && !cancelling => format!(
            "Attempt {} is held: it waits until all that start together with it are ready.",
            attempt.epoch
        ),
        Stage::Planned(attempt) => format!(
            "It waits for {} to begin attempt {}{}.",
            attempt.batch,
            attempt.epoch,
            if cancelling {
                ", to end it at once"
            } else {
                ""
            }
        ),
        Stage::Running(_, run) if run.suspended => {
            "It is stopped: signal CONT lets it go on.".to_owned()
        }
        Stage::Running(..) if cancelling => "It runs, and was told to end.".to_owned(),
        Stage::Running(_, run) if run.leaves => {
            "It is told to end where it is, and runs again then.".to_owned()
        }
        Stage::Running(..) => "It runs.".to_owned(),
        Stage::Ended(end) => match (&end.outcome, &end.run, unattended_s) {
            (Outcome::Lost { .. }, Some(_), _) => format!(
                "It failed: {}. It had begun, so it is not run again: submit it anew if that does no harm.",
                outcome(&end.outcome)
            ),
            (Outcome::Lost { .. }, None, _) => format!(
                "It failed: {}. It may have begun, so it is not run again: submit it anew if that does no harm.",
                outcome(&end.outcome)
            ),
            (Outcome::Cancelled, None, Some(after_s)) if job.hold_s().is_some() => format!(
                "It ended: cancelled, since nobody who starts it together with others was heard of for {after_s} s."
            ),
            (Outcome::Cancelled, _, Some(after_s)) => {
                format!("It ended: cancelled, since nobody was attached to it for {after_s} s.")
            }
            (how, _, _) => format!("It ended: {}.", outcome(how)),
        },
        Stage::Removed { .. } => "It is removed.".to_owned(),
    }
}
