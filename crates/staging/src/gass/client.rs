//! The asking side of GASS and HTTP (spec/staging, G5 to G7): GET with a place to go on from, PUT and append in chunks,
//! whose source may grow while they last. What a server says is not believed: lengths are counted, silence ends.

use super::doorway::Link;
use super::{AGENT, APPEND, Doorway, HEAD_BYTES, STALL, target};
use crate::fault::TransferError;
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use http::header::{
    ACCEPT_RANGES, CONNECTION, CONTENT_RANGE, CONTENT_TYPE, ETAG, HOST, IF_RANGE, LOCATION, RANGE,
    USER_AGENT,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kumiko_job::url::{Scheme, Url};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Referrals that are followed; GASS servers make at most one.
const REFERRALS: usize = 3;
/// Of what hyper took it holds as much back, until it has nothing else to do ...
const HELD_BYTES: u64 = (HEAD_BYTES + 2 * super::PIECE_BYTES) as u64;
/// ... for so long.
const FLUSHED: Duration = Duration::from_millis(20);
/// Longest text of a server that is told on.
const REASON_BYTES: usize = 200;

#[derive(Debug)]
pub struct Client {
    doorway: Doorway,
    stall: Duration,
}

/// Where a file that was cut is to be gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    pub at: u64,
    /// What the server called this state of the file (a strong ETag).
    pub validator: String,
}

/// How a file is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// In place of what is there.
    Put,
    /// After what is there.
    Append,
}

impl Client {
    pub fn new(doorway: Doorway) -> Client {
        Client {
            doorway,
            stall: STALL,
        }
    }

    /// Gives a silent server up after so long.
    pub fn with_stall(self, stall: Duration) -> Client {
        Client { stall, ..self }
    }

    /// Asks for a file; from `resume` on, where the server can do that and has the same one still.
    pub async fn get(&self, url: &Url, resume: Option<&Resume>) -> Result<Reading, TransferError> {
        let mut url = url.clone();
        for _ in 0..=REFERRALS {
            let mut request = self.request(Method::GET, &url, url.path())?;
            if let Some(Resume { at, validator }) = resume {
                request = request
                    .header(RANGE, format!("bytes={at}-"))
                    .header(IF_RANGE, validator);
            }
            let request = request
                .body(Empty::<Bytes>::new())
                .map_err(|error| protocol(&url, error))?;
            let (mut sender, conversation) = self.converse(&url).await?;
            let answer = tokio::time::timeout(self.stall, sender.send_request(request))
                .await
                .map_err(|_| self.stalled(&url, 0))?
                .map_err(|error| cut(&url, 0, &error))?;
            if answer.status().is_redirection() {
                url = referral(&url, &answer)?;
                continue;
            }
            return Reading::new(url, answer, resume, self.stall, conversation);
        }
        Err(protocol(&url, "it refers on and on"))
    }

    /// Sends what `source` yields, until it ends; answers how many bytes that was. The file may come into being while
    /// it is sent: only the server is not allowed to be slow. `on_bytes` hears how many have certainly left this process.
    pub async fn send(
        &self,
        url: &Url,
        how: Write,
        source: impl Stream<Item = Result<Bytes, TransferError>> + Send + 'static,
        on_bytes: impl Fn(u64) + Send + 'static,
    ) -> Result<u64, TransferError> {
        let request = match how {
            Write::Put => self.request(Method::PUT, url, url.path())?,
            Write::Append => {
                self.request(Method::POST, url, &format!("{APPEND}?{}", url.path()))?
            }
        };
        let pulse = Arc::new(Pulse::new());
        let body = StreamBody::new(watched(source, Arc::clone(&pulse), on_bytes).boxed());
        let request = request
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(body)
            .map_err(|error| protocol(url, error))?;
        let (mut sender, _conversation) = self.converse(url).await?;
        let answer = tokio::select! {
            answer = sender.send_request(request) => answer,
            () = pulse.stops(self.stall) => return Err(self.stalled(url, pulse.sent())),
        };
        // What went wrong at the source broke the request too.
        if let Some(error) = pulse.take_error() {
            return Err(error);
        }
        let answer = answer.map_err(|error| cut(url, pulse.sent(), &error))?;
        refuse_unless_done(url, &answer)?;
        if !pulse.ended() {
            return Err(protocol(url, "it was content before all was sent"));
        }
        Ok(pulse.sent())
    }

