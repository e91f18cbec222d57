//! Files of the simulated job that has some. What was moved is known to the oracle only, and outlives the site.

use super::World;
use kumiko_job::attempt::{Outcome, OutputStream};
use kumiko_job::contract::Refusal;
use kumiko_job::decide::Action;
use kumiko_job::description::{Destination, JobDescription, StageIn, StageOut};
use kumiko_job::id::JobId;
use kumiko_job::respond::{self, Here};
use kumiko_job::staging::{Item, items_in, stream_item};
use kumiko_job::state::{Job, Stage};

/// Files in, a stream and a file out.
pub fn description(plain: &JobDescription) -> JobDescription {
    let file = |to: &str| StageIn {
        from: "https://h/f".into(),
        to: to.into(),
        bytes: None,
        sha256: None,
    };
    JobDescription {
        stage_in: vec![file("a"), file("b")],
        stage_out: vec![StageOut {
            from: "c".into(),
            to: "https://h/c".into(),
        }],
        stdout: vec![Destination::new("https://h/o")],
        clean_up: vec!["a".into()],
        ..plain.clone()
    }
}

impl World {
    /// One step of a task that moves files; it goes on until its stage is over.
    pub fn stage(&mut self, id: JobId, action: Action) {
        let Some(job) = self.up().jobs.get(&id).cloned() else {
            return;
        };
        if let Some((item, given)) = due(&job, action) {
            let done = !self.dice.one_in(8);
            if done {
                self.moved.insert((id, item));
            }
            let how = if done {
                Ok(7)
            } else {
                Err(Refusal::new("transfer_refused", "no"))
            };
            self.say(|| format!("moves {item} of {id}: {how:?}"));
            let boot = self.boots.to_string();
            let here = Here {
                batch: "simulated",
                boot: &boot,
                has_room: true,
            };
            // Should the site be killed here, the transfer is done again.
            if self.dice.one_in(8) {
                return self.up().todo.push_back((action, false));
            }
            self.record(id, respond::moved(&job, item, given, how, here));
        }
        let goes_on = match action {
            Action::Stream { given, .. } => {
                job.is_live() && job.destinations(OutputStream::Stdout).0 == given
            }
            _ => matches!(job.stage, Stage::StagingIn(_) | Stage::StagingOut(..)),
        };
        if goes_on {
            self.up().todo.push_back((action, false));
        }
    }

    pub fn redirect(&mut self, index: usize) {
        let Some(job) = self.job_of(index) else {
            return;
        };
        let to = self.dice.roll(3);
        let list = (to > 0).then(|| Destination::new(&format!("https://h/{to}")));
        if let Ok(events) = respond::redirect(&job, Some(list.into_iter().collect()), None) {
            self.record(job.id, events);
        }
    }

    /// No guest begins before its files are there.
    pub fn check_files(&self, job: &Job) {
        for item in items_in(&job.description) {
            assert!(self.moved.contains(&(job.id, item)), "{item} is not there");
        }
    }

    /// What is told of the end is true of the files.
    pub fn check_sent(&self, job: &Job, outcome: &Outcome) {
        match outcome {
            Outcome::Exited { .. } => {
                let files = 0..job.description.stage_out.len() as u32;
                for item in files.map(Item::Out) {
                    assert!(self.moved.contains(&(job.id, item)), "{item} was not sent");
                }
            }
            Outcome::StagingFailed {
                item: item @ (Item::In(_) | Item::Shared(_)),
                ..
            } => assert!(!self.began.contains_key(&job.id), "without {item}"),
            _ => {}
        }
    }
}

fn due(job: &Job, action: Action) -> Option<(Item, Option<u64>)> {
    let left = job.to_move();
    match action {
        Action::Stream { stream, given, .. } => {
            let item = stream_item(stream, 0);
            left.contains(&item).then_some((item, Some(given)))
        }
        _ => match left.as_slice() {
            [Item::CleanUp] => Some((Item::CleanUp, None)),
            left => left
                .iter()
                .find(|item| !matches!(item, Item::Stdout(_) | Item::Stderr(_) | Item::CleanUp))
                .map(|item| (*item, None)),
        },
    }
}
