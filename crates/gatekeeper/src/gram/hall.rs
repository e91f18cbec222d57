//! What the door has in common for all connections: its store, the jobs with contacts, the subjects and their listeners.

use super::contact;
use super::entry::Entry;
use super::outcome;
use super::store::{Place, Record, Stage, Store};
use super::subject::{NoSubject, Subject};
use super::tell::TELLERS;
use super::{Gram, commit};
use crate::desk::Desk;
use kumiko_identity::{Credential, Dn, KeyPool};
use kumiko_job::contract::Jobs;
use kumiko_wire::gram::{Contacted, GramCode};
use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// Subjects with contacts in one account: each has a port.
const MOST_SUBJECTS: usize = 256;
/// How often records are looked for whose jobs are gone.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// Between two looks at whether keys are to be made ahead.
const FILL_EVERY: Duration = Duration::from_millis(200);

pub(crate) struct Hall {
    pub(super) config: Gram,
    pub(super) keys: Arc<KeyPool>,
    pub(super) store: Store,
    entries: Mutex<HashMap<u64, Arc<Entry>>>,
    /// Held while one is made, so that each is made once.
    subjects: tokio::sync::Mutex<HashMap<String, Arc<Subject>>>,
    listeners: Mutex<Vec<AbortHandle>>,
    pub(super) tellers: Semaphore,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the store and takes up what was there before. The door serves once this is done.
pub(crate) async fn begin<J: Jobs>(desk: &Arc<Desk<J>>) -> io::Result<()> {
    let Some(config) = desk.config.gram.clone() else {
        return Ok(());
    };
    let path = config.state.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let store = Store::open(&path)?;
        let (places, records) = (store.places()?, store.records()?);
        Ok::<_, io::Error>((store, places, records))
    });
    let (store, places, records) = opened.await.map_err(io::Error::other)??;
    let hall = Arc::new(Hall {
        keys: Arc::new(KeyPool::new(config.delegation)),
        config,
        store,
        entries: Mutex::default(),
        subjects: tokio::sync::Mutex::default(),
        listeners: Mutex::default(),
        tellers: Semaphore::new(TELLERS),
    });
    for place in places {
        let subject = place.subject.clone();
        if let Err(why) = hall.reopen(desk, place).await {
            tracing::error!(%subject, "contacts of jobs are closed until he delegates again: {why}");
        }
    }
    for record in records {
        hall.take_up(desk, record).await;
    }
    let sweep = tokio::spawn(sweep(desk.clone(), Arc::downgrade(&hall)));
    let fill = tokio::spawn(fill(Arc::downgrade(&hall.keys)));
    lock(&hall.listeners).extend([sweep.abort_handle(), fill.abort_handle()]);
    let _ = desk.gram.set(hall); // `begin` is called once
    Ok(())
}

impl Hall {
    /// Nothing of it listens or tells any more.
    pub fn shutdown(&self) {
        for listener in lock(&self.listeners).drain(..) {
            listener.abort();
        }
        for (_, entry) in lock(&self.entries).drain() {
            entry.stop();
        }
    }

    pub(super) fn entry(&self, number: u64) -> Option<Arc<Entry>> {
        lock(&self.entries).get(&number).cloned()
    }

    pub(super) fn insert(&self, entry: Arc<Entry>) {
        let number = entry.record().number;
        lock(&self.entries).insert(number, entry);
    }

    /// How many jobs of a subject wait for their commit.
    pub(super) fn uncommitted(&self, subject: &str) -> usize {
        let entries = lock(&self.entries);
        entries
            .values()
            .filter(|entry| entry.is_uncommitted_of(subject))
            .count()
    }

    /// On disk when it returns, or logged.
    pub(super) async fn keep(&self, record: Record) -> bool {
        let store = self.store.clone();
        let contact = record.contact.clone();
        let kept = tokio::task::spawn_blocking(move || store.keep(&record)).await;
        match kept.map_err(io::Error::other).and_then(|kept| kept) {
            Ok(()) => true,
            Err(cause) => {
                tracing::error!(%contact, %cause, "what belongs to a contact could not be kept");
                false
            }
        }
    }

    pub(super) async fn forget(&self, number: u64) {
        if let Some(entry) = lock(&self.entries).remove(&number) {
            entry.stop();
        }
        let store = self.store.clone();
        let gone = tokio::task::spawn_blocking(move || store.forget(number)).await;
        if let Err(cause) = gone.map_err(io::Error::other).and_then(|gone| gone) {
            tracing::error!(%cause, "what belonged to a contact could not be removed");
        }
    }

    pub(super) fn contacted(&self, exit_code: Option<i64>) -> Contacted {
        Contacted {
            version: Some(concat!("kumiko ", env!("CARGO_PKG_VERSION")).to_owned()),
            toolkit_version: Some(concat!("kumiko-", env!("CARGO_PKG_VERSION")).to_owned()),
            exit_code,
            message: None,
        }
    }

