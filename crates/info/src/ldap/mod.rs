//! One LDAP connection (spec/info, L1 to L14): requests in, answers out, in order. Bounded: one request is read at a
//! time, answers are written in pieces, and a client that does not read is gone after a while.

mod dse;
mod follow;
mod search;

use crate::index::Index;
use crate::legacy;
use bytes::{Buf, BytesMut};
use follow::Follow;
use kumiko_directory::Dn;
use kumiko_directory::ldap::{self, Answer, Credentials, Request, RequestMessage, code, oid};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Written when so much has gathered; an answer of any length passes through this much memory.
const PIECE_BYTES: usize = 64 * 1024;

/// Who the client is, and how it came.
#[derive(Clone, Debug)]
pub struct Client {
    /// The identity of its certificate.
    pub identity: Option<String>,
    pub encrypted: bool,
    /// Where it is.
    pub peer: IpAddr,
}

/// How a connection went on.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    /// The client wants TLS; the answer is written already.
    StartTls,
}

/// Why a connection is given up.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Request(#[from] ldap::LdapError),
    #[error("the client read nothing for {0:?}")]
    NotReading(Duration),
    #[error("the client asked nothing for {0:?}")]
    Idle(Duration),
}

struct Connection<'s, S> {
    index: Arc<Index>,
    stream: &'s mut S,
    client: Client,
    out: Vec<u8>,
    follow: Follow,
}

