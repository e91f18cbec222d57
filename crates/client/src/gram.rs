//! GRAM from the user's side (spec/gram), to sites of ours and to gatekeepers of the Globus Toolkit: ask, submit with a
//! delegated credential, query a job's contact, and be told of its states.
//!
//! Not here: RSL texts (kumiko-job), files and streams of jobs (staging).

use crate::SiteAddress;
use kumiko_identity::delegation::{self, DelegationError, MAX_REPLY_BYTES};
use kumiko_identity::proxy::Options;
use kumiko_identity::tls::{Acceptor, Connector, TlsError, TlsStream};
use kumiko_identity::{Credential, Dn, TrustStore};
use kumiko_job::url::{Scheme, Url, UrlError};
use kumiko_wire::gram::{
    Callback, FrameError, JobReply, JobRequest, MessageError, NoCertificate, Query, QueryReply,
    Request, Response, Status, ToGatekeeper, Wanted, certificate_length, decode_request,
    decode_response, encode_request,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// For one exchange. A gatekeeper of GT makes a key meanwhile, and its cancellation waits for the job's end.
const WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum GramError {
    #[error("no connection to {to}: {cause}")]
    Connect { to: String, cause: io::Error },
    #[error("TLS with {to}: {cause}")]
    Tls { to: String, cause: TlsError },
    #[error("the link broke: {0}")]
    Link(#[from] io::Error),
    #[error("the peer closed the link before its answer was whole")]
    Closed,
    #[error("no answer within {} s", WITHIN.as_secs())]
    Slow,
    #[error("the peer's first byte is {0:#04x}, and no gatekeeper's")]
    Greeting(u8),
    #[error("the peer asks for no certificate: {0}")]
    Request(#[from] NoCertificate),
    #[error("the credential cannot be delegated: {0}")]
    Delegation(#[from] DelegationError),
    #[error("the credential cannot be used for TLS: {0}")]
    Credential(TlsError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error("\"{contact}\" is no contact of a job: {cause}")]
    Contact { contact: String, cause: UrlError },
    #[error("the answer is status {0}")]
    Status(u16),
}

/// How far an exchange with a gatekeeper has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// TLS stands, and the gatekeeper has greeted.
    Greeted,
    /// It has made a key, and asks for a certificate.
    Asked,
    /// The proxy is signed and sent.
    Given,
}

/// One user's way to gatekeepers and jobs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GramClient {
    credential: Credential,
    connector: Connector,
    acceptor: Acceptor,
    identity: Dn,
}

impl GramClient {
    pub fn new(credential: &Credential, trust: &TrustStore) -> Result<GramClient, GramError> {
        Ok(GramClient {
            connector: Connector::new(Some(credential), trust, &[])
                .map_err(GramError::Credential)?,
            acceptor: Acceptor::new(credential, trust, &[]).map_err(GramError::Credential)?,
            identity: credential.identity().clone(),
            credential: credential.clone(),
        })
    }

    /// Is the service there, and may we use it?
    pub async fn ping(&self, site: &SiteAddress, service: &str) -> Result<Status, GramError> {
        let asked = asked(service, Wanted::Ping);
        Ok(within(self.ask(site, &asked, |_| ())).await?.status)
    }

    pub async fn version(&self, site: &SiteAddress, service: &str) -> Result<JobReply, GramError> {
        let asked = asked(service, Wanted::Version);
        reply(within(self.ask(site, &asked, |_| ())).await?)
    }

    /// Delegates a limited proxy and asks for a job.
    pub async fn submit(
        &self,
        site: &SiteAddress,
        service: &str,
        job: JobRequest,
    ) -> Result<JobReply, GramError> {
        self.submit_noting(site, service, job, |_| ()).await
    }

    /// As `submit`; `note` hears of each step as it is done.
    pub async fn submit_noting(
        &self,
        site: &SiteAddress,
        service: &str,
        job: JobRequest,
        note: impl FnMut(Step),
    ) -> Result<JobReply, GramError> {
        let asked = asked(service, Wanted::Job(job));
        reply(within(self.ask(site, &asked, note)).await?)
    }

    /// Asks a job for something; not for `Renew`, which is a longer talk.
    pub async fn query(&self, contact: &str, query: &Query) -> Result<QueryReply, GramError> {
        let wrong = |cause| GramError::Contact {
            contact: contact.to_owned(),
            cause,
        };
        let url = Url::parse(contact).map_err(wrong)?;
        let (Scheme::Https, Some(server)) = (url.scheme, &url.server) else {
            return Err(wrong(UrlError::Host));
        };
        let request = Request {
            target: url.path().to_owned(),
            host: server.host.clone(),
            body: query.encode(),
        };
        within(async {
            let tcp = connect(&server.host, server.port).await?;
            let connected = self
                .connector
                .connect_to_identity(&server.host, &self.identity, tcp);
            let (link, _) = connected.await.map_err(|cause| GramError::Tls {
                to: contact.to_owned(),
                cause,
            })?;
            let mut link = Link::new(link);
            link.send(&encode_request(&request)).await?;
            let response = link.response().await?;
            match response.body {
                Some(body) => Ok(QueryReply::decode(&body)?),
                None => Err(GramError::Status(response.status.number())),
            }
        })
        .await
    }

    /// Listens for what jobs tell.
    pub async fn listen(&self, address: SocketAddr, host: &str) -> Result<Listener, GramError> {
        let listener = TcpListener::bind(address).await?;
        let port = listener.local_addr()?.port();
        Ok(Listener {
            listener: Arc::new(listener),
            acceptor: self.acceptor.clone(),
            identity: self.identity.clone(),
            url: format!("https://{host}:{port}/"),
        })
    }

    async fn ask(
        &self,
        site: &SiteAddress,
        asked: &ToGatekeeper,
        mut note: impl FnMut(Step),
    ) -> Result<Response, GramError> {
        let mut link = self.open(site).await?;
        note(Step::Greeted);
        if matches!(asked.wanted, Wanted::Ping) {
            link.send(b"0").await?;
        } else {
            link.send(b"D").await?;
            let request = link.certificate().await?;
            note(Step::Asked);
            let options = Options {
                lifetime: Duration::MAX, // as long as ours
                limited: true,
                ..Options::default()
            };
            let signed = delegation::sign(&request, &self.credential, &options)?;
            link.send(&signed).await?;
            note(Step::Given);
        }
        link.send(&encode_request(&asked.encode(&site.host)))
            .await?;
        link.response().await
    }

    /// TLS, and the gatekeeper's greeting.
    async fn open(&self, site: &SiteAddress) -> Result<Link<TlsStream<TcpStream>>, GramError> {
        let tcp = connect(&site.host, site.port).await?;
        let connected = self.connector.connect(&site.host, tcp).await;
        let (link, _) = connected.map_err(|cause| GramError::Tls {
            to: site.to_string(),
            cause,
        })?;
        let greets = link.version() == "TLSv1.3";
        let mut link = Link::new(link);
        if greets {
            link.greeting().await?;
        }
        Ok(link)
    }
}

fn asked(service: &str, wanted: Wanted) -> ToGatekeeper {
    ToGatekeeper {
        service: service.to_owned(),
        account: None,
        wanted,
    }
}

fn reply(response: Response) -> Result<JobReply, GramError> {
    match response.body {
        Some(body) => Ok(JobReply::decode(&body)?),
        None => Err(GramError::Status(response.status.number())),
    }
}

async fn within<T>(work: impl Future<Output = Result<T, GramError>>) -> Result<T, GramError> {
    match tokio::time::timeout(WITHIN, work).await {
        Ok(done) => done,
        Err(_) => Err(GramError::Slow),
    }
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, GramError> {
    let connected = TcpStream::connect((host, port)).await;
    let tcp = connected.map_err(|cause| GramError::Connect {
        to: format!("{host}:{port}"),
        cause,
    })?;
    kumiko_linux::tcp::tune(&tcp)?;
    Ok(tcp)
}

/// Where jobs tell their states.
#[derive(Clone, Debug)]
pub struct Listener {
    listener: Arc<TcpListener>,
    acceptor: Acceptor,
    identity: Dn,
    url: String,
}

impl Listener {
    /// What a request for a job names as its callback.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The next word of a job's that comes from its owner's credential; what does not is passed over.
    pub async fn next(&self) -> Result<Callback, GramError> {
        loop {
            let (tcp, _) = self.listener.accept().await?;
            let heard = within(self.hear(tcp)).await;
            if let Ok(Some(callback)) = heard {
                return Ok(callback);
            }
        }
    }

    async fn hear(&self, tcp: TcpStream) -> Result<Option<Callback>, GramError> {
        kumiko_linux::tcp::tune(&tcp)?;
        let (link, peer) = self
            .acceptor
            .accept(tcp)
            .await
            .map_err(|cause| GramError::Tls {
                to: self.url.clone(),
                cause,
            })?;
        if peer.identity != self.identity {
            return Ok(None);
        }
        let mut link = Link::new(link);
        let callback = Callback::decode(&link.request().await?.body)?;
        link.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            .await?;
        Ok(Some(callback))
    }
}

/// A link, and what of it was read and not used.
struct Link<L> {
    link: L,
    buffer: Vec<u8>,
}

impl<L: AsyncRead + AsyncWrite + Unpin> Link<L> {
    fn new(link: L) -> Link<L> {
        Link {
            link,
            buffer: Vec::new(),
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), GramError> {
        self.link.write_all(bytes).await?;
        Ok(self.link.flush().await?)
    }

    async fn more(&mut self) -> Result<(), GramError> {
        match self.link.read_buf(&mut self.buffer).await? {
            0 => Err(GramError::Closed),
            _ => Ok(()),
        }
    }

    async fn greeting(&mut self) -> Result<(), GramError> {
        while self.buffer.is_empty() {
            self.more().await?;
        }
        match self.buffer.remove(0) {
            0 => Ok(()),
            other => Err(GramError::Greeting(other)),
        }
    }

    /// A certificate request has the frame of a certificate.
    async fn certificate(&mut self) -> Result<Vec<u8>, GramError> {
        loop {
            match certificate_length(&self.buffer)? {
                Some(length) if length > MAX_REPLY_BYTES => return Err(NoCertificate.into()),
                Some(length) if length <= self.buffer.len() => {
                    let rest = self.buffer.split_off(length);
                    return Ok(std::mem::replace(&mut self.buffer, rest));
                }
                _ => self.more().await?,
            }
        }
    }

    async fn request(&mut self) -> Result<Request, GramError> {
        loop {
            if let Some((request, length)) = decode_request(&self.buffer)? {
                self.buffer.drain(..length);
                return Ok(request);
            }
            self.more().await?;
        }
    }

    async fn response(&mut self) -> Result<Response, GramError> {
        loop {
            if let Some((response, length)) = decode_response(&self.buffer)? {
                self.buffer.drain(..length);
                return Ok(response);
            }
            self.more().await?;
        }
    }
}
