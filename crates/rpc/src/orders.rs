//! What calls are computed by: the routine of a name under the policy of a caller, kept for the next call. Both may change at any time: that
//! a routine was registered anew is seen at once, another policy a moment later. Not here: how a policy is made (the site's wiring).

use crate::registry::{Registry, RegistryError, Routine, Stamp};
use crate::worker::Order;
use kumiko_job::contract::Refusal;
use kumiko_policy::Policy;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A policy is made of files that are read each time, which takes longer than a small call.
pub(crate) const POLICY_FOR: Duration = Duration::from_millis(100);
/// Then all are forgotten: more than a site has routines and busy callers.
const KEPT_MOST: usize = 1024;

#[derive(Debug)]
pub struct Orders {
    may_dump: bool,
    routines: Mutex<HashMap<String, (Stamp, Arc<Routine>)>>,
    policies: Mutex<HashMap<String, (Instant, Arc<Policy>)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Orders {
    pub fn new(may_dump: bool) -> Orders {
        Orders {
            may_dump,
            routines: Mutex::default(),
            policies: Mutex::default(),
        }
    }

    /// None: it is not registered.
    ///
    /// # Errors
    /// The registry is damaged.
    pub fn routine(
        &self,
        registry: &Registry,
        name: &str,
    ) -> Result<Option<Arc<Routine>>, RegistryError> {
        let Some(stamp) = registry.stamp(name) else {
            return registry.find(name);
        };
        if let Some((of, routine)) = lock(&self.routines).get(name) {
            if *of == stamp {
                return Ok(Some(Arc::clone(routine)));
            }
        }
        // If it is registered anew in between, the next one finds another stamp.
        let found = registry.find(name)?;
        if let Some(routine) = &found {
            let mut routines = lock(&self.routines);
            if routines.len() >= KEPT_MOST {
                routines.clear();
            }
            routines.insert(name.to_owned(), (stamp, Arc::clone(routine)));
        }
        Ok(found)
    }

    /// # Errors
    /// What `make` says; nothing older is taken in its place.
    pub fn order(
        &self,
        subject: &str,
        routine: Arc<Routine>,
        make: impl FnOnce() -> Result<Policy, Refusal>,
    ) -> Result<Order, Refusal> {
        let last = lock(&self.policies).get(subject).cloned();
        let policy = match last {
            Some((made, policy)) if made.elapsed() < POLICY_FOR => policy,
            last => {
                let made = Instant::now();
                let new = make()?;
                let policy = match last {
                    // The same one: it is compared with those of processes.
                    Some((_, old)) if *old == new => old,
                    _ => Arc::new(new),
                };
                let mut policies = lock(&self.policies);
                if policies.len() >= KEPT_MOST {
                    policies.clear();
                }
                policies.insert(subject.to_owned(), (made, Arc::clone(&policy)));
                policy
            }
        };
        Ok(Order {
            routine,
            policy,
            may_dump: self.may_dump,
        })
    }
}
