//! The verbs that ask an info server.

use super::args::{Asked as Typed, Server};
use super::table::{self, Columns};
use crate::args::Format;
use crate::config::Config;
use crate::connect;
use crate::fail::{FAILED, Failure, While};
use crate::home::Home;
use crate::output::{self, Show, say, table};
use kumiko_directory::ask::{Ask, AttributeView, EntryView, Found, News, Query, Status};
use kumiko_info::{Answers, InfoClient};
use serde::Serialize;
use std::io::Write;

async fn asked(ask: Ask, server: &Server, home: &Home) -> Result<(InfoClient, Answers), Failure> {
    let address = match &server.address {
        Some(address) => address.clone(),
        None => {
            super::address(home)?.ok_or_else(|| {
                Failure::from_text(format!(
                    "no info server runs from {}: name one with --server HOST, or start one by `kumiko info serve`",
                    home.root().display()
                ))
            })?
        }
    };
    let (credential, trust) = connect::own_identity(home)?;
    let client = InfoClient::connect(&address, &credential, &trust).await?;
    let answers = client.ask(&ask).await?;
    Ok((client, answers))
}

fn query_of(typed: &Typed) -> Query {
    Query {
        expression: typed.expression.clone(),
        rank: typed.rank.clone(),
        limit: typed.limit,
        all: typed.all,
        filter: typed.filter.clone(),
        base: None,
        attributes: typed.attributes.clone(),
    }
}

async fn found(
    query: Query,
    server: &Server,
    home: &Home,
) -> Result<(Vec<EntryView>, usize), Failure> {
    let (client, mut answers) = asked(Ask::Query(query), server, home).await?;
    let (mut entries, mut matched) = (Vec::new(), 0);
    while let Some(part) = answers.next::<Found>().await? {
        matched = part.matched;
        entries.extend(part.entries);
    }
    client.close().await;
    Ok((entries, matched))
}

/// The sites that an index knows, by its address; not all, if they are too many: then those that match.
pub async fn sites(
    index: Option<&str>,
    requirement: &str,
    home: &Home,
) -> Result<(String, Vec<EntryView>), Failure> {
    let configured = Config::load()?.index;
    let contact = home.read_contact()?.and_then(|contact| contact.index);
    let named = index.map(str::to_owned).or(configured).or(contact);
    let Some(address) = named.map_or_else(|| super::address(home), |named| Ok(Some(named)))? else {
        return Err(Failure::from_text(format!(
            "there is no index to ask for sites: name one with --index HOST, KUMIKO_INFO, or `index` in kumiko.toml; no info server runs from {}",
            home.root().display()
        )));
    };
    let (credential, trust) = connect::own_identity(home)?;
    let entries = kumiko_find::sites(&address, requirement, &credential, &trust).await;
    let entries = entries.doing(|| format!("asking the index {address}"))?;
    Ok((address, entries))
}

pub async fn query(
    typed: Typed,
    server: &Server,
    format: Format,
    home: &Home,
) -> Result<u8, Failure> {
    let columns = Columns::of(&typed.attributes);
    let (entries, matched) = found(query_of(&typed), server, home).await?;
    match format {
        Format::Human => {
            write!(std::io::stdout(), "{}", columns.table(&entries))?;
            if entries.len() < matched {
                eprintln!("kumiko: {} of {matched} that match", entries.len());
            }
        }
        _ => {
            let rows: Vec<Entry> = entries.into_iter().map(Entry).collect();
            output::many(format, &rows)?;
        }
    }
    Ok(0)
}

pub async fn show(name: &str, server: &Server, format: Format, home: &Home) -> Result<u8, Failure> {
    let query = if name.contains('=') {
        Query {
            base: Some(name.to_owned()),
            all: true,
            ..Query::default()
        }
    } else {
        Query {
            // The same in quotes: a host may be called "and".
            expression: format!("host = \"{}\"", name.replace('"', "")),
            ..Query::default()
        }
    };
    let (entries, _) = found(query, server, home).await?;
    if entries.is_empty() {
        return Err(Failure::from_text(format!(
            "no entry is called {name}: `kumiko info query` lists the hosts"
        )));
    }
    let rows: Vec<Entry> = entries.into_iter().map(Entry).collect();
    output::many(format, &rows)?;
    Ok(0)
}

pub async fn watch(
    typed: Typed,
    server: &Server,
    format: Format,
    home: &Home,
) -> Result<u8, Failure> {
    let columns = Columns::of(&typed.attributes);
    let (_client, mut answers) = asked(Ask::Watch(query_of(&typed)), server, home).await?;
    while let Some(news) = answers.next::<News>().await? {
        match format {
            Format::Human => match &news {
                News::Entry(entry) => say!("{} {}", table::clock(), columns.line(entry))?,
                News::Gone { dn } => say!("{} gone: {dn}", table::clock())?,
                News::Complete => say!("{} -- that is all for now --", table::clock())?,
                News::Again => say!("{} -- too slow; once more: --", table::clock())?,
            },
            _ => say!("{}", serde_json::to_string(&news)?)?,
        }
        std::io::stdout().flush()?;
    }
    eprintln!("kumiko: the info server ended the watch");
    Ok(FAILED)
}

pub async fn attributes(
    used: bool,
    server: &Server,
    format: Format,
    home: &Home,
) -> Result<u8, Failure> {
    let (client, mut answers) = asked(Ask::Attributes, server, home).await?;
    let mut all: Vec<AttributeView> = answers.next().await?.unwrap_or_default();
    client.close().await;
    all.retain(|a| !used || a.entries > 0);
    if format == Format::Human {
        let rows: Vec<Vec<String>> = all
            .iter()
            .map(|a| {
                let what = match (a.unit.as_str(), a.number) {
                    ("", true) => "number",
                    ("", false) => "text",
                    (unit, _) => unit,
                };
                let cells = [&a.short, &a.name, what, &a.entries.to_string(), &a.meaning];
                cells.map(str::to_owned).to_vec()
            })
            .collect();
        let header = ["SHORT", "NAME", "COUNTS", "ENTRIES", "MEANING"];
        write!(std::io::stdout(), "{}", table(&header, &rows))?;
    } else {
        let rows: Vec<Attribute> = all.into_iter().map(Attribute).collect();
        output::many(format, &rows)?;
    }
    Ok(0)
}

pub async fn status(server: &Server, format: Format, home: &Home) -> Result<u8, Failure> {
    let (client, mut answers) = asked(Ask::Status, server, home).await?;
    let status: Option<Status> = answers.next().await?;
    client.close().await;
    match status {
        Some(status) => output::one(format, &Whole(status))?,
        None => return Err(Failure::from_text("the info server says nothing of itself")),
    }
    Ok(0)
}

#[derive(Serialize)]
#[serde(transparent)]
struct Entry(EntryView);

impl Show for Entry {
    fn human(&self) -> String {
        table::ldif(&self.0)
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Attribute(AttributeView);

impl Show for Attribute {
    fn human(&self) -> String {
        self.0.name.clone()
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Whole(Status);

impl Show for Whole {
    fn human(&self) -> String {
        table::status(&self.0)
    }
}
