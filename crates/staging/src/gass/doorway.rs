//! The way to a server: TCP, and TLS with the caller's credential where the address asks for it (spec/staging, G1).

use super::CONNECT_WITHIN;
use crate::fault::TransferError;
use kumiko_identity::tls::{Connector, TlsError};
use kumiko_identity::{Credential, TrustStore};
use kumiko_job::url::{Scheme, Url};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection.
pub trait Link: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Link for T {}

/// Who calls, and whom he trusts.
#[derive(Debug)]
pub struct Doorway {
    credential: Option<Credential>,
    /// Without a credential servers are met as nobody, and not left alone.
    nobody: bool,
    trust: TrustStore,
}

impl Doorway {
    pub fn new(credential: Option<Credential>, trust: TrustStore) -> Doorway {
        Doorway {
            credential,
            nobody: false,
            trust,
        }
    }

    /// For what is public: a server that asks for a certificate is shown none.
    pub fn nobody(trust: TrustStore) -> Doorway {
        Doorway {
            credential: None,
            nobody: true,
            trust,
        }
    }

    /// `within`: for all of it, and never longer than `CONNECT_WITHIN`. The server's certificate must be for its host, or that of the caller himself (GASS servers are mostly his own).
    pub async fn open(&self, url: &Url, within: Duration) -> Result<Box<dyn Link>, TransferError> {
        let unreachable = |cause: io::Error| {
            let (host, port) = match &url.server {
                Some(server) => (server.host.clone(), server.port),
                None => (String::new(), 0),
            };
            TransferError::Unreachable {
                url: url.to_string(),
                host,
                port,
                cause,
            }
        };
        let open = async {
            let Some(server) = &url.server else {
                return Err(unreachable(io::ErrorKind::InvalidInput.into()));
            };
            let tcp = TcpStream::connect((server.host.as_str(), server.port))
                .await
                .map_err(unreachable)?;
            kumiko_linux::tcp::tune(&tcp).map_err(unreachable)?;
            if url.scheme == Scheme::Http {
                return Ok(Box::new(tcp) as Box<dyn Link>);
            }
            let untrusted = |cause: TlsError| TransferError::Untrusted {
                url: url.to_string(),
                cause,
            };
            if self.credential.is_none() && !self.nobody {
                return Err(TransferError::NoCredential {
                    url: url.to_string(),
                });
            }
            let credential = self.credential.as_ref();
            let connector = Connector::new(credential, &self.trust, &[]).map_err(untrusted)?;
            let met = match credential {
                Some(own) => {
                    connector
                        .connect_to_host_or(&server.host, own.identity(), tcp)
                        .await
                }
                None => connector.connect(&server.host, tcp).await,
            };
            let (tls, _) = met.map_err(untrusted)?;
            Ok(Box::new(tls) as Box<dyn Link>)
        };
        let within = within.min(CONNECT_WITHIN);
        match tokio::time::timeout(within, open).await {
            Ok(opened) => opened,
            Err(_) => Err(unreachable(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("not within {} s", within.as_secs_f32()),
            ))),
        }
    }
}
