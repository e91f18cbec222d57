//! The listener of a subject's contacts (spec/gram G6, G40): TLS under his delegated credential, one query a link.

use super::hall::Hall;
use super::incoming::{Incoming, LinkError};
use super::query;
use super::subject::Subject;
use crate::bounds::{Budget, Budgeted};
use crate::desk::Desk;
use kumiko_identity::Peer;
use kumiko_job::contract::Jobs;
use kumiko_wire::gram::{
    FrameError, GramCode, Query, QueryReply, Response, Status, encode_response,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// After an accept that failed for want of descriptors or memory.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// For a whole query after the handshake.
const QUERY_WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn listen<J: Jobs>(
    desk: Arc<Desk<J>>,
    hall: Arc<Hall>,
    subject: Arc<Subject>,
    listener: TcpListener,
) {
    loop {
        match listener.accept().await {
            Ok((tcp, address)) => match desk.bounds.take(address.ip()) {
                Ok(place) => {
                    let (desk, hall, subject) = (desk.clone(), hall.clone(), subject.clone());
                    tokio::spawn(async move {
                        serve(&desk, &hall, &subject, tcp, address).await;
                        drop(place);
                    });
                }
                Err(why) => crate::front::refuse(&desk.meter, address, &why),
            },
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN_AFTER).await,
        }
    }
}

async fn serve<J: Jobs>(
    desk: &Arc<Desk<J>>,
    hall: &Arc<Hall>,
    subject: &Subject,
    tcp: TcpStream,
    address: SocketAddr,
) {
    if kumiko_linux::tcp::tune(&tcp).is_err() {
        return;
    }
    let tls = match subject.current(desk).await {
        Ok(tls) => tls,
        Err(why) => return tracing::error!("a contact cannot be served: {why}"),
    };
    let limits = &desk.config.limits;
    let budget = Budget::new(limits.bytes_before_authentication);
    let handshake = tls.acceptor.accept(Budgeted::new(tcp, budget.clone()));
    let (link, peer) = match tokio::time::timeout(limits.handshake_within, handshake).await {
        Ok(Ok(known)) => known,
        Ok(Err(why)) => return tracing::info!(%address, "at a job's contact: {why}"),
        Err(_) => return,
    };
    budget.lift();
    let mut link = Incoming::new(link);
    let answered = async {
        let response = match link.request().await {
            Ok(request) => {
                answer(
                    desk,
                    hall,
                    subject,
                    &peer,
                    &request.target,
                    &request.body,
                    &mut link,
                )
                .await
            }
            Err(LinkError::Frame(error)) => bad_frame(&error),
            Err(why) => return Err(why),
        };
        link.send(&encode_response(&response)).await?;
        Ok(link.link.shutdown().await?)
    };
    match tokio::time::timeout(QUERY_WITHIN * 2, answered).await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => tracing::debug!(%address, "at a job's contact: {why}"),
        Err(_) => tracing::debug!(%address, "at a job's contact: too slow"),
    }
}

pub(super) fn bad_frame(error: &FrameError) -> Response {
    tracing::info!("a frame of GRAM is refused: {error}");
    Response {
        status: Status::BadRequest,
        body: None,
    }
}

async fn answer<J: Jobs>(
    desk: &Arc<Desk<J>>,
    hall: &Arc<Hall>,
    subject: &Subject,
    peer: &Peer,
    target: &str,
    body: &str,
    link: &mut query::Link,
) -> Response {
    let failed = |failure| QueryReply {
        state: None,
        failure,
        job_failure: GramCode::SUCCESS,
        more: hall.contacted(None),
    };
    if peer.identity != subject.dn {
        tracing::warn!(subject = %peer.identity, "asks for jobs of somebody else");
        return failed(GramCode::JOB_QUERY_DENIAL).encode();
    }
    let query = match Query::decode(body) {
        Ok(query) => query,
        Err(why) => {
            tracing::info!("a query is refused: {why}");
            return failed(why.gram()).encode();
        }
    };
    let Some(entry) = numbers(target).and_then(|(number, stamp)| {
        let entry = hall.entry(number)?;
        let record = entry.record();
        let his = record.stamp == stamp && record.caller.subject == subject.place.subject;
        his.then_some(entry)
    }) else {
        return failed(GramCode::JOB_CONTACT_NOT_FOUND).encode();
    };
    let ask = query::Ask {
        desk,
        hall,
        entry: &entry,
        subject,
        peer,
    };
    ask.answer(query, link).await.encode()
}

/// The two numbers of a contact's path.
pub(super) fn numbers(path: &str) -> Option<(u64, u64)> {
    let (number, stamp) = path
        .strip_prefix('/')?
        .trim_end_matches('/')
        .split_once('/')?;
    Some((number.parse().ok()?, stamp.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn a_contact_has_two_numbers() {
        let rows = [
            ("/16/17/", Some((16, 17))),
            ("/16/17", Some((16, 17))),
            (
                "/17370759681972645816/72057598265952903/",
                Some((17370759681972645816, 72057598265952903)),
            ),
            ("/16", None),
            ("16/17/", None),
            ("/16/17/18/", None),
            ("/99999999999999999999999/1/", None),
            ("/../1/", None),
        ];
        for (path, expected) in rows {
            assert_eq!(numbers(path), expected, "{path}");
        }
    }
}
