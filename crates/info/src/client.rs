//! The asking side: one session with an info server, one stream a question (spec/info, Q1 to Q6).

use crate::error::AskError;
use crate::uplink::{Dialer, split};
use bytes::Bytes;
use kumiko_directory::ask::{Ask, kind};
use kumiko_identity::tls::Connector;
use kumiko_identity::{Credential, TrustStore};
use kumiko_session::{Options, Receiver, Sender, Session, SessionError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A session with one server.
#[derive(Clone, Debug)]
pub struct InfoClient {
    session: Session,
    address: String,
}

/// What a server says to one question.
#[derive(Debug)]
pub struct Answers {
    receiver: Receiver,
    // Dropped, it would tell the server that nobody listens.
    sender: Sender,
    address: String,
}

impl InfoClient {
    /// `address`: HOST or HOST:PORT; the server's certificate must bear HOST.
    ///
    /// # Errors
    /// `AskError`: `Address`, `Tls`, `Connect`.
    pub async fn connect(
        address: &str,
        credential: &Credential,
        trust: &TrustStore,
    ) -> Result<InfoClient, AskError> {
        let wrong = || AskError::Address {
            address: address.to_owned(),
        };
        let (host, port) = split(address).ok_or_else(wrong)?;
        let connector = Arc::new(Connector::new(Some(credential), trust, &[b"kumiko/1"])?);
        let dialer = Dialer {
            host,
            port,
            connector,
        };
        let session = Session::connect(dialer, Options::default()).await;
        let session = session.map_err(|cause| AskError::Connect {
            address: address.to_owned(),
            cause,
        })?;
        Ok(InfoClient {
            session,
            address: address.to_owned(),
        })
    }

    /// # Errors
    /// `AskError`: `Session`, `Answer`.
    pub async fn ask(&self, ask: &Ask) -> Result<Answers, AskError> {
        let request = serde_json::to_vec(ask)?;
        let stream = self.session.open(request.into()).await;
        let (sender, receiver) = stream.map_err(|cause| self.lost(cause))?.split();
        Ok(Answers {
            receiver,
            sender,
            address: self.address.clone(),
        })
    }

    fn lost(&self, cause: SessionError) -> AskError {
        AskError::Session {
            address: self.address.clone(),
            cause,
        }
    }

    /// Ends the session in order.
    pub async fn close(&self) {
        self.session.close().await;
    }
}

#[derive(Deserialize)]
struct Refused {
    code: String,
    message: String,
}

impl Answers {
    /// Says something on the same stream: what a registrant tells (`kumiko_directory::delta`).
    ///
    /// # Errors
    /// `AskError::Session`.
    pub async fn tell(&mut self, kind: u8, message: Bytes) -> Result<(), AskError> {
        let sent = self.sender.send(kind, message).await;
        sent.map_err(|cause| AskError::Session {
            address: self.address.clone(),
            cause,
        })
    }

    /// The next reply; None at the end.
    ///
    /// # Errors
    /// `AskError`: `Refused`, `Session`, `Answer`.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, AskError> {
        let message = self.receiver.recv().await;
        let message = message.map_err(|cause| AskError::Session {
            address: self.address.clone(),
            cause,
        })?;
        match message {
            None => Ok(None),
            Some(message) if message.kind == kind::REFUSED => {
                let Refused { code, message } = serde_json::from_slice(&message.data)?;
                Err(AskError::Refused { code, message })
            }
            Some(message) => Ok(Some(serde_json::from_slice(&message.data)?)),
        }
    }
}
