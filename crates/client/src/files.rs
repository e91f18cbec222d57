//! Folders to a site and results back.

use crate::ClientError;
use crate::client::Client;
use crate::reading::next_message;
use kumiko_job::id::JobId;
use kumiko_staging::{Limits, Packing, StagingError, Unpacked, Unpacking};
use kumiko_wire::api::{self, Request, Uploaded, kind};
use std::path::Path;

impl Client {
    /// Sends the content of a folder. `Uploaded::input` goes into `JobDescription::input`, `Uploaded::mark_us` into
    /// [`Client::download_into`].
    ///
    /// # Errors
    /// A file that cannot be read, a folder over the site's limits, or the link is lost: then nothing was submitted,
    /// and it can be tried again.
    pub async fn upload_folder(&self, folder: &Path) -> Result<Uploaded, ClientError> {
        let (_, stream) = self.open(Request::Upload.encode()).await?;
        let (mut sender, mut receiver) = stream.split();
        let mut packing = Packing::start(folder.to_owned(), None, Limits::RESULTS);
        let sent = loop {
            match packing.next().await? {
                None => break sender.finish().await,
                Some(data) => {
                    if let Err(e) = sender.send(kind::TAR, data).await {
                        break Err(e); // the site refuses it, and says why
                    }
                }
            }
        };
        match (next_message(&mut receiver).await, sent) {
            (Ok(Some(message)), Ok(())) => Ok(api::reply(&message.data)?),
            (Err(broken), _) => Err(broken.told(self)),
            (Ok(_), Err(e)) => Err(self.failed(e)),
            (Ok(None), Ok(())) => Err(ClientError::Short { asked: "an upload" }),
        }
    }

    /// Brings a job's files into `folder` (made if missing), replacing what has the same name. With `since_us` only
    /// what is new or changed since that mark; what the job has removed stays here.
    ///
    /// # Errors
    /// No such job, a file that cannot be written, or the link is lost: then some files may have come, each whole.
    pub async fn download_into(
        &self,
        job: JobId,
        folder: &Path,
        since_us: Option<u64>,
    ) -> Result<Unpacked, ClientError> {
        std::fs::create_dir_all(folder).map_err(|cause| StagingError::File {
            doing: "cannot make the directory",
            path: folder.to_owned(),
            cause,
        })?;
        let (_, stream) = self
            .open(Request::Download { job, since_us }.encode())
            .await?;
        let (sender, mut receiver) = stream.split();
        let mut unpacking = Unpacking::start(folder.to_owned(), Limits::RESULTS);
        loop {
            match next_message(&mut receiver).await {
                Ok(Some(message)) => unpacking.push(message.data).await?,
                Ok(None) => break,
                Err(broken) => return Err(broken.told(self)),
            }
        }
        drop(sender);
        Ok(unpacking.finish().await?)
    }
}
