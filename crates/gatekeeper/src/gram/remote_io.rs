//! The file in a job's own directory that says where its client's GASS server is (`remote_io_url`, spec/gram G29): made
//! before the job is, changed when the client comes back with another server. Not here: what the job does with it.

use crate::desk::Desk;
use kumiko_job::contract::{Caller, Jobs, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_job::rsl::REMOTE_IO;
use kumiko_linux::Dir;
use kumiko_wire::gram::GramCode;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The job's own directory will be one that has the file.
pub(super) async fn begin<J: Jobs>(
    desk: &Desk<J>,
    caller: &Caller,
    mut description: JobDescription,
    url: &str,
) -> Result<JobDescription, Refusal> {
    let (upload, folder) = desk.jobs.new_upload(caller).await?;
    let (place, url) = (folder.clone(), url.to_owned());
    write(folder, url).await.map_err(|cause| {
        let what = format!(
            "{REMOTE_IO} in {} cannot be written: {cause}",
            place.display()
        );
        Refusal::new("upload_failed", what)
    })?;
    description.input = Some(upload);
    Ok(description)
}

/// A job that is there finds another address in its file.
pub(super) async fn change<J: Jobs>(
    desk: &Desk<J>,
    caller: &Caller,
    job: JobId,
    url: &str,
) -> Result<(), GramCode> {
    let written = match desk.jobs.directory(caller, job).await {
        Ok(folder) => write(folder, url.to_owned()).await,
        Err(refusal) => Err(io::Error::other(refusal)),
    };
    written.map_err(|cause| {
        tracing::warn!(%job, %cause, "the job's {REMOTE_IO} cannot be written");
        GramCode::WRITING_REMOTE_IO_URL
    })
}

async fn write(folder: PathBuf, url: String) -> io::Result<()> {
    let written = tokio::task::spawn_blocking(move || replace(&folder, &url)).await;
    written.map_err(io::Error::other)?
}

/// By descriptor and through no link: the job may write there as well.
fn replace(folder: &Path, url: &str) -> io::Result<()> {
    let dir = Dir::open(folder)?;
    let new = format!("{REMOTE_IO}.new");
    dir.remove_all(&new)?;
    let mut file = dir.create_file(&new, 0o600)?;
    writeln!(file, "{url}")?;
    file.sync_all()?;
    dir.rename(&new, &dir, REMOTE_IO)
}
