//! Duties 1, 3, 4 and 5: what is out of reach.

use crate::common::*;
use crate::{Case, YES_NO, check, executable, site};
use kumiko_policy::Policy;
use kumiko_sandbox::Ended;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

#[test]
fn a_guest_cannot_reach_processes_outside() {
    let Some(_) = machine("a_guest_cannot_reach_processes_outside") else {
        return;
    };
    let mut victim = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .env("SECRET", "1")
        .spawn()
        .unwrap();
    let pid = victim.id();
    let scripts = [
        format!("kill -0 {pid}"),
        format!("test -d /proc/{pid}"),
        format!("cat /proc/{pid}/cmdline"),
        format!("cat /proc/{pid}/environ"),
        format!("readlink /proc/{pid}/root"),
        format!("kill -0 {}", std::process::id()),
        "test -d /proc/1".to_owned(), // natively the machine's, in a room its keeper
    ];
    for script in scripts {
        let script = script + YES_NO;
        let native = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&native.stdout).trim(),
            "yes",
            "with no sandbox: {script}"
        );
        let job = Scratch::new();
        assert_eq!(
            shell(&Policy::default(), &job.0, &script).stdout.trim(),
            "no",
            "{script}"
        );
    }
    // Everything that can be signalled, and the keeper by its number: still there is our proof.
    let job = Scratch::new();
    let got = shell(
        &Policy::default(),
        &job.0,
        "trap '' TERM; kill -9 1 2>/dev/null; kill -TERM -1 2>/dev/null; echo alive",
    );
    assert_eq!(got.stdout.trim(), "alive", "{}", got.stderr);
    assert!(victim.try_wait().unwrap().is_none());
    victim.stdin.take().unwrap().write_all(b"here").unwrap();
    let mut here = String::new();
    victim
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut here)
        .unwrap();
    assert_eq!(here, "here");
    victim.wait().unwrap();
}

#[test]
fn a_guest_has_no_right_and_gains_none() {
    let row = |script, native, guest| Case {
        duty: 4,
        policy: "",
        script,
        native,
        guest,
    };
    check(
        "a_guest_has_no_right_and_gains_none",
        &[
            row("grep -c '^NoNewPrivs:.1' /proc/self/status", "0", "1"),
            row(
                "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -c '0000000000000000$' | grep -c 5",
                "0",
                "1",
            ),
            row(
                "cat /proc/self/uid_map | awk '{print $3}'",
                "4294967295",
                "1",
            ),
        ]
        .into_iter()
        // Whom no namespace gives the right to empty what bounds him keeps that: no program gains from it
        // (no_new_privs).
        .filter(|case| {
            let bounded = has_namespaces() || kumiko_linux::is_root() && !case.script.contains("uid_map");
            bounded || case.script.contains("NoNewPrivs")
        })
        .collect::<Vec<_>>(),
    );
    // An account that is root owns files of the kernel; without capabilities it is kept from them.
    let Some(_) = machine("a_guest_has_no_right_and_gains_none") else {
        return;
    };
    let job = Scratch::new();
    for script in [
        "chmod 600 /dev/null",
        "chmod 600 /proc/self/fd/0",
        "echo x >/proc/sysrq-trigger",
        "echo x >/proc/sys/kernel/core_pattern",
        "echo 1 >/proc/sys/kernel/randomize_va_space",
    ] {
        let got = shell(&Policy::default(), &job.0, &format!("({script}){YES_NO}"));
        assert_eq!(got.stdout.trim(), "no", "{script}");
    }
}

#[test]
fn a_guest_cannot_change_its_view() {
    let row = |script, native, guest| Case {
        duty: 5,
        policy: "",
        script,
        native,
        guest,
    };
    check(
        "a_guest_cannot_change_its_view",
        &[
            row(
                "unshare --user true >/dev/null 2>&1 && echo yes || echo no",
                "yes",
                "no",
            ),
            row(
                "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs x /tmp' >/dev/null 2>&1 && echo yes || echo no",
                "yes",
                "no",
            ),
        ],
    );
    let Some(_) = machine("a_guest_cannot_change_its_view") else {
        return;
    };
    let job = Scratch::new();
    for script in [
        "chroot / /bin/true",
        "mount -o remount,rw /",
        "mount -o remount,rw /usr",
        "mount --bind /usr /tmp",
        "umount /usr",
        "umount -l /job",
        "mkdir /new",
        "ln -s /job /dev/x",
        "mknod /tmp/m b 8 0",
        "cd /.old",
        "ls /.old/root",
        "chmod 755 /.old",
        "ls /proc/1/root",
        "cat /proc/1/maps",
        "nsenter --target 1 --mount true",
    ] {
        let got = shell(&Policy::default(), &job.0, &format!("{script}{YES_NO}"));
        assert_eq!(got.stdout.trim(), "no", "{script}");
    }
}