    fn request(
        &self,
        method: Method,
        url: &Url,
        target: &str,
    ) -> Result<http::request::Builder, TransferError> {
        let server = url
            .server
            .as_ref()
            .ok_or_else(|| protocol(url, "no host"))?;
        let host = match server.host.contains(':') {
            true => format!("[{}]:{}", server.host, server.port),
            false => format!("{}:{}", server.host, server.port),
        };
        // What stands after it is no part of a request (RFC 9110, section 4.2.5), and here it is part of a name.
        let target = target.replace('#', "%23");
        Ok(Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, host)
            .header(CONNECTION, "close")
            .header(USER_AGENT, AGENT))
    }

    async fn converse<B>(
        &self,
        url: &Url,
    ) -> Result<(http1::SendRequest<B>, Conversation), TransferError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let link: Box<dyn Link> = self.doorway.open(url, self.stall).await?;
        let (sender, connection) = http1::Builder::new()
            .title_case_headers(true)
            .max_buf_size(HEAD_BYTES.max(super::PIECE_BYTES))
            .handshake(TokioIo::new(link))
            .await
            .map_err(|error| cut(url, 0, &error))?;
        // Its end is seen by whoever waits for the answer.
        let running = tokio::spawn(async move { drop(connection.await) });
        Ok((sender, Conversation(running)))
    }

    fn stalled(&self, url: &Url, bytes: u64) -> TransferError {
        TransferError::Stalled {
            url: url.to_string(),
            within: self.stall,
            bytes,
        }
    }
}

/// The connection lives as long as somebody has an interest in it.
#[derive(Debug)]
struct Conversation(JoinHandle<()>);

