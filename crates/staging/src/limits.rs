//! How much a folder may be (F4).

/// Limits of one archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Content of all files together.
    pub bytes: u64,
    pub entries: u64,
    /// Names in a path; each costs a descriptor while a tree is walked.
    pub depth: usize,
}

/// The kernel's own limits (limits.h): a name, and a path or what a link says.
pub(crate) const NAME_BYTES: usize = 255;
pub(crate) const PATH_BYTES: usize = 4096;
/// Extended headers hold a path, a link and some times; more is an attack on memory.
pub(crate) const HEADER_BYTES: u64 = 64 * 1024;
/// The pax record that stands for a content (F7).
pub(crate) const SUM: &str = "KUMIKO.sha256";
/// After an archive's end: tar pads to a whole record (10 KiB, or what `-b` says).
pub(crate) const TRAILING_BYTES: u64 = 1 << 20;

impl Limits {
    /// What a user sends along with a job. More belongs on a file server.
    pub const UPLOAD: Limits = Limits {
        bytes: 16 << 30,
        entries: 200_000,
        depth: 64,
    };
    /// What comes back: the job's own disk quota is the limit, so these only stop what is out of all measure.
    pub const RESULTS: Limits = Limits {
        bytes: 1 << 40,
        entries: 2_000_000,
        depth: 128,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::UPLOAD
    }
}
