//! `kumiko info ...`: the information service, served and asked; and beside a site, kept up.

mod args;
mod ask;
mod keep;
mod serve;
mod site;
mod table;

pub use args::{Among, Info};
pub use ask::sites;
pub use keep::{Kept, keep, usual};

use crate::args::Format;
use crate::fail::Failure;
use crate::home::{Home, read_optional};
use std::path::Path;

pub async fn info(verb: Info, format: Format, home: &Home) -> Result<u8, Failure> {
    match verb {
        Info::Serve(serve) => serve::serve(serve, home).await,
        Info::Keep { listen } => keep(home, listen).await,
        Info::Query { query, server } => ask::query(query, &server, format, home).await,
        Info::Watch { query, server } => ask::watch(query, &server, format, home).await,
        Info::Show { name, server } => ask::show(&name, &server, format, home).await,
        Info::Attributes { used, server } => ask::attributes(used, &server, format, home).await,
        Info::Status { server } => ask::status(&server, format, home).await,
    }
}

/// Where the info server of this home is; None: there is none.
pub fn address(home: &Home) -> Result<Option<String>, Failure> {
    let text = read_optional(&home.info().join("address"))?;
    // One that was killed could not remove it.
    let lives = |pid: &str| Path::new("/proc").join(pid).exists();
    let found = text
        .as_deref()
        .and_then(|text| text.trim().split_once('\n'));
    Ok(found
        .filter(|(_, pid)| lives(pid))
        .map(|(address, _)| address.to_owned()))
}
