//! Mutual TLS over any byte stream (spec/identity, clauses L1 to L4). TLS 1.2 and 1.3, no session tickets, ALPN.
//!
//! TCP's own settings (no delay) are the caller's, and so is a limit on the time of a handshake.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::SystemTime;

use openssl::error::ErrorStack;
use openssl::ssl::{
    AlpnError, Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions,
    SslSessionCacheMode, SslVerifyMode, SslVersion,
};
use openssl::x509::X509VerifyResult;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_openssl::SslStream;

use crate::credential::Credential;
use crate::dn::Dn;
use crate::gathered::Gathered;
use crate::trust::TrustStore;
use crate::verify::{self, Peer, Purpose, VerifyError};

/// A proxy of a proxy of a proxy … and three levels of CAs; longer chains only cost us signatures.
const MAX_CHAIN: u32 = 20;

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// We refuse the peer.
    #[error("the peer's certificate was refused: {0}")]
    Verify(#[from] VerifyError),
    /// The peer refuses us, by a TLS alert. With TLS 1.3 a client sees it only at its first read, as an
    /// `io::Error` of kind `PermissionDenied` that holds this.
    #[error("the peer refused the connection: {} (TLS alert {alert})", alert_text(*alert))]
    Refused { alert: u8 },
    /// The peer does not speak TLS as we do.
    #[error("the TLS handshake failed: {0}")]
    Handshake(#[source] openssl::ssl::Error),
    #[error("the peer closed the connection during the TLS handshake; its log says why")]
    Closed,
    #[error("the connection failed during the TLS handshake: {0}")]
    Io(#[source] std::io::Error),
    #[error("an ALPN name has 1 to 255 bytes, {0:?} has not")]
    AlpnName(Vec<u8>),
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] ErrorStack),
}

/// The alerts that a peer has for our certificate or our wishes (RFC 8446, section 6.2; RFC 7301).
fn alert_text(alert: u8) -> &'static str {
    match alert {
        40 => "it did not accept our certificate or what we offered; its log says why",
        42 => "it cannot use our certificate, perhaps not valid yet by its clock; its log says why",
        43 | 46 => "it cannot use our certificate",
        44 => "our certificate was revoked",
        45 => "our certificate has expired, or its revocation list is out of date",
        48 => "it does not trust the CA of our certificate",
        49 => "it denies us access",
        70 => "it speaks another version of TLS",
        116 => "it wants a certificate and we showed none; make a proxy",
        120 => "it speaks none of the application protocols that we offered",
        _ => "its log says why",
    }
}

/// The alert by which the peer ended the connection. OpenSSL's reasons for received alerts are 1000 and the alert.
fn alert_of(error: &openssl::ssl::Error) -> Option<u8> {
    let errors = error.ssl_error()?.errors();
    errors
        .iter()
        .filter_map(|e| u8::try_from(e.reason_code().checked_sub(1000)?).ok())
        .next()
}

fn explain_io(error: std::io::Error) -> std::io::Error {
    let alert = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<openssl::ssl::Error>())
        .and_then(alert_of);
    match alert {
        Some(alert) => std::io::Error::new(
            std::io::ErrorKind::PermissionDenied,
            TlsError::Refused { alert },
        ),
        None => error,
    }
}

/// An encrypted stream; its peer is verified, or (`Acceptor::accept_anybody`) has shown nothing.
pub struct TlsStream<S> {
    inner: SslStream<Gathered<S>>,
    peer: Option<Peer>,
}

impl<S> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.peer {
            Some(peer) => write!(f, "TlsStream({})", peer.subject),
            None => f.write_str("TlsStream(anonymous)"),
        }
    }
}

impl<S> TlsStream<S> {
    /// The protocol that both sides agreed on; `None` where the client offered none.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.inner
            .ssl()
            .selected_alpn_protocol()
            .map(<[u8]>::to_vec)
    }

    /// None: the peer has shown no certificate, where that was allowed.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// The stream below.
    pub fn get_ref(&self) -> &S {
        self.inner.get_ref().get_ref()
    }

    /// For who writes and reads much, and flushes what has to go at once: until then records wait for one another, so
    /// that they cost the kernel less.
    pub fn gather(&mut self) {
        self.inner.get_mut().begin();
    }

    /// `TLSv1.3` or `TLSv1.2`.
    pub fn version(&self) -> &'static str {
        self.inner.ssl().version_str()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner)
            .poll_read(context, buffer)
            .map_err(explain_io)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner)
            .poll_write(context, bytes)
            .map_err(explain_io)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

