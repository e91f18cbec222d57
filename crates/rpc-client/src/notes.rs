//! What is needed to take the result of a call after its client has died, one small file for each open call (spec/rpc P40): written
//! before the call begins, and gone when the result is where it belongs. Not here: when that is.

use crate::RpcError;
use crate::staging::Target;
use kumiko_call::id::CallId;
use kumiko_idl::{HEAD_BYTES, Head, Limits, Plan, Signature};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What a result is understood by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    /// The site's address.
    pub site: String,
    signature: String,
    heads: Vec<u8>,
    /// Where files that come back go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<Target>,
}

#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    #[error("writing the note of a call, {}: {cause}", path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error("no call {call} at {site} was begun from here and is open still")]
    Absent { call: CallId, site: String },
    #[error("reading the note of a call, {}: {cause}", path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("{} is no note of a call: {cause}", path.display())]
    Damaged {
        path: PathBuf,
        cause: serde_json::Error,
    },
}

impl NoteError {
    /// The row of spec/errors.toml.
    pub fn code(&self) -> &'static str {
        match self {
            NoteError::Write { .. } => "no_place_for_notes",
            NoteError::Absent { .. } | NoteError::Read { .. } | NoteError::Damaged { .. } => {
                "no_note"
            }
        }
    }
}

impl Note {
    pub fn new(site: String, signature: &Signature, heads: &[Head]) -> Note {
        Note {
            site,
            signature: signature.to_text(),
            heads: heads.concat(),
            files: Vec::new(),
        }
    }

    /// The same call at another site.
    #[must_use]
    pub fn at(&self, site: String) -> Note {
        Note {
            site,
            ..self.clone()
        }
    }

    /// With where files that come back go; a folder that is not named is the one where the call is made.
    #[must_use]
    pub fn with_files(self, targets: &[Target]) -> Note {
        let absolute = |(formal, path): &Target| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            (*formal, path)
        };
        let files = targets.iter().map(absolute).collect();
        Note { files, ..self }
    }

    pub fn files(&self) -> &[Target] {
        &self.files
    }

    /// By which the result is understood.
    ///
    /// # Errors
    /// The note was changed by others.
    pub fn plan(&self) -> Result<(Signature, Plan), RpcError> {
        let signature = Signature::from_text(&self.signature)?;
        let heads: Vec<Head> = self
            .heads
            .chunks_exact(HEAD_BYTES)
            .filter_map(|head| head.try_into().ok())
            .collect();
        let plan = signature.plan(&heads, Limits::WIDEST)?;
        Ok((signature, plan))
    }
}

/// The folder of notes.
#[derive(Clone, Debug)]
pub struct Notes {
    folder: PathBuf,
}

impl Notes {
    /// `home`: the kumiko folder.
    pub fn of(home: &Path) -> Notes {
        Notes {
            folder: home.join("rpc").join("calls"),
        }
    }

    fn path(&self, site: &str, call: CallId) -> PathBuf {
        self.folder.join(format!("{}@{call}", file_part(site)))
    }

