//! What GRAM's door of a site is told.

use crate::site::settings::{DelegatedKeys, Settings};
use kumiko_gatekeeper::Gram;
use kumiko_identity::KeyKind;
use kumiko_linux::this_process;
use kumiko_staging::Mover;
use kumiko_staging::cache::CacheError;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// What today's proxies have.
const RSA_BITS: u32 = 2048;
/// Before the key of an entry of the cache.
const CACHE: &str = "x-gass-cache://";

/// Of the process that has the manager whose state is kept in `state`.
pub fn gram(settings: &Settings, state: &Path, listen: IpAddr, mover: Arc<Mover>) -> Gram {
    Gram {
        state: state.join("gram"),
        listen,
        host: this_process::host_name(),
        delegation: match settings.delegated_keys {
            DelegatedKeys::P256 => KeyKind::P256,
            DelegatedKeys::Rsa => KeyKind::Rsa(RSA_BITS),
        },
        batch: settings.batch.as_str(),
        location: "/usr".to_owned(),
        uncache: Arc::new(move |url| {
            let key = url.strip_prefix(CACHE).unwrap_or(url);
            match mover.cache().cleanup_url(key) {
                Err(CacheError::Entry { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                    Ok(())
                }
                done => done.map_err(io::Error::other),
            }
        }),
    }
}
