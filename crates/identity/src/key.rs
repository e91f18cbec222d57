//! Private keys: making them, and reading and writing files that hold secrets (spec/identity, clauses K1 to K3).
//!
//! A key never prints; OpenSSL wipes it when it is dropped, and the buffers it passes through wipe themselves.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private, Public};
use openssl::rsa::Rsa;
use zeroize::Zeroizing;

/// A chain with its key has about 10 kB; anything near this is no credential.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why a key or a file with one was refused.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// Others could have read the key.
    #[error("{} has mode {mode:04o}: others can read the key in it; chmod 600 it, and replace the key if others were there", path.display())]
    Mode { path: PathBuf, mode: u32 },
    /// The file is somebody else's, who can change it at any time.
    #[error("{} belongs to uid {owner}, and this program runs as uid {uid}: a key is read only from a file of one's own or of root's", path.display())]
    Owner { path: PathBuf, owner: u32, uid: u32 },
    #[error("{} is not a plain file of at most {MAX_FILE_BYTES} bytes", path.display())]
    NotPlain { path: PathBuf },
    /// The key needs a pass phrase and none, or a wrong one, was given.
    #[error("{} holds a key under a pass phrase; give the right one", path.display())]
    PassPhrase { path: PathBuf },
    #[error("no usable private key in {}: {source}", path.display())]
    NoKey { path: PathBuf, source: ErrorStack },
    #[error("RSA keys have 2048 to 8192 bits, {bits} were asked for")]
    RsaBits { bits: u32 },
    #[error(
        "cannot tell which user this program runs as: /proc/self/status could not be read; is /proc mounted?"
    )]
    NoUid,
    #[error("the cryptographic library failed: {0}")]
    Library(#[from] ErrorStack),
}

/// Which kind of key to make. P-256 takes about 0.05 ms, RSA 2048 about 60 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyKind {
    #[default]
    P256,
    /// The number of bits, 2048 to 8192. Globus (GCT) peers that are to delegate onward need RSA all the way.
    Rsa(u32),
}

/// A private key. Its `Debug` says the kind only.
#[derive(Clone)]
pub struct Key(pub(crate) PKey<Private>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?}, {} bits)", self.0.id(), self.0.bits())
    }
}

impl Key {
    pub fn generate(kind: KeyKind) -> Result<Key, KeyError> {
        Ok(Key(match kind {
            KeyKind::P256 => {
                let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
                PKey::from_ec_key(EcKey::generate(&group)?)?
            }
            KeyKind::Rsa(bits) if (2048..=8192).contains(&bits) => {
                PKey::from_rsa(Rsa::generate(bits)?)?
            }
            KeyKind::Rsa(bits) => return Err(KeyError::RsaBits { bits }),
        }))
    }

    /// The public half alone.
    pub(crate) fn public(&self) -> Result<PKey<Public>, ErrorStack> {
        PKey::public_key_from_der(&self.0.public_key_to_der()?)
    }

    /// Reads the first private key in PEM. `path` is for the error.
    pub(crate) fn from_pem(
        pem: &[u8],
        pass_phrase: Option<&[u8]>,
        path: &Path,
    ) -> Result<Key, KeyError> {
        let mut asked = false;
        // OpenSSL must never fall back to asking on the terminal: an empty answer is an answer.
        let key = PKey::private_key_from_pem_callback(pem, |buffer| {
            asked = true;
            let phrase = pass_phrase.unwrap_or_default();
            let length = phrase.len().min(buffer.len());
            buffer[..length].copy_from_slice(&phrase[..length]);
            Ok(length)
        });
        match key {
            Ok(key) => Ok(Key(key)),
            Err(_) if asked => Err(KeyError::PassPhrase {
                path: path.to_owned(),
            }),
            Err(source) => Err(KeyError::NoKey {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Writes the key alone, mode 0600.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        write_secret(path, &self.to_pem()?)
    }

    /// PKCS #8 PEM, unencrypted, in a buffer that wipes itself.
    pub fn to_pem(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        Ok(Zeroizing::new(self.0.private_key_to_pem_pkcs8()?))
    }
}

/// The effective user id of this process. Not the owner of /proc/self: that is root's for a process that is not dumpable.
pub(crate) fn effective_uid() -> Result<u32, KeyError> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|_| KeyError::NoUid)?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|ids| ids.split_whitespace().nth(1))
        .and_then(|id| id.parse().ok())
        .ok_or(KeyError::NoUid)
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Io {
        action,
        path,
        source,
    }
}

/// Reads a file that holds a key: opened once, judged and read by the same descriptor.
pub(crate) fn read_secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let not_plain = || KeyError::NotPlain {
        path: path.to_owned(),
    };
    // Opening a pipe would wait for its other end. What counts is asked again of the opened file.
    if !std::fs::metadata(path).map_err(io("open", path))?.is_file() {
        return Err(not_plain());
    }
    let file = File::open(path).map_err(io("open", path))?;
    let meta = file.metadata().map_err(io("look at", path))?;
    if !meta.is_file() || meta.len() > MAX_FILE_BYTES {
        return Err(not_plain());
    }
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Mode {
            path: path.to_owned(),
            mode,
        });
    }
    let uid = effective_uid()?;
    if meta.uid() != uid && meta.uid() != 0 {
        return Err(KeyError::Owner {
            path: path.to_owned(),
            owner: meta.uid(),
            uid,
        });
    }
    // One allocation of the right size: a growing buffer would leave copies behind that nobody wipes.
    let mut bytes = Zeroizing::new(Vec::with_capacity(meta.len() as usize + 1));
    file.take(meta.len())
        .read_to_end(&mut bytes)
        .map_err(io("read", path))?;
    Ok(bytes)
}

/// Writes `contents` beside `path` and renames it there, so that a reader sees the old file or the new one, whole.
pub(crate) fn replace_file(path: &Path, contents: &[u8], mode: u32) -> Result<(), KeyError> {
    let mut random = [0u8; 8];
    openssl::rand::rand_bytes(&mut random)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{:016x}", u64::from_be_bytes(random)));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)
        .and_then(|mut file| {
            file.write_all(contents)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // The file may not have been made; the first error is the one to tell.
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(io("write", path))
}

/// Writes a file that holds a key, mode 0600.
pub(crate) fn write_secret(path: &Path, contents: &[u8]) -> Result<(), KeyError> {
    replace_file(path, contents, 0o600)
}
