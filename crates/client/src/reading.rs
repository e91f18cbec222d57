//! Reading answers: the messages of one stream, and what is followed over whatever happens to the link.

use crate::ClientError;
use crate::client::Client;
use bytes::Bytes;
use kumiko_job::attempt::OutputStream;
use kumiko_job::contract::EventView;
use kumiko_job::id::JobId;
use kumiko_session::{LostReason, Message, Receiver, Sender, SessionError, Stream};
use kumiko_wire::api::{self, Request, kind};
use kumiko_wire::exec::FromJob;

/// The code (spec/errors.toml) of a site that is going down.
const SITE_CLOSING: &str = "site_closing";

/// Why a message did not come.
pub(crate) enum Broken {
    Session(SessionError),
    Told(ClientError),
}

impl Broken {
    pub(crate) fn told(self, client: &Client) -> ClientError {
        match self {
            Broken::Session(cause) => client.failed(cause),
            Broken::Told(e) => e,
        }
    }
}

/// The site's side of a stream. The client's stays open until this is dropped: so the site hears that nobody reads on.
#[derive(Debug)]
pub(crate) struct Reading {
    generation: u64,
    receiver: Receiver,
    _sender: Sender,
}

impl Reading {
    pub(crate) fn of(generation: u64, stream: Stream) -> Reading {
        let (sender, receiver) = stream.split();
        Reading {
            generation,
            receiver,
            _sender: sender,
        }
    }

    pub(crate) async fn message(&mut self) -> Result<Option<Message>, Broken> {
        next_message(&mut self.receiver).await
    }

    pub(crate) async fn next(&mut self, client: &Client) -> Result<Option<Message>, ClientError> {
        self.message().await.map_err(|broken| broken.told(client))
    }

    pub(crate) async fn anew(
        self,
        client: &Client,
        request: &Request,
    ) -> Result<Reading, ClientError> {
        let (generation, stream) = client.open_anew(self.generation, request.encode()).await?;
        Ok(Reading::of(generation, stream))
    }

    /// The next message of what is followed; after a lost session, from where `rest` asks on.
    async fn follow(
        &mut self,
        client: &Client,
        rest: &Request,
    ) -> Result<Option<Message>, ClientError> {
        loop {
            match self.message().await {
                Ok(message) => return Ok(message),
                Err(Broken::Session(e)) if is_lost(&e) => {
                    let (generation, stream) =
                        client.open_anew(self.generation, rest.encode()).await?;
                    *self = Reading::of(generation, stream);
                }
                Err(broken) => return Err(broken.told(client)),
            }
        }
    }
}

/// The next message that is not a refusal. A site that is going down refuses what it cannot go on with; that is a lost
/// session that has not broken yet.
pub(crate) async fn next_message(receiver: &mut Receiver) -> Result<Option<Message>, Broken> {
    match receiver.recv().await {
        Ok(Some(message)) if message.kind == kind::REFUSED => {
            let refusal = api::refusal(&message.data);
            if refusal.code == SITE_CLOSING {
                return Err(Broken::Session(SessionError::Lost(LostReason::GoingDown)));
            }
            Err(Broken::Told(ClientError::Refused(refusal)))
        }
        Ok(message) => Ok(message),
        Err(e) => Err(Broken::Session(e)),
    }
}

/// The session is gone, not only this stream.
pub(crate) fn is_lost(e: &SessionError) -> bool {
    matches!(e, SessionError::Lost(_) | SessionError::Closed)
}

/// Events of one job, each once and in order, over whatever happens to the link.
#[derive(Debug)]
pub struct Watch {
    pub(crate) client: Client,
    pub(crate) job: JobId,
    pub(crate) after: u64,
    pub(crate) reading: Reading,
}

impl Watch {
    /// None: the job was removed.
    ///
    /// # Errors
    /// No such job, or the site did not come back.
    pub async fn next(&mut self) -> Result<Option<EventView>, ClientError> {
        let rest = Request::Watch {
            job: self.job,
            after: self.after,
        };
        let Some(message) = self.reading.follow(&self.client, &rest).await? else {
            return Ok(None);
        };
        let event: EventView = api::reply(&message.data)?;
        self.after = event.number;
        Ok(Some(event))
    }
}

/// Bytes of one output stream, over whatever happens to the link.
#[derive(Debug)]
pub struct Output {
    pub(crate) client: Client,
    pub(crate) job: JobId,
    pub(crate) stream: OutputStream,
    pub(crate) at: u64,
    pub(crate) reading: Reading,
}

impl Output {
    /// The next bytes; None: the job has ended and all is read.
    ///
    /// # Errors
    /// No such job, or the site did not come back.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let rest = Request::Output {
            job: self.job,
            stream: self.stream,
            from: self.at,
        };
        let Some(message) = self.reading.follow(&self.client, &rest).await? else {
            return Ok(None);
        };
        let FromJob::Output { offset, data, .. } = FromJob::decode(message.kind, message.data)?
        else {
            return Err(ClientError::Short { asked: "output" });
        };
        self.at = offset + data.len() as u64;
        Ok(Some(data))
    }
}
