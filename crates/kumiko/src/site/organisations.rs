//! Virtual organisations that a site trusts, and the policies that their administrators signed (spec/policy, P42, P43).
//! Not here: how policies are laid over each other (kumiko-policy), who may sign in this world (kumiko-identity).

use crate::site::edited::{Stamp, stamp};
use kumiko_identity::signed::{self, MAX_SIGNED_BYTES};
use kumiko_identity::{Dn, TrustStore};
use kumiko_job::contract::Refusal;
use kumiko_policy::{Policy, VoPolicy, parse_vo};
use serde::Deserialize;
use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A signature that was believed is looked at again after this: revocation lists change.
const BELIEVED_FOR: Duration = Duration::from_secs(60);

/// One organisation, as the site's owner writes it into site.toml.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Organisation {
    pub name: String,
    /// Subject of the certificate that signs its policy.
    pub administrator: String,
    /// The signed policy: a file, or an `https` address to fetch it from.
    pub policy: String,
}

impl Organisation {
    /// Where it is fetched from; None: it is a file of the host.
    pub fn address(&self) -> Option<&str> {
        Some(self.policy.as_str()).filter(|policy| policy.starts_with("https://"))
    }
}

/// All of a site, with what was read of them.
pub struct Organisations {
    pub(super) list: Vec<Organisation>,
    pub(super) trust: PathBuf,
    /// Where those that are fetched are kept, each by its name.
    pub(super) fetched: PathBuf,
    kept: Mutex<Vec<Option<Arc<Kept>>>>,
}

struct Kept {
    stamp: Stamp,
    believed: Instant,
    members: HashSet<String>,
    vo: VoPolicy,
}

impl Organisations {
    /// `fetched`: a directory of this process's account.
    pub fn new(list: Vec<Organisation>, trust: PathBuf, fetched: PathBuf) -> Organisations {
        let kept = Mutex::new(list.iter().map(|_| None).collect());
        Organisations {
            list,
            trust,
            fetched,
            kept,
        }
    }

    /// Where the signed policies are read from.
    pub fn places(&self) -> impl Iterator<Item = PathBuf> {
        self.list.iter().map(|one| self.place(one))
    }

    /// Where one is read from.
    pub(super) fn place(&self, one: &Organisation) -> PathBuf {
        match one.address() {
            Some(_) => self.fetched.join(format!("{}.vo", one.name)),
            None => PathBuf::from(&one.policy),
        }
    }

    /// The policy that the caller is under: that of the organisation asked for, else of the first that lists them; None
    /// if none does.
    ///
    /// # Errors
    /// The organisation asked for is not trusted here or does not list the caller; or the policy of one that may list
    /// them cannot be believed, and then nobody knows what it would forbid.
    pub fn policy_of(&self, caller: &str, asked: Option<&str>) -> Result<Option<Policy>, Refusal> {
        let wanted = |one: &&Organisation| asked.is_none_or(|name| name == one.name);
        let mut known = false;
        for (at, one) in self.list.iter().enumerate().filter(|(_, one)| wanted(one)) {
            known = true;
            let kept = self.look(at, one)?;
            if !kept.members.contains(caller) {
                continue;
            }
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            if now.map_or(0, |now| now.as_secs()) >= kept.vo.expires_s {
                return Err(unusable(
                    one,
                    "it has expired: its administrator has to sign a new one",
                ));
            }
            return Ok(Some(kept.vo.policy.clone()));
        }
        match asked {
            None => Ok(None),
            Some(name) if known => Err(Refusal::new(
                "not_a_member",
                format!(
                    "the policy of {name} does not list {caller}: ask its administrator, or name another organisation"
                ),
            )),
            Some(name) => {
                let known: Vec<&str> = self.list.iter().map(|one| one.name.as_str()).collect();
                let known = match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.join(", "),
                };
                Err(Refusal::new(
                    "unknown_vo",
                    format!("this site trusts no virtual organisation {name} (it trusts: {known})"),
                ))
            }
        }
    }

    fn look(&self, at: usize, one: &Organisation) -> Result<Arc<Kept>, Refusal> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.place(one);
        let stamp = std::fs::metadata(&place).map(|_| stamp(&place));
        let stamp = stamp.map_err(|error| match one.address() {
            Some(_) if error.kind() == std::io::ErrorKind::NotFound => {
                unusable(one, "it could not be fetched yet; the site's log says why")
            }
            _ => unusable(one, &error.to_string()),
        })?;
        if let Some(Some(known)) = kept.get(at) {
            if known.stamp == stamp && known.believed.elapsed() < BELIEVED_FOR {
                return Ok(Arc::clone(known));
            }
        }
        let trust = TrustStore::load(&self.trust).map_err(|e| unusable(one, &e.to_string()))?;
        let pem = bytes(&place).map_err(|error| unusable(one, &error.to_string()))?;
        let (vo, members) = believe(one, &pem, &trust)?;
        let fresh = Arc::new(Kept {
            stamp,
            believed: Instant::now(),
            members,
            vo,
        });
        if let Some(place) = kept.get_mut(at) {
            *place = Some(Arc::clone(&fresh));
        }
        Ok(fresh)
    }
}