fn context(
    credential: Option<&Credential>,
    trust: &TrustStore,
) -> Result<SslContextBuilder, ErrorStack> {
    let mut builder = SslContext::builder(SslMethod::tls())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    // Tickets break GT's clients, and a resumed session would skip the check of revocation.
    builder.set_num_tickets(0)?;
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    builder.set_options(
        SslOptions::NO_TICKET | SslOptions::NO_RENEGOTIATION | SslOptions::NO_COMPRESSION,
    );
    // Else each record costs two reads, one for its five bytes of header: half the speed of bulk data.
    builder.set_read_ahead(true);
    // tokio may offer a moved buffer on the next write; and what we send of our chain is settled below, once, where
    // OpenSSL would look for it in each handshake.
    builder.set_mode(
        SslMode::ENABLE_PARTIAL_WRITE
            | SslMode::ACCEPT_MOVING_WRITE_BUFFER
            | SslMode::NO_AUTO_CHAIN,
    );
    builder.set_verify_depth(MAX_CHAIN);
    builder.set_verify_cert_store(trust.store(None)?)?;
    if let Some(credential) = credential {
        builder.set_certificate(credential.leaf().x509())?;
        builder.set_private_key(&credential.key().0)?;
        for issuer in trust.complete(credential.chain()) {
            builder.add_extra_chain_cert(issuer.to_x509())?;
        }
        builder.check_private_key()?;
    }
    Ok(builder)
}

/// ALPN's wire form: each name after its length (RFC 7301, section 3.1).
fn alpn_wire(names: &[&[u8]]) -> Result<Vec<u8>, TlsError> {
    let mut wire = Vec::new();
    for name in names {
        match u8::try_from(name.len()) {
            Ok(length) if length > 0 => wire.push(length),
            _ => return Err(TlsError::AlpnName(name.to_vec())),
        }
        wire.extend_from_slice(name);
    }
    Ok(wire)
}

fn alpn_names(mut wire: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = wire.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        wire = rest;
        Some(name)
    })
}

type Verdict = Arc<Mutex<Option<Result<Peer, VerifyError>>>>;

/// Has the handshake run `verify`'s judgement, and keeps what it said.
fn watch(ssl: &mut Ssl, mode: SslVerifyMode, trust: TrustStore, purpose: Purpose) -> Verdict {
    let verdict: Verdict = Arc::default();
    let kept = verdict.clone();
    ssl.set_verify_callback(mode, move |good, context| {
        let said = if !good {
            Err(verify::explain(context))
        } else if context.error_depth() == 0 {
            verify::judge(context, &trust, SystemTime::now(), &purpose)
        } else {
            return true;
        };
        let accepted = said.is_ok();
        if !accepted && good {
            context.set_error(X509VerifyResult::APPLICATION_VERIFICATION);
        }
        match kept.lock() {
            Ok(mut kept) => *kept = Some(said),
            Err(_) => return false,
        }
        accepted
    });
    verdict
}

fn conclude<S>(
    handshake: Result<(), openssl::ssl::Error>,
    inner: SslStream<Gathered<S>>,
    verdict: &Verdict,
) -> Result<(TlsStream<S>, Peer), TlsError> {
    verify::settled(());
    let said = verdict.lock().ok().and_then(|mut v| v.take());
    match (handshake, said) {
        (Ok(()), Some(Ok(peer))) if inner.ssl().verify_result() == X509VerifyResult::OK => {
            let stream = TlsStream {
                inner,
                peer: Some(peer.clone()),
            };
            Ok((stream, peer))
        }
        (_, Some(Err(error))) => Err(TlsError::Verify(error)),
        // No verdict, no peer: whatever OpenSSL thinks.
        (Ok(()), _) => Err(TlsError::Verify(VerifyError::EmptyChain)),
        (Err(error), _) => Err(match error.into_io_error() {
            Ok(io) if io.kind() == std::io::ErrorKind::UnexpectedEof => TlsError::Closed,
            Ok(io) => TlsError::Io(io),
            Err(error) if error.code() == openssl::ssl::ErrorCode::ZERO_RETURN => TlsError::Closed,
            Err(error) if error.code() == openssl::ssl::ErrorCode::SYSCALL => TlsError::Closed,
            Err(error) => match alert_of(&error) {
                Some(alert) => TlsError::Refused { alert },
                None => TlsError::Handshake(error),
            },
        }),
    }
}

/// The serving side. Cheap to clone; made anew when credential or trust change.
#[derive(Clone)]
pub struct Acceptor {
    context: SslContext,
    trust: TrustStore,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Acceptor({:?})", self.trust)
    }
}

