//! MPI as a kind of job (spec/jobs/mpi.md), with MPICH and Open MPI as Debian has them: all ranks in one sandbox.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::globus::GlobusUser;
use kumiko_e2e::{Person, finish, finish_with, has_program, skip, told, until};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// And how many ranks a test may have: those of MPICH wait at full speed, so that more of them than processors pass a
/// message in a turn of the scheduler each.
const LIBRARIES: [(&str, u32); 2] = [("mpich", 2), ("openmpi", 4)];
/// For the same reason tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles into `folder`, by the compiler of a library; None: it is not here.
fn compiled(test: &str, library: &str, source: &str, folder: &Path, name: &str) -> Option<PathBuf> {
    let compiler = format!("mpicc.{library}");
    if !has_program(&compiler) {
        skip(test, &format!("{compiler} (of lib{library}-dev)"));
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let program = folder.join(name);
    std::fs::create_dir_all(folder).unwrap();
    let mut line = Command::new(compiler);
    line.args(["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"]);
    line.arg(&program).arg(source).arg("-lm");
    let output = finish(&mut line);
    assert!(output.status.success(), "{}", told(&output));
    Some(program)
}

/// A person with a site, and a folder `work` with the program of `mpi/ranks.c`.
fn with_ranks(test: &str, library: &str) -> Option<Person> {
    let person = Person::new();
    let work = person.home.path().join("work");
    compiled(test, library, "tests/mpi/ranks.c", &work, "ranks")?;
    person.start_site();
    Some(person)
}

fn run(person: &Person, options: &[&str], command: &[&str]) -> Output {
    let line = ["job", "run", "--mpi", "--dir", "work"];
    let line = line.iter().chain(options).chain(&["--"]).chain(command);
    person.run(line)
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn said(ranks: u32) -> Vec<String> {
    (0..ranks)
        .map(|rank| format!("rank {rank} of {ranks}: one room, read, passed, count {ranks}"))
        .collect()
}

#[test]
fn ranks_are_in_one_sandbox_and_read_each_others_memory() {
    let _turn = turn();
    let test = "ranks_are_in_one_sandbox_and_read_each_others_memory";
    for (library, ranks) in LIBRARIES {
        let Some(person) = with_ranks(test, library) else {
            continue;
        };
        let count = ranks.to_string();
        let all = run(&person, &["--count", &count], &["./ranks"]);
        assert!(all.status.success(), "{library}: {}", told(&all));
        assert_eq!(lines(&all), said(ranks), "{library}");
        // By other mechanisms too, where the library asks for nothing that they do not have.
        if library == "openmpi" {
            for mechanism in ["notify", "ptrace"] {
                let all = run(
                    &person,
                    &["--count", "2", "--mechanism", mechanism],
                    &["./ranks"],
                );
                if told(&all).contains("cannot be used on this machine") {
                    skip(test, "Landlock 6");
                    continue;
                }
                assert!(all.status.success(), "{mechanism}: {}", told(&all));
                let passed = |line: &String| line.contains("passed, count 2");
                assert!(
                    lines(&all).iter().all(passed),
                    "{mechanism}: {}",
                    told(&all)
                );
            }
        }
        // The first rank has the job's stdin; without a network of the host's there is still a loopback.
        let policy = person.file("none.toml", "network = \"none\"\n");
        let line = [
            "job", "run", "--mpi", "-n", "2", "--dir", "work", "--stdin", "-",
        ];
        let mut line = person.kumiko(line);
        line.arg("--policy")
            .arg(policy)
            .args(["--", "./ranks", "copy"]);
        let copied = finish_with(&mut line, b"from here\n");
        assert!(copied.status.success(), "{library}: {}", told(&copied));
        assert!(
            lines(&copied).contains(&"from here".to_owned()),
            "{}",
            told(&copied)
        );
    }
}

/// As an account without any privilege; run by root, who can become one.
#[test]
fn an_ordinary_account_runs_ranks() {
    let _turn = turn();
    let test = "an_ordinary_account_runs_ranks";
    const NOBODY: &str = "65534";
    let place = tempfile::Builder::new()
        .prefix("kumiko-nobody-")
        .tempdir()
        .unwrap();
    if std::fs::metadata(place.path()).unwrap().uid() != 0 {
        return; // all the other tests show it then
    }
    if !has_program("setpriv") {
        return skip(test, "setpriv");
    }
    let (programs, home) = (place.path().join("bin"), place.path().join("home"));
    let work = home.join("work");
    for (library, _) in LIBRARIES {
        if compiled(test, library, "tests/mpi/ranks.c", &work, library).is_none() {
            return;
        }
    }
    // Where another account can reach it.
    std::fs::create_dir(&programs).unwrap();
    for name in ["kumiko", "kumiko-grid", "kumiko-run"] {
        let built = kumiko_e2e::kumiko().with_file_name(name);
        if name != "kumiko-grid" || built.exists() {
            std::fs::copy(built, programs.join(name)).unwrap();
        }
    }
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for path in [&home, &work] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let script = "set -eu; kumiko site start --listen 127.0.0.1:0 >&2; trap 'kumiko site stop >&2' EXIT\n\
                  for library in mpich openmpi; do kumiko job run --mpi -n 2 --dir work -- ./$library; done";
    let mut session = Command::new("setpriv");
    session.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    session
        .args(["sh", "-c", script])
        .env_clear()
        .current_dir(&home);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
    session.env("PATH", path).env("HOME", &home);
    session.env("KUMIKO_HOME", home.join("kumiko"));
    let session = finish(&mut session);
    assert!(session.status.success(), "{}", told(&session));
    let mut twice = [said(2), said(2)].concat();
    twice.sort();
    assert_eq!(lines(&session), twice, "{}", told(&session));
}

/// By the launcher of MPICH 4.2 (N8).
fn statuses_are_lost(person: &Person) -> bool {
    let told = finish(&mut person.program("mpiexec.mpich", ["--version"]));
    let told = String::from_utf8(told.stdout).unwrap();
    let mut version = told
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Version:"));
    version.any(|version| version.trim().starts_with("4.2."))
}

#[test]
fn a_rank_that_fails_ends_the_job_and_a_limit_is_of_all_ranks() {
    let _turn = turn();
    let test = "a_rank_that_fails_ends_the_job_and_a_limit_is_of_all_ranks";
    for (library, ranks) in LIBRARIES {
        let Some(person) = with_ranks(test, library) else {
            continue;
        };
        let count = ranks.to_string();
        let failed = run(&person, &["--count", &count], &["./ranks", "exit"]);
        // MPICH's launcher makes one status of those of all ranks, the ones that it killed too.
        let status = failed.status.code().unwrap();
        let expected = match library {
            "openmpi" => status == 7,
            _ => status < 125 && (status != 0 || statuses_are_lost(&person)),
        };
        assert!(expected, "{library}: {}", told(&failed));
        // Each rank alone is below it.
        let policy = person.file("limit.toml", "[limits]\nmemory_mib = 150\n");
        let policy = policy.to_str().unwrap();
        let over = run(
            &person,
            &["--count", &count, "--policy", policy],
            &["./ranks", "fill"],
        );
        assert_eq!(over.status.code(), Some(125), "{library}: {}", told(&over));
        assert!(told(&over).contains("memory"), "{library}: {}", told(&over));
    }
}

#[test]
fn cancel_reaches_all_ranks_and_nothing_is_left() {
    let _turn = turn();
    let test = "cancel_reaches_all_ranks_and_nothing_is_left";
    for (library, ranks) in LIBRARIES {
        let Some(person) = with_ranks(test, library) else {
            continue;
        };
        let count = ranks.to_string();
        let line = ["job", "submit", "--mpi", "-n", &count, "--dir", "work"];
        let job = person.ok(line.iter().chain(&["--", "./ranks", "wait"]));
        let job = job.trim();
        let folder = person.kumiko_home().join("state/jobs").join(job);
        let all =
            |name: &str| (0..ranks).all(|rank| folder.join(format!("{name}.{rank}")).exists());
        until("all ranks are up", || all("up"));
        person.ok(["job", "cancel", job]);
        person.run(["job", "wait", job]);
        // SIGTERM, which the launcher passed on.
        assert!(
            all("got.15"),
            "{library}: {:?}",
            std::fs::read_dir(&folder).unwrap().count()
        );
        let shown = person.ok(["job", "show", job]);
        assert!(shown.contains("cancelled"), "{library}: {shown}");
        until("no rank is left", || ranks_in(&folder) == 0);
    }
}

/// Processes that work in a folder.
fn ranks_in(folder: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let folder = folder.canonicalize().unwrap();
    let works_there = |process: &std::fs::DirEntry| {
        std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder)
    };
    processes.filter(works_there).count()
}

#[test]
fn a_site_without_a_launcher_says_who_may_install_one() {
    let _turn = turn();
    let person = Person::with_site();
    let check = |options: &[&str], expected: &str| {
        let line = ["job", "run", "-n", "2", "--env", "PATH=/usr/lib/none"];
        let refused = person.run(line.iter().chain(options).chain(&["--", "/bin/true"]));
        let said = told(&refused);
        assert_eq!(refused.status.code(), Some(125), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    check(&["--mpi"], "mpiexec not found at the site");
    check(&["--mpi=mpich"], "mpiexec of MPICH not found at the site");
    check(&["--mpi=openmpi"], "may install openmpi-bin");
    let colon = person.run(["job", "run", "--mpi", "--", "/bin/echo", ":"]);
    assert!(told(&colon).contains("arguments[0]"), "{}", told(&colon));
}

/// The kernels of examples/mpi say themselves whether they are right.
#[test]
fn kernels_are_right_by_either_library() {
    let _turn = turn();
    let test = "kernels_are_right_by_either_library";
    // MPICH's ranks wait at full speed, so that more of them than processors is a matter of seconds for each message.
    let rows: [(&str, &str, &[&str]); 2] = [
        ("mpich", "2", &["ep", "is"]),
        ("openmpi", "4", &["ep", "is", "cg", "mg", "lu", "bt", "sp"]),
    ];
    for (library, ranks, kernels) in rows {
        let person = Person::new();
        let work = person.home.path().join("work");
        let made = kernels.iter().all(|kernel| {
            let source = format!("../examples/mpi/{kernel}.c");
            compiled(test, library, &source, &work, kernel).is_some()
        });
        if !made {
            continue;
        }
        person.start_site();
        for kernel in kernels {
            let ran = run(&person, &["-n", ranks], &[&format!("./{kernel}"), "S"]);
            assert!(ran.status.success(), "{library}: {}", told(&ran));
            let said = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert!(said.contains(&format!("{ranks} ranks: right")), "{said}");
        }
    }
}

#[test]
fn globusrun_starts_ranks_by_job_type_mpi() {
    let _turn = turn();
    let test = "globusrun_starts_ranks_by_job_type_mpi";
    if !has_program("mpiexec") {
        return skip(test, "mpiexec");
    }
    let start = ["site", "start", "--listen", "127.0.0.1:0"];
    let Some(user) = GlobusUser::of(Person::new(), &start, test) else {
        return;
    };
    let script = "echo ${PMI_RANK-$OMPI_COMM_WORLD_RANK} of $KUMIKO_COUNT";
    let rsl = format!("&(executable=/bin/sh)(arguments=-c \"{script}\")(job_type=mpi)(count=3)");
    let ran = user.globusrun(&["-s"], &rsl);
    assert!(ran.status.success(), "{}", told(&ran));
    assert_eq!(
        lines(&ran),
        ["0 of 3", "1 of 3", "2 of 3"],
        "{}",
        told(&ran)
    );
}
