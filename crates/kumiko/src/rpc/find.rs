//! `kumiko rpc call --where`: the site that computes a call, as this person. Not here: which that is (kumiko-find).

use crate::connect;
use crate::fail::Failure;
use crate::home::Home;
use crate::info::{self, Among};
use kumiko_client::{Client, SiteAddress};
use kumiko_directory::estimate::Work;
use kumiko_find::{FindError, Found, Open, Wish};
use kumiko_rpc_client::Settings;

/// The sites that the index tells to have the routine.
pub async fn sites(
    among: &Among,
    requirement: &str,
    routine: &str,
    work: Option<Work>,
    settings: Settings,
    home: &Home,
) -> Result<Found, Failure> {
    let wish = Wish {
        requirement: requirement.to_owned(),
        rank: among.rank.clone(),
        work,
    };
    let offers = Found::offers(routine).map_err(failure)?;
    let told = info::sites(among.index.as_deref(), &offers, home).await?;
    Found::new(told, routine, &wish, settings, home.root()).map_err(failure)
}

pub async fn next(found: &mut Found, home: &Home) -> Result<Open, Failure> {
    let connect = async |address: SiteAddress| {
        let identity = connect::identity_for(&address, home);
        let (credential, trust) = identity.map_err(|failure| failure.message)?;
        let client = Client::connect(&address, &credential, &trust).await;
        client.map_err(|error| error.to_string())
    };
    found.next(connect).await.map_err(failure)
}

fn failure(error: FindError) -> Failure {
    match error {
        FindError::Name(_) => Failure::misuse(error.to_string()),
        FindError::Wish(error) => Failure::misuse(format!("--where, --rank: {error}")),
        FindError::Index { .. } | FindError::Nobody { .. } => Failure::from_text(error.to_string()),
    }
}
