//! What the gatekeeper's tests share: a site with a fake manager, and clients of it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod fake;

use fake::Fake;
use kumiko_client::{Client, SiteAddress};
use kumiko_gatekeeper::{Config, Front, Limits};
use kumiko_identity::Credential;
use kumiko_testkit::{Ca, deadline};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A gatekeeper on a free port of the loopback, mapping Alice to `alice`.
pub struct Site {
    pub ca: Ca,
    pub alice: Credential,
    pub jobs: Arc<Fake>,
    pub address: SocketAddr,
    config: Config,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Site {
    pub async fn start() -> Site {
        Site::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Config)) -> Site {
        let ca = Ca::new();
        let alice = ca.user("Alice");
        let host = ca.host("localhost");
        let (certificate, key) = (ca.dir().join("hostcert.pem"), ca.dir().join("hostkey.pem"));
        host.save_pair(&certificate, &key).unwrap();
        let mapfile = ca.dir().join("grid-mapfile");
        std::fs::write(&mapfile, Ca::mapfile(&[(&alice, "alice")])).unwrap();
        let mut config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            name: "test".to_owned(),
            host_certificate: certificate,
            host_key: key,
            trust: ca.trust_dir(),
            mapfile: Some(mapfile),
            only_account: None,
            accept_limited: false,
            limits: Limits::default(),
            stock: None,
            gram: None,
        };
        change(&mut config);
        let jobs = Arc::new(Fake::new());
        let mut site = Site {
            ca,
            alice,
            jobs,
            address: config.listen,
            config,
            running: None,
        };
        site.serve().await;
        site
    }

    /// Starts to serve, on the same port as before if there was one.
    pub async fn serve(&mut self) {
        self.config.listen = self.address;
        let front = Front::bind(self.config.clone(), self.jobs.clone())
            .await
            .unwrap();
        self.address = front.local_addr();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(front.run(async {
            let _ = stopped.await;
        }));
        self.running = Some((stop, task));
    }

    /// Stops in order.
    pub async fn stop(&mut self) {
        let (stop, task) = self.running.take().unwrap();
        let _ = stop.send(());
        deadline("the gatekeeper to stop", task).await.unwrap();
    }

    /// Is gone, as after `kill -9`; what it spawned for sessions may live on for a moment without a link.
    pub async fn kill(&mut self) {
        let (_, task) = self.running.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    pub fn mapfile(&self) -> PathBuf {
        self.config.mapfile.clone().unwrap()
    }

    pub fn site_address(&self) -> SiteAddress {
        SiteAddress {
            host: "localhost".to_owned(),
            port: self.address.port(),
        }
    }

    pub async fn client_of(
        &self,
        credential: &Credential,
    ) -> Result<Client, kumiko_client::ClientError> {
        deadline(
            "a connection",
            Client::connect(&self.site_address(), credential, &self.ca.trust()),
        )
        .await
    }

    pub async fn client(&self) -> Client {
        self.client_of(&self.ca.proxy(&self.alice)).await.unwrap()
    }
}
