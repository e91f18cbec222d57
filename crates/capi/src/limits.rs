//! How long a session may take, and what it sends and fetches. Not here: what becomes of one that takes longer (`sessions`).

use kumiko_rpc_client::{Stage, Stages};
use std::time::Duration;

/// None: as long as it takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub session: Option<Duration>,
    pub arguments: Option<Duration>,
    pub result: Option<Duration>,
}

impl Limits {
    /// Ends when one of them has passed; maybe never.
    pub async fn pass(self, stages: &Stages) {
        tokio::select! {
            () = passed(self.session) => {}
            () = self.arguments_pass(stages) => {}
            () = self.result_passes(stages) => {}
        }
    }

    async fn arguments_pass(self, stages: &Stages) {
        passed(self.arguments).await;
        if stages.stage() > Stage::Sending {
            std::future::pending::<()>().await;
        }
    }

    async fn result_passes(self, stages: &Stages) {
        stages.outcome_is_there().await;
        passed(self.result).await;
    }
}

/// Never, if there is no time to pass.
async fn passed(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
