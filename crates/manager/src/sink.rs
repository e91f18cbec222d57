//! Where reports of attempts arrive: facts go to the keeper to be recorded, lengths are told at once.

use crate::cell::Cells;
use crate::keeper::Ask;
use kumiko_job::attempt::{AttemptReport, OutputStream};
use kumiko_job::contract::AttemptSink;
use kumiko_job::id::AttemptId;
use std::sync::Arc;
use std::sync::mpsc::Sender;

#[derive(Debug)]
pub struct Sink {
    pub(crate) asks: Sender<Ask>,
    pub(crate) cells: Arc<Cells>,
}

impl AttemptSink for Sink {
    fn report(&self, id: AttemptId, report: AttemptReport) {
        let cell = || self.cells.get(id.job);
        match report {
            AttemptReport::Output { stream, length } => {
                if let Some(cell) = cell() {
                    cell.update(id, |face| {
                        let known = match stream {
                            OutputStream::Stdout => &mut face.stdout_bytes,
                            OutputStream::Stderr => &mut face.stderr_bytes,
                        };
                        *known = length.max(*known);
                    });
                }
            }
            AttemptReport::StdinTaken { offset } => {
                if let Some(cell) = cell() {
                    cell.update(id, |face| face.stdin_taken = offset.max(face.stdin_taken));
                }
            }
            AttemptReport::StdinClosed => {
                if let Some(cell) = cell() {
                    cell.update(id, |face| face.stdin_closed = true);
                }
            }
            AttemptReport::Cost(cost) => {
                if let Some(cell) = cell() {
                    cell.update(id, |face| face.cost = Some(cost));
                }
            }
            // No job asks for the first; the other is its batch system's.
            AttemptReport::Beat | AttemptReport::Vacates => {}
            AttemptReport::Held
            | AttemptReport::Started { .. }
            | AttemptReport::Followed { .. }
            | AttemptReport::Suspended
            | AttemptReport::Resumed
            | AttemptReport::Ended(_) => {
                // The keeper is gone only when the site goes down: then the next one asks the runner again.
                let _ = self.asks.send(Ask::Report {
                    attempt: id,
                    report,
                });
            }
        }
    }
}
