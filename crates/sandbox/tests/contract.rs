//! The contract of mechanisms, duty by duty. Every case is run with no sandbox at all first, so that it is known to show
//! what it is about.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::*;
use kumiko_policy::{Policy, narrow, parse};
use kumiko_sandbox::{Ended, Launch};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

/// The names of the host in a case: files and directories that exist before it.
const HOST: [(&str, &str); 12] = [
    ("unlisted", "x"),
    ("real/file", "content"),
    ("real/sub/file", "deeper"),
    ("real/closed/key", "secret"),
    ("real/closed.txt", "secret"),
    ("real/gone/key", "secret"),
    ("real/gone/kept/file", "kept"),
    ("real/gone.txt", "secret"),
    ("rw/file", "content"),
    ("temp/file", "content"),
    ("work/x", "x"),
    ("script", "#!/no/such/interpreter\n"),
];

/// A shell script, and what it prints with no sandbox and as a guest; `{dir}` is the case's own directory.
struct Case {
    duty: u32,
    /// TOML over the default policy's, as a site's.
    policy: &'static str,
    script: &'static str,
    native: &'static str,
    guest: &'static str,
}

fn check(test: &str, cases: &[Case]) {
    let Some(_) = machine(test) else { return };
    for case in cases {
        let host = Scratch::new();
        for (name, content) in HOST {
            host.put(name, content);
        }
        host.put("job/", "");
        let fill = |text: &str| text.replace("{dir}", host.0.to_str().unwrap());
        let native = Command::new("/bin/sh")
            .args(["-c", &fill(case.script)])
            .current_dir(host.0.join("job"))
            .output()
            .unwrap();
        let native = String::from_utf8_lossy(&native.stdout).trim().to_owned();
        assert_eq!(
            native,
            fill(case.native),
            "duty {} with no sandbox: {}",
            case.duty,
            case.script
        );
        // Again from the start: the script may have changed things.
        let host = Scratch::new();
        for (name, content) in HOST {
            host.put(name, content);
        }
        host.put("job/", "");
        let fill = |text: &str| text.replace("{dir}", host.0.to_str().unwrap());
        let policy = site(&fill(case.policy));
        let got = shell(&policy, &host.0.join("job"), &fill(case.script));
        let (out, script) = (got.stdout.trim(), case.script);
        assert_eq!(
            out,
            fill(case.guest),
            "duty {}: {script}\nstderr: {}",
            case.duty,
            got.stderr
        );
    }
}

/// A site's policy: the default one, and these rules of its own.
fn site(text: &str) -> Policy {
    let own = parse(text, "site policy").unwrap();
    let mut policy = Policy::default();
    policy
        .paths
        .retain(|rule| own.paths.iter().all(|other| other.path != rule.path));
    policy.paths.extend(own.paths);
    policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
    policy.network = own.network.or(policy.network);
    policy.further_processes = own.further_processes.or(policy.further_processes);
    policy
}

const YES_NO: &str = " >/dev/null 2>&1 && echo yes || echo no";

