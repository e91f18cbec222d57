//! Memory of blocks that were sent, for those that follow: pages that were never written to cost more than the copy that goes there. Not here:
//! what is in them.

use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// So many are kept at most: about what is on its way at once.
const MOST: usize = 16;

#[derive(Clone, Debug, Default)]
pub struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    spare: Spare,
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut spare = self.spare.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST {
            spare.push(bytes);
        }
    }
}

impl Spare {
    /// Of so many bytes, which hold what others left there, or zeros.
    pub fn take(&self, bytes: usize) -> Vec<u8> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut block = spare.pop().unwrap_or_default();
        drop(spare);
        block.resize(bytes, 0);
        block
    }

    /// It comes back when nobody reads it any more.
    pub fn lend(&self, bytes: Vec<u8>) -> Bytes {
        let spare = self.clone();
        Bytes::from_owner(Block { bytes, spare })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_its_last_reader_is_gone() {
        let spare = Spare::default();
        let block = spare.lend(spare.take(8));
        let (address, part) = (block.as_ptr(), block.slice(3..));
        drop(block);
        let other = spare.take(8);
        assert_ne!(other.as_ptr(), address);
        drop(part);
        let again = spare.take(4);
        assert_eq!((again.as_ptr(), again.len()), (address, 4));
    }
}