impl Acceptor {
    /// `alpn`: what we speak, best first. A client that offers none is served (its stream has no `alpn`); one that
    /// offers only others is refused by TLS's own alert.
    pub fn new(
        credential: &Credential,
        trust: &TrustStore,
        alpn: &[&[u8]],
    ) -> Result<Acceptor, TlsError> {
        let mut builder = context(Some(credential), trust)?;
        // Thousands may be idle at a server: they give their buffers back. A client's few keep theirs, since to take
        // them anew for each record is a tenth of a bulk transfer.
        builder.set_mode(SslMode::RELEASE_BUFFERS);
        alpn_wire(alpn)?;
        let ours: Vec<Vec<u8>> = alpn.iter().map(|name| name.to_vec()).collect();
        builder.set_alpn_select_callback(move |_, theirs| {
            ours.iter()
                .find_map(|name| alpn_names(theirs).find(|offered| offered == name))
                .ok_or(AlpnError::ALERT_FATAL)
        });
        Ok(Acceptor {
            context: builder.build(),
            trust: trust.clone(),
        })
    }

    /// Serves one handshake. The caller bounds its time.
    pub async fn accept<S>(&self, stream: S) -> Result<(TlsStream<S>, Peer), TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut ssl = Ssl::new(&self.context)?;
        let mode = SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT;
        let verdict = watch(&mut ssl, mode, self.trust.clone(), Purpose::Client);
        let mut inner = SslStream::new(ssl, Gathered::new(stream))?;
        let handshake = Pin::new(&mut inner).accept().await;
        conclude(handshake, inner, &verdict)
    }
}

impl Acceptor {
    /// As `accept`, for services that strangers may read: a peer without a certificate is let in as nobody. One that
    /// shows a certificate is verified like any other, and refused if that fails.
    pub async fn accept_anybody<S>(&self, stream: S) -> Result<TlsStream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut ssl = Ssl::new(&self.context)?;
        let verdict = watch(
            &mut ssl,
            SslVerifyMode::PEER,
            self.trust.clone(),
            Purpose::Client,
        );
        let mut inner = SslStream::new(ssl, Gathered::new(stream))?;
        let handshake = Pin::new(&mut inner).accept().await;
        let showed_none = inner.ssl().peer_certificate().is_none();
        let asked = verdict.lock().is_ok_and(|v| v.is_some());
        if handshake.is_ok() && showed_none && !asked {
            verify::settled(());
            return Ok(TlsStream { inner, peer: None });
        }
        conclude(handshake, inner, &verdict).map(|(stream, _)| stream)
    }
}

/// The calling side.
#[derive(Clone)]
pub struct Connector {
    context: SslContext,
    trust: TrustStore,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connector({:?})", self.trust)
    }
}

impl Connector {
    /// `alpn`: what we offer, best first; none offers none.
    pub fn new(
        credential: Option<&Credential>,
        trust: &TrustStore,
        alpn: &[&[u8]],
    ) -> Result<Connector, TlsError> {
        let mut builder = context(credential, trust)?;
        if !alpn.is_empty() {
            builder.set_alpn_protos(&alpn_wire(alpn)?)?;
        }
        Ok(Connector {
            context: builder.build(),
            trust: trust.clone(),
        })
    }

    /// Calls a host: its certificate must be for `host`, a name or an address.
    pub async fn connect<S>(&self, host: &str, stream: S) -> Result<(TlsStream<S>, Peer), TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.call(host, Purpose::Server(host.to_owned()), stream)
            .await
    }

    /// Calls an end point of `identity`'s on a host: who it is decides, not where.
    pub async fn connect_to_identity<S>(
        &self,
        host: &str,
        identity: &Dn,
        stream: S,
    ) -> Result<(TlsStream<S>, Peer), TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.call(host, Purpose::Identity(identity.clone()), stream)
            .await
    }

    /// Calls a file server on a host: the host's own, or one of `identity`'s.
    pub async fn connect_to_host_or<S>(
        &self,
        host: &str,
        identity: &Dn,
        stream: S,
    ) -> Result<(TlsStream<S>, Peer), TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let purpose = Purpose::HostOrIdentity {
            host: host.to_owned(),
            identity: identity.clone(),
        };
        self.call(host, purpose, stream).await
    }

    async fn call<S>(
        &self,
        host: &str,
        purpose: Purpose,
        stream: S,
    ) -> Result<(TlsStream<S>, Peer), TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut ssl = Ssl::new(&self.context)?;
        // RFC 6066, section 3: no addresses in the server name.
        if host.parse::<std::net::IpAddr>().is_err() && !host.starts_with('[') {
            ssl.set_hostname(host)?;
        }
        let verdict = watch(&mut ssl, SslVerifyMode::PEER, self.trust.clone(), purpose);
        let mut inner = SslStream::new(ssl, Gathered::new(stream))?;
        let handshake = Pin::new(&mut inner).connect().await;
        conclude(handshake, inner, &verdict)
    }
}
