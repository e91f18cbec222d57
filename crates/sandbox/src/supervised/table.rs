//! What becomes of every system call of x86_64, one row each (spec/policy P17). Pure: numbers, names, decisions. A call
//! without a row does not exist for a guest (ENOSYS), so that a new one waits until somebody has looked at it.
//! Not in it: rules on arguments (filter.rs), what the answers are (serve.rs).

use kumiko_linux::supervise::Errno;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Made as it stands: it reaches nothing that a policy speaks of, or what it reaches was opened before.
    Allow,
    Refuse(Errno),
    /// Not there (ENOSYS).
    Absent,
    /// The supervisor answers.
    Ask,
    /// The first argument is a process, and 0 the caller: others are asked for.
    AskUnlessZero,
    /// By its arguments, as filter.rs says.
    Rule,
}

use Decision::{Absent, Allow, Ask, AskUnlessZero, Refuse, Rule};

/// Number, name, decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) decision: Decision,
}

const fn row(number: u32, name: &'static str, decision: Decision) -> Row {
    Row {
        number,
        name,
        decision,
    }
}

/// Sorted by number; complete for Linux 6.18.
pub(crate) const TABLE: &[Row] = &[
    row(0, "read", Allow),
    row(1, "write", Allow),
    row(2, "open", Ask),
    row(3, "close", Allow),
    row(4, "stat", Ask),
    row(5, "fstat", Allow),
    row(6, "lstat", Ask),
    row(7, "poll", Allow),
    row(8, "lseek", Allow),
    row(9, "mmap", Allow),
    row(10, "mprotect", Allow),
    row(11, "munmap", Allow),
    row(12, "brk", Allow),
    row(13, "rt_sigaction", Allow),
    row(14, "rt_sigprocmask", Allow),
    row(15, "rt_sigreturn", Allow),
    row(16, "ioctl", Rule),
    row(17, "pread64", Allow),
    row(18, "pwrite64", Allow),
    row(19, "readv", Allow),
    row(20, "writev", Allow),
    row(21, "access", Ask),
    row(22, "pipe", Allow),
    row(23, "select", Allow),
    row(24, "sched_yield", Allow),
    row(25, "mremap", Allow),
    row(26, "msync", Allow),
    row(27, "mincore", Allow),
    row(28, "madvise", Allow),
    row(29, "shmget", Absent),
    row(30, "shmat", Absent),
    row(31, "shmctl", Absent),
    row(32, "dup", Allow),
    row(33, "dup2", Allow),
    row(34, "pause", Allow),
    row(35, "nanosleep", Allow),
    row(36, "getitimer", Allow),
    row(37, "alarm", Allow),
    row(38, "setitimer", Allow),
    row(39, "getpid", Allow),
    row(40, "sendfile", Allow),
    row(41, "socket", Rule),
    row(42, "connect", Ask),
    row(43, "accept", Allow),
    row(44, "sendto", Allow),
    row(45, "recvfrom", Allow),
    row(46, "sendmsg", Allow),
    row(47, "recvmsg", Allow),
    row(48, "shutdown", Allow),
    row(49, "bind", Ask),
    row(50, "listen", Allow),
    row(51, "getsockname", Allow),
    row(52, "getpeername", Allow),
    row(53, "socketpair", Rule),
    row(54, "setsockopt", Allow),
    row(55, "getsockopt", Allow),
    row(56, "clone", Rule),
    row(57, "fork", Rule),
    row(58, "vfork", Rule),
    row(59, "execve", Ask),
    row(60, "exit", Allow),
    row(61, "wait4", Allow),
    row(62, "kill", Allow),
    row(63, "uname", Allow),
    row(64, "semget", Absent),
    row(65, "semop", Absent),
    row(66, "semctl", Absent),
    row(67, "shmdt", Allow),
    row(68, "msgget", Absent),
    row(69, "msgsnd", Absent),
    row(70, "msgrcv", Absent),
    row(71, "msgctl", Absent),
    row(72, "fcntl", Allow),
    row(73, "flock", Allow),
    row(74, "fsync", Allow),
    row(75, "fdatasync", Allow),
    row(76, "truncate", Ask),
    row(77, "ftruncate", Allow),
    row(78, "getdents", Allow),
    row(79, "getcwd", Ask),
    row(80, "chdir", Ask),
    row(81, "fchdir", Allow),
    row(82, "rename", Ask),
    row(83, "mkdir", Ask),
    row(84, "rmdir", Ask),
    row(85, "creat", Ask),
    row(86, "link", Ask),
    row(87, "unlink", Ask),
    row(88, "symlink", Ask),
    row(89, "readlink", Ask),
    row(90, "chmod", Ask),
    row(91, "fchmod", Ask),
    row(92, "chown", Ask),
    row(93, "fchown", Ask),
    row(94, "lchown", Ask),
    row(95, "umask", Allow),
    row(96, "gettimeofday", Allow),
    row(97, "getrlimit", Allow),
    row(98, "getrusage", Allow),
    row(99, "sysinfo", Allow),
    row(100, "times", Allow),
    row(101, "ptrace", Rule),
    row(102, "getuid", Allow),
    row(103, "syslog", Refuse(Errno::EPERM)),
    row(104, "getgid", Allow),
    row(105, "setuid", Allow),
    row(106, "setgid", Allow),
    row(107, "geteuid", Allow),
    row(108, "getegid", Allow),
    row(109, "setpgid", AskUnlessZero),
    row(110, "getppid", Allow),
    row(111, "getpgrp", Allow),
    row(112, "setsid", Allow),
    row(113, "setreuid", Allow),
    row(114, "setregid", Allow),
    row(115, "getgroups", Allow),
    row(116, "setgroups", Allow),
    row(117, "setresuid", Allow),
    row(118, "getresuid", Allow),
    row(119, "setresgid", Allow),
    row(120, "getresgid", Allow),
    row(121, "getpgid", AskUnlessZero),
    row(122, "setfsuid", Allow),
    row(123, "setfsgid", Allow),
    row(124, "getsid", AskUnlessZero),
    row(125, "capget", Allow),
    row(126, "capset", Allow),
    row(127, "rt_sigpending", Allow),
    row(128, "rt_sigtimedwait", Allow),
    row(129, "rt_sigqueueinfo", Allow),
    row(130, "rt_sigsuspend", Allow),
    row(131, "sigaltstack", Allow),
    row(132, "utime", Ask),
    row(133, "mknod", Ask),
    row(134, "uselib", Absent),
    row(135, "personality", Allow),
    row(136, "ustat", Absent),
    row(137, "statfs", Ask),
    row(138, "fstatfs", Allow),
    row(139, "sysfs", Absent),
    row(140, "getpriority", Ask),
    row(141, "setpriority", Ask),
    row(142, "sched_setparam", AskUnlessZero),
    row(143, "sched_getparam", AskUnlessZero),
    row(144, "sched_setscheduler", AskUnlessZero),
    row(145, "sched_getscheduler", AskUnlessZero),
    row(146, "sched_get_priority_max", Allow),
    row(147, "sched_get_priority_min", Allow),
    row(148, "sched_rr_get_interval", AskUnlessZero),
    row(149, "mlock", Allow),
    row(150, "munlock", Allow),
    row(151, "mlockall", Allow),
    row(152, "munlockall", Allow),
    row(153, "vhangup", Refuse(Errno::EPERM)),
    row(154, "modify_ldt", Allow),
    row(155, "pivot_root", Refuse(Errno::EPERM)),
    row(156, "_sysctl", Absent),
    row(157, "prctl", Rule),
    row(158, "arch_prctl", Allow),
    row(159, "adjtimex", Refuse(Errno::EPERM)),
    row(160, "setrlimit", Allow),
    row(161, "chroot", Refuse(Errno::EPERM)),
    row(162, "sync", Allow),
    row(163, "acct", Refuse(Errno::EPERM)),
    row(164, "settimeofday", Refuse(Errno::EPERM)),
    row(165, "mount", Refuse(Errno::EPERM)),
    row(166, "umount2", Refuse(Errno::EPERM)),
    row(167, "swapon", Refuse(Errno::EPERM)),
    row(168, "swapoff", Refuse(Errno::EPERM)),
    row(169, "reboot", Refuse(Errno::EPERM)),
    row(170, "sethostname", Refuse(Errno::EPERM)),
    row(171, "setdomainname", Refuse(Errno::EPERM)),
    row(172, "iopl", Refuse(Errno::EPERM)),
    row(173, "ioperm", Refuse(Errno::EPERM)),
    row(174, "create_module", Absent),
    row(175, "init_module", Refuse(Errno::EPERM)),
    row(176, "delete_module", Refuse(Errno::EPERM)),
    row(177, "get_kernel_syms", Absent),
    row(178, "query_module", Absent),
    row(179, "quotactl", Refuse(Errno::EPERM)),
    row(180, "nfsservctl", Absent),
    row(181, "getpmsg", Absent),
    row(182, "putpmsg", Absent),
    row(183, "afs_syscall", Absent),
    row(184, "tuxcall", Absent),
    row(185, "security", Absent),
    row(186, "gettid", Allow),
    row(187, "readahead", Allow),
    row(188, "setxattr", Ask),
    row(189, "lsetxattr", Ask),
    row(190, "fsetxattr", Ask),
    row(191, "getxattr", Ask),
    row(192, "lgetxattr", Ask),
    row(193, "fgetxattr", Allow),
    row(194, "listxattr", Ask),
    row(195, "llistxattr", Ask),
    row(196, "flistxattr", Allow),
    row(197, "removexattr", Ask),
    row(198, "lremovexattr", Ask),
    row(199, "fremovexattr", Ask),
    row(200, "tkill", Allow),
    row(201, "time", Allow),
    row(202, "futex", Allow),
    row(203, "sched_setaffinity", AskUnlessZero),
    row(204, "sched_getaffinity", AskUnlessZero),
    row(205, "set_thread_area", Absent),
    row(206, "io_setup", Allow),
    row(207, "io_destroy", Allow),
    row(208, "io_getevents", Allow),
    row(209, "io_submit", Allow),
    row(210, "io_cancel", Allow),
    row(211, "get_thread_area", Absent),
    row(212, "lookup_dcookie", Refuse(Errno::EPERM)),
    row(213, "epoll_create", Allow),
    row(214, "epoll_ctl_old", Absent),
    row(215, "epoll_wait_old", Absent),
    row(216, "remap_file_pages", Allow),
    row(217, "getdents64", Allow),
    row(218, "set_tid_address", Allow),
    row(219, "restart_syscall", Allow),
    row(220, "semtimedop", Absent),
    row(221, "fadvise64", Allow),
    row(222, "timer_create", Allow),
    row(223, "timer_settime", Allow),
    row(224, "timer_gettime", Allow),
    row(225, "timer_getoverrun", Allow),
    row(226, "timer_delete", Allow),
    row(227, "clock_settime", Refuse(Errno::EPERM)),
    row(228, "clock_gettime", Allow),
    row(229, "clock_getres", Allow),
    row(230, "clock_nanosleep", Allow),
    row(231, "exit_group", Allow),
    row(232, "epoll_wait", Allow),
    row(233, "epoll_ctl", Allow),
    row(234, "tgkill", Allow),
    row(235, "utimes", Ask),
    row(236, "vserver", Absent),
    row(237, "mbind", Allow),
    row(238, "set_mempolicy", Allow),
    row(239, "get_mempolicy", Allow),
    row(240, "mq_open", Absent),
    row(241, "mq_unlink", Absent),
    row(242, "mq_timedsend", Absent),
    row(243, "mq_timedreceive", Absent),
    row(244, "mq_notify", Absent),
    row(245, "mq_getsetattr", Absent),
    row(246, "kexec_load", Refuse(Errno::EPERM)),
    row(247, "waitid", Allow),
    row(248, "add_key", Refuse(Errno::EPERM)),
    row(249, "request_key", Refuse(Errno::EPERM)),
    row(250, "keyctl", Refuse(Errno::EPERM)),
    row(251, "ioprio_set", Ask),
    row(252, "ioprio_get", Ask),
    row(253, "inotify_init", Allow),
    row(254, "inotify_add_watch", Ask),
    row(255, "inotify_rm_watch", Allow),
    row(256, "migrate_pages", AskUnlessZero),
    row(257, "openat", Ask),
    row(258, "mkdirat", Ask),
    row(259, "mknodat", Ask),
    row(260, "fchownat", Ask),
    row(261, "futimesat", Ask),
    row(262, "newfstatat", Ask),
    row(263, "unlinkat", Ask),
    row(264, "renameat", Ask),
    row(265, "linkat", Ask),
    row(266, "symlinkat", Ask),
    row(267, "readlinkat", Ask),
    row(268, "fchmodat", Ask),
    row(269, "faccessat", Ask),
    row(270, "pselect6", Allow),
    row(271, "ppoll", Allow),
    row(272, "unshare", Rule),
    row(273, "set_robust_list", Allow),
    row(274, "get_robust_list", AskUnlessZero),
    row(275, "splice", Allow),
    row(276, "tee", Allow),
    row(277, "sync_file_range", Allow),
    row(278, "vmsplice", Allow),
    row(279, "move_pages", AskUnlessZero),
    row(280, "utimensat", Ask),
    row(281, "epoll_pwait", Allow),
    row(282, "signalfd", Allow),
    row(283, "timerfd_create", Allow),
    row(284, "eventfd", Allow),
    row(285, "fallocate", Allow),
    row(286, "timerfd_settime", Allow),
    row(287, "timerfd_gettime", Allow),
    row(288, "accept4", Allow),
    row(289, "signalfd4", Allow),
    row(290, "eventfd2", Allow),
    row(291, "epoll_create1", Allow),
    row(292, "dup3", Allow),
    row(293, "pipe2", Allow),
    row(294, "inotify_init1", Allow),
    row(295, "preadv", Allow),
    row(296, "pwritev", Allow),
    row(297, "rt_tgsigqueueinfo", Allow),
    row(298, "perf_event_open", Refuse(Errno::EPERM)),
    row(299, "recvmmsg", Allow),
    row(300, "fanotify_init", Refuse(Errno::EPERM)),
    row(301, "fanotify_mark", Refuse(Errno::EPERM)),
    row(302, "prlimit64", AskUnlessZero),
    row(303, "name_to_handle_at", Refuse(Errno::EPERM)),
    row(304, "open_by_handle_at", Refuse(Errno::EPERM)),
    row(305, "clock_adjtime", Refuse(Errno::EPERM)),
    row(306, "syncfs", Allow),
    row(307, "sendmmsg", Allow),
    row(308, "setns", Refuse(Errno::EPERM)),
    row(309, "getcpu", Allow),
    row(310, "process_vm_readv", Allow),
    row(311, "process_vm_writev", Allow),
    row(312, "kcmp", Allow),
    row(313, "finit_module", Refuse(Errno::EPERM)),
    row(314, "sched_setattr", AskUnlessZero),
    row(315, "sched_getattr", AskUnlessZero),
    row(316, "renameat2", Ask),
    row(317, "seccomp", Rule),
    row(318, "getrandom", Allow),
    row(319, "memfd_create", Allow),
    row(320, "kexec_file_load", Refuse(Errno::EPERM)),
    row(321, "bpf", Refuse(Errno::EPERM)),
    row(322, "execveat", Ask),
    row(323, "userfaultfd", Rule),
    row(324, "membarrier", Allow),
    row(325, "mlock2", Allow),
    row(326, "copy_file_range", Allow),
    row(327, "preadv2", Allow),
    row(328, "pwritev2", Allow),
    row(329, "pkey_mprotect", Allow),
    row(330, "pkey_alloc", Allow),
    row(331, "pkey_free", Allow),
    row(332, "statx", Ask),
    row(333, "io_pgetevents", Allow),
    row(334, "rseq", Allow),
    row(335, "uretprobe", Absent),
    row(336, "uprobe", Absent),
    row(424, "pidfd_send_signal", Allow),
    row(425, "io_uring_setup", Absent),
    row(426, "io_uring_enter", Absent),
    row(427, "io_uring_register", Absent),
    row(428, "open_tree", Refuse(Errno::EPERM)),
    row(429, "move_mount", Refuse(Errno::EPERM)),
    row(430, "fsopen", Refuse(Errno::EPERM)),
    row(431, "fsconfig", Refuse(Errno::EPERM)),
    row(432, "fsmount", Refuse(Errno::EPERM)),
    row(433, "fspick", Refuse(Errno::EPERM)),
    row(434, "pidfd_open", AskUnlessZero),
    row(435, "clone3", Absent),
    row(436, "close_range", Allow),
    row(437, "openat2", Ask),
    row(438, "pidfd_getfd", Allow),
    row(439, "faccessat2", Ask),
    row(440, "process_madvise", Allow),
    row(441, "epoll_pwait2", Allow),
    row(442, "mount_setattr", Refuse(Errno::EPERM)),
    row(443, "quotactl_fd", Refuse(Errno::EPERM)),
    row(444, "landlock_create_ruleset", Refuse(Errno::EOPNOTSUPP)),
    row(445, "landlock_add_rule", Refuse(Errno::EOPNOTSUPP)),
    row(446, "landlock_restrict_self", Refuse(Errno::EOPNOTSUPP)),
    row(447, "memfd_secret", Allow),
    row(448, "process_mrelease", Allow),
    row(449, "futex_waitv", Allow),
    row(450, "set_mempolicy_home_node", Allow),
    row(451, "cachestat", Allow),
    row(452, "fchmodat2", Ask),
    row(453, "map_shadow_stack", Allow),
    row(454, "futex_wake", Allow),
    row(455, "futex_wait", Allow),
    row(456, "futex_requeue", Allow),
    row(457, "statmount", Absent),
    row(458, "listmount", Absent),
    row(459, "lsm_get_self_attr", Allow),
    row(460, "lsm_set_self_attr", Allow),
    row(461, "lsm_list_modules", Allow),
    row(462, "mseal", Allow),
    row(463, "setxattrat", Absent),
    row(464, "getxattrat", Absent),
    row(465, "listxattrat", Absent),
    row(466, "removexattrat", Absent),
    row(467, "open_tree_attr", Refuse(Errno::EPERM)),
    row(468, "file_getattr", Absent),
    row(469, "file_setattr", Absent),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn each_number_has_one_row() {
        let numbers: BTreeSet<u32> = TABLE.iter().map(|row| row.number).collect();
        assert_eq!(numbers.len(), TABLE.len());
        assert!(TABLE.is_sorted_by_key(|row| row.number));
    }

    /// The headers that programs here are compiled with.
    #[test]
    fn no_call_of_the_headers_is_missing() {
        let known: BTreeMap<u32, &str> = TABLE.iter().map(|row| (row.number, row.name)).collect();
        let places = [
            "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
            "/usr/include/asm/unistd_64.h",
        ];
        let Some(text) = places
            .iter()
            .find_map(|place| std::fs::read_to_string(place).ok())
        else {
            return eprintln!(
                "SKIP no_call_of_the_headers_is_missing: missing the kernel's headers (linux-libc-dev)"
            );
        };
        let mut seen = 0;
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some("#define"), Some(name), Some(number)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Some(name) = name.strip_prefix("__NR_") else {
                continue;
            };
            let number: u32 = number.parse().unwrap();
            assert_eq!(known.get(&number), Some(&name), "{name} is call {number}");
            seen += 1;
        }
        assert!(seen > 300, "{seen}");
    }

    /// What the running kernel has, by the names of the functions behind its calls.
    #[test]
    fn no_call_of_the_running_kernel_is_missing() {
        let Ok(symbols) = std::fs::read_to_string("/proc/kallsyms") else {
            return eprintln!(
                "SKIP no_call_of_the_running_kernel_is_missing: missing /proc/kallsyms"
            );
        };
        /// Functions by another name than their call.
        const RENAMED: [(&str, &str); 6] = [
            ("newstat", "stat"),
            ("newfstat", "fstat"),
            ("newlstat", "lstat"),
            ("newuname", "uname"),
            ("sendfile64", "sendfile"),
            ("umount", "umount2"),
        ];
        /// Functions that only 32-bit programs or other architectures can call.
        const ELSEWHERE: &str = " fadvise64_64 fstatfs64 gethostname ipc llseek mmap_pgoff ni_syscall nice old_getrlimit
            old_msgctl old_readdir old_semctl old_shmctl oldumount olduname pciconfig_iobase pciconfig_read pciconfig_write
            recv rtas s390_ipc s390_pci_mmio_read s390_pci_mmio_write send sgetmask signal sigpending sigprocmask sigsuspend
            socketcall spu_create spu_run ssetmask statfs64 stime subpage_prot sync_file_range2 vm86 vm86old waitpid ";
        let known: BTreeSet<&str> = TABLE.iter().map(|row| row.name).collect();
        let mut seen = 0;
        for name in symbols
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2))
        {
            let Some(name) = name.strip_prefix("__x64_sys_") else {
                continue;
            };
            let name = name.split('.').next().unwrap_or(name); // parts that the compiler cut off
            let elsewhere = ["16", "32"].iter().any(|end| name.ends_with(end))
                || name.starts_with("ia32_")
                || ELSEWHERE.split_whitespace().any(|other| other == name);
            let name = RENAMED
                .iter()
                .find(|(function, _)| *function == name)
                .map_or(name, |(_, call)| call);
            assert!(
                elsewhere || known.contains(name),
                "the kernel has {name}, and the table no row"
            );
            seen += 1;
        }
        if seen == 0 {
            eprintln!(
                "SKIP no_call_of_the_running_kernel_is_missing: missing names in /proc/kallsyms"
            );
        }
    }
}