/// Its policy and members, if its administrator has signed them.
pub(super) fn believe(
    one: &Organisation,
    pem: &[u8],
    trust: &TrustStore,
) -> Result<(VoPolicy, HashSet<String>), Refusal> {
    let wrong = |why: &dyn std::fmt::Display| unusable(one, &why.to_string());
    let (text, signer) = signed::open(pem, trust, SystemTime::now()).map_err(|e| wrong(&e))?;
    let administrator = Dn::parse(&one.administrator).map_err(|error| wrong(&error))?;
    if signer.identity != administrator {
        let why = format!(
            "{} signed it, who is not its administrator",
            signer.identity
        );
        return Err(wrong(&why));
    }
    let text = String::from_utf8(text).map_err(|error| wrong(&error))?;
    let source = format!("policy of {}, signed by {administrator}", one.name);
    let vo = parse_vo(&text, &source).map_err(|error| wrong(&error))?;
    if vo.vo != one.name {
        return Err(wrong(&format!("it is the policy of {}", vo.vo)));
    }
    // Subjects are compared in the one form that verified chains are told in.
    let names = vo.members.iter().map(|name| Dn::parse(name));
    let members: Result<HashSet<String>, _> = names.map(|dn| dn.map(|dn| dn.to_string())).collect();
    Ok((vo, members.map_err(|error| wrong(&error))?))
}

/// At most as much as is read of it, and one byte to tell.
pub(super) fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = MAX_SIGNED_BYTES as u64 + 1;
    std::fs::File::open(path)?
        .take(most)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn unusable(one: &Organisation, why: &str) -> Refusal {
    Refusal::new(
        "vo_policy",
        format!(
            "the policy of the virtual organisation {}, {}, cannot be used: {why}",
            one.name, one.policy
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiko_testkit::Ca;

    const TEXT: &str = "vo = 'lattice'\nexpires = 2100-01-01T00:00:00Z\nmembers = ['/O=Grid/OU=Test/CN=Alice']\n[policy]\nnetwork = 'none'";

    #[test]
    fn members_are_under_the_policy_that_their_administrator_signed() {
        let ca = Ca::new();
        let (admin, path) = (ca.user("Admin"), ca.trust_dir().join("lattice.vo"));
        let put = |text: &str, signer: &kumiko_identity::Credential| {
            // A new file each time: the old one's time of change may be the same to the kernel's tick.
            std::fs::write(&path, signed::sign(text.as_bytes(), signer).unwrap()).unwrap();
            let one = Organisation {
                name: "lattice".to_owned(),
                administrator: admin.subject().to_string(),
                policy: path.display().to_string(),
            };
            Organisations::new(vec![one], ca.trust_dir(), PathBuf::new())
        };
        let alice = ca.name("Alice").to_string();
        let bob = ca.name("Bob").to_string();
        let good = put(TEXT, &admin);
        let check = |all: &Organisations, caller: &str, asked: Option<&str>, expected: &str| {
            let told = match all.policy_of(caller, asked) {
                Ok(None) => "none".to_owned(),
                Ok(Some(policy)) => policy.layers.join("; "),
                Err(refusal) => format!("{}: {}", refusal.code, refusal.message),
            };
            assert!(told.contains(expected), "{caller} {asked:?}: {told}");
        };
        let signed = format!("policy of lattice, signed by {}", admin.subject());
        check(&good, &alice, None, &signed);
        check(&good, &alice, Some("lattice"), &signed);
        check(&good, &bob, None, "none");
        check(&good, &bob, Some("lattice"), "not_a_member");
        check(&good, &alice, Some("other"), "unknown_vo");
        check(&put(TEXT, &ca.user("Alice")), &alice, None, "vo_policy: ");
        check(
            &put(TEXT, &ca.user("Alice")),
            &bob,
            None,
            "not its administrator",
        );
        let old = TEXT.replace("2100", "2020");
        check(&put(&old, &admin), &alice, None, "has expired");
        check(&put(&old, &admin), &bob, None, "none");
        let other = TEXT.replace("'lattice'", "'latticf'");
        check(&put(&other, &admin), &alice, None, "the policy of latticf");
        let nameless = TEXT.replace("/O=Grid/OU=Test/CN=Alice", "Alice");
        check(&put(&nameless, &admin), &alice, None, "vo_policy");
        std::fs::write(&path, TEXT).unwrap();
        let unsigned = Organisations::new(good.list.clone(), ca.trust_dir(), PathBuf::new());
        check(&unsigned, &alice, None, "no signed text");
        std::fs::remove_file(&path).unwrap();
        check(&good, &bob, None, "vo_policy");
    }
}
