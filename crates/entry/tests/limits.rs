//! Limits of `sandbox run`, on real programs (spec/policy, P50 to P55). Each guest is below a process of its own, and
//! only bounds from above are held to: a busy machine gives less, never more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_linux::limits::group::{Controller, Place};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than any of this takes.
const DEADLINE: Duration = Duration::from_secs(60);

const GOES_ON: &str = "it goes on when it is stopped";

fn possible(test: &str) -> bool {
    let possible = kumiko_sandbox::Machine::probe().user_namespaces.is_ok();
    if !possible {
        eprintln!("SKIP {test}: missing user namespaces");
    }
    possible
}

fn sandbox(limits: &[&str], script: &str) -> Command {
    sandbox_by("auto", limits, script)
}

fn sandbox_by(mechanism: &str, limits: &[&str], script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kumiko-entry"));
    command.args(["sandbox", "run", "--mechanism", mechanism]);
    for limit in limits {
        command.args(["--limit", limit]);
    }
    command
        .args(["--", "bash", "-c", script])
        .stdin(Stdio::null());
    command
}

/// The same for an account that may make no control groups, whose jobs are held by stopping them.
fn sandbox_without_groups(limits: &[&str], script: &str) -> Command {
    let sandbox = sandbox(limits, script);
    if Place::find(Controller::Cpu).is_none() {
        return sandbox;
    }
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !kumiko_linux::is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(["sh", "-c"])
        .arg("mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"")
        .arg("sh")
        .arg(sandbox.get_program())
        .args(sandbox.get_args())
        .stdin(Stdio::null());
    command
}

/// The child does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_job_that_is_over_a_limit_ends_and_says_which() {
    if !possible("a_job_that_is_over_a_limit_ends_and_says_which") {
        return;
    }
    let check = |limit: &str, script: &str, words: &str| {
        let Output { status, stderr, .. } = sandbox(&[limit], script).output().unwrap();
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(137), "{limit}: {said}");
        assert!(said.contains(words), "{limit}: {said}");
    };
    check("wall-time=1s", "sleep 1000", "wall time limit of 1 s");
    check(
        "cpu-time=1s",
        "while :; do :; done",
        "cpu time limit of 1 s",
    );
    // Of children that come and go, none of which is over it.
    check(
        "cpu-time=1s",
        "while :; do (for i in {1..2000}; do :; done); done",
        "cpu time limit of 1 s",
    );
    check(
        "memory=100MiB",
        "dd if=/dev/zero of=/dev/null bs=300M",
        "memory limit of 100 MiB",
    );
    // Of several, none of which is over it.
    check(
        "memory=100MiB",
        "for i in 1 2 3 4; do dd if=/dev/zero of=/dev/null bs=60M & done; wait",
        "memory limit of 100 MiB",
    );
}

#[test]
fn a_job_below_its_limits_is_left_alone() {
    if !possible("a_job_below_its_limits_is_left_alone") {
        return;
    }
    let limits = [
        "memory=1GiB",
        "cpu=1000%",
        "wall-time=1h",
        "net=1GB/s",
        "disk=1GB/s",
    ];
    let script = "for i in {1..20}; do (exit $i) || :; done; sleep 0.2; echo well; exit 7";
    let output = sandbox(&limits, script).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "well\n");
}

#[test]
fn open_files_are_bounded_by_the_kernel() {
    if !possible("open_files_are_bounded_by_the_kernel") {
        return;
    }
    // It sees the bound come; then it is its own and its children's.
    let script = "until [ $(ulimit -n) = 20 ]; do sleep 0.01; done; bash -c 'ulimit -n'";
    let output = sandbox(&["open-files=20", "wall-time=60s"], script)
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "20\n",
        "{output:?}"
    );
}

