//! `kumiko info ...`: the information service, served and asked.

mod args;
mod ask;
mod serve;
mod table;

pub use args::Info;

use crate::args::Format;
use crate::fail::Failure;
use crate::home::Home;

pub async fn info(verb: Info, format: Format, home: &Home) -> Result<u8, Failure> {
    match verb {
        Info::Serve(serve) => serve::serve(serve, home).await,
        Info::Query { query, server } => ask::query(query, &server, format, home).await,
        Info::Watch { query, server } => ask::watch(query, &server, format, home).await,
        Info::Show { name, server } => ask::show(&name, &server, format, home).await,
        Info::Attributes { used, server } => ask::attributes(used, &server, format, home).await,
        Info::Status { server } => ask::status(&server, format, home).await,
    }
}
