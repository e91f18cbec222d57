//! The doors: a connection whose peer and account are known is served by what it asked for.
//!
//! At a personal site this is in the process that accepted it; at a site for many accounts in the account's agent, on
//! what the front relays. So nothing here may ask for more than bytes both ways.

use crate::admit::{Door, Link, Visitor, until};
use crate::desk::Desk;
use crate::front::refuse;
use crate::{Refused, gram, rest, session};
use kumiko_job::contract::Jobs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::watch;

/// Serves one connection until it ends, or `stopped` says so.
pub(crate) async fn serve<J: Jobs>(
    desk: Arc<Desk<J>>,
    visitor: Visitor,
    link: impl Link,
    door: Door,
    peer: SocketAddr,
    stopped: watch::Receiver<bool>,
) {
    tracing::debug!(%peer, subject = %visitor.caller.subject, ?door, "let in");
    let visitor = Arc::new(visitor);
    match door {
        Door::Session => {
            desk.meter.sessions.fetch_add(1, Relaxed);
            session::serve(desk, visitor, link, peer).await;
        }
        Door::Http1 | Door::Http2 => {
            desk.meter.rest.fetch_add(1, Relaxed);
            let end = until(visitor.peer.not_after);
            let (meter, subject) = (desk.meter.clone(), visitor.caller.subject.clone());
            tokio::select! {
                () = rest::serve(desk, visitor, link, door, peer, stopped) => {}
                () = end => refuse(&meter, peer, &Refused::Ended { subject }),
            }
        }
        Door::Gram => {
            desk.meter.gram.fetch_add(1, Relaxed);
            gram::serve(&desk, &visitor, link).await;
        }
    }
}