#[test]
fn a_guest_sees_what_the_policy_shows_and_nothing_else() {
    let row = |policy, script, native, guest| Case {
        duty: 1,
        policy,
        script,
        native,
        guest,
    };
    check(
        "a_guest_sees_what_the_policy_shows_and_nothing_else",
        &[
            row(
                "",
                "test -e {dir}/unlisted && echo there || echo absent",
                "there",
                "absent",
            ),
            row("", "pwd", "{dir}/job", "/job"),
            row("", "echo x >made; cat made", "x", "x"),
            row(
                "[paths]\n'{dir}/map' = {access='read', real='{dir}/real'}",
                "cat {dir}/map/sub/file || echo none",
                "none",
                "deeper",
            ),
            row(
                "[paths]\n'/etc/passwd' = {access='read', real='{dir}/real/file'}",
                "head -c5 /etc/passwd",
                "root:",
                "conte",
            ),
            row(
                "[paths]\n'/new/deep/place' = {access='read', real='{dir}/real'}",
                "cat /new/deep/place/file || echo none",
                "none",
                "content",
            ),
            row(
                "[paths]\n'/a/b' = {access='read', real='{dir}/real'}\n'/a/b/sub' = {access='read', real='{dir}/rw'}",
                "cat /a/b/sub/file || echo none",
                "none",
                "content",
            ),
            row(
                "[paths]\n'{dir}/none' = {access='read', optional=true}",
                "test -e {dir}/none && echo there || echo absent",
                "absent",
                "absent",
            ),
            row(
                "[paths]\n'/dev/mapped' = {access='write', real='/dev/null'}",
                "test -c /dev/mapped && echo x >/dev/mapped && echo device",
                "",
                "device",
            ),
            row(
                "[paths]\n'/tmp/in/temp' = {access='read', real='{dir}/real'}",
                "cat /tmp/in/temp/file || echo none",
                "none",
                "content",
            ),
            row(
                "[paths]\n'/' = 'read'\n'/tmp' = 'read'\n'{dir}/temp' = 'temporary'",
                "cat {dir}/real/file; echo; ls {dir}/temp; ls / | grep -c '^job$'",
                "content\nfile\n0",
                "content\n1",
            ),
        ],
    );
}

#[test]
fn what_is_read_only_stays_as_it_is() {
    let row = |script, native, guest| Case {
        duty: 2,
        policy: "[paths]\n'{dir}/real' = 'read'",
        script,
        native,
        guest,
    };
    check(
        "what_is_read_only_stays_as_it_is",
        &[
            row("cat {dir}/real/file", "content", "content"),
            row(
                "(echo y >{dir}/real/file) 2>/dev/null; cat {dir}/real/file",
                "y",
                "content",
            ),
            row(
                "(echo y >{dir}/real/new) 2>/dev/null; test -e {dir}/real/new && echo made || echo refused",
                "made",
                "refused",
            ),
            row(
                "rm {dir}/real/file 2>/dev/null; ls {dir}/real | grep -c '^file$'",
                "0",
                "1",
            ),
            row(
                "mv {dir}/real/file {dir}/real/f2 2>/dev/null; ls {dir}/real | grep -c '^file$'",
                "0",
                "1",
            ),
            row(
                "mkdir {dir}/real/d 2>/dev/null && echo made || echo refused",
                "made",
                "refused",
            ),
            row(
                "ln -s x {dir}/real/l 2>/dev/null && echo made || echo refused",
                "made",
                "refused",
            ),
            row(
                "ln {dir}/real/file {dir}/real/l 2>/dev/null && echo made || echo refused",
                "made",
                "refused",
            ),
            row(
                "chmod 777 {dir}/real/file 2>/dev/null && echo done || echo refused",
                "done",
                "refused",
            ),
            row(
                "touch -d 2001-01-01 {dir}/real/file 2>/dev/null && echo done || echo refused",
                "done",
                "refused",
            ),
            row(
                "truncate -s 0 {dir}/real/file 2>/dev/null && echo done || echo refused",
                "done",
                "refused",
            ),
            // By way of a descriptor that was opened to read, and of the process's own root.
            row(
                "exec 9<{dir}/real/file; (echo y >/proc/self/fd/9) 2>/dev/null; cat {dir}/real/file",
                "y",
                "content",
            ),
            row(
                "(echo y >/proc/self/root{dir}/real/file) 2>/dev/null; cat {dir}/real/file",
                "y",
                "content",
            ),
        ],
    );
}

#[test]
fn what_is_writable_is_the_real_thing() {
    let row = |policy, script, guest| Case {
        duty: 2,
        policy,
        script,
        native: guest,
        guest,
    };
    check(
        "what_is_writable_is_the_real_thing",
        &[
            row(
                "[paths]\n'{dir}/rw' = 'write'",
                "echo y >{dir}/rw/file; cat {dir}/rw/file",
                "y",
            ),
            row(
                "[paths]\n'{dir}/rw' = 'write'",
                "rm {dir}/rw/file && ls {dir}/rw",
                "",
            ),
        ],
    );
}

