//! Streams of one session on which calls are spoken about, each by one at a time and by the next when it is done. Not here: what is said.

use crate::conversation::hear;
use crate::error::RpcError;
use kumiko_call::id::CallId;
use kumiko_client::Client;
use kumiko_session::{Receiver, Sender, SessionError};
use kumiko_wire::rpc::FromSite;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Streams of one session; further calls wait here. Other things have as many (a session has 256).
const MOST: usize = 128;
/// How long a program that ends waits for a site that does not read.
pub const READ_WITHIN: Duration = Duration::from_secs(5);

/// Between two tries.
pub const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct Streams {
    client: Client,
    /// Each is kept for the next call: what was said on one that is dropped may not arrive.
    idle: Mutex<Vec<(Sender, Receiver)>>,
    places: Semaphore,
}

/// A stream while somebody speaks on it.
pub struct Busy<'a> {
    pub sender: Sender,
    pub receiver: Receiver,
    _place: SemaphorePermit<'a>,
}

impl Busy<'_> {
    /// The next word about this call, or about none: others, which were spoken about on this stream before, may be answered late.
    pub async fn hear(&mut self, of: Option<CallId>) -> Result<FromSite, RpcError> {
        loop {
            let message = hear(&mut self.receiver).await?;
            if message.call().is_none_or(|call| of == Some(call)) {
                return Ok(message);
            }
        }
    }
}

impl Streams {
    pub fn of(client: Client) -> Streams {
        Streams {
            client,
            idle: Mutex::default(),
            places: Semaphore::new(MOST),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Sender, Receiver)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn get(&self) -> Result<Busy<'_>, RpcError> {
        let place = self.places.acquire().await;
        // It is never closed.
        let place = place.map_err(|_| SessionError::Closed)?;
        let idle = self.idle().pop();
        let (sender, receiver) = match idle {
            Some(stream) => stream,
            None => self.client.calls().await?.split(),
        };
        Ok(Busy {
            sender,
            receiver,
            _place: place,
        })
    }

    /// For whoever is next; not where one may be who asks about the same call, for what was said of it here may be answered still.
    pub fn keep(&self, stream: Busy<'_>) {
        self.idle().push((stream.sender, stream.receiver));
    }

    /// The link is gone, and with it all streams.
    pub fn lost(&self) {
        self.idle().clear();
    }

    /// Waits until the site has read what was said, though not for long, and says goodbye.
    pub async fn close(&self) {
        let idle = std::mem::take(&mut *self.idle());
        let read = async {
            for (sender, mut receiver) in idle {
                // Its end answers ours, after all that came before: a session that is closed first takes that with it.
                if sender.finish().await.is_ok() {
                    while let Ok(Some(_)) = receiver.recv().await {}
                }
            }
        };
        let _ = tokio::time::timeout(READ_WITHIN, read).await;
        self.client.clone().close().await;
    }
}

/// Asks again for so long where the stream broke: the site may just be started anew. Each try waits for the site to answer.
pub async fn again<T, F: Future<Output = Result<T, RpcError>>>(
    within: Duration,
    ask: impl Fn() -> F,
) -> Result<T, RpcError> {
    let cause = match ask().await {
        Err(RpcError::Stream(cause)) => cause,
        other => return other,
    };
    let asking = async {
        loop {
            tokio::time::sleep(PAUSE).await;
            match ask().await {
                Err(RpcError::Stream(cause)) => tracing::debug!(%cause, "it is asked again"),
                other => return other,
            }
        }
    };
    let came = tokio::time::timeout(within, asking).await;
    came.unwrap_or_else(|_| Err(cause.into()))
}