    pub(super) async fn known_subject(&self, subject: &str) -> Result<Arc<Subject>, NoSubject> {
        let known = self.subjects.lock().await;
        known.get(subject).cloned().ok_or(NoSubject::NotDelegated)
    }

    /// The subject with its listener; the credential is new.
    pub(super) async fn subject<J: Jobs>(
        self: &Arc<Self>,
        desk: &Arc<Desk<J>>,
        dn: &Dn,
        credential: Option<&Credential>,
    ) -> Result<Arc<Subject>, NoSubject> {
        let name = dn.to_string();
        let mut known = self.subjects.lock().await;
        if let Some(subject) = known.get(&name).cloned() {
            drop(known);
            if let Some(credential) = credential {
                subject.offer(desk, &self.store, credential).await?;
            }
            return Ok(subject);
        }
        let credential = credential.ok_or(NoSubject::NotDelegated)?;
        if known.len() >= MOST_SUBJECTS {
            let full = io::Error::other(format!("{MOST_SUBJECTS} subjects have contacts already"));
            return Err(NoSubject::Listen(full));
        }
        let listener = TcpListener::bind((self.config.listen, 0))
            .await
            .map_err(NoSubject::Listen)?;
        let place = Place {
            id: random().map_err(NoSubject::Keep)?,
            subject: name.clone(),
            port: listener.local_addr().map_err(NoSubject::Listen)?.port(),
        };
        let (store, saved, kept) = (self.store.clone(), credential.clone(), place.clone());
        tokio::task::spawn_blocking(move || {
            saved.save_proxy(&store.credential(kept.id))?;
            store.keep_place(&kept).map_err(NoSubject::Keep)
        })
        .await??;
        let trust = desk.trust.current(&desk.meter).await;
        let subject = Subject::new(dn.clone(), place, credential.clone(), trust)?;
        let subject = Arc::new(subject);
        self.listen(desk, &subject, listener);
        known.insert(name, subject.clone());
        Ok(subject)
    }

    /// A subject from before.
    async fn reopen<J: Jobs>(
        self: &Arc<Self>,
        desk: &Arc<Desk<J>>,
        place: Place,
    ) -> Result<(), NoSubject> {
        let path = self.store.credential(place.id);
        let read = tokio::task::spawn_blocking(move || Credential::load(&path));
        let credential = read.await??;
        let dn = Dn::parse(&place.subject).map_err(|_| NoSubject::Name(place.subject.clone()))?;
        let listener = TcpListener::bind((self.config.listen, place.port))
            .await
            .map_err(NoSubject::Listen)?;
        let trust = desk.trust.current(&desk.meter).await;
        let name = place.subject.clone();
        let subject = Arc::new(Subject::new(dn, place, credential, trust)?);
        self.listen(desk, &subject, listener);
        self.subjects.lock().await.insert(name, subject);
        Ok(())
    }

    fn listen<J: Jobs>(
        self: &Arc<Self>,
        desk: &Arc<Desk<J>>,
        subject: &Arc<Subject>,
        listener: TcpListener,
    ) {
        let task = contact::listen(desk.clone(), self.clone(), subject.clone(), listener);
        lock(&self.listeners).push(tokio::spawn(task).abort_handle());
    }

    /// A job from before: whoever is to be told of it is.
    async fn take_up<J: Jobs>(self: &Arc<Self>, desk: &Arc<Desk<J>>, record: Record) {
        let (number, waits) = (
            record.number,
            matches!(record.stage, Stage::Uncommitted { .. }),
        );
        let entry = Entry::new(record);
        if self.is_gone(desk, &entry).await {
            return self.forget(number).await;
        }
        self.insert(entry.clone());
        if waits {
            commit::wait(desk, self, &entry);
        }
        entry.tell(desk, self);
    }

    async fn is_gone<J: Jobs>(&self, desk: &Arc<Desk<J>>, entry: &Entry) -> bool {
        match entry.now(desk).await {
            Ok(_) => false,
            Err(refusal) => outcome::refused(&refusal) == GramCode::JOB_CONTACT_NOT_FOUND,
        }
    }
}

/// Forgets what belongs to jobs that are gone.
async fn sweep<J: Jobs>(desk: Arc<Desk<J>>, hall: Weak<Hall>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(hall) = hall.upgrade() else {
            return;
        };
        let entries: Vec<_> = lock(&hall.entries).values().cloned().collect();
        for entry in entries {
            if hall.is_gone(&desk, &entry).await {
                hall.forget(entry.record().number).await;
            }
        }
    }
}

/// Makes keys ahead where they take long.
async fn fill(keys: Weak<KeyPool>) {
    loop {
        let Some(keys) = keys.upgrade() else {
            return;
        };
        let made = tokio::task::spawn_blocking(move || keys.fill_one()).await;
        if !matches!(made, Ok(Ok(true))) {
            tokio::time::sleep(FILL_EVERY).await;
        }
    }
}

/// A number that was never used.
pub(super) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
