//! Where a call is. Not here: how a site is chosen (kumiko-find).

use crate::site::Shared;
use kumiko_call::id::CallId;
use pyo3::PyResult;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The site of one call, and its number there; until it has begun there may be another.
#[derive(Debug)]
pub struct Place(Mutex<At>);

#[derive(Debug)]
struct At {
    shared: Arc<Shared>,
    id: CallId,
    unwanted: bool,
}

impl Place {
    pub fn new(shared: Arc<Shared>, id: CallId) -> Place {
        Place(Mutex::new(At {
            shared,
            id,
            unwanted: false,
        }))
    }

    fn at(&self) -> MutexGuard<'_, At> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> (Arc<Shared>, CallId) {
        let at = self.at();
        (Arc::clone(&at.shared), at.id)
    }

    /// It is at another site now; false: nobody wants it any more.
    pub fn moves(&self, shared: Arc<Shared>, id: CallId) -> bool {
        let mut at = self.at();
        at.shared.forget(at.id);
        (at.shared, at.id) = (shared, id);
        !at.unwanted
    }

    /// Tells its site that nobody wants it.
    pub async fn cancel(&self) {
        let (shared, id) = {
            let mut at = self.at();
            at.unwanted = true;
            (Arc::clone(&at.shared), at.id)
        };
        let _ = shared.calls.cancel(id).await;
    }

    pub fn acknowledge(&self) -> PyResult<()> {
        let (shared, id) = self.now();
        shared.acknowledge(id)
    }

    pub fn abandon(&self) -> PyResult<()> {
        let (shared, id) = self.now();
        shared.abandon(id)
    }

    pub fn forget(&self) {
        let (shared, id) = self.now();
        shared.forget(id);
    }
}
