//! A search: rows first, at one look; then their answers, a piece at a time, so that neither a long answer nor a slow
//! reader holds up anybody else.

use super::{Broken, Connection, PIECE_BYTES, dse};
use crate::time::generalized;
use kumiko_directory::ldap::{self, Answer, Control, Search, code};
use kumiko_directory::{Directory, Dn, RowId, Scope};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};

/// Tag of a SearchResultDone.
const DONE: u8 = 0x65;
/// Rows of one look; some hundred kilobytes.
const ROWS_OF_LOOK: usize = 256;

/// A page that was asked for.
struct Page {
    size: usize,
    /// Rows from here on.
    from: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    pub(super) async fn search(
        &mut self,
        id: i64,
        search: Search,
        controls: &[Control],
    ) -> Result<(), Broken> {
        self.index.counts.queries.fetch_add(1, Relaxed);
        let (answer, controls) = match self.answer(id, &search, controls).await? {
            Ok(Some(controls)) => (Answer::ok(), controls),
            // A persistent search has no end.
            Ok(None) => return Ok(()),
            Err((answer, controls)) => (answer, controls),
        };
        ldap::done(&mut self.out, id, DONE, &answer, &controls);
        Ok(())
    }

    /// The outer result is the connection's, the inner one the search's, each with the controls of its answer.
    async fn answer(
        &mut self,
        id: i64,
        search: &Search,
        controls: &[Control],
    ) -> Result<Result<Option<Vec<u8>>, (Answer, Vec<u8>)>, Broken> {
        let refuse = |code, message: &str| Ok(Err((Answer::new(code, message), Vec::new())));
        let Ok(base) = Dn::parse(&search.base) else {
            return refuse(code::INVALID_DN_SYNTAX, "the base of the search is no name");
        };
        // The root DSE says how to log in, so it is read before that (RFC 4512, section 5.1).
        let root = base.is_root() && search.scope == Scope::Base;
        let schema = base.key() == dse::SUBSCHEMA;
        if !root {
            if let Err(answer) = self.may_read() {
                return Ok(Err((answer, Vec::new())));
            }
        }
        if root || schema {
            if !root || search.filter_admits_root() {
                let attributes = if root {
                    dse::root(&self.index)
                } else {
                    dse::subschema()
                };
                let attributes = dse::select(attributes, &search.attributes, search.types_only);
                let dn = if root { "" } else { dse::SUBSCHEMA };
                ldap::entry(&mut self.out, id, dn, &attributes, &[]);
            }
            return Ok(Ok(Some(Vec::new())));
        }
        let page = match page(controls, self.index.epoch) {
            Ok(page) => page,
            Err(answer) => return Ok(Err((answer, Vec::new()))),
        };
        let persistent = controls.iter().find_map(|c| match c {
            Control::Persistent(p) => Some(*p),
            _ => None,
        });
        if persistent.is_some() && self.follow.count() >= self.index.config.limits.watches {
            return refuse(
                code::ADMIN_LIMIT_EXCEEDED,
                "too many persistent searches on one connection",
            );
        }
        let found = self.index.read(|inner| {
            let directory = &inner.directory;
            // Where only changes are asked for, too: what is there must be known, so that its end can be told.
            let rows = directory.search(&base, search.scope, &search.filter);
            rows.map(|rows| (rows, directory.sequence()))
        });
        let (mut rows, sequence) = match found {
            Ok(found) => found,
            Err(none) => {
                let answer = Answer {
                    code: code::NO_SUCH_OBJECT,
                    matched: none.matched.clone(),
                    message: none.to_string(),
                };
                return Ok(Err((answer, Vec::new())));
            }
        };
        if let Some(persistent) = persistent {
            let seen = rows.clone();
            if !persistent.changes_only {
                let whole = self.tell(id, &rows, search, &[]).await?;
                if let Err(answer) = whole {
                    return Ok(Err((answer, Vec::new())));
                }
            }
            self.follow
                .begin(id, base, search.clone(), persistent, seen, sequence);
            return Ok(Ok(None));
        }
        let total = rows.len();
        let mut next = Vec::new();
        if let Some(page) = &page {
            rows.retain(|row| row.position() >= page.from);
            if rows.len() > page.size {
                rows.truncate(page.size);
                next = rows.last().map_or(Vec::new(), |last| {
                    cookie(last.position().saturating_add(1), self.index.epoch)
                });
            }
        }
        let response = page.map_or(Vec::new(), |_| ldap::page(total, &next));
        let own = self.index.config.limits.entries_of_answer;
        let limit = match (search.size_limit, own) {
            (0, 0) => usize::MAX,
            (0, own) => own,
            (asked, 0) => asked,
            (asked, own) => asked.min(own),
        };
        let truncated = rows.len() > limit;
        rows.truncate(limit);
        Ok(match self.tell(id, &rows, search, &[]).await? {
            Err(answer) => Err((answer, response)),
            Ok(()) if truncated => {
                let message = format!("{total} entries match, {limit} may be told");
                Err((Answer::new(code::SIZE_LIMIT_EXCEEDED, message), response))
            }
            Ok(()) => Ok(Some(response)),
        })
    }

