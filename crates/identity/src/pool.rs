//! Keys made ahead (spec/identity D5): an RSA key takes some 60 ms, too long while a peer waits; one of P-256 is made at
//! once. Not here: when a pool is filled, which is its owner's: [`KeyPool::fill_one`] on a thread of its own.

use crate::key::{Key, KeyError, KeyKind};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Keys kept ready: a burst of so many delegations finds one made.
pub const READY_KEYS: usize = 16;

/// Keys of one kind.
#[derive(Debug)]
pub struct KeyPool {
    kind: KeyKind,
    ready: Mutex<VecDeque<Key>>,
}

impl KeyPool {
    pub fn new(kind: KeyKind) -> KeyPool {
        KeyPool {
            kind,
            ready: Mutex::default(),
        }
    }

    /// One that nobody else has: made ahead, or made now.
    pub fn take(&self) -> Result<Key, KeyError> {
        let ready = self.lock().pop_front();
        match ready {
            Some(key) => Ok(key),
            None => Key::generate(self.kind),
        }
    }

    /// Makes one more, if one is missing; says whether it did. Takes as long as a key takes.
    pub fn fill_one(&self) -> Result<bool, KeyError> {
        if self.kind == KeyKind::P256 || self.lock().len() >= READY_KEYS {
            return Ok(false);
        }
        let key = Key::generate(self.kind)?;
        self.lock().push_back(key);
        Ok(true)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Key>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_given_once_and_keys_of_p256_are_not_hoarded() {
        let pool = KeyPool::new(KeyKind::Rsa(2048));
        assert!(pool.fill_one().unwrap());
        let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
        assert!(!first.0.public_eq(&second.0));
        assert!(!KeyPool::new(KeyKind::P256).fill_one().unwrap());
    }
}
