//! Events of one job for one watcher: each once, in order, without polling (duty 2 of `Jobs`).

use crate::cell::Cell;
use crate::log::Reader;
use kumiko_job::contract::{EventStream, EventView};
use kumiko_job::event::REMOVED;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
pub struct Watch {
    cell: Arc<Cell>,
    reader: Arc<Reader>,
    /// Number of the last event that was told.
    told: u64,
    /// Old events, read from the log, that are still to be told.
    old: VecDeque<EventView>,
    over: bool,
}

impl Watch {
    pub fn new(cell: Arc<Cell>, reader: Arc<Reader>, after: u64) -> Watch {
        Watch {
            cell,
            reader,
            told: after,
            old: VecDeque::new(),
            over: false,
        }
    }

    fn tell(&mut self, event: EventView) -> Option<EventView> {
        self.told = event.number;
        self.over = event.kind == REMOVED;
        Some(event)
    }
}

impl EventStream for Watch {
    async fn next(&mut self) -> Option<EventView> {
        if self.over {
            return None;
        }
        let mut face = self.cell.watch();
        loop {
            if let Some(event) = self.old.pop_front() {
                return self.tell(event);
            }
            let wanted = self.told + 1;
            let (event, missed) = {
                let face = face.borrow_and_update();
                if face.closing {
                    return None;
                }
                let event = face
                    .recent
                    .iter()
                    .find(|event| event.number == wanted)
                    .cloned();
                (event, face.job.last_event >= wanted)
            };
            if let Some(event) = event {
                return self.tell(event);
            }
            if missed {
                match self.read_old().await {
                    Some(old) => self.old = old,
                    // The job was removed, and its log with it: the rest is what memory holds.
                    None => {
                        self.told = self
                            .cell
                            .look()
                            .recent
                            .front()
                            .map_or(self.told, |first| first.number - 1)
                    }
                }
                if self.old.is_empty() && self.told + 1 == wanted {
                    self.over = true;
                    return None;
                }
                continue;
            }
            if face.changed().await.is_err() {
                return None;
            }
        }
    }
}

impl Watch {
    /// Events that memory no longer holds. None, if the log does not either.
    async fn read_old(&self) -> Option<VecDeque<EventView>> {
        let reader = Arc::clone(&self.reader);
        let id = self.cell.job().id;
        let read = tokio::task::spawn_blocking(move || reader.job(id))
            .await
            .ok()?;
        let (_, records) = match read {
            Ok(found) => found?,
            Err(error) => {
                tracing::error!(job = %id, %error, "a watcher is let go: the event log cannot be read");
                return None;
            }
        };
        let told = self.told;
        let old: VecDeque<EventView> = kumiko_job::state::views(id, &records)
            .into_iter()
            .filter(|event| event.number > told)
            .collect();
        (!old.is_empty()).then_some(old)
    }
}