    /// Writes the entries. The inner error: the time is over.
    async fn tell(
        &mut self,
        id: i64,
        rows: &[RowId],
        search: &Search,
        controls: &[u8],
    ) -> Result<Result<(), Answer>, Broken> {
        let own = Duration::from_millis(self.index.config.limits.answer_within_ms);
        let within = match search.time_limit_s {
            0 => own,
            asked => own.min(Duration::from_secs(asked)),
        };
        let begun = Instant::now();
        let operational = Operational::of(&search.attributes);
        for look in rows.chunks(ROWS_OF_LOOK) {
            let mut rest = look;
            while !rest.is_empty() {
                let index = self.index.clone();
                let out = &mut self.out;
                rest = index.read(|inner| {
                    let directory = &inner.directory;
                    let selection = directory.selection(&search.attributes, search.types_only);
                    let mut rest = rest.iter();
                    for row in rest.by_ref() {
                        let extra = match operational.is_wanted() {
                            true => operational.encode(&index, inner, *row, search.types_only),
                            false => Vec::new(),
                        };
                        directory.answer(out, id, *row, &selection, &extra, controls);
                        if out.len() >= PIECE_BYTES {
                            break;
                        }
                    }
                    rest.as_slice()
                });
                if self.out.len() >= PIECE_BYTES {
                    self.flush().await?;
                }
            }
            if begun.elapsed() > within {
                let message = format!("not all was told within {within:?}");
                return Ok(Err(Answer::new(code::TIME_LIMIT_EXCEEDED, message)));
            }
        }
        Ok(Ok(()))
    }
}

trait AdmitsRoot {
    fn filter_admits_root(&self) -> bool;
}

impl AdmitsRoot for Search {
    /// Clients find the root DSE by `(objectClass=*)`; another filter is answered as if it had this class alone.
    fn filter_admits_root(&self) -> bool {
        let mut one = Directory::new(Dn::default().child("cn", "root"), Default::default());
        let entry = kumiko_directory::Entry::new(Dn::default().child("cn", "dse"))
            .with("objectClass", ["top", "OpenLDAProotDSE"]);
        let base = one.suffix().clone();
        let source = kumiko_directory::SourceId(1);
        // Room for one entry there is.
        let _ = one.apply(source, &base, &kumiko_directory::Op::Put(entry));
        let found = one.search(&base, Scope::One, &self.filter);
        found.is_ok_and(|rows| !rows.is_empty())
    }
}

fn page(controls: &[Control], epoch: u64) -> Result<Option<Page>, Answer> {
    let Some((size, given)) = controls.iter().find_map(|c| match c {
        Control::Paged { size, cookie } => Some((*size, cookie)),
        _ => None,
    }) else {
        return Ok(None);
    };
    let from = match given.as_slice() {
        [] => 0,
        bytes => read_cookie(bytes, epoch).ok_or_else(|| {
            let message = "this cookie is not from here, or from before a restart: begin again";
            Answer::new(code::UNWILLING_TO_PERFORM, message)
        })?,
    };
    Ok(Some(Page { size, from }))
}

/// Nothing is kept for a client between pages: the cookie says where it goes on.
fn cookie(from: u32, epoch: u64) -> Vec<u8> {
    [&from.to_be_bytes()[..], &epoch.to_be_bytes()[..]].concat()
}

fn read_cookie(bytes: &[u8], epoch: u64) -> Option<u32> {
    let (from, rest) = bytes.split_first_chunk::<4>()?;
    (rest == epoch.to_be_bytes()).then(|| u32::from_be_bytes(*from))
}

/// Attributes that are not kept but computed, told when asked for by name or by `+` (RFC 3673).
struct Operational {
    wanted: Vec<&'static str>,
}

const COMPUTED: [&str; 7] = [
    "entryDN",
    "subschemaSubentry",
    "hasSubordinates",
    "Mds-validfrom",
    "Mds-validto",
    "Mds-keepto",
    "kumiko-source",
];

impl Operational {
    fn of(attributes: &[String]) -> Operational {
        let all = attributes.iter().any(|a| a == "+");
        let named = |name: &&&str| all || attributes.iter().any(|a| a.eq_ignore_ascii_case(name));
        Operational {
            wanted: COMPUTED.iter().filter(named).copied().collect(),
        }
    }

    fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn encode(
        &self,
        index: &crate::index::Index,
        inner: &crate::index::Inner,
        row: RowId,
        types_only: bool,
    ) -> Vec<u8> {
        use kumiko_directory::ber;
        let directory = &inner.directory;
        let registration = directory
            .source(row)
            .and_then(|source| inner.registrations.get(source));
        let (measured, ends) = directory
            .times(row)
            .map_or((None, None), |(m, e)| (Some(m), e));
        // While its source is heard a value holds; then for as long as the source is kept.
        let kept = registration.map(|r| r.heard_ms + r.hello.ttl_ms);
        let until = ends.or(kept).unwrap_or_else(|| index.clock.now_ms());
        let mut out = Vec::new();
        for name in &self.wanted {
            let value = match *name {
                "entryDN" => directory.dn(row).map(|dn| dn.to_string()),
                "subschemaSubentry" => Some(dse::SUBSCHEMA.to_owned()),
                "hasSubordinates" => Some(
                    if directory.has_children(row) {
                        "TRUE"
                    } else {
                        "FALSE"
                    }
                    .to_owned(),
                ),
                "Mds-validfrom" => measured.map(generalized),
                "Mds-validto" => Some(generalized(until)),
                "Mds-keepto" => Some(generalized(kept.unwrap_or(until).max(until))),
                "kumiko-source" => registration.map(|r| r.hello.name.clone()),
                _ => None,
            };
            let Some(value) = value else { continue };
            ber::nested(&mut out, ber::SEQUENCE, |out| {
                ber::element(out, ber::OCTETS, name.as_bytes());
                ber::nested(out, ber::SET, |out| {
                    if !types_only {
                        ber::element(out, ber::OCTETS, value.as_bytes());
                    }
                });
            });
        }
        out
    }
}
