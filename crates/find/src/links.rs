//! Sessions with sites, one for each address: what the routines of a program share. Not here: which site.

use kumiko_client::{Client, ClientError, SiteAddress};
use kumiko_rpc_client::{Calls, Contact, Settings};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// A session, and the calls on it.
#[derive(Clone, Debug)]
pub struct Link {
    pub client: Client,
    pub calls: Calls,
    /// Calls of this program that are there.
    here: Arc<AtomicUsize>,
}

/// A call is there as long as this lives.
#[derive(Debug)]
pub struct Here(Arc<AtomicUsize>);

impl Drop for Here {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    /// Says what is left to say, and goodbye; a site that is away is not waited for.
    pub async fn goodbye(self) {
        let _ = tokio::time::timeout(GOODBYE_WITHIN, self.calls.close()).await;
    }

    pub fn here(&self) -> Here {
        self.here.fetch_add(1, Ordering::Relaxed);
        Here(Arc::clone(&self.here))
    }
}

/// All sessions of one person.
#[derive(Debug)]
pub struct Links {
    own: Arc<Contact>,
    settings: Settings,
    open: Mutex<HashMap<SiteAddress, Link>>,
}

impl Links {
    pub fn of(own: Arc<Contact>) -> Links {
        let settings = Settings {
            durability: own.durability,
            ..Settings::default()
        };
        Links {
            own,
            settings,
            open: Mutex::default(),
        }
    }

    pub fn own(&self) -> &Contact {
        &self.own
    }

    pub fn settings(&self) -> Settings {
        self.settings
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SiteAddress, Link>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls of this program are there.
    pub fn calls_at(&self, address: &SiteAddress) -> usize {
        let here = |link: &Link| link.here.load(Ordering::Relaxed);
        self.open().get(address).map_or(0, here)
    }

    /// One that answers, as far as is known.
    pub fn up(&self, address: &SiteAddress) -> Option<Link> {
        let open = self.open();
        open.get(address).filter(|one| one.client.is_up()).cloned()
    }

    /// One that is there, or is made.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn to(&self, address: &SiteAddress) -> Result<Link, ClientError> {
        let known = self.open().get(address).cloned();
        match known {
            Some(link) => Ok(link),
            None => self.anew(address).await,
        }
    }

    /// One that answers, or is made: to a site that may be away it is not waited for that it is back.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn to_one_that_is_up(&self, address: &SiteAddress) -> Result<Link, ClientError> {
        match self.up(address) {
            Some(link) => Ok(link),
            None => self.anew(address).await,
        }
    }

    async fn anew(&self, address: &SiteAddress) -> Result<Link, ClientError> {
        let own = &self.own;
        let client = Client::connect(address, &own.credential, &own.trust).await?;
        let mut open = self.open();
        let before = open.get(address);
        // Another thread may have been quicker.
        if let Some(link) = before.filter(|link| link.client.is_up()) {
            return Ok(link.clone());
        }
        let link = Link {
            calls: Calls::new(client.clone(), self.settings),
            client,
            here: before
                .map(|link| Arc::clone(&link.here))
                .unwrap_or_default(),
        };
        open.insert(address.clone(), link.clone());
        Ok(link)
    }

    /// Takes all, to say goodbye.
    pub fn take(&self) -> Vec<Link> {
        let open = std::mem::take(&mut *self.open());
        open.into_values().collect()
    }
}
