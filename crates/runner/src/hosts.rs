//! The hosts of one MPI program (spec/jobs/mpi.md, N20 to N27): each has a runner with a sandbox, and in it this program once more,
//! as a guest. That of the first calls the library's launcher, those of the others run what it has them run, over connections of
//! the guests' own, of which no runner believes a word. Of several sites each has a guest that passes on what MPICH's launcher, which
//! is elsewhere, says to its proxy here. Not here: who starts runners on hosts (kumiko-batch).

mod first;
mod hub;
mod meeting;
mod other;
mod proxy;

use crate::mpi::Library;
use kumiko_job::attempt::AttemptSpec;
use kumiko_job::description::Stdin;
use kumiko_policy::{Access, GuestPath, JOB_DIRECTORY, Origin, Policy, Real, Rule};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;

/// This program in the guest's view: at the top, which is the view's own, so that the place can be made whatever the policy shows.
const GUEST: &str = "/kumiko-hosts";
/// The same, in the place of ssh.
const LAUNCH: &str = "/kumiko-launch";
/// Where MPICH's UCX looks for the names of networks (sysfs(5)). The host's own might be another network's, and tells more.
const NETWORKS: &str = "/sys/class/net";
/// As `kumiko job run` has it of failures that are not the program's.
const OWN_FAILURE: u8 = 125;
/// Of a connection that is never made: the kernel only says which of our addresses it would come from (udp(7)).
const ANY_PORT: u16 = 9;

/// Which of an attempt's hosts this is, if it is not the first.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    /// From 1.
    pub number: u32,
    /// Address of the first.
    pub first: IpAddr,
}

/// How many hosts an attempt has.
pub fn count(attempt: &AttemptSpec) -> u32 {
    match attempt.mpi {
        Some(_) => attempt.resources.host_count.unwrap_or(1).max(1),
        None => 1,
    }
}

/// Where they meet, in the guest's view; another attempt of the job meets elsewhere.
fn meeting(attempt: &AttemptSpec) -> String {
    format!("{JOB_DIRECTORY}/.hosts-{}", attempt.id)
}

/// Has the view hold this program, and an empty place in which the networks that the guest has are listed, unless the policy says
/// otherwise of that.
fn show(policy: &mut Policy) -> io::Result<()> {
    let own = std::fs::read_link("/proc/self/exe")?;
    let own = own.to_str().and_then(|own| GuestPath::new(own).ok());
    let program = Access::Read {
        real: Real::Host {
            root: own.ok_or(io::ErrorKind::InvalidInput)?,
            beneath: String::new(),
        },
        optional: false,
    };
    add(policy, GUEST, program.clone());
    add(policy, LAUNCH, program);
    add(policy, NETWORKS, Access::Temporary { size_mib: None });
    Ok(())
}

fn add(policy: &mut Policy, path: &str, access: Access) {
    let Ok(path) = GuestPath::new(path) else {
        return;
    };
    if let Err(place) = policy.paths.binary_search_by(|rule| rule.path.cmp(&path)) {
        let rule = Rule {
            path,
            access,
            execute: true,
            origin: Origin {
                source: "MPI over hosts".to_owned(),
                line: 0,
            },
        };
        policy.paths.insert(place, rule);
    }
}

/// Has the launcher, which the attempt's guest is by now, called with the addresses of all hosts.
pub fn at_first(attempt: &mut AttemptSpec, ranks: u32, library: Library) -> io::Result<()> {
    let hosts = count(attempt);
    let of_each = ranks.div_ceil(hosts).to_string();
    let library = match library {
        Library::Mpich => "mpich",
        Library::Openmpi => "openmpi",
    };
    let launcher = std::mem::replace(&mut attempt.executable, GUEST.to_owned());
    let words = [
        "first".to_owned(),
        meeting(attempt),
        hosts.to_string(),
        of_each,
        library.to_owned(),
        launcher,
    ];
    attempt.arguments.splice(0..0, words);
    show(&mut attempt.policy)
}

/// Has MPICH's proxy, which the attempt's guest is by now, called with its launcher at our own stdin and stdout.
pub fn at_site(attempt: &mut AttemptSpec) -> io::Result<()> {
    let proxy = std::mem::replace(&mut attempt.executable, GUEST.to_owned());
    attempt.arguments.splice(0..0, ["proxy".to_owned(), proxy]);
    show(&mut attempt.policy)
}

/// Makes the attempt what it is on another host than the first: a guest that waits to be told what to run.
pub fn at_other(attempt: &mut AttemptSpec, other: Other) -> io::Result<()> {
    let own = source_to(other.first)?;
    let words = [
        "other".to_owned(),
        meeting(attempt),
        other.number.to_string(),
        own.to_string(),
        other.first.to_string(),
    ];
    attempt.executable = GUEST.to_owned();
    attempt.arguments = words.into();
    show(&mut attempt.policy)?;
    attempt.stdin = Stdin::Empty;
    // It waits for the first, which may be held.
    attempt.hold_ms = None;
    attempt.count = 1;
    Ok(())
}

/// Our address on the way to another host.
fn source_to(host: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match host {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((host, ANY_PORT))?;
    Ok(socket.local_addr()?.ip())
}

/// What a process of this name does where it is a guest: its exit status. None: it is none.
pub fn as_guest(name: Option<OsString>, words: &[OsString]) -> Option<u8> {
    let name = name?;
    let name = Path::new(&name).file_name()?.to_str()?;
    let is = |path: &str| path.strip_prefix('/') == Some(name);
    let text = || -> Vec<String> {
        let words = words.iter().skip(1);
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    };
    match words.first().and_then(|word| word.to_str()) {
        _ if is(LAUNCH) => Some(status(other::launch(words))),
        Some("first") if is(GUEST) => Some(status(first::run(&text()).map(|()| 0))),
        Some("other") if is(GUEST) => Some(status(other::run(&text()))),
        Some("proxy") if is(GUEST) => Some(status(proxy::run(&text()))),
        _ => None,
    }
}

fn status<E: std::fmt::Display>(ended: Result<u8, E>) -> u8 {
    ended.unwrap_or_else(|error| {
        eprintln!("kumiko: {error}");
        OWN_FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::source_to;
    use std::net::IpAddr;

    #[test]
    fn the_way_to_oneself_begins_where_it_ends() {
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(source_to(here).unwrap(), here);
    }
}
