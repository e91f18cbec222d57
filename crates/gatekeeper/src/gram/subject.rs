//! A subject with jobs: his newest delegated credential, and TLS under it for the contacts and callbacks of his jobs
//! (spec/gram G6). Not here: the listener (`contact`).

use super::store::{Place, Store};
use crate::desk::Desk;
use kumiko_identity::tls::{Acceptor, Connector, TlsError};
use kumiko_identity::{Credential, CredentialError, Dn, TrustStore};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// A credential replaces one that ends earlier by more than this: most clients delegate of the same proxy again and again.
const LATER_BY: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub(super) enum NoSubject {
    #[error("no credential was delegated, and none is here from before: contacts of jobs need one")]
    NotDelegated,
    #[error("the delegated credential cannot be used or kept: {0}")]
    Credential(#[from] CredentialError),
    #[error("TLS cannot be set up under the delegated credential: {0}")]
    Tls(#[from] TlsError),
    #[error("no port for the contacts of jobs: {0}")]
    Listen(#[source] std::io::Error),
    #[error("what belongs to the contacts cannot be kept: {0}")]
    Keep(#[source] std::io::Error),
    #[error("the subject {0} cannot be read as a name")]
    Name(String),
    #[error("a task of ours failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// TLS under a credential, with a state of the trust directory.
#[derive(Clone)]
pub(super) struct Tls {
    pub credential: Credential,
    trust: Arc<TrustStore>,
    pub acceptor: Acceptor,
    pub connector: Connector,
}

impl Tls {
    fn new(credential: Credential, trust: Arc<TrustStore>) -> Result<Tls, TlsError> {
        Ok(Tls {
            acceptor: Acceptor::new(&credential, &trust, &[])?,
            connector: Connector::new(Some(&credential), &trust, &[])?,
            credential,
            trust,
        })
    }
}

pub(super) struct Subject {
    pub dn: Dn,
    pub place: Place,
    tls: RwLock<Arc<Tls>>,
}

impl Subject {
    pub fn new(
        dn: Dn,
        place: Place,
        credential: Credential,
        trust: Arc<TrustStore>,
    ) -> Result<Subject, TlsError> {
        Ok(Subject {
            dn,
            place,
            tls: RwLock::new(Arc::new(Tls::new(credential, trust)?)),
        })
    }

    fn tls(&self) -> Arc<Tls> {
        self.tls
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, tls: Tls) -> Arc<Tls> {
        let tls = Arc::new(tls);
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = tls.clone();
        tls
    }

    /// With the trust directory as it is now.
    pub async fn current<J>(&self, desk: &Desk<J>) -> Result<Arc<Tls>, NoSubject> {
        let tls = self.tls();
        let trust = desk.trust.current(&desk.meter).await;
        if Arc::ptr_eq(&tls.trust, &trust) {
            return Ok(tls);
        }
        Ok(self.set(Tls::new(tls.credential.clone(), trust)?))
    }

    /// Takes a credential that ends later than the one that is there.
    pub async fn offer<J>(
        &self,
        desk: &Desk<J>,
        store: &Store,
        credential: &Credential,
    ) -> Result<(), NoSubject> {
        let now = SystemTime::now();
        let left = self.tls().credential.remaining(now);
        if credential.remaining(now) <= left + LATER_BY {
            return Ok(());
        }
        let trust = desk.trust.current(&desk.meter).await;
        self.set(Tls::new(credential.clone(), trust)?);
        let (path, credential) = (store.credential(self.place.id), credential.clone());
        tokio::task::spawn_blocking(move || credential.save_proxy(&path)).await??;
        Ok(())
    }
}
