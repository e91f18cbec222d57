//! Info servers as processes, and a registrant that stands for many hosts. Not here: any measurement.

use crate::fail::{Failure, While};
use crate::guard::{self, Guard};
use kumiko_directory::Op;
use kumiko_directory::ask::{Ask, Status};
use kumiko_directory::delta::{self, kind};
use kumiko_directory::source::{Hello, Kind, Welcome};
use kumiko_identity::{Credential, TrustStore};
use kumiko_info::{Answers, InfoClient};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const WITHIN: Duration = Duration::from_secs(60);
/// Entries of one message.
const PIECE: usize = 500;

/// A throw-away home with certificates, and the program under measurement.
#[derive(Debug)]
pub struct World {
    folder: TempDir,
    kumiko: PathBuf,
}

/// One `kumiko info serve`.
#[derive(Debug)]
pub struct Server {
    _end: Guard,
    pub port: u16,
    pub pid: u32,
}

impl World {
    pub fn new(kumiko: PathBuf) -> Result<World, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("kumiko-bench-info-")
            .tempdir();
        Ok(World {
            folder: folder.doing(|| "making a home for info servers")?,
            kumiko,
        })
    }

    /// `settings`: lines of info.toml besides the name.
    pub fn serve(&self, name: &str, settings: &str) -> Result<Server, Failure> {
        let _permit = guard::starting();
        let path = |what: &str| self.folder.path().join(format!("{name}.{what}"));
        let allow = "\n[[allow]]\nsubject = \"*\"\n";
        fs::write(
            path("toml"),
            format!("name = \"{name}\"\n{settings}{allow}"),
        )
        .doing(|| "writing info.toml")?;
        let mut child = Command::new(&self.kumiko)
            .args(["info", "serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(path("toml"))
            .arg("--state")
            .arg(path("state"))
            .env("KUMIKO_HOME", self.home())
            .env("KUMIKO_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .doing(|| "starting an info server")?;
        let pid = child.id();
        let out = child.stdout.take();
        let end = guard::process(child);
        let mut line = String::new();
        if let Some(out) = out {
            BufReader::new(out)
                .read_line(&mut line)
                .doing(|| "hearing an info server")?;
        }
        let port = line
            .split_once("127.0.0.1:")
            .and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
        let port =
            port.ok_or_else(|| Failure::unexpected(format!("the info server said {line:?}")))?;
        Ok(Server {
            _end: end,
            port,
            pid,
        })
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub async fn client(&self, server: &Server) -> Result<InfoClient, Failure> {
        let home = self.home();
        let (certificate, key) = (
            home.join("user/usercert.pem"),
            home.join("user/userkey.pem"),
        );
        let credential = Credential::load_pair(&certificate, &key);
        let credential = credential.map_err(|e| Failure::said("loading a certificate", &e))?;
        let trust = TrustStore::load(&home.join("certificates"));
        let trust = trust.map_err(|e| Failure::said("loading the trust directory", &e))?;
        InfoClient::connect(&format!("localhost:{}", server.port), &credential, &trust)
            .await
            .map_err(|e| Failure::said("connecting to an info server", &e))
    }

    /// Registers as a site of many hosts and tells them.
    pub async fn feed(
        &self,
        server: &Server,
        hosts: impl Iterator<Item = Op>,
    ) -> Result<Feeder, Failure> {
        self.feed_as(server, "simulated", hosts).await
    }

    /// The same under a name of its own.
    pub async fn feed_as(
        &self,
        server: &Server,
        name: &str,
        hosts: impl Iterator<Item = Op>,
    ) -> Result<Feeder, Failure> {
        let client = self.client(server).await?;
        let hello = Hello {
            name: name.to_owned(),
            kind: Kind::Leaf,
            id: name.to_owned(),
            epoch: 1,
            ttl_ms: 600_000,
            heartbeat_ms: 300_000,
            below: BTreeSet::new(),
            now_ms: now_ms(),
            first: 1,
            last: 0,
        };
        let said = |e| Failure::said("registering", &e);
        let mut stream = client.ask(&Ask::Register(hello)).await.map_err(said)?;
        stream.next::<Welcome>().await.map_err(said)?;
        let mut feeder = Feeder {
            name: name.to_owned(),
            client,
            stream,
            reached: 0,
            bytes: 0,
        };
        feeder.number(kind::SNAPSHOT, 0).await?;
        let mut hosts = hosts.peekable();
        let mut count = 0;
        while hosts.peek().is_some() {
            let mut bytes = Vec::new();
            for op in hosts.by_ref().take(PIECE) {
                delta::write(&mut bytes, &op);
                count += 1;
            }
            feeder.say(kind::SNAPSHOT_OPS, bytes).await?;
        }
        feeder.reached = 1;
        feeder.number(kind::SNAPSHOT_END, 1).await?;
        let begun = Instant::now();
        while feeder
            .status()
            .await?
            .sources
            .iter()
            .all(|s| s.name != name || s.entries < count)
        {
            late(begun, "the entries arriving")?;
        }
        Ok(feeder)
    }
}

/// A registration that stands for many hosts.
#[derive(Debug)]
pub struct Feeder {
    name: String,
    pub client: InfoClient,
    stream: Answers,
    reached: u64,
    /// Told so far.
    pub bytes: u64,
}

impl Feeder {
    async fn say(&mut self, kind: u8, bytes: Vec<u8>) -> Result<(), Failure> {
        self.bytes += bytes.len() as u64;
        let told = self.stream.tell(kind, bytes.into()).await;
        told.map_err(|e| Failure::said("telling an info server", &e))
    }

    async fn number(&mut self, kind: u8, number: u64) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        delta::write_number(&mut bytes, number);
        self.say(kind, bytes).await
    }

    pub async fn tell(&mut self, ops: &[Op]) -> Result<(), Failure> {
        self.reached += ops.len() as u64;
        self.say(kind::OPS, delta::write_ops(self.reached, ops))
            .await
    }

    pub async fn status(&self) -> Result<Status, Failure> {
        status(&self.client).await
    }

    /// Returns when everything told has been taken in.
    pub async fn settled(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            let status = self.status().await?;
            if status
                .sources
                .iter()
                .any(|s| s.name == self.name && s.reached == self.reached)
            {
                return Ok(());
            }
            late(begun, "changes being taken in")?;
        }
    }
}

async fn status(client: &InfoClient) -> Result<Status, Failure> {
    let said = |e| Failure::said("asking for the status", &e);
    let mut answers = client.ask(&Ask::Status).await.map_err(said)?;
    let status = answers.next().await.map_err(said)?;
    status.ok_or_else(|| Failure::unexpected("no status came"))
}

/// Entries that a server knows, of all kinds.
pub async fn entries(client: &InfoClient) -> Result<usize, Failure> {
    Ok(status(client).await?.entries)
}

pub fn late(begun: Instant, what: &str) -> Result<(), Failure> {
    if begun.elapsed() > WITHIN {
        return Err(Failure::Deadline {
            what: what.to_owned(),
            within: WITHIN,
        });
    }
    Ok(())
}

pub fn now_ms() -> u64 {
    // A clock before 1970 makes nonsense of the sample, not of the program.
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
