//! Before an engine: which of its hosts are drained (spec/jobs/engines.md, E20 to E22). Nothing is handed over that could begin there,
//! and of what is there it is said that it leaves. Not here: what comes of that (pilots, calls), who says so.

use super::order::Order;
use super::seen::{Row, Seen};
use super::{Engine, Trouble};
use crate::able::Able;
use std::collections::BTreeSet;
use tokio::sync::RwLock;

#[derive(Debug)]
pub struct Drained<E> {
    engine: E,
    /// Held for writing while the engine is told: what was handed over before is in its queue then, and what comes after
    /// brings them along.
    hosts: RwLock<BTreeSet<String>>,
}

impl<E: Engine> Drained<E> {
    /// `hosts`: that the engine had when a site before this one drained them.
    pub fn new(engine: E, hosts: BTreeSet<String>) -> Self {
        Drained {
            engine,
            hosts: RwLock::new(hosts),
        }
    }
}

impl<E: Engine> Engine for Drained<E> {
    const NAME: &'static str = E::NAME;
    const ABLE: Able = E::ABLE;
    const LOG: Option<&'static str> = E::LOG;

    async fn submit(&self, order: &Order) -> Result<(), Trouble> {
        let hosts = self.hosts.read().await;
        if hosts.is_empty() {
            return self.engine.submit(order).await;
        }
        let order = Order {
            avoids: hosts.iter().cloned().collect(),
            ..order.clone()
        };
        self.engine.submit(&order).await
    }

    async fn look(&self, site: &str) -> Result<Vec<Row>, Trouble> {
        let mut rows = self.engine.look(site).await?;
        let drained = self.hosts.read().await;
        for row in &mut rows {
            if !matches!(row.seen, Seen::Over(_)) {
                let there = row.hosts.iter().find(|host| drained.contains(*host));
                row.leaves = there.cloned();
            }
        }
        Ok(rows)
    }

    async fn cancel(&self, tag: &str) -> Result<(), Trouble> {
        self.engine.cancel(tag).await
    }

    async fn avoid(
        &self,
        site: &str,
        hosts: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Trouble> {
        let mut drained = self.hosts.write().await;
        let known = self.engine.avoid(site, hosts).await?;
        drained.clone_from(&known);
        Ok(known)
    }

    fn read(&self, log: &[u8]) -> Option<Seen> {
        self.engine.read(log)
    }
}
