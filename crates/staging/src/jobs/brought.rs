//! A file of another host, as it was asked for: from the stock if it came before, else over the network (C10 to C14).

use super::Inner;
use super::fetch::{approve, copy, discard, remote};
use crate::fault::TransferError;
use crate::stock::{Stock, Sum};
use kumiko_job::description::StageIn;
use kumiko_job::transfer::Work;
use kumiko_job::url::Url;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Brings it to `part`. Whose policy lets the job ask was seen to.
pub async fn bring(
    ours: &Arc<Inner>,
    job: &Work,
    url: &Url,
    what: &StageIn,
    part: &Path,
) -> Result<(), TransferError> {
    let stocked = ours.setup.stock.as_ref();
    let (Some(stock), Some(sum)) = (stocked, what.sha256.as_deref().and_then(Sum::parse)) else {
        travel(ours, job, url, part).await?;
        return approve(url, what, part).await;
    };
    // What several jobs want at the same time travels once, for the first of them.
    let lock = ours.filling(&format!("sha256:{sum}"));
    let _mine = lock.lock().await;
    if is_there(stock, &sum, url, what, part).await {
        return Ok(());
    }
    travel(ours, job, url, part).await?;
    approve(url, what, part).await?;
    keep(stock, sum, part).await;
    Ok(())
}

/// Over the network. On a disk that is full the stock makes room, once: it is not to keep a job from running.
async fn travel(
    ours: &Arc<Inner>,
    job: &Work,
    url: &Url,
    part: &Path,
) -> Result<(), TransferError> {
    match remote(ours, job, url, part).await {
        Err(error) if error.is_full() && gives_way(ours).await => {
            remote(ours, job, url, part).await
        }
        done => done,
    }
}

async fn gives_way(ours: &Inner) -> bool {
    let Some(stock) = ours.setup.stock.clone() else {
        return false;
    };
    let given = tokio::task::spawn_blocking(move || stock.give_way()).await;
    matches!(given, Ok(Ok(bytes)) if bytes > 0)
}

/// Whether the stock has it: then it is at `part`. What is there by its name and is something else goes.
async fn is_there(stock: &Arc<Stock>, sum: &Sum, url: &Url, what: &StageIn, part: &Path) -> bool {
    let (ours, named) = (Arc::clone(stock), sum.clone());
    let taken = tokio::task::spawn_blocking(move || ours.take(&named)).await;
    let Ok(Ok(Some(file))) = taken else {
        return false; // one that cannot be read is replaced by what comes
    };
    // What came of an earlier try is not gone on with behind bytes of the stock.
    let _ = discard(part);
    let copied = match copy(file, part.to_owned()).await {
        Ok(()) => approve(url, what, part).await,
        Err(error) => Err(error),
    };
    let Err(error) = copied else {
        return true;
    };
    tracing::warn!(%sum, %error, "an entry of the stock is of no use, and goes");
    let (ours, named, part) = (Arc::clone(stock), sum.clone(), part.to_owned());
    let gone = tokio::task::spawn_blocking(move || {
        let _ = discard(&part); // it may be gone
        ours.discard(&named)
    });
    if let Ok(Err(error)) = gone.await {
        tracing::warn!(%sum, %error, "it stays");
    }
    false
}

/// For those to come. The job has its file, whatever becomes of this.
async fn keep(stock: &Arc<Stock>, sum: Sum, part: &Path) {
    let (stock, named, part) = (Arc::clone(stock), sum.clone(), part.to_owned());
    let kept = move || stock.keep(&named, File::open(part)?);
    match tokio::task::spawn_blocking(kept).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => tracing::info!(%sum, "the stock has no room for what came"),
        Ok(Err(error)) => tracing::warn!(%sum, %error, "what came is not kept"),
        Err(error) => tracing::warn!(%sum, %error, "what came is not kept"),
    }
}
