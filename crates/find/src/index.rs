//! Sites that an index tells of.

use kumiko_directory::ask::{Ask, EntryView, Found, Query};
use kumiko_directory::choose::CANDIDATES_MOST;
use kumiko_identity::{Credential, TrustStore};
use kumiko_info::{AskError, InfoClient};

/// All that it knows by their contacts; if they are too many, those that match.
///
/// # Errors
/// It cannot be asked, or does not understand.
pub async fn sites(
    index: &str,
    requirement: &str,
    credential: &Credential,
    trust: &TrustStore,
) -> Result<Vec<EntryView>, AskError> {
    let client = InfoClient::connect(index, credential, trust).await?;
    let (mut entries, matched) = found(&client, "contact".to_owned()).await?;
    if matched > entries.len() && !requirement.trim().is_empty() {
        (entries, _) = found(&client, format!("contact and ({requirement})")).await?;
    }
    client.close().await;
    Ok(entries)
}

async fn found(
    client: &InfoClient,
    expression: String,
) -> Result<(Vec<EntryView>, usize), AskError> {
    let query = Query {
        expression,
        limit: Some(CANDIDATES_MOST),
        ..Query::default()
    };
    let mut answers = client.ask(&Ask::Query(query)).await?;
    let (mut entries, mut matched) = (Vec::new(), 0);
    while let Some(part) = answers.next::<Found>().await? {
        matched = part.matched;
        entries.extend(part.entries);
    }
    Ok((entries, matched))
}
