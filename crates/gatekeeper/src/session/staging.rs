//! Folders in and out over a stream (spec/services V6): tar bytes in messages of kind TAR.

use super::{Out, Stop};
use crate::admit::Visitor;
use crate::desk::Desk;
use crate::files::staging_refusal;
use kumiko_job::contract::{Jobs, Refusal};
use kumiko_job::id::JobId;
use kumiko_session::Receiver;
use kumiko_staging::{Limits, Packing};
use kumiko_wire::api::kind;

pub(super) async fn upload<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    out: &mut Out,
    receiver: &mut Receiver,
) -> Result<(), Stop> {
    let mut upload = desk.upload(visitor).await?;
    let stall = desk.config.limits.body_stall;
    loop {
        let Ok(part) = tokio::time::timeout(stall, receiver.recv_part()).await else {
            let what = format!("no more of the archive came for {} s", stall.as_secs_f32());
            return Err(Refusal::new("body_stalled", what).into());
        };
        let Some(part) = part? else { break };
        if part.kind != kind::TAR {
            let what = format!(
                "a message of kind {:#04x} is no piece of an archive",
                part.kind
            );
            return Err(Refusal::new("bad_request", what).into());
        }
        upload.push(part.data).await?;
    }
    out.reply(&upload.finish().await?).await
}

pub(super) async fn download<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    job: JobId,
    since_us: Option<u64>,
    out: &mut Out,
) -> Result<(), Stop> {
    let folder = desk.jobs.directory(&visitor.caller, job).await?;
    let _place = desk.transfer()?;
    let mut packing = Packing::start(folder, since_us, Limits::RESULTS);
    while let Some(data) = packing.next().await.map_err(|e| staging_refusal(&e))? {
        out.sender.send(kind::TAR, data).await?;
    }
    Ok(())
}
