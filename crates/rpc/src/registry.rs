//! Routines that a site offers (spec/rpc P70 to P73): its owner registers them, with program and signature; calls find them by name.
//! Not here: how a program is made (`make`).

use kumiko_idl::{BadSignature, PlanError, Signature};
use kumiko_linux::Dir;
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Programs and what they take, below one folder:
/// `programs/DIGEST`, and `routines/MODULE/NAME`: the digest, a line end, the signature.
#[derive(Clone, Debug)]
pub struct Registry {
    root: PathBuf,
    /// Others than the owner read it: the agents of a site for many accounts.
    is_shared: bool,
}

/// Of an entry: each time it is put there it is another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    changed: (i64, i64),
}

/// One routine.
#[derive(Clone, Debug, PartialEq)]
pub struct Routine {
    pub signature: Signature,
    /// SHA-256 of the program, in hexadecimal digits.
    pub digest: String,
    pub program: PathBuf,
}

/// Most bytes of a registered routine's entry: its signature's, and a line before.
const ENTRY_MOST_BYTES: u64 = kumiko_idl::MAX_SIGNATURE_BYTES as u64 + 128;
const DIGEST_DIGITS: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("{path}: {cause}")]
    File { path: PathBuf, cause: io::Error },
    #[error(
        "{path} has no signature beside it, so it is no routine: make one by `kumiko rpc gen FILE.idl`"
    )]
    NoSignature { path: PathBuf },
    #[error("{path} is no program: make one by `kumiko rpc gen`")]
    NoProgram { path: PathBuf },
    #[error("{path}: {cause}")]
    Signature {
        path: PathBuf,
        cause: Box<BadSignature>,
    },
    #[error("{path}: {cause}")]
    NotBuilt {
        path: PathBuf,
        cause: Box<PlanError>,
    },
    #[error("{path} is no entry of this registry: register the routine again")]
    Entry { path: PathBuf },
}

fn file(path: &Path) -> impl Fn(io::Error) -> RegistryError + use<> {
    let path = path.to_owned();
    move |cause| RegistryError::File {
        path: path.clone(),
        cause,
    }
}

impl Registry {
    /// The owner's alone. It need not be there yet.
    pub fn new(root: PathBuf) -> Registry {
        let is_shared = false;
        Registry { root, is_shared }
    }

    /// All accounts of the machine may read it.
    pub fn shared(root: PathBuf) -> Registry {
        let is_shared = true;
        Registry { root, is_shared }
    }

