//! The filter of a guest whose calls are answered, made of the table. Not in it: the answers.

use super::table::{Decision, TABLE};
use crate::library;
use kumiko_linux::cell::{Filter, Verdict};
use kumiko_linux::supervise::Errno;
use kumiko_policy::Network;

/// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET (sched.h).
const NEW_NAMESPACES: u32 = 0x7E02_0000;
/// CLONE_NEWTIME, to unshare(2) alone.
const NEW_TIME: u32 = 0x80;
const CLONE_UNTRACED: u32 = 0x0080_0000;
const CLONE_THREAD: u32 = 0x0001_0000;
const CLONE_FILES: u32 = 0x400;
const CLOSE_RANGE_UNSHARE: u32 = 2;
/// Input put into a terminal (ioctl_tty(2)); what changes files that are open to be read: attributes (ioctl_iflags(2)),
/// snapshots and volumes of btrfs.
const FORBIDDEN_REQUESTS: [u32; 11] = [
    0x5412,
    0x541C,
    0x4008_6602,
    0x4004_6602,
    0x401C_5820,
    0x5000_9401,
    0x5000_940E,
    0x5000_940F,
    0x5000_9417,
    0x5000_9418,
    0x5000_943F,
];
/// AF_UNIX, AF_INET, AF_INET6, AF_NETLINK.
const FAMILIES: [u32; 4] = [1, 2, 10, 16];
const UNIX: u32 = 1;
/// SOCK_DGRAM, with SOCK_NONBLOCK and SOCK_CLOEXEC or without.
const DATAGRAMS: [u32; 4] = [2, 0x802, 0x8_0002, 0x8_0802];
/// SECCOMP_FILTER_FLAG_NEW_LISTENER: an answer "carry on" of an inner listener would go over a tracer's head.
const NEW_LISTENER: u32 = 8;
const PR_SET_DUMPABLE: u32 = 4;
/// SO_MAX_PACING_RATE, whatever the level, as under `namespace`.
const PACE: u32 = 47;
/// MSG_FASTOPEN.
const FAST_OPEN: u32 = 0x2000_0000;
/// Levels and options that send over other addresses than the one that is named: IP_OPTIONS; IPV6_2292RTHDR,
/// IPV6_2292PKTOPTIONS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR.
const ROUTES: [[u32; 2]; 5] = [[0, 4], [41, 5], [41, 6], [41, 55], [41, 57]];
/// UFFD_USER_MODE_ONLY.
const USER_MODE_ONLY: u32 = 1;

/// How answers are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Listener,
    /// As by a listener, but for what the library in the guest makes.
    Library,
    Tracer,
}

pub(super) fn filter(
    by: By,
    network: Network,
    addresses: bool,
    paced: bool,
    further_processes: bool,
) -> Filter {
    let ask = match by {
        By::Listener | By::Library => Verdict::Ask,
        By::Tracer => Verdict::Trace,
    };
    let fail = |Errno(errno)| Verdict::Fail(errno);
    let (eperm, absent) = (fail(Errno::EPERM), fail(Errno::ENOSYS));
    let last = TABLE.last().map_or(0, |row| row.number.into());
    let mut filter = Filter::new(last);
    if by == By::Library {
        filter = library::made_inside(filter, number_of);
    }
    let mut next = 0;
    for row in TABLE {
        // Numbers that never had a call.
        for gap in next..row.number {
            filter = filter.on(gap.into(), absent);
        }
        next = row.number + 1;
        let call = i64::from(row.number);
        filter = match row.decision {
            Decision::Allow => filter,
            Decision::Refuse(errno) => filter.on(call, fail(errno)),
            Decision::Absent => filter.on(call, absent),
            Decision::Ask => filter.on(call, ask),
            Decision::AskUnlessZero => filter.unless_values(call, 0, &[0], ask),
            Decision::Rule => filter,
        };
    }
    let call = number_of;
    let again = fail(Errno::EAGAIN);
    if !further_processes {
        filter = filter
            .unless_bits(call("clone"), 0, CLONE_THREAD, again)
            .on(call("fork"), again)
            .on(call("vfork"), again);
    }
    let refused_flags = match by {
        By::Listener | By::Library => NEW_NAMESPACES,
        By::Tracer => NEW_NAMESPACES | CLONE_UNTRACED,
    };
    filter = filter
        .on_bits(call("clone"), 0, refused_flags, eperm)
        .on_bits(call("unshare"), 0, NEW_NAMESPACES | NEW_TIME, eperm)
        .on_values(call("ioctl"), 1, &FORBIDDEN_REQUESTS, eperm)
        .on_values(
            call("socketpair"),
            1,
            &DATAGRAMS,
            fail(Errno::EPROTONOSUPPORT),
        )
        .on_bits(call("seccomp"), 1, NEW_LISTENER, fail(Errno::EBUSY))
        // It says that it is done: who answers has to read the guest's memory.
        .on_values(call("prctl"), 0, &[PR_SET_DUMPABLE], Verdict::Fail(0))
        .unless_bits(call("userfaultfd"), 0, USER_MODE_ONLY, eperm);
    let none = fail(Errno::EAFNOSUPPORT);
    if paced {
        // No thread has descriptors of its own, where they would not be found.
        filter = filter
            .on_values(call("setsockopt"), 2, &[PACE], eperm)
            .on_bits(call("unshare"), 0, CLONE_FILES, eperm)
            .on_bits(call("close_range"), 2, CLOSE_RANGE_UNSHARE, eperm)
            .on_bit_without(call("clone"), 0, [CLONE_THREAD, CLONE_FILES], eperm);
    }
    if addresses || paced {
        // Connects by sending, over an address that is looked at when a datagram is sent.
        for (name, flags) in [("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)] {
            filter = filter.on_bits(call(name), flags, FAST_OPEN, fail(Errno::EOPNOTSUPP));
        }
    }
    if addresses {
        filter = filter
            .unless_null(call("sendto"), 4, ask)
            .on(call("sendmsg"), ask)
            .on(call("sendmmsg"), ask);
        for option in ROUTES {
            filter = filter.on_both(call("setsockopt"), 1, option, eperm);
        }
    }
    filter = match network {
        Network::Host if addresses => filter
            .unless_values(call("socket"), 0, &FAMILIES, none)
            .on(call("socket"), ask),
        Network::Host => filter
            .unless_values(call("socket"), 0, &FAMILIES, none)
            .on_values(call("socket"), 0, &[UNIX], ask),
        Network::None => filter
            .unless_values(call("socket"), 0, &[UNIX], none)
            .on(call("socket"), ask),
    };
    // A tracer writes to a library's sealed pages.
    if by != By::Listener {
        filter = filter.on(call("ptrace"), eperm);
    }
    filter.finish()
}

fn number_of(name: &str) -> i64 {
    let row = TABLE.iter().find(|row| row.name == name);
    row.map_or(0, |row| i64::from(row.number))
}
