//! Taking a delegated credential over a link (spec/gram G4, G50): the key and request are ours, the proxy is the client's.

use super::incoming::{Incoming, LinkError};
use crate::desk::Desk;
use kumiko_identity::delegation::{DelegationError, Receiver};
use kumiko_identity::{Certificate, Credential, KeyPool, Peer};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncWrite};

#[derive(Debug, thiserror::Error)]
pub(super) enum NotDelegated {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("no key could be made: {0}")]
    Key(#[from] kumiko_identity::KeyError),
    #[error("the delegated credential cannot be used: {0}")]
    Delegation(#[from] DelegationError),
    #[error("judging it failed: {0}")]
    Judge(#[from] tokio::task::JoinError),
}

/// After the flag `D`: the request goes, the certificates come.
pub(super) async fn take<L: AsyncRead + AsyncWrite + Unpin>(
    keys: &KeyPool,
    link: &mut Incoming<L>,
) -> Result<(Receiver, Vec<u8>), NotDelegated> {
    let (waiting, request) = Receiver::with_key(keys.take()?)?;
    link.send(&request).await?;
    Ok((waiting, link.certificates().await?))
}

/// Within an open link, with lengths before all.
pub(super) async fn renewal<L: AsyncRead + AsyncWrite + Unpin>(
    keys: &KeyPool,
    link: &mut Incoming<L>,
) -> Result<(Receiver, Vec<u8>), NotDelegated> {
    match link.token().await?.as_slice() {
        [b'D'] => {}
        [other, ..] => return Err(LinkError::Flag(*other).into()),
        [] => return Err(LinkError::NoCertificate.into()),
    }
    let (waiting, request) = Receiver::with_key(keys.take()?)?;
    let length = u32::try_from(request.len()).unwrap_or(u32::MAX);
    let token = [&length.to_be_bytes(), request.as_slice()].concat();
    link.send(&token).await?;
    Ok((waiting, link.token().await?))
}

/// Makes a credential of what came, judged as if it were shown to us.
pub(super) async fn judge<J>(
    desk: &Desk<J>,
    peer: &Peer,
    waiting: Receiver,
    certificates: Vec<u8>,
) -> Result<Credential, NotDelegated> {
    let trust = desk.trust.current(&desk.meter).await;
    let shown: Vec<Certificate> = peer.chain.clone();
    let judged = tokio::task::spawn_blocking(move || {
        let (credential, _) = waiting.finish(&certificates, &shown, &trust, SystemTime::now())?;
        Ok(credential)
    });
    judged.await?
}