#[test]
fn processes_are_counted_by_the_kernel() {
    const NAME: &str = "processes_are_counted_by_the_kernel";
    if !possible(NAME) {
        return;
    }
    let mut policy = kumiko_policy::Policy::default();
    policy.limits.processes = Some(6);
    let kinds = [
        kumiko_policy::MechanismKind::Namespace,
        kumiko_policy::MechanismKind::Notify,
    ];
    // Makes processes that stay, until it cannot; where nothing keeps it, it gives up after a minute.
    let script = "exec perl -e 'for (1..600) { $p = fork; \
        unless (defined $p) { print \"refused\"; exit } \
        unless ($p) { sleep 100; exit } select undef, undef, undef, 0.1 } print \"made\"'";
    let machine = kumiko_sandbox::Machine::probe();
    for kind in kinds
        .into_iter()
        .filter(|kind| machine.admits(*kind).is_ok())
    {
        if !kumiko_sandbox::kept(&policy, kind).not.is_empty() {
            eprintln!("SKIP {NAME}: missing a control group that counts processes");
            continue;
        }
        let output = sandbox_by(kind.name(), &["processes=6"], script)
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "refused",
            "{kind:?}: {output:?}"
        );
    }
}

#[test]
fn a_share_of_processors_is_of_the_whole_job() {
    if !possible("a_share_of_processors_is_of_the_whole_job") {
        return;
    }
    // Four that want a processor each, for four seconds; the shell tells what its children had.
    let script = "for i in 1 2 3 4; do timeout 4 bash -c 'while :; do :; done' & done; wait; times";
    let output = sandbox(&["cpu=20%"], script).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let seconds: f64 = said
        .lines()
        .next_back()
        .unwrap()
        .split_whitespace()
        .map(|time| {
            let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
            minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
        })
        .sum();
    // 0.8 s by right; without the limit 4 s on one processor.
    assert!(seconds < 2.0, "{seconds} s: {said}");
}

/// As launchers of MPI have one, which pass it on to their ranks and say so.
#[test]
fn a_launcher_that_waits_does_not_hear_that_its_job_was_stopped() {
    if !possible("a_launcher_that_waits_does_not_hear_that_its_job_was_stopped") {
        return;
    }
    let script = "trap 'echo heard' CONT; \
                  for i in 1 2; do timeout 2 bash -c 'while :; do :; done' & done; \
                  wait; wait; echo waited";
    let output = sandbox(&["cpu=20%"], script).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "waited\n",
        "{output:?}"
    );
}

#[test]
fn no_way_to_go_on_gives_a_job_more_of_a_processor() {
    if !possible("no_way_to_go_on_gives_a_job_more_of_a_processor") {
        return;
    }
    // Four seconds each on a processor or two, of which 0.2 are its share.
    let cases = [
        // A launcher, which is not stopped, lets go on what it launched.
        "$SIG{CONT} = sub {}; @all = map { fork or burn() } 1, 2; \
         while (time < $^T + 4) { select undef, undef, undef, 5e-4; kill CONT => @all }",
        // A launcher that waits, and begins to use what its job may not.
        "$SIG{CONT} = sub {}; fork or burn(); select undef, undef, undef, 2; 1 while time < $^T + 4",
        // A process whose first thread has ended.
        "if (!fork) { require threads; threads->create(\\&burn); syscall 60, 0 }",
    ];
    for case in cases {
        let script = format!(
            "exec perl -e 'sub burn {{ 1 while time < $^T + 4; exit }} {case}; 1 while wait > 0; \
             $used += $_ for times; print $used'"
        );
        for sandbox in [sandbox, sandbox_without_groups] {
            let output = sandbox(&["cpu=5%"], &script).output().unwrap();
            // On a busy machine whom we spare lets it go on for longer between two looks, up to as many as end it.
            if String::from_utf8_lossy(&output.stderr).contains(GOES_ON) {
                continue;
            }
            let said = String::from_utf8_lossy(&output.stdout);
            let seconds: f64 = said.parse().unwrap_or(f64::MAX);
            assert!((0.02..2.0).contains(&seconds), "{case}: {output:?}");
        }
    }
}

#[test]
fn a_job_that_cannot_be_held_by_stopping_it_ends() {
    if !possible("a_job_that_cannot_be_held_by_stopping_it_ends") {
        return;
    }
    // Timers that send SIGCONT, one after the other: timer_create and timer_settime (x86_64). Those that went off before the
    // job ran again are lost when it is stopped, and set anew when it runs.
    let script = "exec perl -e '$SIG{CONT} = sub {}; $event = pack q(x8 i2 x48), 18, 0; \
        for (1 .. 64) { $id = pack q(i), 0; syscall(222, 1, $event, $id) and die $!; push @ids, unpack q(i), $id } \
        until (time > $^T + 60) { for (@ids) { $at = pack q(q4), 0, 0, 0, 1e6 + 7e6 * $_; syscall 223, $_, 0, $at, 0 } }'";
    let mut sandbox = sandbox_without_groups(&["cpu=2%"], script);
    let output = sandbox.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(137), "{said}");
    assert!(said.contains(GOES_ON), "{said}");
}

