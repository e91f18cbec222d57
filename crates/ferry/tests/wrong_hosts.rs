//! A host that does not keep to the rules, in the words of a kernel (fuse(4), linux/fuse.h): it is shown nothing but the folders, and harms nobody else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use kumiko_ferry::files::serve::Asked;
use kumiko_ferry::files::{Files, Owner};
use kumiko_ferry::host::dial;
use kumiko_identity::tls::TlsStream;
use kumiko_identity::{Credential, TrustStore};
use kumiko_session::{Dial, Options, Session, Stream};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

const WITHIN: Duration = Duration::from_secs(30);
const ROOT: u64 = 1;
/// Operations, by their numbers.
const LOOKUP: u32 = 1;
const READLINK: u32 = 5;
const SYMLINK: u32 = 6;
const MKDIR: u32 = 9;
const UNLINK: u32 = 10;
const OPEN: u32 = 14;
const READ: u32 = 15;
const INIT: u32 = 26;
/// errno(3)
const EBADF: i32 = 9;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ESTALE: i32 = 116;
const EOPNOTSUPP: i32 = 95;

struct Call(PathBuf, PathBuf);

impl Dial for Call {
    type Io = TlsStream<TcpStream>;

    async fn dial(&self) -> io::Result<Self::Io> {
        let address = fs::read_to_string(self.0.join("address"))?;
        let credential = Credential::load(&self.1).map_err(io::Error::other)?;
        let trust = TrustStore::load(&self.0.join("trust")).map_err(io::Error::other)?;
        dial(&address, &credential, &trust).await
    }
}

struct Kernel {
    stream: Stream,
    unique: u64,
}

impl Kernel {
    async fn of(session: &Session) -> Kernel {
        let owner = Owner { uid: 7, gid: 8 };
        let asked = Bytes::from(Asked::Files(owner).write());
        let stream = session.open(asked).await.unwrap();
        let mut kernel = Kernel { stream, unique: 0 };
        let mut body = Vec::new();
        for word in [7u32, 31, 131_072, !(1 << 30)] {
            body.extend(word.to_le_bytes());
        }
        kernel.ask(INIT, 0, &body).await.unwrap();
        kernel
    }

    async fn tell(&mut self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        self.stream.send(0, Bytes::from(bytes)).await.ok()?;
        let answer = timeout(WITHIN, self.stream.recv()).await.unwrap();
        answer.ok().flatten().map(|message| message.data.to_vec())
    }

    /// What is behind the answer's head, or the error.
    async fn ask(&mut self, operation: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        self.unique += 2;
        let length = u32::try_from(40 + body.len()).unwrap();
        let mut bytes = Vec::new();
        bytes.extend(length.to_le_bytes());
        bytes.extend(operation.to_le_bytes());
        bytes.extend(self.unique.to_le_bytes());
        bytes.extend(node.to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend(body);
        let answer = self.tell(bytes).await.expect("an answer");
        let error = i32::from_le_bytes(answer[4..8].try_into().unwrap());
        assert_eq!(answer[8..16], self.unique.to_le_bytes());
        match error {
            0 => Ok(answer[16..].to_vec()),
            error => Err(-error),
        }
    }

    async fn node(&mut self, parent: u64, name: &str) -> Result<u64, i32> {
        let found = self
            .ask(LOOKUP, parent, format!("{name}\0").as_bytes())
            .await?;
        Ok(u64::from_le_bytes(found[..8].try_into().unwrap()))
    }
}

async fn session(files: &Path, ticket: &Path) -> Session {
    let call = Call(files.to_owned(), ticket.to_owned());
    Session::connect(call, Options::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_shown_nothing_but_the_folders_and_harms_nobody_else() {
    let top = tempfile::tempdir().unwrap();
    let (spool, own) = (top.path().join("spool"), top.path().join("spool-files"));
    for name in ["pilot-1", "pilot-2"] {
        fs::create_dir_all(spool.join(name)).unwrap();
    }
    fs::write(top.path().join("secret"), "secret").unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_kumiko-ferry"));
    let at = "127.0.0.1".parse().unwrap();
    let files = Files::open(program, &spool, &at, vec![spool.clone()]).unwrap();
    for name in ["pilot-1", "pilot-2"] {
        files.tickets(&spool.join(name), 1).unwrap();
    }
    let wrong = session(&own, &spool.join("pilot-1/files.pem")).await;
    let right = session(&own, &spool.join("pilot-2/files.pem")).await;
    let (mut kernel, mut other) = (Kernel::of(&wrong).await, Kernel::of(&right).await);
    let folder = kernel.node(ROOT, "0").await.unwrap();
    for name in [
        "..",
        ".",
        "",
        "../secret",
        "pilot-1/../../secret",
        "/etc/passwd",
    ] {
        assert_eq!(kernel.node(folder, name).await, Err(EINVAL), "{name}");
        let body = [&[0; 8], format!("{name}\0").as_bytes()].concat();
        assert_eq!(
            kernel.ask(MKDIR, folder, &body).await,
            Err(EINVAL),
            "{name}"
        );
        let body = format!("{name}\0");
        let removed = kernel.ask(UNLINK, folder, body.as_bytes()).await;
        assert_eq!(removed, Err(EINVAL), "{name}");
    }
    for name in ["1", "-1", "00x", "secret", "18446744073709551616"] {
        assert!(kernel.node(ROOT, name).await.is_err(), "{name}");
    }
    let body = [&[0; 8][..], b"new\0"].concat();
    assert_eq!(kernel.ask(MKDIR, ROOT, &body).await, Err(EACCES));
    // A link leads who asks for it, not whom it asks.
    kernel
        .ask(SYMLINK, folder, b"way\0../secret\0")
        .await
        .unwrap();
    let way = kernel.node(folder, "way").await.unwrap();
    assert_eq!(kernel.ask(READLINK, way, &[]).await.unwrap(), b"../secret");
    assert_eq!(kernel.ask(OPEN, way, &[0; 8]).await, Err(EOPNOTSUPP));
    assert_eq!(kernel.ask(OPEN, 999, &[0; 8]).await, Err(ESTALE));
    assert_eq!(
        kernel
            .ask(
                READ,
                way,
                &[[0xff; 8], [0; 8], [9; 8], [0; 8], [0; 8]].concat()
            )
            .await,
        Err(EBADF)
    );
    // What is no question ends its own host's files and nobody's else.
    let long = [0xff; 60_000];
    for bytes in [&b""[..], b"x", &[0; 40], &long] {
        let mut garbled = Kernel::of(&wrong).await;
        assert_eq!(garbled.tell(bytes.to_vec()).await, None);
    }
    for request in ["", "files", "files x y", "files 1", "nonsense 1 2"] {
        let mut stream = wrong.open(Bytes::from(request)).await.unwrap();
        assert!(!matches!(
            timeout(WITHIN, stream.recv()).await.unwrap(),
            Ok(Some(_))
        ));
    }
    let folder = other.node(ROOT, "0").await.unwrap();
    other.node(folder, "pilot-2").await.unwrap();
}