    /// Takes a program that `kumiko rpc gen` made; its signature lies beside it. In the place of one of the same name.
    ///
    /// # Errors
    /// Which file is not as it should be.
    pub fn register(&self, program: &Path) -> Result<Routine, RegistryError> {
        let beside = signature_of(program);
        let text = std::fs::read_to_string(&beside).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => RegistryError::NoSignature {
                path: program.to_owned(),
            },
            _ => file(&beside)(cause),
        })?;
        let mut signature =
            Signature::from_text(&text).map_err(|cause| RegistryError::Signature {
                path: beside.clone(),
                cause: Box::new(cause),
            })?;
        signature
            .callable()
            .map_err(|cause| RegistryError::NotBuilt {
                path: beside.clone(),
                cause: Box::new(cause),
            })?;
        let bytes = std::fs::read(program).map_err(file(program))?;
        if !bytes.starts_with(b"\x7fELF") && !bytes.starts_with(b"#!") {
            return Err(RegistryError::NoProgram {
                path: program.to_owned(),
            });
        }
        // It is the program that tells, whatever was said when it was made.
        signature.checkpoint = kumiko_checkpoint::links_library(&bytes);
        let digest: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let programs = self.root.join("programs");
        self.folder(&programs)?;
        let kept = programs.join(&digest);
        if !kept.exists() {
            put(&programs, &digest, &bytes, self.mode(0o500))?;
        }
        let module = self.root.join("routines").join(&signature.module);
        self.folder(&module)?;
        let entry = format!("{digest}\n{}", signature.to_text());
        put(&module, &signature.name, entry.as_bytes(), self.mode(0o600))?;
        Ok(Routine {
            signature,
            digest,
            program: kept,
        })
    }

    /// What is the owner's to read and run is everybody's in a shared one.
    fn mode(&self, owner: u32) -> u32 {
        match self.is_shared {
            true => owner | ((owner & 0o500) >> 3) | ((owner & 0o500) >> 6),
            false => owner,
        }
    }

    /// One below the root, with all that leads to it from there.
    fn folder(&self, folder: &Path) -> Result<(), RegistryError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(file(folder))?;
        if !self.is_shared {
            return Ok(());
        }
        // Whatever the umask of who registers is.
        let below = folder
            .ancestors()
            .take_while(|one| one.starts_with(&self.root));
        for one in below {
            let open = std::fs::Permissions::from_mode(self.mode(0o700));
            std::fs::set_permissions(one, open).map_err(file(one))?;
        }
        Ok(())
    }

    /// Another one when the routine of this name was registered anew. None: there is none.
    pub fn stamp(&self, name: &str) -> Option<Stamp> {
        let (module, name) = name.split_once('/')?;
        if !is_name(module) || !is_name(name) {
            return None;
        }
        let path = self.root.join("routines").join(module).join(name);
        let meta = std::fs::metadata(path).ok()?;
        Some(Stamp {
            inode: meta.ino(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }

    /// By `module/name`; None: it is not registered.
    ///
    /// # Errors
    /// The registry is damaged.
    pub fn find(&self, name: &str) -> Result<Option<Arc<Routine>>, RegistryError> {
        let Some((module, name)) = name.split_once('/') else {
            return Ok(None);
        };
        if !is_name(module) || !is_name(name) {
            return Ok(None);
        }
        let path = self.root.join("routines").join(module).join(name);
        let mut text = String::new();
        match File::open(&path) {
            Ok(entry) => entry
                .take(ENTRY_MOST_BYTES)
                .read_to_string(&mut text)
                .map_err(file(&path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file(&path)(error)),
        };
        let damaged = || RegistryError::Entry { path: path.clone() };
        let (digest, text) = text.split_once('\n').ok_or_else(damaged)?;
        if digest.len() != DIGEST_DIGITS || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(damaged());
        }
        let signature = Signature::from_text(text).map_err(|cause| RegistryError::Signature {
            path: path.clone(),
            cause: Box::new(cause),
        })?;
        Ok(Some(Arc::new(Routine {
            signature,
            digest: digest.to_owned(),
            program: self.root.join("programs").join(digest),
        })))
    }

    /// What they are called, `module/name`, in order.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn names(&self) -> Result<Vec<String>, RegistryError> {
        let root = self.root.join("routines");
        let mut all = Vec::new();
        for module in names(&root)? {
            let within = names(&root.join(&module))?;
            all.extend(within.iter().map(|name| format!("{module}/{name}")));
        }
        Ok(all)
    }

    /// All, by name.
    ///
    /// # Errors
    /// The registry is damaged.
    pub fn all(&self) -> Result<Vec<Arc<Routine>>, RegistryError> {
        let mut routines = Vec::new();
        for name in self.names()? {
            routines.extend(self.find(&name)?);
        }
        Ok(routines)
    }
}

/// Where a program's signature lies.
pub fn signature_of(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".signature");
    PathBuf::from(name)
}

/// A name of the IDL (I2): no path leads out by it.
fn is_name(name: &str) -> bool {
    let first = name.bytes().next();
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$';
    first.is_some_and(letter)
        && name
            .bytes()
            .all(|byte| letter(byte) || byte.is_ascii_digit())
}

/// What lies in a folder, in order; a folder that is not there has nothing.
fn names(folder: &Path) -> Result<Vec<String>, RegistryError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(file(folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(file(folder))?.file_name();
        // What is being written has another kind of name.
        names.extend(
            name.to_str()
                .filter(|name| is_name(name))
                .map(str::to_owned),
        );
    }
    names.sort();
    Ok(names)
}

/// Whole or not at all, also for who reads it meanwhile.
fn put(folder: &Path, name: &str, bytes: &[u8], mode: u32) -> Result<(), RegistryError> {
    let wrong = file(&folder.join(name));
    let folder = Dir::open(folder).map_err(&wrong)?;
    let new = format!(".{}.new", std::process::id());
    // What is left of one that died here.
    let _ = folder.remove_file(&new);
    let written = folder.create_file(&new, mode | 0o200).and_then(|mut to| {
        to.write_all(bytes)?;
        to.sync_all()
    });
    written
        .and_then(|()| folder.set_mode(&new, mode))
        .and_then(|()| folder.rename(&new, &folder, name))
        .and_then(|()| folder.sync())
        .map_err(wrong)
}
