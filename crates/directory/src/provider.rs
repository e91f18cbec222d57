//! The contract of providers, and what of their readings is worth telling (spec/info, P1 to P3 and P6). Not here: any
//! provider.

use crate::entry::{Attribute, Entry, Op};
use crate::schema::{self, Unit};
use crate::value::number;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

/// What tells entries about hosts or services. Duties:
///
/// 1. A reading is complete: an entry that it had before and has no more is gone.
/// 2. Names are relative to the server's suffix, and the same for the same thing as long as it lives.
/// 3. Dropping the future of `read` gives the reading up and leaves nothing behind.
/// 4. No answer waits for a reading: `read` may take as long as `limit`, and hold up nobody.
pub trait Provider: Send + 'static {
    /// One of a kind within a server.
    fn name(&self) -> &str;
    /// Between the beginnings of two readings.
    fn every(&self) -> Duration;
    /// After this a reading has failed.
    fn limit(&self) -> Duration;
    fn read(&mut self) -> Reading<'_>;
}

/// A reading under way; the error says in words what failed.
pub type Reading<'a> = Pin<Box<dyn Future<Output = Result<Vec<Entry>, ReadError>> + Send + 'a>>;

/// Why a reading failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{what}: {cause}")]
    Io { what: String, cause: std::io::Error },
    #[error("its output cannot be used: {0}")]
    Output(#[from] crate::ldif::LdifError),
    #[error("it printed more than {limit} bytes")]
    TooLong { limit: usize },
    #[error("it ended with {status}; it said: {said}")]
    Failed { status: String, said: String },
    #[error("it took longer than {} s", limit.as_secs_f32())]
    Late { limit: Duration },
}

/// The smallest change of a number that is told: a twentieth of a CPU, a hundredth of what is free.
fn step(attribute: &str, old: f64) -> f64 {
    let Some(declared) = schema::attribute(attribute) else {
        return 0.0;
    };
    match declared.unit {
        Unit::Hundredths => 5.0,
        // Sizes are what they are; what is free changes with every breath.
        Unit::Mebibytes if declared.name.ends_with("freeMB") => (old.abs() / 100.0).max(8.0),
        _ if declared.name.starts_with("kumiko-load-") => 0.05,
        _ => 0.0,
    }
}

fn is_worth_telling(old: &Attribute, new: &Attribute) -> bool {
    if old.values.len() != new.values.len() {
        return true;
    }
    old.values.iter().zip(&new.values).any(|(old, new_value)| {
        if old == new_value {
            return false;
        }
        match (number(old), number(new_value)) {
            (Some(a), Some(b)) => {
                let step = step(&new.name, a);
                step == 0.0 || (a - b).abs() >= step
            }
            _ => true,
        }
    })
}

/// What was told of a provider's entries.
#[derive(Clone, Debug, Default)]
pub struct Told {
    entries: BTreeMap<String, Entry>,
}

impl Told {
    /// The changes that bring others from what was told to this reading.
    pub fn tell(&mut self, reading: Vec<Entry>) -> Vec<Op> {
        let mut ops = Vec::new();
        let mut now = BTreeMap::new();
        for new in reading {
            let key = new.dn.key();
            let Some(mut old) = self.entries.remove(&key) else {
                ops.push(Op::Put(new.clone()));
                now.insert(key, new);
                continue;
            };
            let gone = old.attributes.iter().filter(|a| new.get(&a.name).is_none());
            for attribute in gone {
                ops.push(Op::Set {
                    dn: new.dn.clone(),
                    attribute: Attribute {
                        values: Vec::new(),
                        ..attribute.clone()
                    },
                });
            }
            old.attributes.retain(|a| new.get(&a.name).is_some());
            for attribute in &new.attributes {
                let before = old
                    .attributes
                    .iter_mut()
                    .find(|a| a.name.eq_ignore_ascii_case(&attribute.name));
                match before {
                    Some(before) => {
                        // A value with an end is told again in time, changed or not.
                        let stamp = before.stamp;
                        let half = stamp.measured_ms + u64::from(stamp.holds_ms / 2);
                        let ends = stamp.holds_ms > 0 && attribute.stamp.measured_ms >= half;
                        if !ends && !is_worth_telling(before, attribute) {
                            continue;
                        }
                        *before = attribute.clone();
                    }
                    None => old.attributes.push(attribute.clone()),
                }
                ops.push(Op::Set {
                    dn: new.dn.clone(),
                    attribute: attribute.clone(),
                });
            }
            now.insert(key, old);
        }
        for entry in std::mem::take(&mut self.entries).into_values() {
            ops.push(Op::Remove { dn: entry.dn });
        }
        self.entries = now;
        ops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dn, Stamp};

    fn host(name: &str, free: &str, load: &str) -> Entry {
        Entry::new(Dn::default().child("Mds-Host-hn", name))
            .with("Mds-Memory-Ram-Total-freeMB", [free])
            .with("kumiko-load-1min", [load])
            .stamped(Stamp {
                measured_ms: 1,
                holds_ms: 0,
            })
    }

    #[test]
    fn only_what_changed_beyond_its_step_is_told() {
        let mut told = Told::default();
        assert_eq!(
            told.tell(vec![host("a", "1000", "0.10"), host("b", "1000", "1")])
                .len(),
            2
        );
        assert!(
            told.tell(vec![host("a", "1005", "0.14"), host("b", "1000", "1")])
                .is_empty()
        );
        // Small steps add up: they are counted from what was told last.
        let ops = told.tell(vec![host("a", "1011", "0.14"), host("b", "1000", "1")]);
        assert_eq!(ops.len(), 1, "{ops:?}");
        let ops = told.tell(vec![host("a", "1011", "0.14")]);
        assert!(matches!(&ops[..], [Op::Remove { dn }] if dn.key() == "mds-host-hn=b"));
        let mut less = host("a", "1011", "0.14");
        less.attributes.pop();
        let ops = told.tell(vec![less]);
        assert!(matches!(&ops[..], [Op::Set { attribute, .. }] if attribute.values.is_empty()));
    }

    #[test]
    fn a_value_with_an_end_is_told_again_before_it() {
        let at = |measured_ms| {
            let stamp = Stamp {
                measured_ms,
                holds_ms: 100,
            };
            vec![host("a", "1", "1").stamped(stamp)]
        };
        let mut told = Told::default();
        told.tell(at(1000));
        assert!(told.tell(at(1049)).is_empty());
        assert_eq!(told.tell(at(1050)).len(), 2);
    }
}
