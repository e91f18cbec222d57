//! The result of a big INOUT array while it comes: in a file that has no name, since the array is what the call would begin anew with, and
//! memory for both might not be there. Not here: which arrays.

use crate::loans::Loan;
use kumiko_rpc_client::{Recipient, RpcError};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A smaller one waits in memory, with what else of the result has no place.
pub const ASIDE_LEAST_BYTES: u64 = 64 << 20;

/// What is copied at a time, with a turn for other calls between.
const STEP_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub struct Aside {
    file: File,
    folder: PathBuf,
    bytes: u64,
    array: Arc<Loan>,
}

impl Aside {
    /// Room for so many bytes, which belong to `array` when all are here, in TMPDIR or else /var/tmp (/tmp may be memory). None: there is no room.
    pub fn new(bytes: u64, array: Arc<Loan>) -> Option<Aside> {
        let folder = std::env::var_os("TMPDIR").map_or("/var/tmp".into(), PathBuf::from);
        let file = kumiko_linux::spooling::nameless(&folder).ok()?;
        kumiko_linux::spooling::reserve(&file, bytes).ok()?;
        Some(Aside {
            file,
            folder,
            bytes,
            array,
        })
    }

    /// Copies all of it to the array, or what of it is still wanted.
    pub async fn commit(&self) -> Result<(), RpcError> {
        let mut step = Vec::new();
        let mut at = 0;
        while at < self.bytes {
            let next = (self.bytes - at).min(STEP_BYTES);
            step.resize(usize::try_from(next).unwrap_or(0), 0);
            let read = self.file.read_exact_at(&mut step, at);
            read.map_err(|cause| self.failed(cause))?;
            self.array.put(at, &step)?;
            at += next;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn failed(&self, cause: io::Error) -> RpcError {
        let path = self.folder.clone();
        RpcError::File { path, cause }
    }
}

impl Recipient for Aside {
    fn put(&self, offset: u64, data: &[u8]) -> Result<(), RpcError> {
        let written = self.file.write_all_at(data, offset);
        written.map_err(|cause| self.failed(cause))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::loans::Loans;
    use kumiko_idl::Run;

    #[test]
    fn an_array_is_as_it_was_until_all_of_its_result_is_here() {
        let bytes = 5 * STEP_BYTES / 2;
        let length = usize::try_from(bytes).unwrap();
        let result: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut array = vec![255; length];
        let mut places = Loans::default();
        let run = Run {
            offset_bytes: 0,
            bytes,
        };
        let aside = Aside::new(bytes, places.give_back(array.as_mut_ptr(), &run)).unwrap();
        for at in (0..length).step_by(100_000) {
            let end = length.min(at + 100_000);
            aside.put(at as u64, &result[at..end]).unwrap();
        }
        assert!(array.iter().all(|byte| *byte == 255));
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.block_on(aside.commit()).unwrap();
        assert!(array == result);
        array.fill(255);
        drop(places);
        runtime.block_on(aside.commit()).unwrap();
        assert!(array.iter().all(|byte| *byte == 255), "nobody wants it");
    }
}
