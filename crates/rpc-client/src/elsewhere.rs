//! Calls that another site may have, as long as they cannot have begun at this one (spec/rpc P43). Not here: which other.

use crate::arguments::Arguments;
use crate::calls::Calls;
use crate::error::RpcError;
use crate::stages::{Moved, Stages};
use bytes::Bytes;
use kumiko_call::id::CallId;
use std::time::Duration;

const ARGUMENTS_STAND_STILL: Duration = Duration::from_secs(15);
/// Refusals before a call has begun of which another site knows nothing.
const ELSEWHERE: [&str; 6] = [
    "no_routine",
    "rpc_log_unwritable",
    "rpc_no_room",
    "rpc_registry",
    "rpc_too_many_calls",
    "site_draining",
];

impl RpcError {
    /// Another site may not say so: of a call that has not begun, it is worth to ask one.
    pub fn is_of_this_site(&self) -> bool {
        match self {
            RpcError::Refused(refusal) => ELSEWHERE.contains(&refusal.code.as_str()),
            RpcError::Client(_) | RpcError::Stream(_) | RpcError::StandsStill { .. } => true,
            _ => false,
        }
    }

    /// A call that ended so is worth to be made at another site: it has not begun at this one.
    pub fn goes_elsewhere(&self, stages: &Stages) -> bool {
        let has_not_begun = match self {
            RpcError::Client(_) | RpcError::Stream(_) => stages.cannot_have_begun(),
            // For so long that it was given up: of what it may compute meanwhile.
            _ => !stages.is_known() || stages.cannot_have_begun(),
        };
        self.is_of_this_site() && has_not_begun
    }
}

impl Calls {
    /// As [`Calls::call_seen`], of a call that may be made at another site: it is not waited for until this one takes it, and its arguments do not
    /// stand still for long (P43).
    ///
    /// # Errors
    /// There is no result, and why.
    pub async fn call_or_elsewhere(
        &self,
        id: CallId,
        routine: &str,
        arguments: &Arguments,
        stages: &Stages,
    ) -> Result<Bytes, RpcError> {
        tokio::select! {
            came = self.call_among((id, routine, arguments), stages, true) => came,
            () = stages.stands_still(ARGUMENTS_STAND_STILL) => {
                let Moved { sent, to_send, .. } = stages.moved();
                Err(RpcError::StandsStill { call: id, sent, to_send })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiko_job::contract::Refusal;

    #[test]
    fn what_would_be_the_same_elsewhere_is_no_reason_to_ask_there() {
        for (code, expected) in [
            ("no_routine", true),
            ("rpc_no_room", true),
            ("site_draining", true),
            ("bad_arguments", false),
            ("limited_proxy", false),
            ("rpc_unreadable", false),
        ] {
            let error = RpcError::Refused(Refusal::new(code, String::new()));
            assert_eq!(error.is_of_this_site(), expected, "{code}");
        }
    }

    #[test]
    fn what_a_site_has_and_may_compute_does_not_go_elsewhere() {
        let stages = Stages::default();
        let error = RpcError::Refused(Refusal::new("rpc_no_room", String::new()));
        stages.said();
        assert!(error.goes_elsewhere(&stages), "it is refused at first");
        stages.known();
        stages.sending(0, 1 << 30);
        assert!(error.goes_elsewhere(&stages), "it has not all arguments");
        stages.sending(1 << 30, 1 << 30);
        assert!(!error.goes_elsewhere(&stages));
        stages.anew();
        assert!(error.goes_elsewhere(&stages));
    }
}
