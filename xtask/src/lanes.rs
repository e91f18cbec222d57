//! Work that is done some at once: fuzz targets, and programs of tests, which mostly wait.

use std::sync::{Mutex, PoisonError};

/// Does `work` with each item, `count` at once, begun in order; what it made of them, in no order.
pub fn each<I: Send, R: Send>(count: usize, items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    let left = Mutex::new(items.into_iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        let lane = || std::iter::from_fn(next).map(&work).collect::<Vec<R>>();
        let lanes: Vec<_> = (0..count).map(|_| scope.spawn(lane)).collect();
        lanes
            .into_iter()
            .flat_map(|lane| match lane.join() {
                Ok(made) => made,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn each_item_is_worked_on_once_and_as_many_at_once_as_said() {
        let both = Barrier::new(2);
        let mut made = each(2, (0..100).collect(), |item: i32| {
            both.wait();
            item * 2
        });
        made.sort_unstable();
        assert_eq!(made, (0..200).step_by(2).collect::<Vec<_>>());
        assert_eq!(each(2, Vec::new(), |item: i32| item), [0; 0]);
    }
}
