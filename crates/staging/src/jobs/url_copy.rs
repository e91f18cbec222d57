//! GridFTP, by the packaged globus-url-copy as the job's user (S8): it knows the credential by a file of ours that goes with
//! it, and our files by what it has open or by names in our own directory. Never by a name in the job's.

use super::{Inner, blocking, places};
use crate::fault::TransferError;
use kumiko_identity::{Credential, proxy};
use kumiko_job::transfer::Work;
use kumiko_job::url::Url;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// What of its words is told on.
const SAID_BYTES: usize = 2000;

/// A file of ours that goes when this does. A site that is killed leaves it to `forget`.
struct Passing(PathBuf);

impl Drop for Passing {
    fn drop(&mut self) {
        // `forget` removes what stays.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn fresh(place: &Path, kind: &str) -> PathBuf {
    let random = || RandomState::new().build_hasher().finish();
    place.join(format!("{:016x}{:016x}.{kind}", random(), random()))
}

pub async fn fetch(
    ours: &Arc<Inner>,
    job: &Work,
    url: &Url,
    part: &Path,
) -> Result<(), TransferError> {
    // One that a killed site had started may still write a moment: so each has a file of its own.
    let own = Passing(fresh(
        &places::under_way(&ours.setup.directory, job.job),
        "gsiftp",
    ));
    let to = format!("file://{}", encoded(&own.0));
    run(ours, job, url, url.as_str(), &to, None).await?;
    let part = part.to_owned();
    blocking(move || std::fs::rename(&own.0, &part).map_err(TransferError::local("moving", &part)))
        .await
}

pub async fn send(
    ours: &Arc<Inner>,
    job: &Work,
    file: File,
    url: &Url,
) -> Result<u64, TransferError> {
    let bytes = file
        .metadata()
        .map_err(TransferError::local(
            "reading",
            Path::new("a file of the job"),
        ))?
        .len();
    // What it is given is open already: no name of the job's directory is looked up again.
    run(ours, job, url, "file:///dev/fd/0", url.as_str(), Some(file)).await?;
    Ok(bytes)
}

fn encoded(path: &Path) -> String {
    kumiko_job::url::encode(path.as_os_str().as_encoded_bytes())
}

/// The address of this host that a server may be told, where the host's own name has none: without a name or this the tool
/// refuses to listen for data.
async fn own_address(url: &Url) -> Option<IpAddr> {
    let name = kumiko_linux::this_process::host_name();
    if tokio::net::lookup_host((name, 0)).await.is_ok() {
        return None;
    }
    // Nothing is sent: connecting asks the kernel for the way, and so for our end of it.
    let server = url.server.as_ref()?;
    let there = tokio::net::lookup_host((server.host.as_str(), server.port));
    let there = there.await.ok()?.next()?;
    let any: IpAddr = match there {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = tokio::net::UdpSocket::bind((any, 0)).await.ok()?;
    socket.connect(there).await.ok()?;
    Some(socket.local_addr().ok()?.ip())
}

async fn run(
    ours: &Arc<Inner>,
    job: &Work,
    url: &Url,
    from: &str,
    to: &str,
    stdin: Option<File>,
) -> Result<(), TransferError> {
    let credential = job
        .credential
        .as_ref()
        .ok_or_else(|| TransferError::NoCredential {
            url: url.to_string(),
        })?;
    let place = places::under_way(&ours.setup.directory, job.job);
    let passing = Passing(fresh(&place, "proxy"));
    let (pem, path) = (credential.clone(), passing.0.clone());
    blocking(move || {
        if let Some(above) = path.parent() {
            places::private(above).map_err(TransferError::local("making", above))?;
        }
        let given = Credential::from_proxy_pem(&pem)
            .map_err(|cause| TransferError::Credential { cause })?;
        let usable = proxy::for_globus(&given).map_err(|cause| TransferError::Proxy { cause })?;
        usable
            .save_proxy(&path)
            .map_err(|cause| TransferError::Credential { cause })
    })
    .await?;

    let mut command = Command::new(&ours.setup.url_copy);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &place)
        .env("X509_USER_PROXY", &passing.0)
        .env("X509_CERT_DIR", &ours.setup.trust_dir)
        .current_dir(&place)
        .arg("-stall-timeout")
        .arg(ours.setup.stall.as_secs().max(1).to_string())
        .args([from, to])
        .stdin(stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(address) = own_address(url).await {
        command.env("GLOBUS_HOSTNAME", address.to_string());
    }
    // What a killed site started does not write on beside what the next one starts.
    kumiko_linux::process::end_with_parent(command.as_std_mut());
    let failed = |cause: io::Error| match cause.kind() {
        io::ErrorKind::NotFound => TransferError::NoProgram {
            program: ours.setup.url_copy.display().to_string(),
            url: url.to_string(),
        },
        _ => TransferError::Local {
            doing: "starting",
            path: ours.setup.url_copy.clone(),
            cause,
        },
    };
    let mut child = command.spawn().map_err(failed)?;
    let mut said = Vec::new();
    if let Some(words) = child.stderr.take() {
        // It has little to say; what is more is read and dropped, so that it is not held up.
        let mut words = words.take(1 << 20);
        words.read_to_end(&mut said).await.map_err(failed)?;
    }
    let status = child.wait().await.map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&said);
    let words: String = words.trim().chars().take(SAID_BYTES).collect();
    Err(TransferError::UrlCopy {
        url: url.to_string(),
        said: format!("{words} ({status})"),
    })
}