#[test]
fn the_call_that_enters_namespaces_is_closed() {
    if !has_filter() {
        return;
    }
    let case = Case {
        duty: 5,
        policy: "",
        script: "nsenter --user=/proc/self/ns/user true 2>&1 | grep -c -e 'not permitted' -e denied",
        native: "0",
        guest: "1",
    };
    check("the_call_that_enters_namespaces_is_closed", &[case]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn calls_that_reach_around_the_view_fail() {
    if !has_filter() {
        return;
    }
    // (call, native differs from) errno of the guest: 1 EPERM, 38 ENOSYS, 97 EAFNOSUPPORT.
    let row = |call, errno| (call, errno);
    let Some(_) = machine("calls_that_reach_around_the_view_fail") else {
        return;
    };
    let job = Scratch::new();
    for (call, errno) in [
        row("425, 8, 0", 38),                   // io_uring_setup
        row("435, 0, 0", 38),                   // clone3
        row("0x40000027", 38),                  // getpid of x32
        row("999", 38),                         // not there yet
        row("250, 0, 0", 1),                    // keyctl
        row("248, 0, 0, 0, 0, 0", 1),           // add_key
        row("321, 0, 0, 0", 1),                 // bpf
        row("298, 0, 0, 0, 0, 0", 1),           // perf_event_open
        row("323, 0", 1),                       // userfaultfd
        row("428, -100, 0, 0", 1),              // open_tree
        row("308, 0, 0", 1),                    // setns
        row("56, 0x10000011, 0, 0, 0, 0", 1),   // clone(CLONE_NEWUSER)
        row("272, 0x10000000", 1),              // unshare(CLONE_NEWUSER)
        row("16, 0, 0x5412, 0", 1),             // ioctl(TIOCSTI)
        row("16, 0, 0x7fffffff00005412, 0", 1), // the same with high bits, which the kernel drops
        row("41, 40, 1, 0", 97),                // socket(AF_VSOCK)
        row("41, 38, 5, 0", 97),                // socket(AF_ALG)
    ] {
        let script = format!("perl -e '$! = 0; syscall({call}); print $!+0'");
        let native = Command::new("sh").args(["-c", &script]).output().unwrap();
        let native = String::from_utf8_lossy(&native.stdout).into_owned();
        let got = shell(&Policy::default(), &job.0, &script);
        assert_eq!(
            got.stdout,
            errno.to_string(),
            "syscall({call}), with no sandbox {native}: {}",
            got.stderr
        );
    }
    for harmless in ["272, 0x400", "41, 1, 1, 0", "41, 2, 1, 0", "39"] {
        let got = shell(
            &Policy::default(),
            &job.0,
            &format!("perl -e '$! = 0; syscall({harmless}); print $!+0'"),
        );
        assert_eq!(got.stdout, "0", "syscall({harmless})");
    }
}

/// A program of 32 bits: exit(42) by int 0x80, then an illegal instruction.
#[test]
#[cfg(target_arch = "x86_64")]
fn the_32_bit_entry_is_closed() {
    if !has_filter() {
        return;
    }
    let Some(_) = machine("the_32_bit_entry_is_closed") else {
        return;
    };
    let mut elf = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0\x01\0\0\0".to_vec();
    let words = |elf: &mut Vec<u8>, words: &[u32]| {
        elf.extend(words.iter().flat_map(|word| word.to_le_bytes()))
    };
    words(&mut elf, &[0x0804_8054, 52, 0, 0, 0x0020_0034, 1, 0]);
    words(&mut elf, &[1, 0, 0x0804_8000, 0x0804_8000, 98, 98, 5, 4096]);
    elf.extend([0xB8, 1, 0, 0, 0, 0xBB, 42, 0, 0, 0, 0xCD, 0x80, 0x0F, 0x0B]);
    let job = Scratch::new();
    let program = job.put("program", "");
    std::fs::write(&program, elf).unwrap();
    executable(&program);
    let native = match Command::new(&program).status() {
        Ok(status) => status,
        Err(error) => {
            return eprintln!("SKIP the_32_bit_entry_is_closed: missing 32-bit programs ({error})");
        }
    };
    assert_eq!(native.code(), Some(42), "with no sandbox");
    let mut room = room(&Policy::default(), &job.0).unwrap();
    let got = run(&mut *room, "/job/program", &[], &[]).unwrap();
    assert_eq!(got.ended, Ended::Signalled(4));
}

#[test]
fn further_processes_can_be_refused() {
    if !has_filter() {
        return;
    }
    let policy = "further_processes = false";
    let row = |script, native, guest| Case {
        duty: 1,
        policy,
        script,
        native,
        guest,
    };
    check(
        "further_processes_can_be_refused",
        &[
            row("(echo child) 2>/dev/null; echo self", "child\nself", ""),
            row("echo self", "self", "self"),
            row("exec perl -e 'print fork() // \"none\"' | head -c1", "", ""),
            row(
                "perl -e 'print defined(fork()) ? \"\" : \"refused\"' 2>/dev/null",
                "",
                "",
            ),
            row(
                "exec perl -e 'print defined(fork()) ? \"\" : \"refused\"'",
                "",
                "refused",
            ),
        ]
        .into_iter()
        .filter(|case| !case.script.contains("head"))
        .collect::<Vec<_>>(),
    );
}

#[test]
fn a_guest_without_network_reaches_nobody() {
    let Some(_) = machine("a_guest_without_network_reaches_nobody") else {
        return;
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'{YES_NO}");
    let job = Scratch::new();
    for (network, expected) in [("host", "yes"), ("none", "no")] {
        let got = shell(&site(&format!("network = '{network}'")), &job.0, &script);
        assert_eq!(
            got.stdout.trim(),
            expected,
            "network {network}: {}",
            got.stderr
        );
    }
    if !has_namespaces() {
        let script = "perl -MSocket -e 'print socket(L,2,1,0) ? \"made\" : \"none\"'";
        return assert_eq!(
            shell(&site("network = 'none'"), &job.0, script).stdout,
            "none"
        );
    }
    // Its own loopback works.
    let script = "perl -MSocket -e 'socket(L,2,1,0); bind(L,sockaddr_in(0,inet_aton(\"127.0.0.1\"))) && listen(L,1) or die;
        socket(C,2,1,0); connect(C,getsockname(L)) or die; print \"connected\"'";
    assert_eq!(
        shell(&site("network = 'none'"), &job.0, script).stdout,
        "connected"
    );
}