/// Bytes that come within a second, as of the clock.
fn rate(stream: &mut TcpStream, buffer: &mut [u8]) -> f64 {
    let begun = Instant::now();
    let mut bytes = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        bytes += stream.read(buffer).unwrap();
    }
    bytes as f64 / begun.elapsed().as_secs_f64()
}

#[test]
fn sockets_are_paced_and_the_rate_is_changed_while_the_job_runs() {
    if !possible("sockets_are_paced_and_the_rate_is_changed_while_the_job_runs") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("cat /dev/zero > /dev/tcp/127.0.0.1/{port}");
    let running = Running(sandbox(&["net=1MB/s"], &script).spawn().unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut until = |what: &str, holds: &dyn Fn(f64) -> bool| {
        let begun = Instant::now();
        loop {
            let rate = rate(&mut stream, &mut buffer);
            if holds(rate) {
                return;
            }
            assert!(begun.elapsed() < DEADLINE, "{what}: {rate} bytes a second");
        }
    };
    // What it sent before it was found is read first.
    until("1 MB/s", &|rate| rate < 1.3e6);
    let ask = |wish: &str| kumiko_entry::wishes::ask(running.0.id(), &[wish.to_owned()]).unwrap();
    let told = ask("net=8MB/s");
    assert!(told.contains("network limit of 8000 KByte/s"), "{told}");
    until("8 MB/s", &|rate| (3e6..10e6).contains(&rate));
    ask("network_kbyte_s=500");
    until("0.5 MB/s", &|rate| rate < 0.7e6);
}

/// Sends 60,000 bytes by each of 12 connections in turn, 20 times, and waits for an answer each time.
const TAKING_TURNS: &str = "my @all; for (1..12) { socket(my $s, AF_INET, SOCK_STREAM, 0); \
    connect($s, pack_sockaddr_in($ARGV[0], INADDR_LOOPBACK)) or die $!; push @all, $s } \
    for (1..20) { for my $s (@all) { my $left = 60_000; \
    $left -= syswrite($s, 'x' x $left) while $left; sysread($s, my $answer, 1) or die $! } }";

#[test]
fn sockets_that_take_turns_have_the_whole_rate_in_turn() {
    if !possible("sockets_that_take_turns_have_the_whole_rate_in_turn") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut message = vec![0; 60_000];
                while stream.read_exact(&mut message).is_ok() {
                    stream.write_all(b"x").unwrap();
                }
            });
        }
    });
    let begun = Instant::now();
    let script = format!("perl -MSocket -e \"$0\" {port}");
    let mut command = sandbox(&["net=1MB/s"], &script);
    assert!(command.arg(TAKING_TURNS).status().unwrap().success());
    // 14.4 MB, half of which are first packets, which nobody can pace. With a twelfth of the rate each it is a minute.
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn what_comes_is_held_to_the_rate_too() {
    if !possible("what_comes_is_held_to_the_rate_too") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("cat < /dev/tcp/127.0.0.1/{port}");
    let mut command = sandbox(&["net=100MB/s"], &script);
    let _running = Running(command.stdout(Stdio::null()).spawn().unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    let (begun, piece) = (Instant::now(), vec![0; 1 << 14]);
    loop {
        let (second, mut bytes) = (Instant::now(), 0);
        while second.elapsed() < Duration::from_secs(1) {
            bytes += stream.write(&piece).unwrap();
        }
        // What lies in both ends' buffers came first, and is paid for.
        let rate = bytes as f64 / second.elapsed().as_secs_f64();
        if rate < 150e6 {
            return;
        }
        assert!(begun.elapsed() < DEADLINE, "{rate} bytes a second");
    }
}

#[test]
fn nobody_is_asked_in_vain() {
    let error = kumiko_entry::wishes::ask(u32::MAX, &["cpu=5%".to_owned()]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no `kumiko sandbox run` of yours"),
        "{error}"
    );
}

/// Those that this machine admits.
fn mechanisms() -> impl Iterator<Item = &'static str> {
    let machine = kumiko_sandbox::Machine::probe();
    kumiko_policy::MechanismKind::ALL
        .into_iter()
        .filter(move |kind| machine.admits(*kind).is_ok())
        .map(kumiko_policy::MechanismKind::name)
}