#[test]
fn what_is_denied_cannot_be_opened() {
    let policy = "[paths]\n'{dir}/real' = 'read'\n'{dir}/real/closed' = 'denied'\n'{dir}/real/closed.txt' = 'denied'\n\
                  '{dir}/rw' = 'write'\n'{dir}/rw/file' = 'denied'\n'{dir}/unlisted' = 'denied'";
    let row = |script, native, guest| Case {
        duty: 2,
        policy,
        script,
        native,
        guest,
    };
    check(
        "what_is_denied_cannot_be_opened",
        &[
            row(
                "cat {dir}/real/closed/key 2>/dev/null || echo refused",
                "secret",
                "refused",
            ),
            row(
                "ls {dir}/real/closed 2>/dev/null || echo refused",
                "key",
                "refused",
            ),
            row(
                "cat {dir}/real/closed.txt 2>/dev/null || echo refused",
                "secret",
                "refused",
            ),
            row(
                "test -e {dir}/real/closed.txt && echo there",
                "there",
                "there",
            ),
            row(
                "cd {dir}/real/closed 2>/dev/null && echo in || echo refused",
                "in",
                "refused",
            ),
            row(
                "chmod 777 {dir}/real/closed 2>/dev/null; cat {dir}/real/closed/key 2>/dev/null || echo refused",
                "secret",
                "refused",
            ),
            row(
                "rm {dir}/rw/file 2>/dev/null && echo gone || echo refused",
                "gone",
                "refused",
            ),
            row(
                "mv {dir}/rw/file {dir}/rw/f2 2>/dev/null && echo moved || echo refused",
                "moved",
                "refused",
            ),
            row(
                "mv {dir}/rw {dir}/rw2 2>/dev/null && echo moved || echo refused",
                "moved",
                "refused",
            ),
            row(
                "cat {dir}/unlisted 2>/dev/null || echo refused",
                "x",
                "refused",
            ),
        ],
    );
}

#[test]
fn what_is_hidden_cannot_be_seen() {
    let policy = "[paths]\n'{dir}/real' = 'read'\n'{dir}/real/gone' = 'hidden'\n'{dir}/real/gone.txt' = 'hidden'\n\
                  '{dir}/real/gone/kept' = 'read'\n'{dir}/unlisted' = 'hidden'\n'{dir}/real/closed' = 'hidden'\n\
                  '{dir}/real/never/was' = 'hidden'";
    let row = |script, native, guest| Case {
        duty: 2,
        policy,
        script,
        native,
        guest,
    };
    check(
        "what_is_hidden_cannot_be_seen",
        &[
            row("ls {dir}/real/gone", "kept\nkey", "kept"),
            row("cat {dir}/real/gone/kept/file", "kept", "kept"),
            row("ls {dir}/real/closed", "key", ""),
            row("cat {dir}/real/gone.txt", "secret", ""),
            row(
                "test -e {dir}/unlisted && echo there || echo absent",
                "there",
                "absent",
            ),
            row(
                "(echo x >{dir}/real/gone/new) 2>/dev/null && echo made || echo refused",
                "made",
                "refused",
            ),
            row(
                "chmod 777 {dir}/real/closed 2>/dev/null && echo done || echo refused",
                "done",
                "refused",
            ),
        ],
    );
}

