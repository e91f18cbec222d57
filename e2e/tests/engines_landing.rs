//! A site with a landing serves hosts of Slurm to which none of its sockets leads (spec/jobs/pilots.md, PL40 to PL45). An overlay over the
//! spools' root stands for a directory that a file server shares: to connect through it fails as from another kernel.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports, unused_macros)]
mod engines;

use engines::{COUNTED, directory};
use kumiko_e2e::{Person, told, until};
use std::os::unix::net::UnixStream;
use std::path::Path;

const START: [&str; 10] = [
    "site",
    "start",
    "--listen",
    "127.0.0.1:0",
    "--batch",
    "slurm",
    "--pilots",
    "0..1",
    "--landing",
    "127.0.0.1",
];

/// Lets a job go on, and waits for its end; it ran once.
fn let_go(person: &Person, job: &str) {
    std::fs::write(directory(person, job).join("go"), "").unwrap();
    let waited = person.run(["job", "wait", job]);
    assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
    assert_eq!(person.ok(["job", "log", job]), "begun\ndone\nstart\n");
}

fn is_elsewhere(socket: &Path) {
    let connected = UnixStream::connect(socket).map_err(|error| error.kind());
    let refused = Some(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(connected.err(), refused, "{}", socket.display());
}

#[test]
fn a_site_with_a_landing_hears_of_jobs_on_hosts_of_another_kernel_though_it_is_killed() {
    let test = "a_site_with_a_landing_hears_of_jobs_on_hosts_of_another_kernel_though_it_is_killed";
    let Some((engine, person)) = engines::apart(test) else {
        return;
    };
    person.ok(START);
    engines::overlay(&engine, &person, "spool");
    let spools = person.kumiko_home().join("state/spool");
    let submit = |flags: &[&str]| {
        let line = ["job", "submit"].into_iter().chain(flags.iter().copied());
        let job = person.ok(line.chain(["--", "sh", "-c", COUNTED]));
        job.trim().to_owned()
    };
    // By a pilot, and by the engine itself.
    let (piloted, direct) = (submit(&[]), submit(&["--queue", "urgent"]));
    for job in [&piloted, &direct] {
        until("its output is heard while it runs", || {
            person.ok(["job", "log", "--follow=no", job]) == "begun\n"
        });
    }
    is_elsewhere(&spools.join("pilot-1/control"));
    is_elsewhere(&spools.join(format!("{direct}.1/control")));
    let_go(&person, &piloted);
    let quick = person.ok(["job", "run", "--", "echo", "by the same pilot"]);
    assert_eq!(quick, "by the same pilot\n");
    person.kill_site();
    person.ok(START);
    engines::forget();
    let_go(&person, &direct);
    let cancelled = submit(&[]);
    until("it has begun", || {
        directory(&person, &cancelled).join("starts").exists()
    });
    person.ok(["job", "cancel", &cancelled]);
    let waited = person.run(["job", "wait", &cancelled]);
    assert!(told(&waited).contains("cancelled"), "{}", told(&waited));
}