    /// # Errors
    /// It is not there, or not whole.
    pub fn write(&self, note: &Note, call: CallId) -> Result<(), NoteError> {
        let path = self.path(&note.site, call);
        let write = |path: &Path| {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.folder)?;
            // Seen whole or not at all; the client's number is nobody else's, and so the name. (Not in the place of an extension: a
            // name has the points of the site's address.)
            let mut beside = path.as_os_str().to_owned();
            beside.push(".new");
            let beside = PathBuf::from(beside);
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&beside)?;
            io::Write::write_all(&mut file, serde_json::to_string(note)?.as_bytes())?;
            std::fs::rename(&beside, path)
        };
        write(&path).map_err(|cause| NoteError::Write { path, cause })
    }

    /// # Errors
    /// There is none, or it cannot be used.
    pub fn read(&self, site: &str, call: CallId) -> Result<Note, NoteError> {
        let path = self.path(site, call);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                serde_json::from_str(&text).map_err(|cause| NoteError::Damaged { path, cause })
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Err(NoteError::Absent {
                call,
                site: site.to_owned(),
            }),
            Err(cause) => Err(NoteError::Read { path, cause }),
        }
    }

    /// The call has another name now. Best effort: without its note only who is here now can take its result.
    pub fn rename(&self, site: &str, call: CallId, now: CallId) {
        let _ = std::fs::rename(self.path(site, call), self.path(site, now));
    }

    /// Best effort: a note that stays names a call whose result is gone.
    pub fn forget(&self, site: &str, call: CallId) {
        let _ = std::fs::remove_file(self.path(site, call));
    }

    /// The calls at this site that have a note, in order.
    pub fn open(&self, site: &str) -> Vec<CallId> {
        let begin = format!("{}@", file_part(site));
        let names = std::fs::read_dir(&self.folder).into_iter().flatten();
        let mut open: Vec<CallId> = names
            .flatten()
            .filter_map(|entry| call_id(entry.file_name().to_str()?.strip_prefix(&begin)?))
            .collect();
        open.sort_by_key(|call| (call.client, call.sequence));
        open
    }
}

fn file_part(site: &str) -> String {
    site.replace('/', "_")
}

/// As a call is written: 7-3.
pub fn call_id(text: &str) -> Option<CallId> {
    let (client, sequence) = text.split_once('-')?;
    Some(CallId {
        client: client.parse().ok()?,
        sequence: sequence.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature() -> Signature {
        let text = "Module m;\nDefine f(IN int n, IN double a[n], OUT double b[n]) {}";
        Signature::from_text(text).unwrap()
    }

    #[test]
    fn a_note_says_how_its_result_is_understood_and_is_gone_when_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let notes = Notes::of(home.path());
        let site = "[::1]:2119";
        let ids = [(7, 12), (7, 3), (8, 1)].map(|(client, sequence)| CallId { client, sequence });
        let three = kumiko_idl::number_head(
            kumiko_idl::ElementType::Int32,
            kumiko_idl::Value::Integer(3),
        );
        let heads = [three.unwrap(), [0; HEAD_BYTES], [0; HEAD_BYTES]];
        assert!(notes.open(site).is_empty());
        for id in ids {
            notes
                .write(&Note::new(site.to_owned(), &signature(), &heads), id)
                .unwrap();
        }
        assert_eq!(notes.open(site), [ids[1], ids[0], ids[2]]);
        assert!(notes.open("elsewhere:2119").is_empty());
        let (read, plan) = notes.read(site, ids[0]).unwrap().plan().unwrap();
        assert_eq!((read.name.as_str(), plan.out_bytes), ("f", 24));
        notes.forget(site, ids[0]);
        assert!(matches!(
            notes.read(site, ids[0]),
            Err(NoteError::Absent { .. })
        ));
        let path = notes.path(site, ids[1]);
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(
            notes.read(site, ids[1]),
            Err(NoteError::Damaged { .. })
        ));
    }

    #[test]
    fn notes_that_are_written_at_once_are_each_whole() {
        let home = tempfile::tempdir().unwrap();
        let notes = Notes::of(home.path());
        let site = "127.0.0.1:2119";
        std::thread::scope(|scope| {
            for client in 1..=8 {
                let notes = &notes;
                scope.spawn(move || {
                    for sequence in 1..=50 {
                        let heads = vec![[0; HEAD_BYTES]; 3];
                        let note = Note::new(site.to_owned(), &signature(), &heads);
                        notes.write(&note, CallId { client, sequence }).unwrap();
                    }
                });
            }
        });
        let open = notes.open(site);
        assert_eq!(open.len(), 8 * 50);
        for call in open {
            notes.read(site, call).unwrap();
        }
    }

    #[test]
    fn what_names_no_call_is_told() {
        for text in ["", "7", "7-", "-3", "7-3-1", "a-b", "7 3"] {
            assert_eq!(call_id(text), None, "{text}");
        }
        let id = CallId {
            client: 7,
            sequence: 3,
        };
        assert_eq!(call_id(&id.to_string()), Some(id));
    }
}