/// Sends datagrams of 1,000 bytes from outside to whom tells its port, each millisecond, until it says something more.
fn pour(running: &mut Running) -> String {
    let mut out = BufReader::new(running.0.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let port: u16 = line.trim().parse().unwrap();
    let said = std::thread::spawn(move || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line.trim().to_owned()
    });
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let begun = Instant::now();
    while !said.is_finished() && begun.elapsed() < DEADLINE {
        let _ = socket.send_to(&[7; 1000], ("127.0.0.1", port)); // refused once it has ended
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = running.0.kill();
    said.join().unwrap()
}

/// In perl: a socket of datagrams, which tells its port.
const HEARING: &str = "$| = 1; socket(S, AF_INET, SOCK_DGRAM, 0); bind(S, pack_sockaddr_in(0, INADDR_LOOPBACK)) or die $!; \
    ($port) = unpack_sockaddr_in(getsockname S); print \"$port\\n\";";

#[test]
fn what_is_not_tcp_is_free_and_said_to_be() {
    if !possible("what_is_not_tcp_is_free_and_said_to_be") {
        return;
    }
    let heard = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = heard.local_addr().unwrap().port();
    // At its rate it would take a quarter of an hour to send, and two minutes to hear.
    let sends = format!(
        "perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0); $to = pack_sockaddr_in({port}, INADDR_LOOPBACK); \
         for (1 .. 900) {{ send(S, \"x\" x 1000, 0, $to) or die $! }} print \"sent\"'"
    );
    let hears = format!(
        "perl -MSocket -e '{HEARING} for (1 .. 120) {{ recv(S, $x, 9000, 0) // die $! }} print \"heard\\n\"'"
    );
    for mechanism in mechanisms() {
        let output = sandbox_by(mechanism, &["net=1KB/s"], &sends)
            .output()
            .unwrap();
        let [said, told] = [&output.stdout, &output.stderr].map(|all| String::from_utf8_lossy(all));
        assert_eq!(said, "sent", "{mechanism}: {told}");
        assert!(told.contains("what is not TCP"), "{mechanism}: {told}");
        let mut command = sandbox_by(mechanism, &["net=1KB/s"], &hears);
        let mut running = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        assert_eq!(pour(&mut running), "heard", "{mechanism}");
    }
}

#[test]
fn datagrams_are_held_to_the_rate_by_a_limiter_in_the_guest() {
    let heard = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = heard.local_addr().unwrap().port();
    // A second's worth is a hundred of them; both are over within a moment, where nobody holds them.
    let took = "printf qq(%.3f\\n), Time::HiRes::time() - $begun";
    let sends = format!(
        "perl -MSocket -MTime::HiRes -e '$| = 1; print \"{port}\\n\"; socket(S, AF_INET, SOCK_DGRAM, 0); \
         $to = pack_sockaddr_in({port}, INADDR_LOOPBACK); $begun = Time::HiRes::time(); \
         for (1 .. 250) {{ send(S, \"x\" x 1000, 0, $to) or die $! }} {took}'"
    );
    let hears = format!(
        "perl -MSocket -MTime::HiRes -e '{HEARING} recv(S, $x, 9000, 0) // die $!; $begun = Time::HiRes::time(); \
         for (1 .. 250) {{ recv(S, $x, 9000, 0) // die $! }} {took}'"
    );
    for limiter in ["deadline", "paper"] {
        for script in [&sends, &hears] {
            let Some((mut running, _stderr)) = inside(limiter, "net=100KB/s", script) else {
                return;
            };
            let took: f64 = pour(&mut running).parse().unwrap();
            assert!((2.0..50.0).contains(&took), "{limiter}: {took} s: {script}");
        }
    }
}

#[test]
fn a_run_follows_what_is_asked_of_its_process_under_every_mechanism() {
    if !possible("a_run_follows_what_is_asked_of_its_process_under_every_mechanism") {
        return;
    }
    let script = "echo up; while test -r /usr/bin/env; do :; done; echo gone; until test -r /usr/bin/env; do :; done; echo back";
    for mechanism in mechanisms() {
        let mut command = sandbox_by(mechanism, &["net=100Mbit/s"], script);
        let mut running = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut out = BufReader::new(running.0.stdout.take().unwrap());
        let mut says = |expected: &str| {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            assert_eq!(line.trim(), expected, "{mechanism}");
        };
        let pid = running.0.id();
        let ask = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            kumiko_entry::wishes::ask(pid, &words).map_err(|error| error.to_string())
        };
        says("up");
        match ask(&["/usr/bin=hidden", "deny=192.0.2.0/24"]) {
            Ok(told) => {
                assert_ne!(mechanism, "namespace");
                assert!(
                    told.contains("not followed: addresses, of datagrams"),
                    "{mechanism}: {told}"
                );
            }
            // And none of the rest.
            Err(why) => {
                assert!(["auto", "namespace"].contains(&mechanism), "{mechanism}");
                assert!(
                    why.contains("what namespace lets a program reach is settled"),
                    "{why}"
                );
            }
        }
        let told = ask(&["/usr/bin=hidden", "net=1Gbit/s"]).unwrap();
        assert!(
            told.contains("125000 KByte/s, /usr/bin hidden"),
            "{mechanism}: {told}"
        );
        says("gone");
        // All of a line or nothing of it.
        let refused = ask(&["net=1MB/s", "/usr/bin=write"]).unwrap_err();
        assert!(refused.contains("read only"), "{mechanism}: {refused}");
        let told = ask(&["/usr/bin=read"]).unwrap();
        assert!(told.contains("125000 KByte/s"), "{mechanism}: {told}");
        says("back");
    }
}

