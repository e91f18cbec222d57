//! Info servers in this process, each with its own certificate and state; what they are told and asked.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_directory::ask::{Ask, EntryView, Found, News, Query, Status};
use kumiko_directory::source::Kind;
use kumiko_directory::{Dn, Entry, Op, SourceId, Stamp};
use kumiko_identity::ca::Kind as Kinds;
use kumiko_identity::{Credential, KeyKind};
use kumiko_info::{Above, Allow, AskError, Config, Index, InfoClient, Place, Server};
use kumiko_testkit::{Ca, deadline};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Who the tests are.
pub struct World {
    pub ca: Ca,
    pub user: Credential,
    host: Credential,
}

/// A server that runs; dropped, it is gone as by `kill -9`.
pub struct Running {
    pub address: SocketAddr,
    pub index: Arc<Index>,
    task: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl World {
    pub fn new() -> World {
        let ca = Ca::new();
        let user = ca.user("Alice");
        // ldapsearch takes "localhost" for the name that the kernel gives.
        let names = [
            "localhost".to_owned(),
            kumiko_linux::this_process::host_name(),
        ];
        let kind = Kinds::Host {
            names: names.to_vec(),
        };
        let day = Duration::from_secs(86_400);
        let name = ca.name("host/localhost");
        let host = ca
            .authority()
            .enrol(&name, KeyKind::P256, &kind, day)
            .unwrap();
        World { ca, user, host }
    }

    pub fn config(&self, name: &str, kind: Kind) -> Config {
        Config {
            name: name.to_owned(),
            kind,
            listen: "127.0.0.1:0".parse().unwrap(),
            host: false,
            allow: vec![Allow {
                subject: "*".into(),
                name: "*".into(),
                hosts: "*".into(),
            }],
            ..Config::default()
        }
    }

    pub fn place(&self, name: &str) -> Place {
        let dir = self.ca.dir().join(format!("info-{name}"));
        std::fs::create_dir_all(&dir).unwrap();
        let (certificate, key) = (dir.join("cert.pem"), dir.join("key.pem"));
        if !key.exists() {
            self.host.save_pair(&certificate, &key).unwrap();
        }
        Place {
            certificate,
            key,
            trust: self.ca.trust_dir(),
            state: dir.join("state"),
            sandbox: Vec::new(),
        }
    }

    pub async fn start(&self, config: Config) -> Running {
        let place = self.place(&config.name);
        let server = Server::bind(config, place).await.unwrap();
        let address = server.local_addr().unwrap();
        let index = server.index();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(Vec::new(), async move {
            let _ = stopped.await;
        }));
        Running {
            address,
            index,
            task,
            stop: Some(stop),
        }
    }

    pub async fn below(&self, above: Above, config: Config) -> Running {
        let register = vec![above];
        self.start(Config { register, ..config }).await
    }

    pub async fn client(&self, server: &Running) -> InfoClient {
        self.client_at(server.address).await
    }

    pub async fn client_at(&self, address: SocketAddr) -> InfoClient {
        let address = format!("localhost:{}", address.port());
        InfoClient::connect(&address, &self.user, &self.ca.trust())
            .await
            .unwrap()
    }

    /// `ldapsearch -x -LLL` in the place of this CA.
    pub fn ldapsearch(&self, url: &str, arguments: &[&str]) -> Output {
        let ca = self.ca.authority().certificate().to_pem().unwrap();
        let file = self.ca.dir().join("ca.pem");
        std::fs::write(&file, ca).unwrap();
        Command::new("ldapsearch")
            .args(["-x", "-LLL", "-o", "ldif-wrap=no", "-H", url])
            .args(arguments)
            .env("LDAPTLS_CACERT", file)
            .output()
            .unwrap()
    }
}

impl Running {
    pub fn url(&self) -> String {
        format!("ldap://localhost:{}", self.address.port())
    }

