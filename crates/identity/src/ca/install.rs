//! Putting a CA into a trust directory, where `trust` and GT's programs look for it (spec/identity, clause T1).

use std::path::Path;

use super::{CaError, io};
use crate::certificate::Certificate;
use crate::key;
use crate::signing_policy::SigningPolicy;

/// What trusting a CA takes.
#[derive(Debug, Clone)]
pub struct TrustFiles {
    pub certificate: Certificate,
    /// The text of its signing policy.
    pub policy: String,
    /// Its CRL, PEM.
    pub crl: Option<Vec<u8>>,
}

/// Two CAs of the same hash are one in 2^32, renewed ones a few.
const MAX_SLOTS: u32 = 100;

/// Writes `<hash>.N`, `<hash>.signing_policy` and `<hash>.rN` into `dir`, which is made if it is not there. Once more
/// with a newer CRL or policy brings them up to date.
pub fn install_trust(dir: &Path, files: &TrustFiles) -> Result<(), CaError> {
    let subject = files.certificate.subject();
    if !files.certificate.fields().is_ca {
        return Err(CaError::NotCa {
            subject: subject.clone(),
        });
    }
    if !SigningPolicy::parse(&files.policy)?.knows(subject) {
        return Err(CaError::PolicyOfOther {
            ca: subject.clone(),
        });
    }
    std::fs::create_dir_all(dir).map_err(io("make", dir))?;
    let hash = files.certificate.subject_hash();
    let taken = || CaError::HashTaken {
        dir: dir.to_owned(),
        hash: hash.clone(),
        subject: subject.clone(),
    };
    let mut slot = None;
    for number in 0..MAX_SLOTS {
        let path = dir.join(format!("{hash}.{number}"));
        if !path.exists() {
            slot = Some(number);
            break;
        }
        let pem = std::fs::read(&path).map_err(io("read", &path))?;
        for there in Certificate::bundle_from_pem(&pem)?.into_iter().take(1) {
            if there == files.certificate {
                slot = Some(number);
            } else if there.subject() != subject {
                return Err(taken());
            }
        }
        if slot.is_some() {
            break;
        }
    }
    let slot = slot.ok_or_else(taken)?;
    let put = |name: String, contents: &[u8]| key::replace_file(&dir.join(name), contents, 0o644);
    // The certificate last: a CA is trusted only when all that limits it is there.
    put(format!("{hash}.signing_policy"), files.policy.as_bytes())?;
    if let Some(crl) = &files.crl {
        put(format!("{hash}.r{slot}"), crl)?;
    }
    put(format!("{hash}.{slot}"), &files.certificate.to_pem()?)?;
    Ok(())
}