/// Under each mechanism that is at hand.
fn says_where_paced_and_where_not(script: &str, paced: &str, free: &str) {
    for mechanism in mechanisms() {
        for (limit, expected) in [("net=1GB/s", paced), ("cpu=1000%", free)] {
            let output = sandbox_by(mechanism, &[limit], script).output().unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                expected,
                "{mechanism}, {limit}: {output:?}"
            );
        }
    }
}

#[test]
fn a_paced_job_does_not_set_its_own_pace() {
    if !possible("a_paced_job_does_not_set_its_own_pace") {
        return;
    }
    // SOL_SOCKET, SO_MAX_PACING_RATE; perl is essential in Debian.
    let script = "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); print setsockopt(S, 1, 47, pack(\"L\", 9)) ? \"set\" : \"refused\"'";
    says_where_paced_and_where_not(script, "refused", "set");
}

#[test]
fn no_thread_of_a_paced_job_has_descriptors_of_its_own() {
    if !possible("no_thread_of_a_paced_job_has_descriptors_of_its_own") {
        return;
    }
    // unshare(CLONE_FILES), close_range(50, 60, CLOSE_RANGE_UNSHARE), and clone(CLONE_THREAD), which is no thread natively.
    let script = "perl -e 'print syscall(272, 0x400) ? q(refused ) : q(done ); \
        print syscall(436, 50, 60, 2) ? q(refused ) : q(done ); syscall(56, 0x10000, 0); print $! + 0'";
    says_where_paced_and_where_not(script, "refused refused 1", "done done 22");
}