    /// As kill -9 would.
    pub async fn kill(mut self) {
        // Not even its goodbye is said.
        if let Some(stop) = self.stop.take() {
            std::mem::forget(stop);
        }
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// In order.
    pub async fn stop(mut self) {
        let _ = self.stop.take().unwrap().send(());
        let task = std::mem::replace(&mut self.task, tokio::spawn(async {}));
        deadline("the end of a server", task).await.unwrap();
    }

    /// Entries as a provider would tell them.
    pub fn tell(&self, entries: Vec<Entry>) {
        self.change(entries.into_iter().map(Op::Put).collect());
    }

    pub fn change(&self, ops: Vec<Op>) {
        self.index.change(|inner| {
            let base = inner.directory.suffix().clone();
            for op in &ops {
                inner
                    .directory
                    .apply(SourceId(u32::MAX), &base, op)
                    .unwrap();
            }
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An index and a leaf that is registered there, and what a client sees at the index.
pub struct Pair {
    pub top: Running,
    pub leaf: Running,
    pub client: InfoClient,
}

/// The leaf tells of hosts of these names (8 CPUs, load 0.5), which the index knows then.
pub async fn pair(world: &World, way: impl FnOnce(&Running) -> Above, names: &[&str]) -> Pair {
    let top = world.start(world.config("top", Kind::Index)).await;
    let leaf = world
        .below(way(&top), world.config("leaf", Kind::Leaf))
        .await;
    leaf.tell(names.iter().map(|name| host(name, 8, 0.5)).collect());
    let client = world.client(&top).await;
    until("the hosts", || async {
        hosts(&client, "").await.len() == names.len()
    })
    .await;
    Pair { top, leaf, client }
}

/// A host as providers tell it.
pub fn host(name: &str, cpus: u32, load: f64) -> Entry {
    Entry::new(Dn::default().child("Mds-Host-hn", name))
        .with("objectClass", ["top", "Mds", "MdsHost", "MdsCpuTotal"])
        .with("Mds-Host-hn", [name])
        .with("Mds-Cpu-Total-count", [cpus])
        .with("Mds-Memory-Ram-Total-freeMB", [cpus * 1024])
        .with("Mds-Os-name", ["Linux"])
        .with("kumiko-load-1min", [load])
        .stamped(Stamp {
            measured_ms: 1_700_000_000_000,
            holds_ms: 0,
        })
}

pub fn above(server: &Running, ttl_ms: u64, heartbeat_ms: u64) -> Above {
    above_at(server.address, ttl_ms, heartbeat_ms)
}

pub fn above_at(address: SocketAddr, ttl_ms: u64, heartbeat_ms: u64) -> Above {
    Above {
        address: format!("localhost:{}", address.port()),
        name: None,
        ttl_ms,
        heartbeat_ms,
    }
}

pub async fn query(client: &InfoClient, query: Query) -> Result<Vec<EntryView>, AskError> {
    let mut answers = client.ask(&Ask::Query(query)).await?;
    let mut entries = Vec::new();
    while let Some(part) = answers.next::<Found>().await? {
        entries.extend(part.entries);
    }
    Ok(entries)
}

pub async fn hosts(client: &InfoClient, expression: &str) -> Vec<String> {
    let asked = Query {
        expression: expression.into(),
        rank: Some("host".into()),
        ..Query::default()
    };
    let found = query(client, asked).await.unwrap();
    found
        .iter()
        .map(|e| e.first("Mds-Host-hn").unwrap().to_owned())
        .collect()
}

pub async fn status(client: &InfoClient) -> Status {
    let mut answers = client.ask(&Ask::Status).await.unwrap();
    answers.next().await.unwrap().unwrap()
}

/// Looks until it is so; there is no event for what somebody else comes to know.
pub async fn until<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    deadline(what, async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub async fn next_news(answers: &mut kumiko_info::Answers) -> News {
    deadline("news", answers.next::<News>())
        .await
        .unwrap()
        .expect("the watch goes on")
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn folder(world: &World, name: &str) -> PathBuf {
    world.ca.dir().join(format!("info-{name}"))
}
