//! `kumiko job submit` and `run`: a folder there, the output here, the exit status passed on.

use crate::args::{Delegation, Format, Submit};
use crate::attached::{self, End, Interrupt};
use crate::connect;
use crate::fail::{Failure, OWN_FAILURE};
use crate::home::Home;
use crate::job::{across, describe, place, together, view};
use crate::output::{self, Show};
use kumiko_client::{Attached, Client, ClientError, Sent};
use kumiko_job::attempt::Outcome;
use kumiko_job::description::{JobDescription, Stdin};
use kumiko_job::placement::plain_name;
use kumiko_job::rsl;
use kumiko_wire::api::{Delegated, Submitted};

impl Show for Submitted {
    fn human(&self) -> String {
        self.job.to_string()
    }
}

impl Show for Delegated {
    fn human(&self) -> String {
        self.credential.clone()
    }
}

pub async fn submit(mut submit: Submit, format: Format, home: &Home) -> Result<u8, Failure> {
    if submit.across.is_some() {
        return Err(Failure::misuse(
            "--across needs somebody who stays: use `kumiko job run`",
        ));
    }
    let mut description = match asked_for(&mut submit)? {
        Asked::One(description) => *description,
        Asked::Several(parts) => return together::submit(&submit, parts, format, home).await,
    };
    if description.stdin == Stdin::Live {
        return Err(Failure::misuse(
            "--stdin - needs somebody who stays: use `kumiko job run`, or name a file",
        ));
    }
    if submit.place.dry_run {
        place::show(&submit, &description, home).await?;
        return Ok(0);
    }
    if submit.place.among.requirement.is_some() {
        let placed = place::place(&submit, &description, home).await?;
        let told = placed.tell(format);
        connect::close(placed.client).await;
        return told.map(|()| 0);
    }
    connect::with(submit.target.site.as_deref(), home, async |client| {
        prepare(client, &submit, &mut description).await?;
        let job = client.submit(description, submit.key.clone()).await?;
        Ok(output::one(format, &Submitted { job })?)
    })
    .await?;
    Ok(0)
}

pub async fn run(mut submit: Submit, home: &Home) -> Result<u8, Failure> {
    if let Some(across) = &submit.across {
        return across::run(&submit, across, home).await;
    }
    let description = match asked_for(&mut submit)? {
        Asked::One(description) => *description,
        Asked::Several(parts) => return together::run(&submit, parts, home).await,
    };
    let live = description.stdin == Stdin::Live;
    let end = if submit.place.dry_run {
        place::show(&submit, &description, home).await?;
        return Ok(0);
    } else if submit.place.among.requirement.is_some() {
        let placed = place::place(&submit, &description, home).await?;
        let site = plain_name(&placed.at.site);
        eprintln!(
            "kumiko: job {} is at {site} ({})",
            placed.job, placed.at.contact
        );
        let client = &placed.client;
        let ended = async {
            let job = client.attach(placed.job, live, 0, 0).await?;
            to_the_end(client, job, &submit, &description, placed.mark_us).await
        };
        let ended = ended.await;
        connect::close(placed.client).await;
        ended?
    } else {
        return to_its_end(&submit, description, home).await;
    };
    Ok(told(&end))
}

/// At the site that was named, until it has ended.
pub async fn to_its_end(
    submit: &Submit,
    mut description: JobDescription,
    home: &Home,
) -> Result<u8, Failure> {
    let end = connect::with(submit.target.site.as_deref(), home, async |client| {
        let folder = prepare(client, submit, &mut description).await?;
        let mark_us = folder.map(|(mark_us, _)| mark_us);
        let job = client.exec(description.clone()).await?;
        to_the_end(client, job, submit, &description, mark_us).await
    });
    Ok(told(&end.await?))
}

fn told(end: &End) -> u8 {
    let (status, word) = status_of(&end.outcome);
    if let Some(word) = word {
        eprintln!("kumiko: job {}: {word}", end.job);
    }
    status
}

