//! The door at the gatekeeper's port (spec/gram G3 to G5, G22 to G24): one exchange of a link.

use super::contact::bad_frame;
use super::delegate::{self, NotDelegated};
use super::hall::Hall;
use super::incoming::{Incoming, LinkError};
use super::submit::Request;
use crate::admit::{Link, Visitor};
use crate::desk::Desk;
use kumiko_identity::{Credential, KeyKind, KeyPool};
use kumiko_job::contract::Jobs;
use kumiko_wire::gram::{
    GramCode, JobReply, MessageError, Response, Status, ToGatekeeper, Wanted, encode_response,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// For all that a client has to send after the handshake; it signs one certificate meanwhile.
const REQUEST_WITHIN: Duration = Duration::from_secs(30);
/// The same for one who is not let in.
const TURN_AWAY_WITHIN: Duration = Duration::from_secs(10);
/// The services: all of them start jobs on the site's one host.
const SERVICES: [&str; 3] = ["jobmanager", "jobmanager-fork", "jobmanager-fork-poll"];
/// Before the name of the site's batch system: that of GT's gatekeepers with it.
const SERVICE_OF: &str = "jobmanager-";

/// What a client with TLS 1.3 waits for before it goes on (G3).
pub(crate) async fn greet<L: AsyncWrite + Unpin>(link: &mut L) -> std::io::Result<()> {
    link.write_all(&[0]).await?;
    link.flush().await
}

fn refusal(status: Status) -> Response {
    Response { status, body: None }
}

/// Serves one link to its end.
pub(crate) async fn serve<J: Jobs>(desk: &Arc<Desk<J>>, visitor: &Visitor, link: impl Link) {
    let mut link = Incoming::new(link);
    let answered = match desk.gram.get() {
        Some(hall) => exchange(desk, hall, visitor, &mut link).await,
        None => turned(&mut link, Status::InternalError).await,
    };
    if let Err(why) = answered {
        tracing::info!(subject = %visitor.caller.subject, "at GRAM's door: {why}");
    }
}

/// Tells one who is not let in, in the door's own words.
pub(crate) async fn turn_away(link: impl Link) {
    // Whether it was heard makes no difference any more.
    let _ = turned(&mut Incoming::new(link), Status::Forbidden).await;
}

/// A client reads a status only after its own part of the exchange.
async fn turned<L: AsyncRead + AsyncWrite + Unpin>(
    link: &mut Incoming<L>,
    status: Status,
) -> Result<(), NotDelegated> {
    let heard = async {
        if link.flag().await? {
            delegate::take(&KeyPool::new(KeyKind::P256), link).await?;
        }
        link.request().await?;
        Ok::<_, NotDelegated>(())
    };
    let slow = || LinkError::Closed {
        awaited: "a whole request",
    };
    tokio::time::timeout(TURN_AWAY_WITHIN, heard)
        .await
        .map_err(|_| slow())??;
    end(link, &refusal(status)).await
}

async fn end<L: AsyncRead + AsyncWrite + Unpin>(
    link: &mut Incoming<L>,
    response: &Response,
) -> Result<(), NotDelegated> {
    link.send(&encode_response(response)).await?;
    link.link.shutdown().await.map_err(LinkError::Io)?;
    Ok(())
}

async fn exchange<J: Jobs, L: Link>(
    desk: &Arc<Desk<J>>,
    hall: &Arc<Hall>,
    visitor: &Visitor,
    link: &mut Incoming<L>,
) -> Result<(), NotDelegated> {
    let heard = async {
        let given = match link.flag().await? {
            true => Some(delegate::take(&hall.keys, link).await?),
            false => None,
        };
        Ok::<_, NotDelegated>((given, link.request().await))
    };
    let slow = || LinkError::Closed {
        awaited: "a whole request",
    };
    let (given, request) = tokio::time::timeout(REQUEST_WITHIN, heard)
        .await
        .map_err(|_| slow())??;
    let request = match request {
        Ok(request) => request,
        Err(LinkError::Frame(error)) => return end(link, &bad_frame(&error)).await,
        Err(why) => return Err(why.into()),
    };
    if !visitor.may_start {
        tracing::info!(subject = %visitor.caller.subject, "a limited proxy is refused at GRAM's door");
        return end(link, &refusal(Status::Forbidden)).await;
    }
    let asked = match ToGatekeeper::decode(&request) {
        Ok(asked) => asked,
        Err(MessageError::NoService { .. }) => return end(link, &refusal(Status::NotFound)).await,
        Err(error) => {
            tracing::info!("a message of GRAM is refused: {error}");
            let mut more = hall.contacted(None);
            more.message = Some(error.to_string());
            let reply = JobReply {
                status: error.gram(),
                contact: None,
                more,
            };
            return end(link, &reply.encode()).await;
        }
    };
    let service = asked.service.as_str();
    if !SERVICES.contains(&service) && service.strip_prefix(SERVICE_OF) != Some(hall.config.batch) {
        return end(link, &refusal(Status::NotFound)).await;
    }
    if asked
        .account
        .is_some_and(|account| account != visitor.caller.account)
    {
        return end(link, &refusal(Status::Forbidden)).await;
    }
    let reply = match asked.wanted {
        Wanted::Ping => {
            let pong = Response {
                status: Status::Ok,
                body: Some(String::new()),
            };
            return end(link, &pong).await;
        }
        Wanted::Version => {
            let reply = JobReply {
                status: GramCode::SUCCESS,
                contact: None,
                more: hall.contacted(None),
            };
            return end(link, &reply.encode()).await;
        }
        Wanted::Job(job) => {
            let credential = match given {
                Some((waiting, certificates)) => judged(desk, visitor, waiting, certificates).await,
                None => Ok(None),
            };
            match credential {
                Err(why) => {
                    let mut more = hall.contacted(None);
                    more.message = Some(why.to_string());
                    let reply = JobReply {
                        status: GramCode::DELEGATION_FAILED,
                        contact: None,
                        more,
                    };
                    return end(link, &reply.encode()).await;
                }
                Ok(credential) => {
                    let asking = Request {
                        desk,
                        hall,
                        visitor,
                        host: host(&request.host).unwrap_or_else(|| hall.config.host.clone()),
                        credential: credential.as_ref(),
                    };
                    asking.answer(job).await
                }
            }
        }
    };
    // The job is there whether or not its client hears of it.
    let ended = end(link, &reply.reply.encode()).await;
    if let Some(entry) = reply.entry {
        entry.tell(desk, hall);
    }
    ended
}

async fn judged<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    waiting: kumiko_identity::delegation::Receiver,
    certificates: Vec<u8>,
) -> Result<Option<Credential>, NotDelegated> {
    let judged = delegate::judge(desk, &visitor.peer, waiting, certificates).await;
    judged.map(Some)
}

/// The host of a `Host` line, without its port, if it is a name or an address (G25).
fn host(line: &str) -> Option<String> {
    const LONGEST: usize = 255; // of a name (RFC 1035, section 2.3.4)
    let host = match line.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => line,
    };
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    if let Some(inner) = inner {
        return inner
            .parse::<std::net::Ipv6Addr>()
            .ok()
            .map(|_| host.to_owned());
    }
    let fits = !host.is_empty()
        && host.len() <= LONGEST
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    fits.then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn a_host_is_a_name_or_an_address() {
        let rows = [
            ("vm", Some("vm")),
            ("vm.example.org:2119", Some("vm.example.org")),
            ("127.0.0.1:22119", Some("127.0.0.1")),
            ("[::1]:22119", Some("[::1]")),
            ("[x]", None),
            ("", None),
            ("a b", None),
            ("vm/../x", None),
            ("vm\"", None),
        ];
        for (line, expected) in rows {
            assert_eq!(host(line).as_deref(), expected, "{line}");
        }
    }
}
