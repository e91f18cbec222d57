//! Folders to a site and results back.

use crate::ClientError;
use crate::client::{Client, Retry};
use crate::reading::next_message;
use kumiko_job::id::JobId;
use kumiko_staging::stock::Sum;
use kumiko_staging::{Limits, Packing, StagingError, Sums, Unpacked, Unpacking};
use kumiko_wire::api::{self, Request, Stocked, Uploaded, kind};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// What went to a site, and until when it was there.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub bytes: u64,
    pub took: Duration,
}

impl Client {
    /// Sends the content of a folder, but for big files whose content the site has. `Uploaded::input` goes into
    /// `JobDescription::input`, `Uploaded::mark_us` into [`Client::download_into`].
    ///
    /// # Errors
    /// A file that cannot be read, a folder over the site's limits, or the link is lost: then nothing was submitted,
    /// and it can be tried again.
    pub async fn upload_folder(&self, folder: &Path) -> Result<Uploaded, ClientError> {
        let (uploaded, _) = self.send_folder(folder).await?;
        Ok(uploaded)
    }

    /// The same, and what of it went over the link.
    ///
    /// # Errors
    /// As [`Client::upload_folder`].
    pub async fn send_folder(&self, folder: &Path) -> Result<(Uploaded, Sent), ClientError> {
        let held = self.held_of(folder).await?;
        let may_be_gone = !held.is_empty();
        match self.upload_but(folder, held).await {
            Err(ClientError::Refused(refusal)) if may_be_gone && refusal.code == "not_stocked" => {
                self.upload_but(folder, Sums::default()).await
            }
            done => done,
        }
    }

    /// The big files of a folder whose content the site has.
    async fn held_of(&self, folder: &Path) -> Result<Sums, ClientError> {
        let mut sums = Sums::of_big(folder.to_owned()).await?;
        if sums.is_empty() {
            return Ok(sums);
        }
        let asked = Request::Stocked {
            sums: sums.all().into_iter().map(Sum::to_string).collect(),
        };
        match self.one::<Stocked>(&asked, Retry::Yes).await {
            Ok(answer) => {
                let held: BTreeSet<Sum> = answer
                    .held
                    .iter()
                    .filter_map(|text| Sum::parse(text))
                    .collect();
                sums.retain(|sum| held.contains(sum));
                Ok(sums)
            }
            // One that does not know the question, or answers nobody like us: it is told all, and says so itself.
            Err(ClientError::Refused(_)) => Ok(Sums::default()),
            Err(error) => Err(error),
        }
    }

    async fn upload_but(&self, folder: &Path, held: Sums) -> Result<(Uploaded, Sent), ClientError> {
        let begun = Instant::now();
        let mut bytes = 0;
        let (_, stream) = self.open(Request::Upload.encode()).await?;
        let (mut sender, mut receiver) = stream.split();
        let mut packing = Packing::start_but(folder.to_owned(), held, Limits::RESULTS);
        let sent = loop {
            match packing.next().await? {
                None => break sender.finish().await,
                Some(data) => {
                    bytes += data.len() as u64;
                    if let Err(e) = sender.send(kind::TAR, data).await {
                        break Err(e); // the site refuses it, and says why
                    }
                }
            }
        };
        match (next_message(&mut receiver).await, sent) {
            (Ok(Some(message)), Ok(())) => {
                let took = begun.elapsed();
                Ok((api::reply(&message.data)?, Sent { bytes, took }))
            }
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
