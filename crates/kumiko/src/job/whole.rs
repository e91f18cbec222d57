//! `--whole`: from one subjob to all that were started together with it, at their sites (spec/jobs/together.md, T30).

use crate::connect;
use crate::fail::Failure;
use crate::home::Home;
use kumiko_client::{Client, SiteAddress};
use kumiko_job::id::JobId;
use kumiko_job::together::Together;

/// Jobs of a site, in a session with it.
pub struct At {
    pub client: Client,
    pub jobs: Vec<JobId>,
}

/// Those of the request that these jobs are of, by site; what cannot be reached or found is told, and left out.
pub async fn of(client: Client, jobs: Vec<JobId>, home: &Home) -> Result<Found, Failure> {
    let mut requests: Vec<Together> = Vec::new();
    for job in jobs {
        let view = client.show(job).await?;
        let together = view.together.ok_or_else(|| {
            Failure::from_text(format!("job {job} was not started together with others"))
        })?;
        if !requests
            .iter()
            .any(|known| known.request == together.request)
        {
            requests.push(*together);
        }
    }
    connect::close(client).await;
    let mut found = Found {
        at: Vec::new(),
        all: true,
    };
    for request in &requests {
        let mut sites = request.sites.clone();
        sites.sort_unstable();
        sites.dedup();
        for contact in sites {
            match at_site(&contact, request, home).await {
                Ok(at) => {
                    let expected = request.sites.iter().filter(|site| **site == contact);
                    if at.jobs.len() < expected.count() {
                        eprintln!("kumiko: {contact}: not all of its subjobs are there");
                    }
                    found.at.push(at);
                }
                Err(failure) => {
                    eprintln!("kumiko: {contact}: {failure}");
                    found.all = false;
                }
            }
        }
    }
    Ok(found)
}

pub struct Found {
    pub at: Vec<At>,
    /// All sites were reached.
    pub all: bool,
}

async fn at_site(contact: &str, request: &Together, home: &Home) -> Result<At, Failure> {
    let address: SiteAddress = contact.parse()?;
    let (credential, trust) = connect::identity_for(&address, home)?;
    let client = Client::connect(&address, &credential, &trust).await?;
    let places = 0..u32::try_from(request.sites.len()).unwrap_or(u32::MAX);
    let keys: Vec<String> = places.map(|place| request.key(place)).collect();
    let of_request = |key: &Option<String>| key.as_ref().is_some_and(|key| keys.contains(key));
    let views = client.list().await?;
    let jobs = views.iter().filter(|view| of_request(&view.key));
    let jobs = jobs.map(|view| view.id).collect();
    Ok(At { client, jobs })
}
