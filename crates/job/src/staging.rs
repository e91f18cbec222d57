//! Which files a job moves, when and in what order (spec/staging, "Files of a job"). Pure: the moving itself is behind the
//! contract `Transfer` ([`crate::transfer`]), what follows from its end is in `respond`.

use crate::attempt::{Outcome, OutputStream};
use crate::description::{Destination, JobDescription, StageIn, Stdin};
use crate::state::Job;
use crate::url::looks_like_url;
use kumiko_policy::JOB_DIRECTORY;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where an executable from a URL lies in the job's own directory.
pub const EXECUTABLE: &str = ".executable";
/// Where stdin from a URL lies in the job's own directory.
pub const STDIN: &str = ".stdin";

/// One of the things that staging does for a job, named by its place in the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    Executable,
    Stdin,
    In(u32),
    Shared(u32),
    /// The streams, to their destinations.
    Stdout(u32),
    Stderr(u32),
    Out(u32),
    /// What is to be removed, all together; always the last.
    CleanUp,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Executable => f.write_str("executable"),
            Item::Stdin => f.write_str("stdin.url"),
            Item::In(index) => write!(f, "stage_in[{index}]"),
            Item::Shared(index) => write!(f, "stage_in_shared[{index}]"),
            Item::Stdout(index) => write!(f, "stdout[{index}]"),
            Item::Stderr(index) => write!(f, "stderr[{index}]"),
            Item::Out(index) => write!(f, "stage_out[{index}]"),
            Item::CleanUp => f.write_str("clean_up"),
        }
    }
}

/// Did staging ever have anything to do for this job?
pub fn moves_files(job: &Job) -> bool {
    job.redirected.is_some() || asks_for_files(&job.description)
}

/// Does the description ask for anything that staging does?
pub fn asks_for_files(description: &JobDescription) -> bool {
    !items_in(description).is_empty()
        || !description.stage_out.is_empty()
        || !description.clean_up.is_empty()
        || description.scratch.is_some()
        || !description.stdout.is_empty()
        || !description.stderr.is_empty()
}

fn numbered(count: usize, item: impl Fn(u32) -> Item) -> impl Iterator<Item = Item> {
    (0..u32::try_from(count).unwrap_or(u32::MAX)).map(item)
}

/// What has to be there before an attempt is planned, in this order.
pub fn items_in(description: &JobDescription) -> Vec<Item> {
    let mut items = Vec::new();
    items.extend(looks_like_url(&description.executable).then_some(Item::Executable));
    items.extend(matches!(description.stdin, Stdin::Url(_)).then_some(Item::Stdin));
    items.extend(numbered(description.stage_in.len(), Item::In));
    items.extend(numbered(description.stage_in_shared.len(), Item::Shared));
    items
}

/// What is left to do once the attempt is over with `outcome`: streams first, for whoever watches them waits; then files,
/// unless the program did not come to an end of its own; removal last.
pub fn items_out(job: &Job, outcome: &Outcome) -> Vec<Item> {
    let description = &job.description;
    let (_, stdout) = job.destinations(OutputStream::Stdout);
    let (_, stderr) = job.destinations(OutputStream::Stderr);
    let mut items: Vec<Item> = numbered(stdout.len(), Item::Stdout).collect();
    items.extend(numbered(stderr.len(), Item::Stderr));
    let has_results = match outcome {
        Outcome::Exited { .. }
        | Outcome::Signalled { .. }
        | Outcome::TimeLimit
        | Outcome::OutputQuota { .. } => true,
        Outcome::Cancelled
        | Outcome::NeverStarted { .. }
        | Outcome::SpoolFailed { .. }
        | Outcome::Lost { .. }
        | Outcome::EngineEnded { .. }
        | Outcome::StagingFailed { .. } => false,
    };
    if has_results {
        items.extend(numbered(description.stage_out.len(), Item::Out));
    }
    let cleans = !description.clean_up.is_empty() || description.scratch.is_some();
    items.extend(cleans.then_some(Item::CleanUp));
    items
}

/// The file that an item fetches, and where to; None for items that fetch none.
pub fn fetched(description: &JobDescription, item: Item) -> Option<StageIn> {
    let at = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
    let plain = |from: &str, to: &str| StageIn {
        from: from.to_owned(),
        to: to.to_owned(),
        bytes: None,
        sha256: None,
    };
    match item {
        Item::Executable => Some(plain(&description.executable, EXECUTABLE)),
        Item::Stdin => match &description.stdin {
            Stdin::Url(url) => Some(plain(url, STDIN)),
            _ => None,
        },
        Item::In(index) => description.stage_in.get(at(index)).cloned(),
        Item::Shared(index) => description.stage_in_shared.get(at(index)).cloned(),
        _ => None,
    }
}

/// Where an item sends an output stream; None for items that send none.
pub fn destination(job: &Job, item: Item) -> Option<(OutputStream, &Destination)> {
    let (stream, index) = match item {
        Item::Stdout(index) => (OutputStream::Stdout, index),
        Item::Stderr(index) => (OutputStream::Stderr, index),
        _ => return None,
    };
    let (_, list) = job.destinations(stream);
    let to = list.get(usize::try_from(index).ok()?)?;
    Some((stream, to))
}

/// The item of one destination of a stream.
pub fn stream_item(stream: OutputStream, index: u32) -> Item {
    match stream {
        OutputStream::Stdout => Item::Stdout(index),
        OutputStream::Stderr => Item::Stderr(index),
    }
}

/// The path below the job's own directory that a path of the description means: relative, or absolute in the guest's
/// view. None, if it leads elsewhere, or is the directory itself.
pub fn in_job_directory(path: &str) -> Option<&str> {
    let below = match path.strip_prefix(JOB_DIRECTORY) {
        Some(rest) => rest.strip_prefix('/')?,
        None => path,
    };
    let plain = !below.is_empty()
        && !below.starts_with('/')
        && below.split('/').all(|part| part != ".." && part != ".")
        && !below.contains("//")
        && !below.ends_with('/')
        && !below.contains('\0');
    plain.then_some(below)
}
