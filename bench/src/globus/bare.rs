//! The least that any answer of a gatekeeper can take: TCP, mutual TLS with the same certificates, a block there and a
//! block back, in this process. Not here: GRAM.

use crate::fail::{Failure, While};
use kumiko_identity::tls::{Acceptor, Connector};
use kumiko_identity::{Credential, TrustStore};
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// A ping's request and its answer are of about this size.
const BLOCK: [u8; 100] = [0; 100];

#[derive(Debug)]
pub struct Bare {
    connector: Connector,
    port: u16,
    server: AbortHandle,
}

impl Bare {
    pub async fn new(
        host: &Credential,
        client: &Credential,
        trust: &TrustStore,
    ) -> Result<Bare, Failure> {
        let said = |e| Failure::said("setting TLS up", &e);
        let acceptor = Acceptor::new(host, trust, &[]).map_err(said)?;
        let connector = Connector::new(Some(client), trust, &[]).map_err(said)?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .doing(|| "listening for bare TLS")?;
        let port = listener
            .local_addr()
            .doing(|| "listening for bare TLS")?
            .port();
        let acceptor = Arc::new(acceptor);
        let server = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let acceptor = Arc::clone(&acceptor);
                tokio::spawn(async move {
                    let _ = tcp.set_nodelay(true);
                    let Ok((mut link, _)) = acceptor.accept(tcp).await else {
                        return;
                    };
                    let mut block = BLOCK;
                    // A client that fails says so itself.
                    if link.read_exact(&mut block).await.is_ok() {
                        let _ = link.write_all(&block).await;
                        let _ = link.shutdown().await;
                    }
                });
            }
        });
        Ok(Bare {
            connector,
            port,
            server: server.abort_handle(),
        })
    }

    /// Seconds of one.
    pub async fn ping(&self) -> Result<f64, Failure> {
        let begun = Instant::now();
        let tcp = TcpStream::connect(("127.0.0.1", self.port))
            .await
            .doing(|| "connecting for bare TLS")?;
        tcp.set_nodelay(true).doing(|| "setting TCP up")?;
        let (mut link, _) = self
            .connector
            .connect("localhost", tcp)
            .await
            .map_err(|e| Failure::said("bare TLS", &e))?;
        let mut block = BLOCK;
        link.write_all(&block).await.doing(|| "a bare ping")?;
        link.read_exact(&mut block).await.doing(|| "a bare ping")?;
        Ok(begun.elapsed().as_secs_f64())
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.server.abort();
    }
}
