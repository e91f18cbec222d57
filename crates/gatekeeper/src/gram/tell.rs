//! Telling a client of a job's states (spec/gram G33): one link for each state, in order, the newest only.

use super::entry::Entry;
use super::hall::Hall;
use super::incoming::{Incoming, LinkError};
use super::outcome::Told;
use super::store::Registered;
use super::subject::{NoSubject, Subject};
use crate::desk::Desk;
use kumiko_identity::tls::TlsError;
use kumiko_job::contract::Jobs;
use kumiko_job::url::Url;
use kumiko_wire::gram::{Callback, JobState, Request, Status, encode_request};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Most jobs are pending for some milliseconds only; a link to say so would hold up the one that says more.
const PENDING_LASTS: Duration = Duration::from_millis(250);
/// Likewise: many a program is over sooner than a link that says that it runs, and the word of its end would wait for it.
const ACTIVE_LASTS: Duration = Duration::from_millis(50);
/// For one link, from connecting to the client's answer.
const TELL_WITHIN: Duration = Duration::from_secs(10);
/// Pauses between the tries for the end; for other states the first alone. A client's link may be down for a moment.
const TRY_AGAIN_AFTER_MS: [u64; 6] = [200, 1_000, 5_000, 15_000, 60_000, 120_000];
/// Links to clients at once: each has buffers of TLS and a descriptor.
pub(super) const TELLERS: usize = 256;

#[derive(Debug, thiserror::Error)]
enum NotTold {
    #[error("the address is none of a listener: {0}")]
    Address(#[from] kumiko_job::url::UrlError),
    #[error("the address is not https with a host")]
    NotHttps,
    #[error("no connection: {0}")]
    Connect(#[from] std::io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Subject(#[from] NoSubject),
    #[error("it answered with status {0}")]
    Status(u16),
    #[error("no answer within {} s", TELL_WITHIN.as_secs())]
    Slow,
}

/// Tells one client until the end of the job.
pub(super) async fn tell<J: Jobs>(
    desk: Arc<Desk<J>>,
    hall: Arc<Hall>,
    entry: Arc<Entry>,
    registered: Registered,
) {
    let mut states = entry.told.subscribe();
    let mut last = None;
    loop {
        let now = *states.borrow_and_update();
        let Some(now) = now.filter(|_| now != last) else {
            if states.changed().await.is_err() {
                return;
            }
            continue;
        };
        let lasts = match now.state {
            JobState::Pending => PENDING_LASTS,
            JobState::Active => ACTIVE_LASTS,
            _ => Duration::ZERO,
        };
        if !lasts.is_zero() && tokio::time::timeout(lasts, states.changed()).await.is_ok() {
            continue;
        }
        last = Some(now);
        if now.state.is_in(registered.mask) {
            deliver(&desk, &hall, &entry, &registered, now).await;
        }
        if now.is_end() {
            break;
        }
    }
    if let Some(record) = entry.unregister_told(&registered.url) {
        hall.keep(record).await;
    }
}

async fn deliver<J: Jobs>(
    desk: &Arc<Desk<J>>,
    hall: &Hall,
    entry: &Entry,
    registered: &Registered,
    told: Told,
) {
    let record = entry.record();
    let callback = Callback {
        contact: record.contact.clone(),
        state: told.state,
        failure: told.failure,
        more: hall.contacted(told.exit_code),
    };
    let tries = if told.is_end() {
        TRY_AGAIN_AFTER_MS.len()
    } else {
        1
    };
    for after in TRY_AGAIN_AFTER_MS.iter().take(tries) {
        let once = async {
            // Never closed.
            let _place = hall.tellers.acquire().await;
            let subject = hall.known_subject(&record.caller.subject).await?;
            send(desk, &subject, &registered.url, &callback).await
        };
        let told = match tokio::time::timeout(TELL_WITHIN, once).await {
            Ok(told) => told,
            Err(_) => Err(NotTold::Slow),
        };
        match told {
            Ok(()) => return,
            Err(why) => {
                tracing::info!(contact = %record.contact, client = %registered.url, "a client cannot be told: {why}");
            }
        }
        tokio::time::sleep(Duration::from_millis(*after)).await;
    }
}

async fn send<J: Jobs>(
    desk: &Arc<Desk<J>>,
    subject: &Subject,
    url: &str,
    callback: &Callback,
) -> Result<(), NotTold> {
    let url = Url::parse(url)?;
    let Some(server) = &url.server else {
        return Err(NotTold::NotHttps);
    };
    if url.scheme != kumiko_job::url::Scheme::Https {
        return Err(NotTold::NotHttps);
    }
    let tls = subject.current(desk).await?;
    let tcp = TcpStream::connect((server.host.as_str(), server.port)).await?;
    kumiko_linux::tcp::tune(&tcp)?;
    let connected = tls
        .connector
        .connect_to_identity(&server.host, &subject.dn, tcp)
        .await;
    let (link, _) = connected?;
    let mut link = Incoming::new(link);
    let request = Request {
        target: url.path().to_owned(),
        host: server.host.clone(),
        body: callback.encode(),
    };
    link.send(&encode_request(&request)).await?;
    match link.response().await?.status {
        Status::Ok => Ok(()),
        other => Err(NotTold::Status(other.number())),
    }
}
