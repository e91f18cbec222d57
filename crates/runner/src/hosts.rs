//! The hosts of one MPI program (spec/jobs/mpi.md, N20 to N26): each has a runner with a sandbox, and in it a script. That of the
//! first calls the library's launcher, those of the others run what it has them run. They meet in the job's own directory, where
//! all of this is the guests' own, and no runner believes a word of it. Not here: who starts runners on hosts (kumiko-batch).

use crate::mpi::Library;
use kumiko_job::attempt::AttemptSpec;
use kumiko_job::description::Stdin;
use kumiko_policy::{Access, GuestPath, JOB_DIRECTORY, Origin, Policy, Rule};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

const SHELL: &str = "/bin/sh";
const FIRST: &str = include_str!("hosts/first.sh");
const OTHER: &str = include_str!("hosts/other.sh");
/// Where MPICH's UCX looks for the names of networks (sysfs(5)). The host's own might be another network's, and tells more.
const NETWORKS: &str = "/sys/class/net";
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

/// Has the view hold an empty place, where the script lists the networks that the guest has, unless the policy says otherwise.
fn list_networks(policy: &mut Policy) {
    let Ok(path) = GuestPath::new(NETWORKS) else {
        return;
    };
    if let Err(place) = policy.paths.binary_search_by(|rule| rule.path.cmp(&path)) {
        let rule = Rule {
            path,
            access: Access::Temporary { size_mib: None },
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
pub fn at_first(attempt: &mut AttemptSpec, ranks: u32, library: Library) {
    let hosts = count(attempt);
    let of_each = ranks.div_ceil(hosts).to_string();
    let library = match library {
        Library::Mpich => "mpich",
        Library::Openmpi => "openmpi",
    };
    let launcher = std::mem::replace(&mut attempt.executable, SHELL.to_owned());
    let script = ["-c", FIRST, "kumiko-hosts"].map(str::to_owned);
    let words = [
        meeting(attempt),
        hosts.to_string(),
        of_each,
        library.to_owned(),
        launcher,
    ];
    attempt
        .arguments
        .splice(0..0, script.into_iter().chain(words));
    list_networks(&mut attempt.policy);
}

/// Makes the attempt what it is on another host than the first: a guest that waits to be told what to run.
pub fn at_other(attempt: &mut AttemptSpec, other: Other) -> io::Result<()> {
    let own = source_to(other.first)?;
    let words = ["-c".to_owned(), OTHER.to_owned(), "kumiko-hosts".to_owned()];
    let told = [
        meeting(attempt),
        other.number.to_string(),
        own.to_string(),
        other.first.to_string(),
    ];
    attempt.executable = SHELL.to_owned();
    attempt.arguments = words.into_iter().chain(told).collect();
    list_networks(&mut attempt.policy);
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
