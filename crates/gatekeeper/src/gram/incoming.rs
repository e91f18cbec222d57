//! Reading from a link what GRAM's peers send: single bytes, certificates, tokens with their lengths, frames; each within
//! its bounds. Not here: what they mean.

use kumiko_identity::delegation::MAX_REPLY_BYTES;
use kumiko_wire::gram::{
    FrameError, MAX_BODY_BYTES, MAX_HEAD_BYTES, Request, Response, certificate_length,
    decode_request, decode_response,
};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Why a peer's message could not be read: always the peer's fault, or the link's.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("the peer closed the link before {awaited} came")]
    Closed { awaited: &'static str },
    #[error("the link broke: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("after the context stands one of '0' and 'D' belongs, not the byte {0:#04x}")]
    Flag(u8),
    #[error("what came is no certificate")]
    NoCertificate,
    #[error("a certificate, or a token with some, of more than {MAX_REPLY_BYTES} bytes")]
    TooLong,
}

/// A link, and what of it was read and not used.
pub(super) struct Incoming<L> {
    pub link: L,
    buffer: Vec<u8>,
}

impl<L: AsyncRead + AsyncWrite + Unpin> Incoming<L> {
    pub fn new(link: L) -> Incoming<L> {
        Incoming {
            link,
            buffer: Vec::new(),
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.link.write_all(bytes).await?;
        Ok(self.link.flush().await?)
    }

    async fn more(&mut self, awaited: &'static str) -> Result<(), LinkError> {
        self.buffer.reserve(4096);
        match self.link.read_buf(&mut self.buffer).await? {
            0 => Err(LinkError::Closed { awaited }),
            _ => Ok(()),
        }
    }

    async fn byte(&mut self, awaited: &'static str) -> Result<u8, LinkError> {
        loop {
            if let [first, ..] = self.buffer.as_slice() {
                let first = *first;
                self.buffer.remove(0);
                return Ok(first);
            }
            self.more(awaited).await?;
        }
    }

    /// Whether a delegation follows (G4).
    pub async fn flag(&mut self) -> Result<bool, LinkError> {
        match self.byte("the flag of delegation").await? {
            b'0' => Ok(false),
            b'D' => Ok(true),
            other => Err(LinkError::Flag(other)),
        }
    }

    /// The certificates that follow each other, in DER.
    pub async fn certificates(&mut self) -> Result<Vec<u8>, LinkError> {
        let mut length = 0;
        loop {
            let rest = self.buffer.get(length..).unwrap_or_default();
            match certificate_length(rest) {
                // What follows is none: it is what comes next. At least one is awaited.
                Err(_) if length > 0 => break,
                Err(_) => return Err(LinkError::NoCertificate),
                Ok(Some(one)) if one <= rest.len() => length += one,
                Ok(Some(one)) if length + one > MAX_REPLY_BYTES => return Err(LinkError::TooLong),
                // A request follows at once; until its first byte is here it is open whether more certificates come.
                Ok(_) => self.more("a whole certificate").await?,
            }
            if length > MAX_REPLY_BYTES {
                return Err(LinkError::TooLong);
            }
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// A token with its length before it, within an open link (G50).
    pub async fn token(&mut self) -> Result<Vec<u8>, LinkError> {
        const LENGTH_BYTES: usize = 4;
        loop {
            if let Some(&[a, b, c, d]) = self.buffer.first_chunk::<LENGTH_BYTES>() {
                let length = u32::from_be_bytes([a, b, c, d]);
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if length > MAX_REPLY_BYTES {
                    return Err(LinkError::TooLong);
                }
                if self.buffer.len() >= LENGTH_BYTES + length {
                    let rest = self.buffer.split_off(LENGTH_BYTES + length);
                    let mut token = std::mem::replace(&mut self.buffer, rest);
                    token.drain(..LENGTH_BYTES);
                    return Ok(token);
                }
            }
            self.more("a whole token").await?;
        }
    }

    pub async fn request(&mut self) -> Result<Request, LinkError> {
        loop {
            if let Some((request, length)) = decode_request(&self.buffer)? {
                self.buffer.drain(..length);
                return Ok(request);
            }
            // The decoder has refused what is longer.
            debug_assert!(self.buffer.len() <= MAX_HEAD_BYTES + MAX_BODY_BYTES);
            self.more("a whole request").await?;
        }
    }

    pub async fn response(&mut self) -> Result<Response, LinkError> {
        loop {
            if let Some((response, length)) = decode_response(&self.buffer)? {
                self.buffer.drain(..length);
                return Ok(response);
            }
            self.more("a whole reply").await?;
        }
    }
}
