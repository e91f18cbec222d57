//! Routines that an index tells of, at whichever of their sites each call would have its result first. Not here: how that is chosen
//! (kumiko-find), and a call (`routine`).

use crate::errors;
use crate::routine::Routine;
use crate::runtime::{Process, wait};
use crate::site::{Shared, durability_of};
use kumiko_client::SiteAddress;
use kumiko_find::{Sites, Turn, Wish};
use kumiko_rpc_client::Contact;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What the routines of one person share.
#[derive(Debug)]
struct Known {
    links: Arc<kumiko_find::Links>,
    process: Process,
    sites: Mutex<HashMap<SiteAddress, Arc<Shared>>>,
    /// Those that are in use.
    found: Mutex<Vec<Weak<Sites>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sites of one routine.
#[derive(Clone, Debug)]
pub struct Best {
    known: Arc<Known>,
    pub sites: Arc<Sites>,
}

impl Best {
    pub fn check(&self) -> PyResult<()> {
        self.known.process.check()
    }

    /// The site that a call is at.
    pub fn shared(&self, turn: &Turn) -> Arc<Shared> {
        let mut sites = lock(&self.known.sites);
        let known = sites.get(turn.address());
        if let Some(shared) = known.filter(|shared| shared.calls.is(turn.calls())) {
            return Arc::clone(shared);
        }
        let durability = self.known.links.own().durability;
        let shared = Shared::new(turn.calls().clone(), turn.address(), durability);
        sites.insert(turn.address().clone(), Arc::clone(&shared));
        shared
    }
}

#[pyclass(frozen)]
#[derive(Debug)]
pub struct Links {
    known: Arc<Known>,
    index: Option<String>,
}

#[pymethods]
impl Links {
    /// `contact`: a file, else the personal site's.
    #[new]
    #[pyo3(signature = (contact=None, durability=None))]
    fn new(py: Python<'_>, contact: Option<PathBuf>, durability: Option<&str>) -> PyResult<Links> {
        let mut own =
            Contact::load(contact.as_deref()).map_err(|error| errors::contact(py, &error))?;
        if let Some(name) = durability {
            own.durability = durability_of(name)?;
        }
        Ok(Links {
            index: own.index.clone(),
            known: Arc::new(Known {
                links: Arc::new(kumiko_find::Links::of(Arc::new(own))),
                process: Process::this(),
                sites: Mutex::default(),
                found: Mutex::default(),
            }),
        })
    }

    /// The routine at those sites that an index tells of; None: no index is named, by this or by the file.
    #[pyo3(signature = (name, requirement, rank=None, index=None))]
    fn find(
        &self,
        py: Python<'_>,
        name: &str,
        requirement: String,
        rank: Option<String>,
        index: Option<String>,
    ) -> PyResult<Option<Routine>> {
        self.known.process.check()?;
        let index = index.or_else(|| self.index.clone());
        let (Some(index), Some(home)) = (index, kumiko_rpc_client::home()) else {
            return Ok(None);
        };
        let wish = Wish {
            requirement,
            rank,
            work: None,
        };
        let links = Arc::clone(&self.known.links);
        let sites = wait(py, Sites::find(index, name, wish, home, links))?
            .map_err(|error| errors::found(py, &error))?;
        {
            let mut found = lock(&self.known.found);
            found.retain(|sites| sites.strong_count() > 0);
            found.push(Arc::downgrade(&sites));
        }
        let known = Arc::clone(&self.known);
        Ok(Some(Routine::best(Best { known, sites })))
    }

    /// Says what is left to say, and goodbye.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let known = &self.known;
        known.process.check()?;
        let found = std::mem::take(&mut *lock(&known.found));
        for sites in found.iter().filter_map(Weak::upgrade) {
            sites.close();
        }
        let sites = std::mem::take(&mut *lock(&known.sites));
        let links = known.links.take();
        wait(py, async {
            for shared in sites.values() {
                shared.close().await;
            }
            for link in links {
                // Sites that were asked and not called.
                if !sites.values().any(|shared| shared.calls.is(&link.calls)) {
                    link.goodbye().await;
                }
            }
        })
    }
}
