//! `kumiko identity ...`: thin over the identity crate.

use crate::args::{Format, Identity};
use crate::connect;
use crate::fail::{Failure, While};
use crate::home::Home;
use crate::output::{self, Show};
use kumiko_identity::ca::{self, Authority, Kind, TrustFiles};
use kumiko_identity::{
    Certificate, Credential, Dn, KeyKind, SigningPolicy, places::Places, proxy, signed,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub fn identity(verb: Identity, format: Format, home: &Home) -> Result<u8, Failure> {
    match verb {
        Identity::InitCa {
            dir,
            subject,
            rsa,
            days,
        } => {
            let options = ca::Options {
                key: kind(rsa),
                lifetime: of_days(days),
                subjects: Vec::new(),
            };
            let authority = Authority::init(&dir, &Dn::parse(&subject)?, &options)?;
            eprintln!(
                "kumiko: {} is made in {}; keep {} to yourself",
                authority.subject(),
                dir.display(),
                dir.join("private").display()
            );
        }
        Identity::Request {
            subject,
            rsa,
            key,
            request,
        } => {
            let made = ca::request(&Dn::parse(&subject)?, kind(rsa))?;
            made.key.save(&key)?;
            write(&request, &made.to_pem()?)?;
        }
        Identity::Issue {
            ca,
            request,
            hosts,
            certificate,
            days,
        } => {
            let authority = Authority::load(&ca)?;
            let pem = std::fs::read(&request).doing(|| format!("reading {}", request.display()))?;
            let issued = authority.issue(&pem, &kind_of(&hosts, &pem)?, of_days(days))?;
            write(&certificate, &issued.to_pem()?)?;
            eprintln!("kumiko: issued {}", issued.subject());
        }
        Identity::Revoke { ca, certificate } => {
            let authority = Authority::load(&ca)?;
            for certificate in certificates(&certificate)?.into_iter().take(1) {
                authority.revoke(&certificate.serial()?)?;
                eprintln!(
                    "kumiko: revoked {}; bring {} to those who trust it",
                    certificate.subject(),
                    ca.join("crl.pem").display()
                );
            }
        }
        Identity::Proxy {
            valid,
            limited,
            path_length,
            cert,
            key,
            globus,
            out,
        } => {
            let options = proxy::Options {
                lifetime: valid,
                limited,
                path_length,
                ..proxy::Options::default()
            };
            make_proxy(&options, globus, cert, key, out)?;
        }
        Identity::Sign {
            policy,
            cert,
            key,
            out,
        } => {
            let text = std::fs::read_to_string(&policy)
                .doing(|| format!("reading {}", policy.display()))?;
            // What sites would refuse is better not signed.
            let vo = kumiko_policy::parse_vo(&text, &policy.display().to_string())?;
            let (certificate, key) = own_pair(&Places::of_this_process()?, cert, key)?;
            let signer = Credential::load_pair(&certificate, &key)?;
            write(&out, &signed::sign(text.as_bytes(), &signer)?)?;
            eprintln!(
                "kumiko: the policy of {} for {} members, signed by {}, is in {}",
                vo.vo,
                vo.members.len(),
                signer.subject(),
                out.display()
            );
        }
        Identity::Show { file } => {
            let credential = match file {
                Some(path) => return show_file(&path, format),
                None => connect::own_credential(home)?,
            };
            output::one(
                format,
                &Shown::of(
                    credential.chain(),
                    &credential.proxy_kind().to_string(),
                    credential.not_after(),
                ),
            )?;
        }
        Identity::Trust { ca, directory } => trust(&ca, directory)?,
    }
    Ok(0)
}

fn kind(rsa: bool) -> KeyKind {
    if rsa {
        KeyKind::Rsa(2048)
    } else {
        KeyKind::P256
    }
}

/// A request whose subject ends in CN=host/NAME is for a host, named or not.
fn kind_of(hosts: &[String], request: &[u8]) -> Result<Kind, Failure> {
    let subject = ca::request_subject(request)?;
    let of_host = subject
        .common_name()
        .is_some_and(|cn| cn.starts_with("host/"));
    Ok(if hosts.is_empty() && !of_host {
        Kind::User
    } else {
        Kind::Host {
            names: hosts.to_vec(),
        }
    })
}

fn of_days(days: u32) -> Duration {
    Duration::from_secs(u64::from(days) * 24 * 3600)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).doing(|| format!("writing {}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, Failure> {
    let pem = std::fs::read(path).doing(|| format!("reading {}", path.display()))?;
    Certificate::bundle_from_pem(&pem).doing(|| path.display().to_string())
}

/// The files given, else the usual ones.
fn own_pair(
    places: &Places,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<(PathBuf, PathBuf), Failure> {
    let usual = places.user_pair();
    let nowhere = || Failure::misuse("HOME is not set: say --cert and --key");
    let certificate = match certificate {
        Some(path) => path,
        None => usual.clone().ok_or_else(nowhere)?.0,
    };
    let key = match key {
        Some(path) => path,
        None => usual.ok_or_else(nowhere)?.1,
    };
    Ok((certificate, key))
}

/// `globus`: with keys that Globus programs can delegate on from.
fn make_proxy(
    options: &proxy::Options,
    globus: bool,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    out: Option<PathBuf>,
) -> Result<(), Failure> {
    let places = Places::of_this_process()?;
    let (certificate, key) = own_pair(&places, certificate, key)?;
    let issuer = Credential::load_pair(&certificate, &key)?;
    let mut made = proxy::create(&issuer, options)?;
    if globus {
        made = proxy::for_globus(&made)?;
    }
    let out = out.unwrap_or_else(|| places.proxy());
    made.save_proxy(&out)?;
    let left = made.remaining(SystemTime::now());
    eprintln!(
        "kumiko: {} for {} in {}, valid for {}",
        made.proxy_kind(),
        made.identity(),
        out.display(),
        hours(left)
    );
    if left + Duration::from_secs(60) < options.lifetime {
        eprintln!("kumiko: it ends with the certificate it hangs on, earlier than asked");
    }
    Ok(())
}

/// With its signing policy and revocation list where the CA's folder has them; a bare certificate gets a policy for the
/// names below its own.
fn trust(ca: &Path, directory: Option<PathBuf>) -> Result<(), Failure> {
    let directory = match directory {
        Some(directory) => directory,
        None => Places::of_this_process()?.trust_dir(|d| d.is_dir()),
    };
    let files = if ca.is_dir() {
        let read = |name: &str| std::fs::read(ca.join(name));
        let certificate = first(&ca.join("ca-cert.pem"))?;
        let policy = read("signing_policy")
            .doing(|| format!("reading {}", ca.join("signing_policy").display()))?;
        TrustFiles {
            certificate,
            policy: String::from_utf8(policy)?,
            crl: read("crl.pem").ok(),
        }
    } else {
        let certificate = first(ca)?;
        let policy = SigningPolicy::text_for(
            certificate.subject(),
            &[format!("{}/*", certificate.subject().parent())],
        );
        TrustFiles {
            certificate,
            policy,
            crl: None,
        }
    };
    ca::install_trust(&directory, &files)?;
    eprintln!(
        "kumiko: {} is trusted in {}",
        files.certificate.subject(),
        directory.display()
    );
    Ok(())
}

fn first(path: &Path) -> Result<Certificate, Failure> {
    certificates(path)?
        .into_iter()
        .next()
        .ok_or_else(|| Failure::from_text(format!("{} holds no certificate", path.display())))
}

fn show_file(path: &Path, format: Format) -> Result<u8, Failure> {
    let chain = certificates(path)?;
    let Some(leaf) = chain.first() else {
        return Err(Failure::from_text(format!(
            "{} holds no certificate",
            path.display()
        )));
    };
    let kind = if leaf.is_proxy() {
        "proxy"
    } else if leaf.fields().is_ca {
        "authority"
    } else {
        "end entity"
    };
    output::one(format, &Shown::of(&chain, kind, leaf.fields().not_after))?;
    Ok(0)
}

#[derive(Serialize)]
struct Shown {
    subject: String,
    issuer: String,
    identity: String,
    kind: String,
    /// Seconds; 0 when it has ended.
    time_left_s: u64,
    chain: Vec<String>,
}

impl Shown {
    fn of(chain: &[Certificate], kind: &str, not_after: SystemTime) -> Shown {
        let identity = chain.iter().find(|c| !c.is_proxy()).or(chain.last());
        let text = |c: Option<&Certificate>| c.map(|c| c.subject().to_string()).unwrap_or_default();
        Shown {
            subject: text(chain.first()),
            issuer: chain
                .first()
                .map(|c| c.issuer().to_string())
                .unwrap_or_default(),
            identity: text(identity),
            kind: kind.to_owned(),
            time_left_s: not_after
                .duration_since(SystemTime::now())
                .map_or(0, |d| d.as_secs()),
            chain: chain.iter().map(|c| c.subject().to_string()).collect(),
        }
    }
}

impl Show for Shown {
    fn human(&self) -> String {
        format!(
            "subject    {}\nissuer     {}\nidentity   {}\nkind       {}\ntime left  {}\n",
            self.subject,
            self.issuer,
            self.identity,
            self.kind,
            hours(Duration::from_secs(self.time_left_s))
        )
    }
}

fn hours(left: Duration) -> String {
    match left.as_secs() {
        0 => "ended".to_owned(),
        s if s >= 48 * 3600 => format!("{} days", s / 86_400),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}
