//! The host's certificate, whom it trusts, and the grid-mapfile: read at the start, and again when a file changes.
//!
//! A change is seen at the next connection, by the files' times and sizes (looked at once a second at most). If what
//! is there then cannot be read, what was read before stays in force, and that is logged: a certificate directory is
//! often caught half written.

use crate::Config;
use crate::meter::Meter;
use kumiko_identity::tls::Acceptor;
use kumiko_identity::{Credential, GridMap, TrustStore};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// ALPN names of the doors, in the order of our preference.
pub(crate) const ALPN: [&[u8]; 3] = [b"kumiko/1", b"h2", b"http/1.1"];
/// Looking costs two system calls a file; a trust directory of all grid CAs has some 400.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why the gatekeeper has no keys to work with.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("the host certificate {certificate} with its key {key} cannot be used: {cause}")]
    Host {
        certificate: PathBuf,
        key: PathBuf,
        cause: String,
    },
    #[error("the trust directory {path} cannot be used: {cause}")]
    Trust { path: PathBuf, cause: String },
    #[error("the grid-mapfile {path} cannot be used: {cause}")]
    Mapfile { path: PathBuf, cause: String },
    #[error("TLS cannot be set up with {certificate}: {cause}")]
    Tls { certificate: PathBuf, cause: String },
}

/// What lets people in: the host's credential, whom it trusts, who is mapped.
pub(crate) struct Loaded {
    pub acceptor: Acceptor,
    /// None where a monitor maps.
    pub map: Option<GridMap>,
}

/// For whoever meets strangers.
pub(crate) type Keys = Reread<Loaded>;
/// For whoever judges certificates: whom the site trusts.
pub(crate) type Trust = Reread<TrustStore>;

/// Something made of files, and made again when one of them changes.
pub(crate) struct Reread<T> {
    files: Files,
    make: Arc<dyn Fn() -> Result<T, KeysError> + Send + Sync>,
    state: Mutex<State<T>>,
}

struct State<T> {
    loaded: Arc<T>,
    stamp: Stamp,
    looked: Instant,
}

/// Single files, and a folder of which each file counts.
#[derive(Clone, Debug)]
struct Files {
    single: Vec<PathBuf>,
    folder: PathBuf,
}

impl Keys {
    pub fn load(config: &Config) -> Result<Keys, KeysError> {
        let files = Files {
            single: [&config.host_certificate, &config.host_key]
                .into_iter()
                .chain(&config.mapfile)
                .cloned()
                .collect(),
            folder: config.trust.clone(),
        };
        let config = config.clone();
        Reread::new(files, move || load(&config))
    }
}

impl Trust {
    pub fn load(folder: &Path) -> Result<Trust, KeysError> {
        let files = Files {
            single: Vec::new(),
            folder: folder.to_owned(),
        };
        let folder = folder.to_owned();
        Reread::new(files, move || trust(&folder))
    }
}

impl<T: Send + Sync + 'static> Reread<T> {
    fn new(
        files: Files,
        make: impl Fn() -> Result<T, KeysError> + Send + Sync + 'static,
    ) -> Result<Self, KeysError> {
        // The stamp first: what changes while we read is read again.
        let stamp = Stamp::of(&files);
        let loaded = Arc::new(make()?);
        Ok(Reread {
            files,
            make: Arc::new(make),
            state: Mutex::new(State {
                loaded,
                stamp,
                looked: Instant::now(),
            }),
        })
    }

    /// What is in force now.
    pub async fn current(&self, meter: &Meter) -> Arc<T> {
        let mut state = self.state.lock().await;
        if state.looked.elapsed() < LOOK_EVERY {
            return state.loaded.clone();
        }
        let (files, make, old) = (self.files.clone(), self.make.clone(), state.stamp.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let stamp = Stamp::of(&files);
            (stamp != old).then(|| (make(), stamp))
        });
        if let Ok(Some((result, stamp))) = looked.await {
            state.stamp = stamp;
            match result {
                Ok(loaded) => {
                    meter.reloads.fetch_add(1, Relaxed);
                    tracing::info!(
                        "certificates or the grid-mapfile have changed and are read again"
                    );
                    state.loaded = Arc::new(loaded);
                }
                Err(cause) => {
                    meter.failed_reloads.fetch_add(1, Relaxed);
                    tracing::error!(%cause, "a changed file cannot be used; what was read before stays in force");
                }
            }
        }
        state.looked = Instant::now();
        state.loaded.clone()
    }
}

fn load(config: &Config) -> Result<Loaded, KeysError> {
    let (certificate, key) = (&config.host_certificate, &config.host_key);
    let credential = Credential::load_pair(certificate, key).map_err(|e| KeysError::Host {
        certificate: certificate.clone(),
        key: key.clone(),
        cause: e.to_string(),
    })?;
    let store = trust(&config.trust)?;
    let map = config.mapfile.as_deref().map(mapfile).transpose()?;
    let acceptor = Acceptor::new(&credential, &store, &ALPN).map_err(|e| KeysError::Tls {
        certificate: certificate.clone(),
        cause: e.to_string(),
    })?;
    Ok(Loaded { acceptor, map })
}

fn mapfile(path: &Path) -> Result<GridMap, KeysError> {
    GridMap::load(path).map_err(|e| KeysError::Mapfile {
        path: path.to_owned(),
        cause: e.to_string(),
    })
}

fn trust(folder: &Path) -> Result<TrustStore, KeysError> {
    TrustStore::load(folder).map_err(|e| KeysError::Trust {
        path: folder.to_owned(),
        cause: e.to_string(),
    })
}

/// Names, inodes, change times and sizes of all the files, enough to see a change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Vec<(PathBuf, Option<Seen>)>);

type Seen = (u64, i64, i64, u64);

impl Stamp {
    fn of(files: &Files) -> Stamp {
        let mut paths = files.single.clone();
        if let Ok(entries) = std::fs::read_dir(&files.folder) {
            paths.extend(entries.flatten().map(|e| e.path()));
        }
        paths.sort();
        let look = |path: PathBuf| {
            let seen = seen(&path);
            (path, seen)
        };
        Stamp(paths.into_iter().map(look).collect())
    }
}

fn seen(path: &Path) -> Option<Seen> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((
        metadata.ino(),
        metadata.ctime(),
        metadata.ctime_nsec(),
        metadata.len(),
    ))
}
