//! Arrays of a caller that waits: they are read where they lie, a block at a time, until the caller has them back. Not here: which.

use kumiko_idl::Run;
use kumiko_rpc_client::{Argument, Lender};
use std::sync::{Arc, PoisonError, RwLock};

/// A smaller one is copied: that takes less than a lock.
pub const LENT_LEAST_BYTES: u64 = 64 << 10;

/// What one call was lent. Taken back when dropped, by whom it waits for: a call that was stopped may go on for a while.
#[derive(Debug, Default)]
pub struct Loans(Vec<Arc<Loan>>);

/// None: it was taken back.
#[derive(Debug)]
struct Loan(RwLock<Option<Region>>);

#[derive(Debug)]
struct Region {
    address: *const u8,
    bytes: u64,
}

// SAFETY: only read, and under the loan's lock, as long as it is there.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Loans {
    /// A run of the array at `address`, which has as many bytes, and stays as it is until these loans are dropped.
    pub fn lend(&mut self, address: *const u8, run: &Run) -> Argument {
        let offset = usize::try_from(run.offset_bytes).unwrap_or(usize::MAX);
        let region = Region {
            address: address.wrapping_add(offset),
            bytes: run.bytes,
        };
        let loan = Arc::new(Loan(RwLock::new(Some(region))));
        self.0.push(Arc::clone(&loan));
        Argument::Lent {
            bytes: run.bytes,
            lender: loan,
        }
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        for loan in &self.0 {
            // Waits for the copying of a block.
            *loan.0.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl Lender for Loan {
    fn copy(&self, offset: u64, to: &mut [u8]) -> bool {
        let region = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(region) = region.as_ref() else {
            return false;
        };
        let end = offset.checked_add(to.len() as u64);
        if end.is_none_or(|end| end > region.bytes) {
            return false;
        }
        let Ok(offset) = usize::try_from(offset) else {
            return false;
        };
        // SAFETY: the caller's array has these bytes, and it waits until the lock is ours no more (`Loans`).
        unsafe {
            let from = region.address.add(offset);
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_read_until_it_is_taken_back() {
        let array: Vec<u8> = (0..100).collect();
        let mut loans = Loans::default();
        let run = Run {
            offset_bytes: 10,
            bytes: 50,
        };
        let Argument::Lent { bytes, lender } = loans.lend(array.as_ptr(), &run) else {
            panic!("it is lent");
        };
        assert_eq!(bytes, 50);
        let mut to = [0; 4];
        assert!(lender.copy(3, &mut to));
        assert_eq!(to, [13, 14, 15, 16]);
        assert!(lender.copy(46, &mut to));
        assert!(!lender.copy(47, &mut to), "beyond its end");
        drop(loans);
        assert!(!lender.copy(0, &mut to), "taken back");
    }
}
