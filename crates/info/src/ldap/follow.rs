//! Persistent searches of one connection (draft-ietf-ldapext-psearch-03): who follows what, and what they are told.

use crate::index::Index;
use kumiko_directory::ldap::{self, Answer, PersistentSearch, Search, code};
use kumiko_directory::{Dn, Event, RowId, Scope};
use std::collections::HashSet;
use tokio::sync::watch;

const ADD: i64 = 1;
const DELETE: i64 = 2;
const MODIFY: i64 = 4;

struct One {
    id: i64,
    base: Dn,
    search: Search,
    options: PersistentSearch,
    /// What matches, so that its end can be told.
    seen: HashSet<RowId>,
    /// Changes up to this number are told.
    told: u64,
}

/// The persistent searches of one connection.
pub(super) struct Follow {
    version: watch::Receiver<u64>,
    all: Vec<One>,
}

impl Follow {
    pub fn new(index: &Index) -> Follow {
        Follow {
            version: index.follow(),
            all: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    pub fn begin(
        &mut self,
        id: i64,
        base: Dn,
        search: Search,
        options: PersistentSearch,
        seen: Vec<RowId>,
        told: u64,
    ) {
        // What happened since `told` must not be waited for.
        self.version.mark_changed();
        self.all.push(One {
            id,
            base,
            search,
            options,
            seen: seen.into_iter().collect(),
            told,
        });
    }

    /// True if there was such a search.
    pub fn end(&mut self, id: i64) -> bool {
        let before = self.all.len();
        self.all.retain(|one| one.id != id);
        self.all.len() < before
    }

    /// Something has happened.
    pub async fn changed(&mut self) {
        if self.version.changed().await.is_err() {
            // The index is going down, and this connection with it.
            std::future::pending().await
        }
    }

    /// Appends what happened to the answers. One that lagged behind too far is ended: it has to search again.
    pub fn tell(&mut self, index: &Index, out: &mut Vec<u8>) {
        self.version.borrow_and_update();
        self.all.retain_mut(|one| match tell(one, index, out) {
            Ok(()) => true,
            Err(answer) => {
                ldap::done(out, one.id, 0x65, &answer, &[]);
                false
            }
        });
    }
}

fn tell(one: &mut One, index: &Index, out: &mut Vec<u8>) -> Result<(), Answer> {
    index.read(|inner| {
        let directory = &inner.directory;
        let (events, told) = directory
            .events_since(one.told)
            .map_err(|gap| Answer::new(code::BUSY, format!("{gap}: search again")))?;
        one.told = told;
        let plan = directory.plan(&one.search.filter);
        let selection = directory.selection(&one.search.attributes, one.search.types_only);
        for event in events {
            let (row, name) = match &event {
                Event::Changed(row) => (*row, None),
                Event::Removed { row, dn } => (*row, Some(dn.clone())),
            };
            let matches = name.is_none() && plan.matches(row) && {
                let dn = directory.dn(row).and_then(|dn| Dn::parse(&dn).ok());
                dn.is_some_and(|dn| lies_within(&dn, &one.base, one.search.scope))
            };
            let kind = match (one.seen.contains(&row), matches) {
                (false, false) => continue,
                (false, true) => ADD,
                (true, true) => MODIFY,
                (true, false) => DELETE,
            };
            if matches {
                one.seen.insert(row);
            } else {
                one.seen.remove(&row);
            }
            if one.options.change_types & kind == 0 {
                continue;
            }
            let control = match one.options.return_controls {
                true => ldap::change(kind),
                false => Vec::new(),
            };
            if kind == DELETE {
                let dn = name.or_else(|| directory.dn(row)).unwrap_or_default();
                ldap::entry(out, one.id, &dn, &[], &control);
            } else {
                directory.answer(out, one.id, row, &selection, &[], &control);
            }
        }
        Ok(())
    })
}

fn lies_within(dn: &Dn, base: &Dn, scope: Scope) -> bool {
    let Some(relative) = dn.relative_to(base) else {
        return false;
    };
    match scope {
        Scope::Base => relative.is_root(),
        Scope::One => relative.depth() == 1,
        Scope::Subtree => true,
        Scope::Below => !relative.is_root(),
    }
}