impl Drop for Conversation {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A file on its way here.
#[derive(Debug)]
pub struct Reading {
    pub url: Url,
    /// Where it begins: 0, or what was asked to be gone on from.
    pub begins_at: u64,
    /// Of the whole file, where the server said so.
    pub length: Option<u64>,
    /// What the server calls this state of the file, if it can go on from somewhere in it.
    pub validator: Option<String>,
    body: Incoming,
    read: u64,
    stall: Duration,
    _conversation: Conversation,
}

impl Reading {
    fn new(
        url: Url,
        answer: Response<Incoming>,
        resume: Option<&Resume>,
        stall: Duration,
        conversation: Conversation,
    ) -> Result<Reading, TransferError> {
        refuse_unless_done(&url, &answer)?;
        let field = |name| {
            let value = answer.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let ranged = field(CONTENT_RANGE).and_then(|field| target::content_range(&field));
        let body = answer.body().size_hint().exact();
        let (begins_at, length) = match (answer.status(), ranged, resume) {
            (StatusCode::PARTIAL_CONTENT, Some((first, whole)), Some(resume))
                if first == resume.at && body.is_none_or(|left| whole - first == left) =>
            {
                (first, Some(whole))
            }
            (StatusCode::PARTIAL_CONTENT, ..) => {
                return Err(protocol(&url, "it sends another part than was asked for"));
            }
            _ => (0, body),
        };
        let ranges = field(ACCEPT_RANGES).is_some_and(|units| units == "bytes") || begins_at > 0;
        Ok(Reading {
            url,
            begins_at,
            length,
            validator: field(ETAG).filter(|tag| ranges && tag.starts_with('"')),
            body: answer.into_body(),
            read: 0,
            stall,
            _conversation: conversation,
        })
    }

    /// The next bytes; None at the end, which is where the server said it would be.
    pub async fn next(&mut self) -> Result<Option<Bytes>, TransferError> {
        loop {
            let frame = tokio::time::timeout(self.stall, self.body.frame()).await;
            let Ok(frame) = frame else {
                return Err(TransferError::Stalled {
                    url: self.url.to_string(),
                    within: self.stall,
                    bytes: self.begins_at + self.read,
                });
            };
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(cut(&self.url, self.begins_at + self.read, &error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.read += data.len() as u64;
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

fn referral(url: &Url, answer: &Response<Incoming>) -> Result<Url, TransferError> {
    let to = answer
        .headers()
        .get(LOCATION)
        .and_then(|to| to.to_str().ok());
    let next = to.and_then(|to| Url::parse(to).ok());
    match next {
        Some(next) if next.scheme == url.scheme || next.scheme == Scheme::Https => Ok(next),
        _ => Err(protocol(
            url,
            "it refers to an address that is not followed",
        )),
    }
}

fn refuse_unless_done<B>(url: &Url, answer: &Response<B>) -> Result<(), TransferError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let url = url.to_string();
    let (number, reason) = (status.as_u16(), reason(answer));
    Err(match number {
        404 | 410 => TransferError::NoSuchFile {
            url,
            status: number,
        },
        500..=599 => TransferError::Failing {
            url,
            status: number,
            reason,
        },
        _ => TransferError::Denied {
            url,
            status: number,
            reason,
        },
    })
}

/// The words beside the number, as the server chose them.
fn reason<B>(answer: &Response<B>) -> String {
    let own = answer.extensions().get::<hyper::ext::ReasonPhrase>();
    let text = match own {
        Some(phrase) => String::from_utf8_lossy(phrase.as_bytes()).into_owned(),
        None => answer.status().canonical_reason().unwrap_or("").to_owned(),
    };
    text.chars()
        .filter(|c| !c.is_control())
        .take(REASON_BYTES)
        .collect()
}

fn protocol(url: &Url, what: impl ToString) -> TransferError {
    TransferError::Protocol {
        url: url.to_string(),
        what: what.to_string(),
    }
}

/// hyper tells apart a peer that goes from one that talks nonsense.
fn cut(url: &Url, bytes: u64, error: &hyper::Error) -> TransferError {
    let mut cause = error.to_string();
    let mut inner = std::error::Error::source(error);
    while let Some(error) = inner {
        cause = format!("{cause}: {error}");
        // The peer's refusal of our certificate comes with its first read (TLS 1.3).
        let refused = error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        if refused {
            return TransferError::Denied {
                url: url.to_string(),
                status: 0,
                reason: error.to_string(),
            };
        }
        inner = error.source();
    }
    if error.is_parse() || error.is_parse_too_large() {
        return protocol(url, cause);
    }
    TransferError::Cut {
        url: url.to_string(),
        bytes,
        cause,
    }
}

/// How a body that is sent gets on: whose turn it is, and since when nothing moved.
struct Pulse {
    sent: AtomicU64,
    /// Nothing is there to be sent yet: nobody is slow.
    waits_for_source: AtomicBool,
    ended: AtomicBool,
    last: Mutex<Instant>,
    error: Mutex<Option<TransferError>>,
}

impl Pulse {
    fn new() -> Pulse {
        Pulse {
            sent: AtomicU64::new(0),
            waits_for_source: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            last: Mutex::new(Instant::now()),
            error: Mutex::new(None),
        }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn touch(&self, waits_for_source: bool) {
        self.waits_for_source
            .store(waits_for_source, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn take_error(&self) -> Option<TransferError> {
        self.error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    async fn stops(&self, stall: Duration) {
        loop {
            let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let idle = match self.waits_for_source.load(Ordering::Relaxed) {
                true => Duration::ZERO,
                false => last.elapsed(),
            };
            if idle >= stall {
                return;
            }
            tokio::time::sleep(stall - idle).await;
        }
    }
}

fn watched<S>(
    source: S,
    pulse: Arc<Pulse>,
    on_bytes: impl Fn(u64) + Send + 'static,
) -> impl Stream<Item = io::Result<Frame<Bytes>>> + Send
where
    S: Stream<Item = Result<Bytes, TransferError>> + Send + 'static,
{
    let source = Box::pin(source);
    stream::unfold(
        (source, pulse, on_bytes),
        |(mut source, pulse, on_bytes)| async move {
            // hyper asks for more when it has room for more.
            pulse.touch(true);
            let handed_over = pulse.sent();
            let piece = {
                let mut next = source.next();
                match tokio::time::timeout(FLUSHED, &mut next).await {
                    Ok(piece) => {
                        on_bytes(handed_over.saturating_sub(HELD_BYTES));
                        piece
                    }
                    Err(_) => {
                        on_bytes(handed_over);
                        next.await
                    }
                }
            };
            pulse.touch(false);
            let piece = match piece {
                None => {
                    pulse.ended.store(true, Ordering::Relaxed);
                    return None;
                }
                Some(Ok(piece)) => {
                    pulse.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
                    Ok(Frame::data(piece))
                }
                Some(Err(error)) => {
                    let said = io::Error::other(error.to_string());
                    *pulse.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Err(said)
                }
            };
            Some((piece, (source, pulse, on_bytes)))
        },
    )
}