#[test]
fn a_socket_is_found_though_the_first_thread_of_its_process_has_ended() {
    const NAME: &str = "a_socket_is_found_though_the_first_thread_of_its_process_has_ended";
    if !possible(NAME) {
        return;
    }
    if kumiko_linux::process::threadfd(std::process::id() as i32).is_err() {
        return eprintln!("SKIP {NAME}: missing descriptors of threads (Linux 6.9)");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "exec perl -MSocket -e 'require threads; threads->create(sub {{ select undef, undef, undef, 0.5; \
         socket(S, AF_INET, SOCK_STREAM, 0); connect(S, pack_sockaddr_in({port}, INADDR_LOOPBACK)) or die $!; \
         1 while syswrite(S, \"x\" x 65536) }}); syscall 60, 0'"
    );
    let _running = Running(sandbox(&["net=1MB/s"], &script).spawn().unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let (begun, mut buffer) = (Instant::now(), vec![0; 1 << 20]);
    loop {
        let rate = rate(&mut stream, &mut buffer);
        if rate < 1.3e6 {
            return;
        }
        assert!(begun.elapsed() < DEADLINE / 4, "{rate} bytes a second");
    }
}

#[test]
fn a_socket_has_a_pace_when_it_is_connected_or_bound_where_that_is_asked_for() {
    if !possible("a_socket_has_a_pace_when_it_is_connected_or_bound_where_that_is_asked_for") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for mechanism in mechanisms().filter(|name| !["auto", "namespace"].contains(name)) {
        for (call, port) in [("connect", port), ("bind", 0)] {
            let script = format!(
                "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); \
                 {call}(S, pack_sockaddr_in({port}, INADDR_LOOPBACK)) or die $!; \
                 print unpack(\"L\", getsockopt(S, 1, 47))'"
            );
            let output = sandbox_by(mechanism, &["net=1MB/s"], &script)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let pace: u64 = said.parse().unwrap_or(u64::MAX);
            // Its share by now, with what was sent too little in it; a socket without one says 2^32 - 1.
            assert!(pace <= 1_200_000, "{mechanism}, {call}: {output:?}");
        }
    }
}

/// What a job under a limiter of its own sends to this test, and that it says what it leaves open.
fn inside(limiter: &str, rate: &str, script: &str) -> Option<(Running, impl Read + use<>)> {
    let machine = kumiko_sandbox::Machine::probe();
    if let Err(obstacle) = machine.admits(kumiko_policy::MechanismKind::Library) {
        eprintln!("SKIP a limiter in the guest: missing {}", obstacle.why);
        return None;
    }
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let told = String::from_utf8_lossy(&told.unwrap().stdout)
        .trim()
        .to_owned();
    let minor = told.strip_prefix("glibc 2.").and_then(|m| m.parse().ok());
    if minor.is_none_or(|minor: u32| minor >= 41) {
        eprintln!("SKIP a limiter in the guest: missing glibc before 2.41");
        return None;
    }
    let policy = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        policy.path(),
        format!("complete = false\nlimiter = \"{limiter}\"\n"),
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kumiko-entry"));
    command
        .args(["sandbox", "run", "--policy"])
        .arg(policy.path())
        .args(["--limit", rate, "--", "bash", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut said = String::new();
    let mut stderr = BufReader::new(running.0.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("a C library's own calls"), "{said}");
    Some((running, stderr))
}

#[test]
fn a_rate_is_kept_in_the_guest_where_the_policy_says_so() {
    for limiter in ["deadline", "paper"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Two processes, 32 MB each, at 12.5 MB/s in all.
        let one = format!("head -c 32000000 /dev/zero > /dev/tcp/127.0.0.1/{port}");
        let script = format!("{one} & {one} & wait");
        let Some((running, _stderr)) = inside(limiter, "net=100Mbit/s", &script) else {
            return;
        };
        let begun = Instant::now();
        let streams = [listener.accept().unwrap().0, listener.accept().unwrap().0];
        let counts = streams.map(|mut stream| {
            std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()).unwrap())
        });
        let bytes = counts.map(|count| count.join().unwrap());
        assert_eq!(bytes, [32_000_000; 2], "{limiter}");
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(4_500), "{limiter}: {took:?}");
        drop(running);
    }
}

#[test]
fn a_rate_that_is_kept_in_the_guest_is_changed_while_a_call_waits_for_it() {
    for limiter in ["deadline", "paper"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // At 1 KB/s it would take seven hours.
        let script = format!("head -c 25000000 /dev/zero > /dev/tcp/127.0.0.1/{port}");
        let Some((running, _stderr)) = inside(limiter, "net=1KB/s", &script) else {
            return;
        };
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut buffer = vec![0; 1 << 20];
        assert!(stream.read(&mut buffer).unwrap() > 0);
        let wish = ["net=10MB/s".to_owned()];
        let told = kumiko_entry::wishes::ask(running.0.id(), &wish).unwrap();
        assert!(told.contains("network limit of 10000 KByte/s"), "{told}");
        let begun = Instant::now();
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(2), "{limiter}: {took:?}");
        assert!(took < DEADLINE, "{limiter}: {took:?}");
    }
}
