//! The session's door of an info server: one question a stream (spec/info, Q1 to Q6).

use crate::index::{Index, Inner};
use crate::register;
use bytes::Bytes;
use kumiko_directory::ask::{
    AboveView, Ask, AttributeView, ENTRIES_OF_REPLY, EntryView, Found, News, Query, SourceView,
    Status, kind,
};
use kumiko_directory::source::Standing;
use kumiko_directory::{Dn, Event, Filter, Rank, RowId, Scope, expr, schema};
use kumiko_session::{Receiver, Sender, SessionError, Stream};
use serde::Serialize;
use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Changes are told together that come within this time: a watcher reads twenty pictures a second at most.
const GATHER: Duration = Duration::from_millis(10);

/// A no, as the client hears it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Refusal {
    pub code: &'static str,
    pub message: String,
}

impl Refusal {
    pub fn new(code: &'static str, message: impl ToString) -> Refusal {
        Refusal {
            code,
            message: message.to_string(),
        }
    }
}

/// Why an answer ends early.
pub(crate) enum Stop {
    Refused(Refusal),
    /// The client has gone, or reads no more.
    Gone,
}

impl From<SessionError> for Stop {
    fn from(_: SessionError) -> Stop {
        Stop::Gone
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

/// Answers one stream.
pub(crate) async fn answer(index: Arc<Index>, subject: Arc<str>, request: Bytes, stream: Stream) {
    let (mut sender, receiver) = stream.split();
    let done = match serde_json::from_slice::<Ask>(&request) {
        Ok(ask) => dispatch(&index, &subject, ask, &mut sender, receiver).await,
        Err(e) => Err(Refusal::new("bad_request", e).into()),
    };
    if let Err(Stop::Refused(refusal)) = done {
        tracing::debug!(%subject, code = refusal.code, message = refusal.message, "refused");
        if send(&mut sender, kind::REFUSED, &refusal).await.is_err() {
            return;
        }
    }
    // Whoever is gone does not hear the end either.
    let _ = sender.finish().await;
}

pub(crate) async fn send<T: Serialize>(
    sender: &mut Sender,
    kind: u8,
    value: &T,
) -> Result<(), Stop> {
    // Texts and numbers have a JSON form.
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    Ok(sender.send(kind, bytes.into()).await?)
}

async fn dispatch(
    index: &Arc<Index>,
    subject: &Arc<str>,
    ask: Ask,
    sender: &mut Sender,
    receiver: Receiver,
) -> Result<(), Stop> {
    match ask {
        Ask::Query(query) => {
            let prepared = Prepared::new(index, &query)?;
            let (rows, matched) = index.read(|inner| prepared.rows(inner));
            let mut rest = &rows[..];
            loop {
                let (now, later) = rest.split_at(rest.len().min(ENTRIES_OF_REPLY));
                let entries = index.read(|inner| prepared.views(inner, now));
                send(sender, kind::REPLY, &Found { matched, entries }).await?;
                rest = later;
                if rest.is_empty() {
                    return Ok(());
                }
            }
        }
        Ask::Watch(query) => {
            let prepared = Prepared::new(index, &query)?;
            tokio::select! {
                told = watch(index, &prepared, sender) => told,
                () = left(receiver) => Ok(()),
            }
        }
        Ask::Attributes => send(sender, kind::REPLY, &attributes(index)).await,
        Ask::Status => send(sender, kind::REPLY, &status(index, subject)).await,
        Ask::Register(hello) => register::serve(index, subject, hello, sender, receiver).await,
    }
}

/// Resolves when the client ends its side.
async fn left(mut receiver: Receiver) {
    while let Ok(Some(_)) = receiver.recv_part().await {}
}

/// A query that was understood.
pub(crate) struct Prepared {
    base: Dn,
    filter: Filter,
    rank: Vec<Rank>,
    limit: usize,
    /// In lower case; empty for all.
    only: Vec<String>,
}

impl Prepared {
    pub fn new(index: &Index, query: &Query) -> Result<Prepared, Refusal> {
        index.counts.queries.fetch_add(1, Relaxed);
        let bad = |e: &dyn std::fmt::Display| Refusal::new("bad_query", e);
        let expression = expr::parse(&query.expression).map_err(|e| bad(&e))?;
        let rank = query
            .rank
            .as_deref()
            .map_or(Ok(Vec::new()), expr::parse_rank);
        let rank = rank.map_err(|e| bad(&e))?;
        let mut names = expression.attributes;
        names.extend(rank.iter().map(|r| r.attribute.clone()));
        names.extend(query.attributes.iter().map(|a| full_name(a)));
        known(index, &names)?;
        let mut parts = vec![expression.filter];
        if let Some(filter) = &query.filter {
            parts.push(Filter::parse(filter).map_err(|e| bad(&e))?);
        }
        if !query.all {
            parts.push(Filter::equal("objectClass", "MdsHost"));
        }
        let base = match &query.base {
            Some(base) => Dn::parse(base).map_err(|e| bad(&e))?,
            None => index.read(|inner| inner.directory.suffix().clone()),
        };
        Ok(Prepared {
            base,
            filter: Filter::And(parts),
            rank,
            limit: query.limit.unwrap_or(usize::MAX),
            only: query
                .attributes
                .iter()
                .map(|a| full_name(a).to_ascii_lowercase())
                .collect(),
        })
    }

    /// The rows to be told, and how many match.
    pub fn rows(&self, inner: &Inner) -> (Vec<RowId>, usize) {
        let found = inner
            .directory
            .search(&self.base, Scope::Subtree, &self.filter);
        // What is not there has nothing below it.
        let mut rows = found.unwrap_or_default();
        let matched = rows.len();
        inner.directory.rank(&mut rows, &self.rank, self.limit);
        (rows, matched)
    }

    fn is_below(&self, inner: &Inner, row: RowId) -> bool {
        let dn = inner.directory.dn(row).and_then(|dn| Dn::parse(&dn).ok());
        dn.is_some_and(|dn| dn.relative_to(&self.base).is_some())
    }

    fn view(&self, inner: &Inner, row: RowId) -> Option<EntryView> {
        Some(EntryView::of(&inner.directory.entry(row)?, &self.only))
    }

    pub fn views(&self, inner: &Inner, rows: &[RowId]) -> Vec<EntryView> {
        rows.iter()
            .filter_map(|row| self.view(inner, *row))
            .collect()
    }
}

fn full_name(name: &str) -> String {
    schema::short(name).map_or(name, |a| a.name).to_owned()
}

/// A name that is neither declared nor told by anybody is a slip.
fn known(index: &Index, names: &[String]) -> Result<(), Refusal> {
    let used = index.read(|inner| inner.directory.attributes_in_use());
    for name in names {
        let in_use = used.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !in_use && schema::attribute(name).is_none() {
            let message = format!(
                "no entry has an attribute {name:?}; `kumiko info attributes` lists what can be asked"
            );
            return Err(Refusal::new("bad_query", message));
        }
    }
    Ok(())
}

async fn watch(index: &Arc<Index>, prepared: &Prepared, sender: &mut Sender) -> Result<(), Stop> {
    let mut version = index.follow();
    loop {
        version.borrow_and_update();
        let (rows, mut told) =
            index.read(|inner| (prepared.rows(inner).0, inner.directory.sequence()));
        let mut seen: HashSet<RowId> = rows.iter().copied().collect();
        for rows in rows.chunks(ENTRIES_OF_REPLY) {
            for view in index.read(|inner| prepared.views(inner, rows)) {
                send(sender, kind::REPLY, &News::Entry(view)).await?;
            }
        }
        send(sender, kind::REPLY, &News::Complete).await?;
        loop {
            version.borrow_and_update();
            let news = index.read(|inner| since(inner, prepared, told, &mut seen));
            let Ok((news, now)) = news else {
                // Too slow: what was missed is not known any more.
                send(sender, kind::REPLY, &News::Again).await?;
                break;
            };
            told = now;
            for one in &news {
                send(sender, kind::REPLY, one).await?;
            }
            if version.changed().await.is_err() {
                return Ok(());
            }
            if !news.is_empty() {
                tokio::time::sleep(GATHER).await;
            }
        }
    }
}

fn since(
    inner: &Inner,
    prepared: &Prepared,
    told: u64,
    seen: &mut HashSet<RowId>,
) -> Result<(Vec<News>, u64), kumiko_directory::Gap> {
    let directory = &inner.directory;
    let (events, now) = directory.events_since(told)?;
    let plan = directory.plan(&prepared.filter);
    let mut news = Vec::new();
    for event in events {
        match event {
            Event::Changed(row) if plan.matches(row) && prepared.is_below(inner, row) => {
                seen.insert(row);
                news.extend(prepared.view(inner, row).map(News::Entry));
            }
            Event::Changed(row) => {
                if seen.remove(&row) {
                    let dn = directory.dn(row).unwrap_or_default().to_string();
                    news.push(News::Gone { dn });
                }
            }
            Event::Removed { row, dn } => {
                if seen.remove(&row) {
                    let dn = dn.to_string();
                    news.push(News::Gone { dn });
                }
            }
        }
    }
    Ok((news, now))
}

pub(crate) fn attributes(index: &Index) -> Vec<AttributeView> {
    let used = index.read(|inner| inner.directory.attributes_in_use());
    let count = |name: &str| {
        let found = used.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map_or(0, |(_, count)| *count)
    };
    let declared = schema::ATTRIBUTES.iter().map(|a| AttributeView {
        name: a.name.to_owned(),
        short: a.short.to_owned(),
        number: a.syntax == schema::Syntax::Number,
        unit: a.unit.base().to_owned(),
        meaning: a.meaning.to_owned(),
        entries: count(a.name),
    });
    let others = used.iter().filter(|(n, _)| schema::attribute(n).is_none());
    let others = others.map(|(name, entries)| AttributeView {
        name: name.clone(),
        short: String::new(),
        number: false,
        unit: String::new(),
        meaning: "not declared; told by a provider".to_owned(),
        entries: *entries,
    });
    declared.chain(others).collect()
}

pub(crate) fn status(index: &Index, subject: &str) -> Status {
    let above = index.above.lock().unwrap_or_else(PoisonError::into_inner);
    let above = above.iter().map(|(address, state)| AboveView {
        address: address.clone(),
        state: state.clone(),
    });
    let above = above.collect();
    index.read(|inner| Status {
        name: index.config.name.clone(),
        id: inner.registrations.id().to_owned(),
        suffix: inner.directory.suffix().to_string(),
        entries: inner.directory.len(),
        sequence: inner.directory.sequence(),
        started: index.started.clone(),
        sources: inner
            .registrations
            .all()
            .map(|(source, registration)| SourceView {
                name: registration.hello.name.clone(),
                kind: registration.hello.kind,
                subject: registration.subject.clone(),
                entries: inner.directory.entries_of(source),
                stale_since_ms: match registration.standing {
                    Standing::Live => None,
                    Standing::Stale { since_ms } => Some(since_ms),
                },
                reached: registration.reached,
            })
            .collect(),
        above,
        you: subject.to_owned(),
    })
}