/// Serves until the client leaves.
///
/// # Errors
/// `Broken`: there is nobody to answer any more, or what it says cannot be understood.
pub async fn serve<S>(index: Arc<Index>, stream: &mut S, client: Client) -> Result<End, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let follow = Follow::new(&index);
    let mut connection = Connection {
        index,
        stream,
        client,
        out: Vec::new(),
        follow,
    };
    let result = connection.run().await;
    if let Err(Broken::Request(error)) = &result {
        // RFC 4511, section 4.1.1: say so, and close.
        let answer = Answer::new(code::PROTOCOL_ERROR, error.to_string());
        let name = oid::NOTICE_OF_DISCONNECTION;
        ldap::extended(&mut connection.out, 0, &answer, name, None);
        connection.flush().await?;
    }
    result
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    async fn run(&mut self) -> Result<End, Broken> {
        let mut input = BytesMut::new();
        let idle = Duration::from_millis(self.index.config.limits.idle_ms);
        loop {
            while let Some((message, length)) = ldap::read(&input)? {
                input.advance(length);
                if let Some(end) = self.handle(message, input.is_empty()).await? {
                    self.flush().await?;
                    return Ok(end);
                }
            }
            self.flush().await?;
            if input.capacity() - input.len() < 1024 {
                input.reserve(4096);
            }
            let follows = !self.follow.is_empty();
            let read = async {
                match follows {
                    true => Ok(self.stream.read_buf(&mut input).await?),
                    false => timeout(idle, self.stream.read_buf(&mut input))
                        .await
                        .map_err(|_| Broken::Idle(idle))?
                        .map_err(Broken::from),
                }
            };
            tokio::select! {
                read = read => if read? == 0 {
                    return Ok(End::Closed);
                },
                () = self.follow.changed(), if follows => self.follow_up().await?,
            }
        }
    }

    /// Tells the persistent searches what has happened.
    async fn follow_up(&mut self) -> Result<(), Broken> {
        self.follow.tell(&self.index, &mut self.out);
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        if self.out.is_empty() {
            return Ok(());
        }
        let within = Duration::from_millis(self.index.config.limits.write_within_ms);
        let mut rest = &self.out[..];
        while !rest.is_empty() {
            let written = timeout(within, self.stream.write(rest))
                .await
                .map_err(|_| Broken::NotReading(within))??;
            if written == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            rest = rest.get(written..).unwrap_or_default();
        }
        timeout(within, self.stream.flush())
            .await
            .map_err(|_| Broken::NotReading(within))??;
        self.out.clear();
        self.out.shrink_to(2 * PIECE_BYTES);
        Ok(())
    }

    /// `last`: nothing that was sent waits behind this request.
    async fn handle(&mut self, message: RequestMessage, last: bool) -> Result<Option<End>, Broken> {
        let RequestMessage {
            id,
            request,
            controls,
        } = message;
        let unknown = controls
            .iter()
            .any(|c| matches!(c, ldap::Control::Other { critical, .. } if *critical));
        if unknown && !matches!(request, Request::Unbind | Request::Abandon(_)) {
            let answer = Answer::new(
                code::UNAVAILABLE_CRITICAL_EXTENSION,
                "a control that is marked critical is not known here",
            );
            ldap::done(&mut self.out, id, answer_tag(&request), &answer, &[]);
            return Ok(None);
        }
        let tag = answer_tag(&request);
        let done = |out: &mut Vec<u8>, answer: Answer| ldap::done(out, id, tag, &answer, &[]);
        match request {
            Request::Unbind => return Ok(Some(End::Closed)),
            Request::Abandon(operation) => {
                self.follow.end(operation);
            }
            Request::Bind(bind) => {
                let answer = self.bind(&bind);
                done(&mut self.out, answer);
            }
            Request::Search(search) => self.search(id, search, &controls).await?,
            Request::Compare(compare) => {
                let answer = match self.may_read() {
                    Ok(()) => self.compare(&compare),
                    Err(answer) => answer,
                };
                done(&mut self.out, answer);
            }
            Request::Add(add) if !self.index.legacy.is_empty() => {
                let answer = legacy::register(&self.index, self.client.peer, &add).await;
                done(&mut self.out, answer);
            }
            Request::Add(_) | Request::Write { .. } => {
                let answer = Answer::new(
                    code::UNWILLING_TO_PERFORM,
                    "entries come from their sources, and are not written by LDAP",
                );
                done(&mut self.out, answer);
            }
            Request::Extended(extended) => return Ok(self.extended(id, &extended, last)),
        }
        Ok(None)
    }

    fn bind(&self, bind: &ldap::Bind) -> Answer {
        let dn = Dn::parse(&bind.name);
        match &bind.credentials {
            _ if !(2..=3).contains(&bind.version) => {
                Answer::new(code::PROTOCOL_ERROR, "LDAP versions 2 and 3 are spoken")
            }
            Credentials::Simple { password: false } if bind.name.trim().is_empty() => {
                if self.index.config.anonymous || self.client.identity.is_some() {
                    Answer::ok()
                } else {
                    self.no_certificate(code::INAPPROPRIATE_AUTHENTICATION)
                }
            }
            _ if dn.is_err() => Answer::new(code::INVALID_DN_SYNTAX, "the name to bind as is none"),
            Credentials::Simple { password: false } => Answer::new(
                code::UNWILLING_TO_PERFORM,
                "a name without a password proves nothing (RFC 4513, section 5.1.2)",
            ),
            Credentials::Simple { password: true } => Answer::new(
                code::INAPPROPRIATE_AUTHENTICATION,
                "there are no passwords here: read anonymously, or show a certificate by TLS",
            ),
            Credentials::Sasl { mechanism } if mechanism.eq_ignore_ascii_case("EXTERNAL") => {
                match &self.client.identity {
                    Some(_) => Answer::ok(),
                    None => self.no_certificate(code::INAPPROPRIATE_AUTHENTICATION),
                }
            }
            Credentials::Sasl { .. } | Credentials::Other => Answer::new(
                code::AUTH_METHOD_NOT_SUPPORTED,
                "binds are anonymous, or SASL EXTERNAL by the certificate shown to TLS",
            ),
        }
    }

    fn no_certificate(&self, code: i64) -> Answer {
        let how = if self.client.encrypted {
            "show a certificate to TLS"
        } else {
            "use ldaps or StartTLS, and show a certificate"
        };
        Answer::new(code, format!("this server is not read anonymously: {how}"))
    }

    fn may_read(&self) -> Result<(), Answer> {
        if self.index.config.anonymous || self.client.identity.is_some() {
            Ok(())
        } else {
            Err(self.no_certificate(code::INSUFFICIENT_ACCESS_RIGHTS))
        }
    }

    fn extended(&mut self, id: i64, extended: &ldap::Extended, last: bool) -> Option<End> {
        let mut value = None;
        let mut end = None;
        let answer = match extended.name.as_str() {
            oid::START_TLS if self.client.encrypted => {
                Answer::new(code::OPERATIONS_ERROR, "TLS is there already")
            }
            // What was sent behind it would be read as if it had come encrypted.
            oid::START_TLS if !last || !self.follow.is_empty() => {
                Answer::new(code::OPERATIONS_ERROR, "other operations are not complete")
            }
            oid::START_TLS => {
                end = Some(End::StartTls);
                Answer::ok()
            }
            oid::WHO_AM_I => {
                let who = self.client.identity.as_ref().map(|i| format!("u:{i}"));
                value = Some(who.unwrap_or_default());
                Answer::ok()
            }
            oid::CANCEL => self.cancel(extended.value.as_deref()),
            _ => Answer::new(
                code::PROTOCOL_ERROR,
                "this extended operation is not known here",
            ),
        };
        let value = value.as_deref().map(str::as_bytes);
        let name = match extended.name.as_str() {
            oid::START_TLS => oid::START_TLS,
            _ => "",
        };
        ldap::extended(&mut self.out, id, &answer, name, value);
        end
    }

    /// RFC 3909.
    fn cancel(&mut self, value: Option<&[u8]>) -> Answer {
        use kumiko_directory::ber::Reader;
        let operation = value
            .and_then(|v| Reader::new(v).sequence().ok())
            .and_then(|mut fields| fields.number().ok());
        let Some(operation) = operation else {
            return Answer::new(code::PROTOCOL_ERROR, "which operation is to be cancelled?");
        };
        if self.follow.end(operation) {
            let answer = Answer::new(code::CANCELED, "as asked for");
            ldap::done(&mut self.out, operation, 0x65, &answer, &[]);
            Answer::ok()
        } else {
            Answer::new(code::NO_SUCH_OPERATION, "no such operation is under way")
        }
    }

    fn compare(&self, compare: &ldap::Compare) -> Answer {
        use kumiko_directory::Filter;
        let Ok(dn) = Dn::parse(&compare.dn) else {
            return Answer::new(code::INVALID_DN_SYNTAX, "the name is none");
        };
        self.index.read(|inner| {
            let directory = &inner.directory;
            let Some(row) = directory.find(&dn) else {
                return Answer::new(code::NO_SUCH_OBJECT, "there is no such entry");
            };
            if directory.values(row, &compare.attribute).is_empty() {
                return Answer::new(code::NO_SUCH_ATTRIBUTE, "the entry has no such attribute");
            }
            let filter = Filter::equal(&compare.attribute, &compare.value);
            let same = directory.plan(&filter).matches(row);
            Answer::new(
                if same {
                    code::COMPARE_TRUE
                } else {
                    code::COMPARE_FALSE
                },
                "",
            )
        })
    }
}

fn answer_tag(request: &Request) -> u8 {
    match request {
        Request::Bind(_) => 0x61,
        Request::Search(_) => 0x65,
        Request::Compare(_) => 0x6f,
        Request::Add(_) => 0x69,
        Request::Extended(_) => 0x78,
        Request::Write { answer } => *answer,
        Request::Unbind | Request::Abandon(_) => 0,
    }
}