enum Asked {
    One(Box<JobDescription>),
    Several(Vec<rsl::Subjob>),
}

fn asked_for(submit: &mut Submit) -> Result<Asked, Failure> {
    let Some(text) = &submit.rsl else {
        return describe::of_submit(submit).map(|one| Asked::One(Box::new(one)));
    };
    let mut parts = describe::parts(text)?;
    if let [one] = &parts[..] {
        let description = describe::of_part(submit, one)?;
        if let Some(contact) = parts.swap_remove(0).contact {
            submit.target.site = Some(contact);
        }
        return Ok(Asked::One(Box::new(description)));
    }
    match submit.place.among.requirement.is_some() {
        true => Err(Failure::misuse(
            "--where chooses one site: name that of each part by resourceManagerContact",
        )),
        false => Ok(Asked::Several(parts)),
    }
}

/// Streams it here until it has ended, and brings its files.
async fn to_the_end(
    client: &Client,
    job: Attached,
    submit: &Submit,
    description: &JobDescription,
    mark_us: Option<u64>,
) -> Result<End, Failure> {
    let live = description.stdin == Stdin::Live;
    let end = attached::follow(job, live, Interrupt::Cancels(client)).await?;
    if description.policy.is_some() {
        for what in client.show(end.job).await?.not_enforced {
            eprintln!("kumiko: job {}: not enforced here: {what}", end.job);
        }
    }
    if let (Some(folder), Some(mark_us)) = (&submit.dir, mark_us) {
        client.download_into(end.job, folder, Some(mark_us)).await?;
    }
    Ok(end)
}

/// Sends what the site needs before the submission; the site's mark of the folder, of which what changes after it comes back, and how it
/// went there.
pub async fn prepare(
    client: &Client,
    submit: &Submit,
    description: &mut JobDescription,
) -> Result<Option<(u64, Sent)>, ClientError> {
    let mut folder = None;
    if let Some(path) = &submit.dir {
        let (uploaded, sent) = client.send_folder(path).await?;
        description.input = Some(uploaded.input);
        folder = Some((uploaded.mark_us, sent));
    }
    delegate(client, submit.delegation, description).await?;
    Ok(folder)
}

/// Gives the job a proxy of the caller's credential, if that was asked for.
pub async fn delegate(
    client: &Client,
    delegation: Delegation,
    description: &mut JobDescription,
) -> Result<(), ClientError> {
    if let Some(rights) = delegation.delegate {
        description.credential = Some(client.delegate(rights.into()).await?.credential);
    }
    Ok(())
}

/// The exit status that passes an outcome on, as a shell would; and a word where the number alone says too little.
pub fn status_of(outcome: &Outcome) -> (u8, Option<String>) {
    let word = || Some(view::outcome_words(outcome));
    match outcome {
        Outcome::Exited { status } => ((*status & 0xff) as u8, None),
        Outcome::Signalled { signal } => ((128 + (*signal & 0x7f)) as u8, word()),
        Outcome::NeverStarted { code, .. } => match code.as_str() {
            "no_such_executable" => (127, word()),
            "not_executable" | "no_interpreter" | "arguments_too_long" => (126, word()),
            _ => (OWN_FAILURE, word()),
        },
        _ => (OWN_FAILURE, word()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_pass_on_the_status_a_shell_would_give() {
        let check =
            |outcome: Outcome, status: u8| assert_eq!(status_of(&outcome).0, status, "{outcome:?}");
        check(Outcome::Exited { status: 0 }, 0);
        check(Outcome::Exited { status: 255 }, 255);
        check(Outcome::Signalled { signal: 9 }, 137);
        check(Outcome::Cancelled, 125);
        check(Outcome::TimeLimit, 125);
        let never = |code: &str| Outcome::NeverStarted {
            code: code.to_owned(),
            message: String::new(),
        };
        check(never("no_such_executable"), 127);
        check(never("not_executable"), 126);
        check(never("policy"), 125);
    }
}
