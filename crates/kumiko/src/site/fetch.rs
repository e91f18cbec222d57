//! Fetches the signed policies of virtual organisations whose place is an `https` address (spec/policy, P79): what is not
//! believed takes nothing's place. Not here: who believes it when a job comes (`organisations`), which looks again.

use crate::site::organisations::{Organisation, Organisations, believe, bytes, unusable};
use kumiko_identity::TrustStore;
use kumiko_identity::signed::MAX_SIGNED_BYTES;
use kumiko_job::contract::Refusal;
use kumiko_job::url::Url;
use kumiko_staging::gass::Doorway;
use kumiko_staging::gass::client::Client;
use std::fmt::Display;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An administrator who takes somebody off the list wants that to hold soon; a site asks a few kB each time.
const AGAIN_AFTER: Duration = Duration::from_secs(600);
/// After a failure.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// For the whole of one, however slowly it comes.
const WITHIN: Duration = Duration::from_secs(60);

/// Fetches all of them, again and again; never ends, unless there are none.
pub async fn keep(organisations: Arc<Organisations>) {
    if organisations.list.iter().all(|one| one.address().is_none()) {
        return;
    }
    loop {
        let mut pause = AGAIN_AFTER;
        for one in organisations.list.iter() {
            if let Err(refusal) = fetch(&organisations, one).await {
                tracing::warn!(%refusal, "what was fetched before is used until it expires");
                pause = RETRY_AFTER;
            }
        }
        tokio::time::sleep(pause).await;
    }
}

async fn fetch(all: &Organisations, one: &Organisation) -> Result<(), Refusal> {
    let wrong = |why: &dyn Display| unusable(one, &why.to_string());
    let Some(address) = one.address() else {
        return Ok(());
    };
    let url = Url::parse(address).map_err(|error| wrong(&error))?;
    let trust = TrustStore::load(&all.trust).map_err(|error| wrong(&error))?;
    let loading = load(&url, trust.clone());
    let loaded = tokio::time::timeout(WITHIN, loading).await;
    let pem = match loaded {
        Ok(loaded) => loaded.map_err(|why| wrong(&why))?,
        Err(_) => {
            return Err(wrong(&format!(
                "it did not come within {} s",
                WITHIN.as_secs()
            )));
        }
    };
    let (fresh, _) = believe(one, &pem, &trust)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    if now.map_or(0, |now| now.as_secs()) >= fresh.expires_s {
        return Err(wrong(&"what its address gives has expired"));
    }
    let place = all.place(one);
    // Whoever shows an old text again would undo what the administrator changed.
    if let Some(known) = bytes(&place).ok().filter(|known| *known != pem) {
        let known = believe(one, &known, &trust);
        if known.is_ok_and(|(known, _)| known.expires_s > fresh.expires_s) {
            return Err(wrong(
                &"what its address gives expires before the one that was fetched before",
            ));
        }
    }
    put(&place, &pem).map_err(|error| wrong(&error))
}

async fn load(url: &Url, trust: TrustStore) -> Result<Vec<u8>, String> {
    let client = Client::new(Doorway::nobody(trust));
    let reading = client.get(url, None).await;
    let mut reading = reading.map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    while let Some(piece) = reading.next().await.map_err(|error| error.to_string())? {
        if all.len() + piece.len() > MAX_SIGNED_BYTES {
            return Err(format!("it has more than {MAX_SIGNED_BYTES} bytes"));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// A reader sees the old one or the new one, whole; so does whoever looks after a power cut.
fn put(place: &Path, pem: &[u8]) -> std::io::Result<()> {
    if let Some(directory) = place.parent() {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
    }
    let beside = place.with_extension("new");
    let mut options = std::fs::File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&beside)?;
    file.write_all(pem)?;
    file.sync_all()?;
    std::fs::rename(&beside, place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiko_identity::signed;
    use kumiko_identity::tls::Acceptor;
    use kumiko_testkit::Ca;
    use std::sync::Mutex;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Answers every request with what it holds, as a web server that knows nobody.
    async fn serve(ca: &Ca, holds: Arc<Mutex<Vec<u8>>>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = Acceptor::new(&ca.host("localhost"), &ca.trust(), &[]).unwrap();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let Ok(mut tls) = acceptor.accept_anybody(tcp).await else {
                    continue;
                };
                let mut head = [0; 4096];
                let _ = tls.read(&mut head).await;
                let body = holds.lock().unwrap().clone();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = tls.write_all(head.as_bytes()).await;
                let _ = tls.write_all(&body).await;
                let _ = tls.shutdown().await;
            }
        });
        port
    }

    fn text(expires: &str, member: &str) -> String {
        format!(
            "vo = 'lattice'\nexpires = {expires}T00:00:00Z\nmembers = ['/O=Grid/OU=Test/CN={member}']"
        )
    }

    #[tokio::test]
    async fn what_is_fetched_is_kept_and_what_is_not_believed_takes_nothings_place() {
        let ca = Ca::new();
        let admin = ca.user("Admin");
        let holds = Arc::new(Mutex::new(Vec::new()));
        let port = serve(&ca, Arc::clone(&holds)).await;
        let organisations = |port: u16| {
            let one = Organisation {
                name: "lattice".to_owned(),
                administrator: admin.subject().to_string(),
                policy: format!("https://localhost:{port}/lattice.vo"),
            };
            Organisations::new(vec![one], ca.trust_dir(), ca.dir().join("organisations"))
        };
        let alice = ca.name("Alice").to_string();
        let all = organisations(port);
        let is_member = |all: &Organisations| {
            let policy = all.policy_of(&alice, None);
            policy.map(|policy| policy.is_some()).map_err(|e| e.code)
        };
        // Before it is there nobody knows whom it lists and what it forbids.
        assert_eq!(is_member(&all), Err("vo_policy".to_owned()));
        let offer = async |signer: &str, text: &str| {
            let signed = signed::sign(text.as_bytes(), &ca.user(signer)).unwrap();
            *holds.lock().unwrap() = signed;
            let fetched = fetch(&all, &all.list[0]).await;
            fetched.map_err(|refusal| refusal.message)
        };
        offer("Admin", &text("2100-01-01", "Alice")).await.unwrap();
        assert_eq!(is_member(&all), Ok(true));
        for (signer, offered, says) in [
            ("Alice", text("2100-01-02", "Bob"), "not its administrator"),
            ("Admin", text("2020-01-01", "Bob"), "has expired"),
            ("Admin", text("2099-01-01", "Bob"), "expires before"),
            (
                "Admin",
                text("2100-01-02", "Bob").replace("lattice", "latticf"),
                "of latticf",
            ),
        ] {
            let told = offer(signer, &offered).await.unwrap_err();
            assert!(told.contains(says), "{says}: {told}");
            assert_eq!(is_member(&all), Ok(true), "{says}");
        }
        *holds.lock().unwrap() = vec![b'x'; MAX_SIGNED_BYTES + 1];
        let told = fetch(&all, &all.list[0]).await.unwrap_err().message;
        assert!(told.contains("more than"), "{told}");
        // Another process, with nobody at the address: what was fetched is there.
        let later = organisations(1);
        assert!(fetch(&later, &later.list[0]).await.is_err());
        assert_eq!(is_member(&later), Ok(true));
        offer("Admin", &text("2101-01-01", "Bob")).await.unwrap();
        assert_eq!(is_member(&organisations(port)), Ok(false));
    }
}
