//! On the first host of an MPI program (spec/jobs/mpi.md, N22), as a guest: once all others are there it becomes the launcher.

use super::meeting::{self, VARIABLE};
use super::{LAUNCH, NETWORKS, hub::Hub};
use kumiko_linux::process;
use kumiko_linux::signals::{self, Signals};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// An engine starts all of a job at once, or says why not.
const THERE_WITHIN: Duration = Duration::from_secs(120);
/// What fails because the program ends is not why it ends.
const HEEDED_AFTER: Duration = Duration::from_secs(1);
const SIGTERM: i32 = 15;

#[derive(Debug, thiserror::Error)]
pub enum FirstError {
    #[error("usage: MEETING HOSTS RANKS LIBRARY LAUNCHER ARGUMENT...")]
    Misuse,
    #[error("host {number} of this job's {hosts} did not come up within {THERE_WITHIN:.0?}")]
    Missing { number: usize, hosts: usize },
    #[error("{0}")]
    Failed(String),
    #[error("cannot {tried}: {cause}")]
    Kernel {
        tried: &'static str,
        cause: io::Error,
    },
    #[error("cannot start {launcher}: {cause}")]
    Launcher { launcher: String, cause: io::Error },
}

fn failed(tried: &'static str) -> impl FnOnce(io::Error) -> FirstError {
    move |cause| FirstError::Kernel { tried, cause }
}

/// Returns if it fails.
pub fn run(words: &[String]) -> Result<(), FirstError> {
    let [place, hosts, ranks, library, launcher, arguments @ ..] = words else {
        return Err(FirstError::Misuse);
    };
    let hosts: usize = hosts.parse().map_err(|_| FirstError::Misuse)?;
    meeting::list_networks(NETWORKS);
    let place = Path::new(place);
    let mut hub = Hub::open(hosts.saturating_sub(1)).map_err(failed("listen for the others"))?;
    let door = hub.door().map_err(failed("listen for the others"))?;
    door.publish(place)
        .map_err(failed("write where the others find this host"))?;
    gather(&mut hub, hosts)?;
    let addresses: Vec<(IpAddr, IpAddr)> = hub.addresses().collect();
    let (_, own) = *addresses.first().ok_or(FirstError::Misuse)?;
    let all: Vec<IpAddr> = [own]
        .into_iter()
        .chain(addresses.iter().map(|(other, _)| *other))
        .collect();
    let mut command = Command::new(launcher);
    name_hosts(&mut command, library, &all, ranks, place).map_err(failed("list the hosts"))?;
    command.args(arguments);
    command.env(
        VARIABLE,
        format!("{} {}", SocketAddr::from((own, door.port)), door.secret),
    );
    let this = process::pidfd(std::process::id() as i32).map_err(failed("watch the launcher"))?;
    process::copy(move || serve(hub, &this))
        .map_err(failed("make the process that tells hosts"))?;
    let (launcher, cause) = (launcher.clone(), command.exec());
    Err(FirstError::Launcher { launcher, cause })
}

fn gather(hub: &mut Hub, hosts: usize) -> Result<(), FirstError> {
    let begun = Instant::now();
    while let Some(number) = hub.missing() {
        let left = THERE_WITHIN.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(FirstError::Missing { number, hosts });
        }
        let gone = hub
            .turn(Some(left))
            .map_err(failed("wait for the others"))?;
        if let Some(gone) = gone.into_iter().next() {
            return Err(FirstError::Failed(gone));
        }
    }
    Ok(())
}

/// Tells hosts what to run and their callers how that ended. A host on which nothing came of it would be waited for in vain where
/// the launcher does not heed this.
fn serve(mut hub: Hub, launcher: &OwnedFd) -> u8 {
    // The launcher is told when it is to end, and this is its child.
    let _held = Signals::hold(&[SIGTERM]);
    let mut failure: Option<(Instant, String)> = None;
    let mut heeded = false;
    loop {
        let wait = match (&failure, heeded) {
            (Some((at, _)), false) => Some(HEEDED_AFTER.saturating_sub(at.elapsed())),
            _ => None,
        };
        if let (Some((_, words)), Some(Duration::ZERO)) = (&failure, wait) {
            let _ = writeln!(io::stderr(), "kumiko: {words}");
            let _ = process::signal(launcher.as_fd(), SIGTERM); // it may have ended
            heeded = true;
            continue;
        }
        let Ok(failed) = hub.turn(wait) else {
            return 1;
        };
        let first = failed.into_iter().next();
        failure = failure.or(first.map(|words| (Instant::now(), words)));
    }
}

/// By the launcher's own words for hosts, and for what stands for ssh.
fn name_hosts(
    launcher: &mut Command,
    library: &str,
    hosts: &[IpAddr],
    ranks: &str,
    place: &Path,
) -> io::Result<()> {
    for name in [
        "HYDRA_LAUNCHER_EXEC",
        "OMPI_MCA_plm_rsh_agent",
        "PRTE_MCA_plm_ssh_agent",
    ] {
        launcher.env(name, LAUNCH);
    }
    // All at once: one that has been called stays.
    for name in [
        "OMPI_MCA_plm_rsh_num_concurrent",
        "PRTE_MCA_plm_ssh_num_concurrent",
    ] {
        launcher.env(name, hosts.len().to_string());
    }
    if library == "mpich" {
        let of_each = |host: &IpAddr| format!("{host}:{ranks}");
        let all: Vec<String> = hosts.iter().map(of_each).collect();
        // Of a program that ends at once it tells the end of stdin to a proxy that has gone, and would die of that.
        signals::ignore_closed_pipes(launcher);
        // MPICH's would tell the others the name of its host, which need not lead here.
        let own = hosts.first().map_or(String::new(), IpAddr::to_string);
        launcher.args(["-localhost", &own, "-hosts", &all.join(",")]);
        return Ok(());
    }
    // A list in a file: of `--host` Open MPI 5 takes the first host's number for 1. Attached: what is called stays, for a room
    // ends with its first guest, and the variable alone does not keep it from leaving.
    let list = place.join("hosts");
    let lines = hosts.iter().map(|host| format!("{host} slots={ranks}\n"));
    std::fs::write(&list, lines.collect::<String>())?;
    launcher
        .args(["--leave-session-attached", "--hostfile"])
        .arg(list);
    Ok(())
}