#[test]
fn a_temporary_place_is_empty_and_the_guests_own() {
    let policy = "[paths]\n'{dir}/temp' = 'temporary'\n'/small' = {access='temporary', size_mib=1}";
    let row = |script, native, guest| Case {
        duty: 2,
        policy,
        script,
        native,
        guest,
    };
    check(
        "a_temporary_place_is_empty_and_the_guests_own",
        &[
            row(
                "ls {dir}/temp; echo y >{dir}/temp/z && cat {dir}/temp/z",
                "file\ny",
                "y",
            ),
            row(
                "head -c 2000000 /dev/zero >/small/f 2>/dev/null && echo fits || echo full",
                "full",
                "full",
            ),
            row(
                "head -c 900000 /dev/zero 2>/dev/null >/small/f && echo fits || echo full",
                "full",
                "fits",
            ),
        ],
    );
}

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
        ],
    );
    // An account that is root owns files of the kernel; without capabilities it is kept from them.
    let Some(_) = machine("a_guest_has_no_right_and_gains_none") else {
        return;
    };
    let job = Scratch::new();
    for script in [
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
            row(
                "nsenter --user=/proc/self/ns/user true 2>&1 | grep -c 'not permitted'",
                "0",
                "1",
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
#[cfg(target_arch = "x86_64")]
fn calls_that_reach_around_the_view_fail() {
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
    // Its own loopback works.
    let script = "perl -MSocket -e 'socket(L,2,1,0); bind(L,sockaddr_in(0,inet_aton(\"127.0.0.1\"))) && listen(L,1) or die;
        socket(C,2,1,0); connect(C,getsockname(L)) or die; print \"connected\"'";
    assert_eq!(
        shell(&site("network = 'none'"), &job.0, script).stdout,
        "connected"
    );
}

#[test]
fn the_environment_given_reaches_the_guest_and_nothing_else_does() {
    let Some(_) = machine("the_environment_given_reaches_the_guest_and_nothing_else_does") else {
        return;
    };
    let job = Scratch::new();
    let mut room = room(&Policy::default(), &job.0).unwrap();
    let given = [
        ("LD_PRELOAD", "/job/nothing.so"),
        ("B", "two words"),
        ("HOME", "/tmp"),
    ];
    let got = run(&mut *room, "env", &[], &given).unwrap();
    let mut lines: Vec<&str> = got.stdout.lines().collect();
    lines.sort();
    let path = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
    assert_eq!(
        lines,
        [
            "B=two words",
            "HOME=/tmp",
            "LD_PRELOAD=/job/nothing.so",
            path,
            "TMPDIR=/tmp"
        ]
    );
    assert!(
        got.stderr.contains("nothing.so"),
        "the guest's own loader reads it: {}",
        got.stderr
    );
    let got = run(
        &mut *room,
        "sh",
        &[
            "-c",
            "ls /proc/self/fd | wc -l; umask; grep -E 'SigIgn|SigBlk' /proc/self/status | grep -c 0000000000000000",
        ],
        &[],
    )
    .unwrap();
    assert_eq!(
        got.stdout.split_whitespace().collect::<Vec<_>>(),
        ["4", "0022", "2"],
        "{}",
        got.stderr
    );
}

#[test]
fn guests_of_one_room_see_each_other() {
    let Some(_) = machine("guests_of_one_room_see_each_other") else {
        return;
    };
    let job = Scratch::new();
    let mut room = room(&Policy::default(), &job.0).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let arguments = ["-c".to_owned(), "exec sleep 1000".to_owned()];
    let launch = Launch {
        program: "sh",
        arguments: &arguments,
        environment: &[],
        directory: None,
        stdin: null.as_fd(),
        stdout: null.as_fd(),
        stderr: null.as_fd(),
        terminal: false,
    };
    let mut first = room.start(&launch).unwrap();
    let mut second = room.start(&launch).unwrap();
    let got = run(&mut *room, "sh", &["-c", "cat /proc/[0-9]*/comm | sort | uniq -c | grep sleep | awk '{print $1}'; echo shared >/tmp/x"], &[]).unwrap();
    assert_eq!(got.stdout.trim(), "2", "{}", got.stderr);
    assert_eq!(
        run(&mut *room, "cat", &["/tmp/x"], &[]).unwrap().stdout,
        "shared\n"
    );
    assert_eq!((first.try_wait(), second.try_wait()), (None, None));
    first.signal(15);
    assert_eq!(wait(&mut first), Ended::Signalled(15));
    assert_eq!(second.try_wait(), None);
    room.kill_all();
    assert_eq!(wait(&mut second), Ended::Signalled(9));
    assert!(
        room.start(&launch).is_err(),
        "a room that was killed takes no more guests"
    );
}

#[test]
fn nothing_is_left_of_a_room_that_was_killed() {
    let Some(_) = machine("nothing_is_left_of_a_room_that_was_killed") else {
        return;
    };
    let (mut out, mut guest, mut room) = daemon(&Scratch::new());
    room.kill_all();
    assert_eq!(wait(&mut guest), Ended::Signalled(9));
    ends(&mut out);
}

#[test]
fn nothing_is_left_of_a_room_that_was_dropped() {
    let Some(_) = machine("nothing_is_left_of_a_room_that_was_dropped") else {
        return;
    };
    let (mut out, _guest, room) = daemon(&Scratch::new());
    drop(room);
    ends(&mut out);
}

/// A guest that ignores what can be ignored, with a process of another session in the background; all hold the pipe.
fn daemon(
    job: &Scratch,
) -> (
    std::fs::File,
    kumiko_sandbox::Guest,
    Box<dyn kumiko_sandbox::Room>,
) {
    let mut room = room(&Policy::default(), &job.0).unwrap();
    let (mut out, theirs) = pipe();
    let null = std::fs::File::open("/dev/null").unwrap();
    let script = "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM HUP; echo up; while :; do sleep 100; done' &); while :; do sleep 100; done";
    let guest = room
        .start(&Launch {
            program: "sh",
            arguments: &["-c".to_owned(), script.to_owned()],
            environment: &[],
            directory: None,
            stdin: null.as_fd(),
            stdout: theirs.as_fd(),
            stderr: null.as_fd(),
            terminal: false,
        })
        .unwrap();
    drop(theirs);
    let mut up = [0; 3];
    out.read_exact(&mut up).unwrap();
    (out, guest, room)
}

fn pipe() -> (std::fs::File, std::os::fd::OwnedFd) {
    let (ours, theirs) = kumiko_linux::spooling::pipe().unwrap();
    (ours.into(), theirs)
}

/// Nobody holds the other end any more.
fn ends(out: &mut std::fs::File) {
    let poll = kumiko_linux::poll::Poll::new().unwrap();
    poll.add(&*out, 0, kumiko_linux::poll::Interest::Read)
        .unwrap();
    let event = poll.wait::<1>(Some(DEADLINE)).unwrap().next();
    assert!(event.is_some(), "the pipe is still held after {DEADLINE:?}");
    assert_eq!(out.read(&mut [0; 1]).unwrap(), 0);
}

/// Run by the next test in a process of its own: holds a room until it is killed.
#[test]
fn inner_keeper_of_a_room() {
    if std::env::var_os("KUMIKO_INNER").is_none() {
        return;
    }
    let mut room = room(&Policy::default(), std::path::Path::new("/var/tmp")).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let arguments = [
        "-c".to_owned(),
        "(setsid sh -c 'echo up >&2; sleep 1000' &); sleep 1000".to_owned(),
    ];
    let _guest = room
        .start(&Launch {
            program: "sh",
            arguments: &arguments,
            environment: &[],
            directory: None,
            stdin: null.as_fd(),
            stdout: null.as_fd(),
            stderr: std::io::stderr().as_fd(),
            terminal: false,
        })
        .unwrap();
    let _ = std::io::stdin().read(&mut [0; 1]);
}

#[test]
fn nothing_is_left_when_the_runner_dies() {
    let Some(_) = machine("nothing_is_left_when_the_runner_dies") else {
        return;
    };
    let (mut out, theirs) = pipe();
    let mut keeper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inner_keeper_of_a_room", "--nocapture"])
        .env("KUMIKO_INNER", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(theirs)
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    out.read_exact(&mut up).unwrap();
    assert_eq!(&up, b"up\n");
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    ends(&mut out);
}

#[test]
fn exits_are_the_guests_own() {
    let Some(_) = machine("exits_are_the_guests_own") else {
        return;
    };
    let job = Scratch::new();
    for (script, expected) in [
        ("exit 0", Ended::Exited(0)),
        ("exit 1", Ended::Exited(1)),
        ("exit 255", Ended::Exited(255)),
        ("kill -KILL $$", Ended::Signalled(9)),
        ("kill -SEGV $$", Ended::Signalled(11)),
        // Killed by a broken pipe: the runner's own ignoring of it is not handed on.
        ("(kill -PIPE $$); sleep 1000", Ended::Signalled(13)),
    ] {
        assert_eq!(
            shell(&Policy::default(), &job.0, script).ended,
            expected,
            "{script}"
        );
    }
}

#[test]
fn a_terminal_controls_its_guest() {
    let Some(_) = machine("a_terminal_controls_its_guest") else {
        return;
    };
    let job = Scratch::new();
    let mut room = room(&Policy::default(), &job.0).unwrap();
    let (master, slave) = kumiko_linux::pty::open().unwrap();
    let mut guest = room
        .start(&Launch {
            program: "sh",
            arguments: &[
                "-c".to_owned(),
                "echo ready >/dev/tty; exec sleep 1000".to_owned(),
            ],
            environment: &[],
            directory: None,
            stdin: slave.as_fd(),
            stdout: slave.as_fd(),
            stderr: slave.as_fd(),
            terminal: true,
        })
        .unwrap();
    drop(slave);
    let mut master = std::fs::File::from(master);
    let mut ready = [0; 5];
    master.read_exact(&mut ready).unwrap();
    master.write_all(&[3]).unwrap(); // ^C
    assert_eq!(wait(&mut guest), Ended::Signalled(2));
}

#[test]
fn figure_2_runs_as_a_job_of_the_default_site() {
    let Some(_) = machine("figure_2_runs_as_a_job_of_the_default_site") else {
        return;
    };
    let text = include_str!("../../../spec/policy/vectors/valid/figure2.policy");
    let policy = narrow(&Policy::default(), &parse(text, "figure 2").unwrap()).unwrap();
    let job = Scratch::new();
    let got = shell(
        &policy,
        &job.0,
        "cmp /etc/passwd /etc/hosts && ls /usr/lib >/dev/null && echo mapped",
    );
    assert_eq!(got.stdout.trim(), "mapped", "{}", got.stderr);
}

#[test]
fn a_job_maps_its_own_directory_and_follows_no_link_out_of_it() {
    let Some(_) = machine("a_job_maps_its_own_directory_and_follows_no_link_out_of_it") else {
        return;
    };
    let host = Scratch::new();
    host.put("job/work/file", "mine");
    host.put("secret/key", "secret");
    let secret = host.path("secret");
    std::os::unix::fs::symlink(&secret, host.path("job/link")).unwrap();
    std::os::unix::fs::symlink("..", host.path("job/up")).unwrap();
    let job = host.0.join("job");
    let mapped = |real: &str| {
        let below = parse(
            &format!("[paths]\n'/m' = {{access='write', real='{real}'}}"),
            "job policy",
        )
        .unwrap();
        narrow(&Policy::default(), &below).unwrap()
    };
    assert_eq!(
        shell(&mapped("/job/work"), &job, "cat /m/file; echo new >/m/out").stdout,
        "mine"
    );
    assert_eq!(
        std::fs::read_to_string(job.join("work/out")).unwrap(),
        "new\n"
    );
    for real in ["/job/link", "/job/link/key", "/job/up", "/job/up/secret"] {
        let Err(error) = room(&mapped(real), &job)
            .and_then(|mut room| run(&mut *room, "true", &[], &[]).map(drop))
        else {
            panic!("{real} was mapped");
        };
        assert_eq!(error.code(), "mapping_symbolic_link", "{real}: {error}");
    }
}

fn executable(path: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The other tests, as an account that is not root, where they ran as root.
#[test]
fn all_of_it_holds_for_an_ordinary_account() {
    if !kumiko_linux::is_root() || std::env::var_os("KUMIKO_INNER").is_some() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.path("tests");
    // By another process: a descriptor for writing that some fork of this one holds would make the copy busy.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    executable(&program);
    std::fs::set_permissions(
        &scratch.0,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let output = Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            &program,
        ])
        .args(["--skip", "all_of_it_holds", "--skip", "inner_"])
        .current_dir("/")
        .output();
    match output {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            errors
                .lines()
                .filter(|line| line.starts_with("SKIP "))
                .for_each(|line| eprintln!("{line}"));
            assert!(output.status.success(), "{text}\n{errors}");
        }
        Err(error) => {
            eprintln!("SKIP all_of_it_holds_for_an_ordinary_account: missing setpriv ({error})")
        }
    }
}
