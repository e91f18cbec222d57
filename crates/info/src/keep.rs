//! What a server knows across restarts (spec/info, W1 to W3): its identity, and a snapshot of what its sources told,
//! from which it starts warm. Damaged or missing, it starts cold, and says so.

use crate::config::Config;
use crate::error::StartError;
use crate::index::{Index, Inner};
use crate::time::{Clock, generalized};
use kumiko_directory::Op;
use kumiko_directory::delta;
use kumiko_directory::source::{Registration, Registrations};
use kumiko_linux::Dir;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How old a snapshot may be when the server dies without notice; its cost is a second of writing for a million hosts.
const EVERY: Duration = Duration::from_secs(30);
/// The first one: those who were waiting to register have done so by then.
const FIRST_AFTER: Duration = Duration::from_secs(2);
/// First line of the snapshot; another version is not read.
const MAGIC: &[u8] = b"kumiko-info snapshot 1\n";
const SNAPSHOT: &str = "snapshot";
const IDENTITY: &str = "id";
/// Operations of one piece.
const OPS_OF_PIECE: usize = 1000;
/// A piece is bounded as a message is.
const PIECE_MOST_BYTES: usize = 64 << 20;

/// What a server starts with.
pub(crate) struct Known {
    pub inner: Inner,
    pub epoch: u64,
    /// In words.
    pub started: String,
}

/// Identity and snapshot.
pub(crate) fn load(config: &Config, state: &Path, clock: Clock) -> Result<Known, StartError> {
    let wrong = |cause| StartError::State {
        path: state.to_owned(),
        cause,
    };
    std::fs::create_dir_all(state).map_err(wrong)?;
    let dir = Dir::open(state).map_err(wrong)?;
    let id = identity(&dir).map_err(wrong)?;
    let epoch = u64::from_le_bytes(random().map_err(wrong)?);
    let empty = || Inner {
        directory: Index::empty(config),
        registrations: Registrations::new(id.clone()),
    };
    let mut inner = empty();
    let begun = std::time::Instant::now();
    let started = match restore(&dir, &mut inner, clock) {
        Ok(Some((sources, entries))) => format!(
            "warm, with {entries} entries of {sources} sources, in {:.1?}",
            begun.elapsed()
        ),
        Ok(None) => "cold".to_owned(),
        Err(error) => {
            inner = empty();
            format!("cold: the snapshot cannot be used: {error}")
        }
    };
    tracing::info!(started, id, "info server");
    Ok(Known {
        inner,
        epoch,
        started,
    })
}

/// The same for the life of the server, made at its first start.
fn identity(dir: &Dir) -> io::Result<String> {
    match dir.open_file(IDENTITY) {
        Ok(mut file) => {
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let text = text.trim().to_owned();
            if !text.is_empty() && text.len() <= 64 {
                return Ok(text);
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let bytes: [u8; 16] = random()?;
    let id: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let mut file = replace(dir, IDENTITY)?;
    writeln!(file.0, "{id}")?;
    file.keep(dir)?;
    Ok(id)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A file that takes another's place when it is complete.
struct Replacing(io::BufWriter<std::fs::File>, &'static str, String);

fn replace(dir: &Dir, name: &'static str) -> io::Result<Replacing> {
    let beside = format!("{name}.new");
    match dir.remove_file(&beside) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = dir.create_file(&beside, 0o600)?;
    Ok(Replacing(io::BufWriter::new(file), name, beside))
}

impl Replacing {
    fn keep(self, dir: &Dir) -> io::Result<()> {
        let file = self
            .0
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        dir.rename(&self.2, dir, self.1)?;
        dir.sync()
    }
}

/// Writes snapshots until the server ends.
pub(crate) async fn keep(index: Arc<Index>, state: std::path::PathBuf) {
    let mut ticks = tokio::time::interval_at(Instant::now() + FIRST_AFTER, EVERY);
    loop {
        ticks.tick().await;
        let (index, state) = (index.clone(), state.clone());
        // Files block; and a task that ends in the middle has written nothing that counts.
        let _ = tokio::task::spawn_blocking(move || save_or_warn(&index, &state)).await;
    }
}

pub(crate) fn save_or_warn(index: &Index, state: &Path) {
    if let Err(error) = save(index, state) {
        tracing::warn!(%error, state = %state.display(), "no snapshot was written: a restart would be cold or old");
    }
}

/// Registrations as JSON, then their entries as deltas; each piece after its length.
fn save(index: &Index, state: &Path) -> io::Result<()> {
    let dir = Dir::open(state)?;
    let mut file = replace(&dir, SNAPSHOT)?;
    file.0.write_all(MAGIC)?;
    let sources = index.read(|inner| {
        let all = inner.registrations.all();
        all.map(|(s, r)| (s, r.clone())).collect::<Vec<_>>()
    });
    for (source, registration) in sources {
        piece(&mut file.0, &serde_json::to_vec(&registration)?)?;
        let base = index.place_of(&registration.hello.name, registration.hello.kind);
        let mut from = Some(0);
        while let Some(at) = from {
            let (ops, next) = index.read(|inner| {
                inner
                    .directory
                    .ops_of_source(source, &base, at, OPS_OF_PIECE)
            });
            let mut bytes = Vec::new();
            ops.iter().for_each(|op| delta::write(&mut bytes, op));
            if !bytes.is_empty() {
                piece(&mut file.0, &bytes)?;
            }
            from = next;
        }
        piece(&mut file.0, &[])?;
    }
    file.keep(&dir)
}

fn piece(file: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(bytes)
}

fn read_piece(file: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match file.read_exact(&mut length) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > PIECE_MOST_BYTES {
        return Err(io::Error::other("a piece is too long"));
    }
    let mut bytes = Vec::new();
    // No more is held than is there.
    let read = file.take(length as u64).read_to_end(&mut bytes)?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(bytes))
}

/// How many sources and entries came back; None: there is no snapshot.
fn restore(dir: &Dir, inner: &mut Inner, clock: Clock) -> io::Result<Option<(usize, usize)>> {
    let mut file = match dir.open_file(SNAPSHOT) {
        Ok(file) => io::BufReader::new(file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut magic = vec![0; MAGIC.len()];
    file.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Err(io::Error::other("it is of another version"));
    }
    let (mut sources, mut entries) = (0, 0);
    while let Some(json) = read_piece(&mut file)? {
        let registration: Registration = serde_json::from_slice(&json)?;
        let (name, kind, heard_ms) = (
            registration.hello.name.clone(),
            registration.hello.kind,
            registration.heard_ms,
        );
        let suffix = inner.directory.suffix().clone();
        let base = match kind {
            kumiko_directory::source::Kind::Leaf => suffix,
            kumiko_directory::source::Kind::Index => suffix.child("Mds-Vo-name", &name),
        };
        let source = inner.registrations.restore(registration, clock.now_ms());
        loop {
            let bytes = read_piece(&mut file)?;
            let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
            if bytes.is_empty() {
                break;
            }
            let ops: Vec<Op> = delta::read_snapshot(&bytes).map_err(io::Error::other)?;
            for op in &ops {
                // What is refused now (other bounds, another owner) is told anew by its source.
                if inner.directory.apply(source, &base, op).is_ok() {
                    entries += 1;
                }
            }
        }
        inner.directory.mark_stale(source, &generalized(heard_ms));
        sources += 1;
    }
    Ok(Some((sources, entries)))
}
