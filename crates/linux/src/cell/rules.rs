//! Which calls a guest may not make. What needs a capability fails anyway, since a guest has none; the rules are for
//! what does not, for what would widen the kernel's surface, and for a second wall where the first is one bit.

use super::seccomp::{Filter, Verdict};

/// The last call known when this was written (Linux 6.18: file_setattr). Later ones do not exist for a guest until
/// somebody has looked at them.
const LAST_KNOWN_CALL: i64 = 469;

/// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET (sched.h).
const NEW_NAMESPACES: u32 = 0x7E02_0000;
/// CLONE_NEWTIME means that to unshare(2) only; to clone(2) the bit is part of the signal's number.
const NEW_TIME: u32 = 0x80;

/// Injecting input into a terminal, and the console's selection, which can do the same (ioctl_tty(2)).
const TERMINAL_INJECTION: [u32; 2] = [0x5412, 0x541C]; // TIOCSTI, TIOCLINUX

/// Families of sockets that a guest may make; others (vsock, packet, bluetooth, AF_ALG, ...) leave a network namespace
/// or are kernel code that jobs have no use for.
const SOCKET_FAMILIES: [u32; 4] = [
    libc::AF_UNIX as u32,
    libc::AF_INET as u32,
    libc::AF_INET6 as u32,
    libc::AF_NETLINK as u32,
];

/// Fails with EPERM: changing the view, reaching the kernel's own, keys.
const FORBIDDEN: &[i64] = &[
    // The view.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    467, // open_tree_attr
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Keys of the account outlive its sessions and are not in any namespace.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The kernel's own.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_lookup_dcookie,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Does not exist: programs then go another way. io_uring does calls that no filter sees; clone3 hides its flags in
/// memory, and libraries fall back to clone.
const ABSENT: &[i64] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_clone3,
];

/// UFFD_USER_MODE_ONLY (userfaultfd(2)): checkpoints find with it what was written. Without, the kernel's own faults wait.
const USER_MODE_ONLY: u32 = 1;

/// The pace of a socket is its job's to set, where its job has one (SO_MAX_PACING_RATE). Whatever the level: no other
/// level's option of this number (MCAST_LEAVE_SOURCE_GROUP) is missed.
const PACE: [u32; 1] = [libc::SO_MAX_PACING_RATE as u32];

/// close_range(2).
const CLOSE_RANGE_UNSHARE: u32 = 2;

/// The filter of every guest. Without `further_processes`, threads can be made and processes cannot (EAGAIN, as at a
/// limit on processes). `paced`: a guest does not set the pace of its sockets, and no thread
/// has descriptors of its own, where they would not be found (EPERM).
pub fn guest_filter(further_processes: bool, paced: bool) -> Filter {
    let eperm = Verdict::Fail(libc::EPERM);
    let mut filter = Filter::new(LAST_KNOWN_CALL);
    for call in FORBIDDEN {
        filter = filter.on(*call, eperm);
    }
    for call in ABSENT {
        filter = filter.on(*call, Verdict::Fail(libc::ENOSYS));
    }
    filter = filter
        .on_bits(libc::SYS_unshare, 0, NEW_NAMESPACES | NEW_TIME, eperm)
        .on_bits(libc::SYS_clone, 0, NEW_NAMESPACES, eperm)
        .on_values(libc::SYS_ioctl, 1, &TERMINAL_INJECTION, eperm)
        .unless_bits(libc::SYS_userfaultfd, 0, USER_MODE_ONLY, eperm)
        .unless_values(
            libc::SYS_socket,
            0,
            &SOCKET_FAMILIES,
            Verdict::Fail(libc::EAFNOSUPPORT),
        );
    if paced {
        let own = [libc::CLONE_THREAD as u32, libc::CLONE_FILES as u32];
        filter = filter
            .on_values(libc::SYS_setsockopt, 2, &PACE, eperm)
            .on_bits(libc::SYS_unshare, 0, libc::CLONE_FILES as u32, eperm)
            .on_bits(libc::SYS_close_range, 2, CLOSE_RANGE_UNSHARE, eperm)
            .on_bit_without(libc::SYS_clone, 0, own, eperm);
    }
    if !further_processes {
        let again = Verdict::Fail(libc::EAGAIN);
        filter = filter.unless_bits(libc::SYS_clone, 0, libc::CLONE_THREAD as u32, again);
        #[cfg(target_arch = "x86_64")]
        {
            filter = filter.on(libc::SYS_fork, again).on(libc::SYS_vfork, again);
        }
    }
    filter.finish()
}
