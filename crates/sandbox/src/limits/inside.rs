//! The rate of a job's network where the library keeps it (P92): the page that all programs of the job share, on the side
//! of who stands by the job. Not in it: what programs do by it (kumiko-preload).

use kumiko_linux::limits::shared;
use kumiko_policy::{Network, NetworkLimiter, Policy};
use kumiko_preload::layout::PAGE_BYTES;
use kumiko_preload::rate::{DEADLINE, PAPER, RATE, RULE, WAYS};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Who has it sets the rate.
#[derive(Clone, Debug)]
pub struct Inside(Arc<File>);

impl Inside {
    /// With the rate that the policy has; None: it is not kept in the guest.
    pub(crate) fn of(policy: &Policy) -> io::Result<Option<Inside>> {
        let rule = match policy.limiter() {
            _ if policy.network() == Network::None => return Ok(None),
            NetworkLimiter::Outside => return Ok(None),
            NetworkLimiter::Deadline => DEADLINE,
            NetworkLimiter::Paper => PAPER,
        };
        let inside = Inside(Arc::new(shared::memory("rate", PAGE_BYTES)?));
        inside.put(RULE, rule)?;
        inside.set(policy.limits.network_kbyte_s)?;
        Ok(Some(inside))
    }

    /// Another rate from now on; what was to be waited for by the one before is forgotten.
    pub(crate) fn set(&self, kbyte_s: Option<u64>) -> io::Result<()> {
        self.put(RATE, kbyte_s.unwrap_or(0).saturating_mul(1_000))?;
        WAYS.into_iter().try_for_each(|way| self.put(way, 0))
    }

    /// Aligned, and whole for whoever reads it.
    fn put(&self, word: usize, value: u64) -> io::Result<()> {
        let at = (word * size_of::<u64>()) as u64;
        self.0.write_all_at(&value.to_le_bytes(), at)
    }
}

impl AsFd for Inside {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
