//! Taking samples in turn: A B, B A, A B, ... so that whatever else the machine does falls on all alike.

use crate::fail::Failure;
use crate::goal::Row;
use crate::guard;
use crate::stats::Unit;
use std::fmt;

/// Rounds that are run and not counted: caches, page tables and lazily loaded code are then as in use.
const WARM_UP: usize = 2;

/// One way of doing the thing that a row measures. Each call is one sample.
pub struct Contender<'a> {
    pub name: &'static str,
    pub unit: Unit,
    pub sample: Box<dyn FnMut() -> Result<f64, Failure> + 'a>,
}

impl<'a> Contender<'a> {
    pub fn new(
        name: &'static str,
        unit: Unit,
        sample: impl FnMut() -> Result<f64, Failure> + 'a,
    ) -> Contender<'a> {
        Contender {
            name,
            unit,
            sample: Box::new(sample),
        }
    }
}

impl fmt::Debug for Contender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contender({})", self.name)
    }
}

/// `count` samples of each contender. One that fails is out, and the row says why.
pub fn take(row: &mut Row, count: usize, contenders: Vec<Contender<'_>>) {
    after(WARM_UP, row, count, contenders);
}

/// The same of samples that take seconds and leave out their own beginning: each round counts.
pub fn take_long(row: &mut Row, count: usize, contenders: Vec<Contender<'_>>) {
    after(0, row, count, contenders);
}

fn after(warm_up: usize, row: &mut Row, count: usize, mut contenders: Vec<Contender<'_>>) {
    for round in 0..count + warm_up {
        if round % 2 == 1 {
            contenders.reverse();
        }
        contenders.retain_mut(|contender| {
            guard::go_on();
            match (contender.sample)() {
                Ok(value) => {
                    if round >= warm_up {
                        row.series(contender.name, contender.unit).push(value);
                    }
                    true
                }
                Err(failure) => {
                    row.series.retain(|s| s.name != contender.name);
                    row.lacks(Some(contender.name), &failure);
                    false
                }
            }
        });
        if round % 2 == 1 {
            contenders.reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn contenders_take_turns_and_the_warm_up_is_not_counted() {
        let order = RefCell::new(String::new());
        let one = |name: &'static str| {
            let order = &order;
            Contender::new(name, Unit::Seconds, move || {
                order.borrow_mut().push_str(name);
                Ok(1.0)
            })
        };
        let mut row = Row::new("row", "row", Vec::new());
        take(&mut row, 2, vec![one("a"), one("b")]);
        assert_eq!(*order.borrow(), "abbaabba");
        assert!(row.series.iter().all(|s| s.samples.len() == 2));
    }

    #[test]
    fn one_that_fails_is_out_and_says_why() {
        let mut calls = 0;
        let failing = Contender::new("fails", Unit::Seconds, || {
            calls += 1;
            if calls > 3 {
                Err(Failure::unexpected("broke"))
            } else {
                Ok(1.0)
            }
        });
        let mut row = Row::new("row", "row", Vec::new());
        take(
            &mut row,
            5,
            vec![failing, Contender::new("works", Unit::Seconds, || Ok(2.0))],
        );
        assert_eq!(
            row.missing
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            ["fails: broke"]
        );
        assert_eq!(
            row.series
                .iter()
                .map(|s| s.name.as_str())
                .collect::<Vec<_>>(),
            ["works"]
        );
        assert_eq!(row.series[0].samples.len(), 5);
    }
}
