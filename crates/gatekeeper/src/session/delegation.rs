//! Taking a delegated credential (spec/services V8): a key is made here, the client signs a proxy for it.

use super::{Out, Stop};
use crate::admit::Visitor;
use crate::desk::Desk;
use kumiko_identity::{KeyKind, delegation};
use kumiko_job::contract::{Delegated, Jobs, Refusal};
use kumiko_job::id::JobId;
use kumiko_session::Receiver;
use kumiko_wire::api::{self, kind};
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) async fn delegate<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    out: &mut Out,
    receiver: &mut Receiver,
) -> Result<(), Stop> {
    let given = take(desk, visitor, out, receiver).await?;
    let not_after_ms = given.not_after_ms;
    let credential = desk.jobs.new_credential(&visitor.caller, given).await?;
    out.reply(&api::Delegated {
        credential,
        not_after_ms,
    })
    .await
}

pub(super) async fn renew<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    job: JobId,
    out: &mut Out,
    receiver: &mut Receiver,
) -> Result<(), Stop> {
    // Before anything is signed for a job that is not there.
    desk.jobs.show(&visitor.caller, job).await?;
    let given = take(desk, visitor, out, receiver).await?;
    let not_after_ms = given.not_after_ms;
    desk.jobs.renew(&visitor.caller, job, given).await?;
    out.reply(&api::Renewed { not_after_ms }).await
}

async fn take<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    out: &mut Out,
    receiver: &mut Receiver,
) -> Result<Delegated, Stop> {
    Desk::<J>::may_start(visitor)?;
    let (waiting, request) = delegation::Receiver::new(KeyKind::P256)
        .map_err(|e| Refusal::new("bug", format!("no key could be made: {e}")))?;
    out.sender
        .send(kind::CERTIFICATE_REQUEST, request.into())
        .await?;
    let stall = desk.config.limits.body_stall;
    let Ok(message) = tokio::time::timeout(stall, receiver.recv()).await else {
        let what = format!("no certificate came for {} s", stall.as_secs_f32());
        return Err(Refusal::new("body_stalled", what).into());
    };
    let message = message?.ok_or(Stop::Left)?;
    if message.kind != kind::CERTIFICATE {
        let what = format!("a message of kind {:#04x} is no certificate", message.kind);
        return Err(Refusal::new("bad_request", what).into());
    }
    let trust = desk.trust.current(&desk.meter).await;
    let peer = visitor.peer.clone();
    let judged = tokio::task::spawn_blocking(move || {
        let (credential, verified) = waiting
            .finish(&message.data, &peer.chain, &trust, SystemTime::now())
            .map_err(|e| bad(&e))?;
        let left = verified.not_after.duration_since(UNIX_EPOCH);
        Ok(Delegated {
            pem: credential.to_pem().map_err(|e| bad(&e))?,
            not_after_ms: left.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        })
    });
    judged
        .await
        .map_err(|e| Refusal::new("bug", format!("judging a certificate: {e}")))?
        .map_err(Stop::Refused)
}

fn bad(why: &dyn std::error::Error) -> Refusal {
    Refusal::new(
        "bad_delegation",
        format!("the delegated credential cannot be used: {why}"),
    )
}
