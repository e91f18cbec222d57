//! A server of sessions on a loopback port, and a proxy in front of it that cuts connections where it is told to.

use bytes::Bytes;
use kumiko_session::{Dial, Options, Served, Server, SessionError, Stream};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};

/// No test waits longer for anything.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within {DEADLINE:?}"))
}

#[derive(Clone)]
pub struct To(pub SocketAddr);

impl Dial for To {
    type Io = TcpStream;
    async fn dial(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(self.0).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

pub struct Site {
    pub server: Server,
    pub address: SocketAddr,
    /// How each connection ended.
    pub ends: mpsc::UnboundedReceiver<Result<Served, SessionError>>,
}

/// Serves every connection as the owner that `owner` names.
pub async fn site<H>(options: Options, owner: &'static str, handler: H) -> Site
where
    H: Fn(Bytes, Stream) + Clone + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new(options);
    let (tell, ends) = mpsc::unbounded_channel();
    let accepting = server.clone();
    tokio::spawn(async move {
        loop {
            let (io, _) = listener.accept().await.unwrap();
            io.set_nodelay(true).unwrap();
            let (server, handler, tell) = (accepting.clone(), handler.clone(), tell.clone());
            tokio::spawn(async move {
                let _ = tell.send(server.serve(io, owner, handler).await);
            });
        }
    });
    Site {
        server,
        address,
        ends,
    }
}

/// Answers each message with itself, and finishes when the client has.
pub fn echo(_request: Bytes, stream: Stream) {
    let (mut sender, mut receiver) = stream.split();
    tokio::spawn(async move {
        while let Ok(Some(message)) = receiver.recv().await {
            if sender.send(message.kind, message.data).await.is_err() {
                return;
            }
        }
        let _ = sender.finish().await;
    });
}

/// Relays to one address; cuts on command, after a number of bytes, or swallows all in silence.
#[derive(Clone)]
pub struct Proxy {
    pub address: SocketAddr,
    cut: broadcast::Sender<()>,
    /// Bytes of one direction after which a connection is cut; 0: never.
    pub cut_after: Arc<AtomicU64>,
    pub refuse: Arc<AtomicBool>,
    /// Bytes are taken and go nowhere, as with a peer that lost its power.
    pub mute: Arc<AtomicBool>,
    pub target: Arc<Mutex<SocketAddr>>,
    pub connections: Arc<AtomicU64>,
    pub passed_bytes: Arc<AtomicU64>,
}

impl Proxy {
    pub async fn to(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            cut: broadcast::channel(16).0,
            cut_after: Arc::default(),
            refuse: Arc::default(),
            mute: Arc::default(),
            target: Arc::new(Mutex::new(target)),
            connections: Arc::default(),
            passed_bytes: Arc::default(),
        };
        let this = proxy.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if this.refuse.load(Ordering::SeqCst) {
                    continue;
                }
                this.connections.fetch_add(1, Ordering::SeqCst);
                let target = *this.target.lock().unwrap();
                let server = TcpStream::connect(target).await.unwrap();
                tokio::spawn(this.clone().relay(client, server));
            }
        });
        proxy
    }

    /// Cuts every connection there is.
    pub fn cut(&self) {
        let _ = self.cut.send(());
    }

    async fn relay(self, client: TcpStream, server: TcpStream) {
        let mut cut = self.cut.subscribe();
        let (client_in, client_out) = client.into_split();
        let (server_in, server_out) = server.into_split();
        tokio::select! {
            _ = self.pump(client_in, server_out) => {}
            _ = self.pump(server_in, client_out) => {}
            _ = cut.recv() => {}
        }
    }

    async fn pump(
        &self,
        mut from: tokio::net::tcp::OwnedReadHalf,
        mut to: tokio::net::tcp::OwnedWriteHalf,
    ) -> std::io::Result<()> {
        let mut passed = 0;
        let mut buffer = vec![0; 20_000];
        loop {
            let mut count = from.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            if self.mute.load(Ordering::SeqCst) {
                continue;
            }
            let limit = self.cut_after.load(Ordering::SeqCst);
            let end = limit != 0 && passed + count as u64 >= limit;
            if end {
                count = (limit - passed) as usize;
            }
            to.write_all(&buffer[..count]).await?;
            passed += count as u64;
            self.passed_bytes.fetch_add(count as u64, Ordering::SeqCst);
            if end {
                return Ok(());
            }
        }
    }
}
