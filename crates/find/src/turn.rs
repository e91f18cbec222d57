//! One call of a routine that several sites have: at the one that would have its result first, and where it does not begin there at the next
//! (spec/rpc P43). Not here: in which order.

use crate::found::{FindError, Found, Open};
use crate::links::{Here, Link};
use crate::sites::Sites;
use bytes::Bytes;
use kumiko_call::id::CallId;
use kumiko_client::SiteAddress;
use kumiko_directory::estimate::Work;
use kumiko_idl::Head;
use kumiko_rpc_client::{Arguments, Calls, RpcError, Stages};
use std::sync::Arc;
use std::time::Duration;

/// A site that may be away is told of what it need not keep, and not waited for.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Call(#[from] RpcError),
    #[error(transparent)]
    Find(#[from] FindError),
}

impl CallError {
    /// As [`RpcError::is_final`].
    pub fn is_final(&self) -> bool {
        match self {
            CallError::Call(error) => error.is_final(),
            // It begins nowhere.
            CallError::Find(_) => true,
        }
    }
}

/// A call that has a site and a number there.
#[derive(Debug)]
pub struct Turn {
    sites: Arc<Sites>,
    work: Option<Work>,
    found: Found,
    at: At,
}

#[derive(Debug)]
struct At {
    open: Open,
    link: Link,
    id: CallId,
    _here: Here,
}

impl Turn {
    /// For a call with these arguments. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// No site takes it, or one refuses what others would refuse too.
    pub async fn of(sites: &Arc<Sites>, heads: &[Head]) -> Result<Turn, CallError> {
        let work = sites.work(heads);
        let mut found = sites.found(work);
        let at = next(sites, &mut found).await?;
        Ok(Turn {
            sites: Arc::clone(sites),
            work,
            found,
            at,
        })
    }

    pub fn calls(&self) -> &Calls {
        &self.at.link.calls
    }

    pub fn id(&self) -> CallId {
        self.at.id
    }

    pub fn address(&self) -> &SiteAddress {
        &self.at.open.address
    }

    /// As [`Calls::call_seen`]. Before it goes to another site, `moves` is told: false: nobody wants it any more.
    ///
    /// # Errors
    /// There is no result, and why.
    pub async fn call(
        &mut self,
        arguments: &Arguments,
        stages: &Stages,
        mut moves: impl FnMut(&Turn) -> bool,
    ) -> Result<Bytes, CallError> {
        loop {
            let (calls, id) = (self.calls().clone(), self.id());
            let routine = self.sites.routine();
            let came = calls
                .call_or_elsewhere(id, routine, arguments, stages)
                .await;
            let error = match came {
                Err(error) if error.goes_elsewhere(stages) => error,
                // It may have begun, and stays: further calls ask others first.
                Err(error) if error.is_of_this_site() => {
                    self.found.refused(&self.at.open, &error);
                    self.sites.failed(&self.at.open);
                    return Err(error.into());
                }
                came => {
                    self.found.answered(&self.at.open);
                    if came.is_ok() {
                        let took = stages.took();
                        self.sites.measured(&self.at.open, self.work, &took);
                    }
                    return Ok(came?);
                }
            };
            // What it has of the arguments it need not keep.
            tokio::spawn(async move {
                let _ = tokio::time::timeout(HEARD_WITHIN, calls.cancel(id)).await;
            });
            self.found.refused(&self.at.open, &error);
            self.sites.failed(&self.at.open);
            self.at = next(&self.sites, &mut self.found).await?;
            stages.anew();
            if !moves(self) {
                return Err(error.into());
            }
        }
    }
}

/// A number at the next site that gives one.
async fn next(sites: &Sites, found: &mut Found) -> Result<At, CallError> {
    loop {
        let open = sites.next(found).await?;
        let refused = match sites.links().to(&open.address).await {
            Ok(link) => match link.calls.number().await {
                Ok(id) => {
                    let _here = link.here();
                    return Ok(At {
                        open,
                        link,
                        id,
                        _here,
                    });
                }
                Err(error) => error,
            },
            Err(error) => error.into(),
        };
        if !refused.is_of_this_site() {
            return Err(refused.into());
        }
        found.refused(&open, &refused);
        sites.failed(&open);
    }
}
