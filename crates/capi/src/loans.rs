//! Arrays of a caller's that are read and written where they lie, a block at a time, until the caller has them back. Not here: which.

use kumiko_idl::Run;
use kumiko_rpc_client::{Argument, Lender, Recipient, RpcError};
use std::sync::{Arc, PoisonError, RwLock};

/// A smaller one is copied: that takes less than a lock.
pub const LENT_LEAST_BYTES: u64 = 64 << 10;

/// What one call was lent, to read or to write. Taken back when dropped, by whom it waits for: a call that was stopped may go on for a while.
#[derive(Debug, Default)]
pub struct Loans(Vec<Arc<Loan>>);

/// None: it was taken back.
#[derive(Debug)]
pub struct Loan(RwLock<Option<Region>>);

#[derive(Debug)]
struct Region {
    address: *mut u8,
    bytes: u64,
}

// SAFETY: only used under the loan's lock, as long as it is there.
unsafe impl Send for Region {}
// SAFETY: as above; it is written under the lock for writing.
unsafe impl Sync for Region {}

impl Region {
    fn of(address: *mut u8, run: &Run) -> Region {
        let offset = usize::try_from(run.offset_bytes).unwrap_or(usize::MAX);
        Region {
            address: address.wrapping_add(offset),
            bytes: run.bytes,
        }
    }

    /// Where so many bytes from `offset` on lie; None: they are not all of this region.
    fn at(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes as u64)?;
        let offset = usize::try_from(offset).ok()?;
        (end <= self.bytes).then(|| self.address.wrapping_add(offset))
    }

    fn overlaps(&self, other: &Region) -> bool {
        let from = |region: &Region| region.address as u64;
        let to = |region: &Region| from(region).saturating_add(region.bytes);
        from(self) < to(other) && from(other) < to(self)
    }
}

impl Loans {
    /// A run of the array at `address`, which has as many bytes, and stays as it is until these loans are dropped.
    pub fn lend(&mut self, address: *mut u8, run: &Run) -> Argument {
        Argument::Lent {
            bytes: run.bytes,
            lender: self.keep(Region::of(address, run)),
        }
    }

    /// A run of the array at `address`, which has as many bytes, and is nobody else's until these loans are dropped. None: a part of it is
    /// lent to be read.
    pub fn receive(&mut self, address: *mut u8, run: &Run, read: &Loans) -> Option<Arc<Loan>> {
        let region = Region::of(address, run);
        let is_read = |loan: &Arc<Loan>| {
            let lent = loan.0.read().unwrap_or_else(PoisonError::into_inner);
            lent.as_ref().is_some_and(|lent| lent.overlaps(&region))
        };
        match read.0.iter().any(is_read) {
            true => None,
            false => Some(self.keep(region)),
        }
    }

    /// The same for one that a call reads too: it is written when nothing of the call is read any more.
    pub fn give_back(&mut self, address: *mut u8, run: &Run) -> Arc<Loan> {
        self.keep(Region::of(address, run))
    }

    fn keep(&mut self, region: Region) -> Arc<Loan> {
        let loan = Arc::new(Loan(RwLock::new(Some(region))));
        self.0.push(Arc::clone(&loan));
        loan
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
        let from = region.as_ref().and_then(|one| one.at(offset, to.len()));
        let Some(from) = from else {
            return false;
        };
        // SAFETY: the caller's array has these bytes, and it waits until the lock is ours no more (`Loans`).
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        true
    }
}

impl Recipient for Loan {
    fn put(&self, offset: u64, data: &[u8]) -> Result<(), RpcError> {
        let region = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(to) = region.as_ref().and_then(|one| one.at(offset, data.len())) {
            // SAFETY: the caller's array has these bytes, nobody else uses them, and it waits until the lock is ours no more (`Loans`).
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_read_until_it_is_taken_back() {
        let mut array: Vec<u8> = (0..100).collect();
        let mut loans = Loans::default();
        let run = Run {
            offset_bytes: 10,
            bytes: 50,
        };
        let Argument::Lent { bytes, lender } = loans.lend(array.as_mut_ptr(), &run) else {
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

    #[test]
    fn what_is_received_is_written_until_it_is_taken_back_and_never_where_something_is_read() {
        let mut array = [0; 100];
        let run = |offset_bytes, bytes| Run {
            offset_bytes,
            bytes,
        };
        let at = array.as_mut_ptr();
        let (mut read, mut places) = (Loans::default(), Loans::default());
        read.lend(at, &run(0, 40));
        assert!(places.receive(at, &run(39, 10), &read).is_none());
        let place = places.receive(at, &run(40, 10), &read).unwrap();
        place.put(3, &[1, 2, 3]).unwrap();
        place.put(8, &[4, 5, 6]).unwrap(); // beyond its end
        drop(places);
        place.put(0, &[7]).unwrap(); // taken back
        let mut expected = [0; 100];
        expected[43..46].copy_from_slice(&[1, 2, 3]);
        assert_eq!(array, expected);
    }
}
