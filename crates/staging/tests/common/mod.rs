//! A grid with Alice and her file server.
#![allow(dead_code)] // each test program uses a part

use bytes::Bytes;
use futures_util::stream;
use kumiko_identity::proxy::{self, Options};
use kumiko_identity::{Credential, KeyKind};
use kumiko_staging::TransferError;
use kumiko_staging::gass::client::Client;
use kumiko_staging::gass::{Doorway, Rights, Root, Served, Server, Sink};
use kumiko_testkit::{Ca, Process};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

pub struct Grid {
    pub ca: Ca,
    key: KeyKind,
    pub alice: Credential,
}

impl Grid {
    pub fn new() -> Grid {
        Grid::of(KeyKind::P256)
    }

    /// Globus signs proxies as their issuer was signed, and knows RSA only.
    pub fn for_globus() -> Grid {
        Grid::of(KeyKind::Rsa(2048))
    }

    fn of(key: KeyKind) -> Grid {
        let options = kumiko_identity::ca::Options {
            key,
            ..Default::default()
        };
        let ca = Ca::with("/O=Grid/OU=Test/CN=CA", &options);
        let alice = proxy_of(&ca, "Alice", key);
        Grid { ca, key, alice }
    }

    pub fn dir(&self) -> &Path {
        self.ca.dir()
    }

    pub fn client(&self) -> Client {
        Client::new(Doorway::new(Some(self.again()), self.ca.trust()))
    }

    /// Alice's proxy once more.
    fn again(&self) -> Credential {
        Credential::from_proxy_pem(&self.alice.to_pem().unwrap()).unwrap()
    }

    pub fn client_of(&self, name: &str) -> Client {
        let proxy = proxy_of(&self.ca, name, self.key);
        Client::new(Doorway::new(Some(proxy), self.ca.trust()))
    }

    pub fn client_without(&self) -> Client {
        Client::new(Doorway::new(None, self.ca.trust()))
    }

    /// A Globus program as Alice.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir())
            .env("GLOBUS_HOSTNAME", "localhost")
            .env("X509_USER_PROXY", self.ca.save(&self.alice, "proxy"))
            .env("X509_CERT_DIR", self.ca.trust_dir());
        command
    }

    pub fn gass_server(&self, options: &[&str]) -> Process {
        Process::start(self.program("globus-gass-server").args(options))
    }
}

fn proxy_of(ca: &Ca, name: &str, key: KeyKind) -> Credential {
    let user = ca.user_with(name, key, Duration::from_secs(86_400));
    let options = Options {
        key,
        ..Options::default()
    };
    proxy::create(&user, &options).unwrap()
}

/// Our server, of Alice, on a directory of its own.
pub struct Serving {
    dir: tempfile::TempDir,
    port: u16,
    stop: watch::Sender<bool>,
    stdout: DuplexStream,
    task: JoinHandle<Served>,
}

impl Serving {
    pub async fn start(grid: &Grid) -> Serving {
        Serving::start_with(grid, |_| ()).await
    }

    pub async fn start_with(grid: &Grid, change: impl FnOnce(&mut Rights)) -> Serving {
        let dir = tempfile::tempdir().unwrap();
        let (stdout, theirs) = tokio::io::duplex(1 << 20);
        let stdout_sink: Sink = Arc::new(Mutex::new(theirs));
        let mut rights = Rights {
            roots: vec![Root::open(dir.path().to_owned(), true, true).unwrap()],
            home: Some(dir.path().to_owned()),
            stdout: Some(stdout_sink),
            visitors: vec![grid.ca.name("Bob")],
            ..Rights::default()
        };
        change(&mut rights);
        let address = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(address, &grid.alice, &grid.ca.trust(), rights)
            .await
            .unwrap();
        let port = server.address().unwrap().port();
        let (stop, stopped) = watch::channel(false);
        Serving {
            dir,
            port,
            stop,
            stdout,
            task: tokio::spawn(server.run(stopped)),
        }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Of a file in the served directory.
    pub fn url(&self, path: &str) -> String {
        self.base(&format!("{}{path}", self.dir().display()))
    }

    pub fn base(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// Waits until these bytes were written to /dev/stdout.
    pub async fn stdout(&mut self, expected: &[u8]) {
        let mut bytes = vec![0; expected.len()];
        self.stdout.read_exact(&mut bytes).await.unwrap();
        assert_eq!(bytes, expected);
    }

    pub async fn ended(self) -> Served {
        let served = self.task.await.unwrap();
        drop(self.stop);
        served
    }
}

/// Bytes that are not the same twice within 64 kB.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

pub fn pieces(
    bytes: &[u8],
) -> impl stream::Stream<Item = Result<Bytes, TransferError>> + Send + 'static {
    let pieces: Vec<_> = bytes
        .chunks(70_000)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    stream::iter(pieces)
}

/// A file system of its own that is soon full.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub fn mount(mib: u64) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let size = format!("size={mib}m");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &size, "tmpfs"]);
        let mounted = command.arg(place.path()).stderr(Stdio::null()).status();
        let well = mounted.is_ok_and(|status| status.success());
        well.then_some(Self(place))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let mut command = Command::new("umount");
        let _ = command.arg("-l").arg(self.0.path()).status();
    }
}
