//! Delegation of this client's credential to a site, for a job (spec/services V8): the key is made there, and what is
//! sent is a proxy certificate for it.

use crate::ClientError;
use crate::client::Client;
use crate::reading::next_message;
use kumiko_identity::delegation::{DelegationError, sign};
use kumiko_identity::proxy::{DEFAULT_LIFETIME, Options};
use kumiko_job::id::JobId;
use kumiko_wire::api::{self, ApiError, Delegated, Renewed, Request, kind};
use serde::de::DeserializeOwned;

/// Which rights are given away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// All but the starting of jobs.
    #[default]
    Limited,
    Full,
}

impl Client {
    /// Gives the site a proxy of this client's credential; what it answers goes into `JobDescription::credential`. It
    /// lasts as long as the credential, and 12 hours at most.
    ///
    /// # Errors
    /// A credential that cannot sign, a site that refuses it, or the link is lost: then it can be tried again.
    pub async fn delegate(&self, rights: Rights) -> Result<Delegated, ClientError> {
        self.give(Request::Delegate, rights).await
    }

    /// Gives a living job another credential instead of the one it has.
    ///
    /// # Errors
    /// As [`Client::delegate`]; no such job, one that has ended, or one without a credential.
    pub async fn renew(&self, job: JobId, rights: Rights) -> Result<Renewed, ClientError> {
        self.give(Request::Renew { job }, rights).await
    }

    async fn give<T: DeserializeOwned>(
        &self,
        request: Request,
        rights: Rights,
    ) -> Result<T, ClientError> {
        let (_, stream) = self.open(request.encode()).await?;
        let (mut sender, mut receiver) = stream.split();
        let message = next_message(&mut receiver)
            .await
            .map_err(|broken| broken.told(self))?;
        let wanted = message.ok_or(ClientError::Short {
            asked: "a delegation",
        })?;
        if wanted.kind != kind::CERTIFICATE_REQUEST {
            return Err(ApiError::Kind { kind: wanted.kind }.into());
        }
        let options = Options {
            lifetime: DEFAULT_LIFETIME,
            limited: rights == Rights::Limited,
            ..Options::default()
        };
        let credential = self.credential();
        let certificate = sign(&wanted.data, credential, &options)
            .map_err(|cause: DelegationError| ClientError::Delegation { cause })?;
        sender
            .send(kind::CERTIFICATE, certificate.into())
            .await
            .map_err(|e| self.failed(e))?;
        let answer = next_message(&mut receiver)
            .await
            .map_err(|broken| broken.told(self))?;
        let answer = answer.ok_or(ClientError::Short {
            asked: "a delegation",
        })?;
        Ok(api::reply(&answer.data)?)
    }
}
