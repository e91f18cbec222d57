//! How many connections there may be, in all and from one address, and how much a stranger may send.

use crate::Refused;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counts connections. A v6 network of 64 bits is one address: that is what one customer has.
#[derive(Debug)]
pub(crate) struct Bounds {
    connections: usize,
    per_address: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    bounds: Arc<Bounds>,
    address: IpAddr,
}

impl Bounds {
    pub fn new(connections: usize, per_address: usize) -> Arc<Bounds> {
        Arc::new(Bounds {
            connections,
            per_address,
            open: Mutex::default(),
        })
    }

    pub fn take(self: &Arc<Self>, address: IpAddr) -> Result<Place, Refused> {
        let address = network(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.values().sum::<usize>() >= self.connections {
            return Err(Refused::TooMany {
                limit: self.connections,
            });
        }
        let count = open.entry(address).or_default();
        if *count >= self.per_address {
            return Err(Refused::TooManyFromAddress {
                limit: self.per_address,
            });
        }
        *count += 1;
        Ok(Place {
            bounds: self.clone(),
            address,
        })
    }

    pub fn count(&self) -> usize {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self
            .bounds
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

/// Bytes that may still be read; `u64::MAX` once the peer is known.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<AtomicU64>);

impl Budget {
    pub fn new(bytes: u64) -> Budget {
        Budget(Arc::new(AtomicU64::new(bytes)))
    }

    pub fn lift(&self) {
        self.0.store(u64::MAX, Ordering::Relaxed);
    }

    pub fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// A connection that reads within a budget.
#[derive(Debug)]
pub(crate) struct Budgeted<S> {
    inner: S,
    budget: Budget,
}

impl<S> Budgeted<S> {
    pub fn new(inner: S, budget: Budget) -> Self {
        Budgeted { inner, budget }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Budgeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.budget.0.load(Ordering::Relaxed);
        if left == u64::MAX {
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        if left == 0 {
            return Poll::Ready(Err(io::Error::other(
                "too many bytes before authentication",
            )));
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        let read = (buf.filled().len() - before) as u64;
        self.budget
            .0
            .store(left.saturating_sub(read), Ordering::Relaxed);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Budgeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_in_all_and_per_address_and_given_back() {
        let bounds = Bounds::new(3, 2);
        let a: IpAddr = "10.0.0.1".parse().unwrap();
        let b: IpAddr = "2001:db8::1".parse().unwrap();
        let same_network: IpAddr = "2001:db8::2".parse().unwrap();
        let first = bounds.take(a).unwrap();
        let _second = bounds.take("::ffff:10.0.0.1".parse().unwrap()).unwrap();
        assert!(matches!(
            bounds.take(a),
            Err(Refused::TooManyFromAddress { limit: 2 })
        ));
        let _third = bounds.take(b).unwrap();
        assert!(matches!(
            bounds.take(same_network),
            Err(Refused::TooMany { limit: 3 })
        ));
        drop(first);
        let _fourth = bounds.take(same_network).unwrap();
        assert_eq!(bounds.count(), 3);
    }
}
