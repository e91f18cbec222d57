//! A site carries its folders to hosts of engines that share no file system with it, and have no kumiko (spec/jobs/pilots.md, PL50 to PL57).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports, unused_macros)]
mod engines;
mod routines;

use engines::{COUNTED, directory};
use kumiko_e2e::{Person, finish, has_program, skip, told, until};
use routines::{Caller, npy, npy_of_whole, numpy_is_here};
use serde_json::{Value, json};

const CARRIED: [&str; 5] = ["--landing", "127.0.0.1", "--carry", "--pilots", "0..1"];

fn start() -> Vec<&'static str> {
    engines::start("slurm").into_iter().chain(CARRIED).collect()
}

/// Lets a job go on, and waits for its end; it ran once.
fn let_go(person: &Person, job: &str) {
    std::fs::write(directory(person, job).join("go"), "").unwrap();
    let waited = person.run(["job", "wait", job]);
    assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
    assert_eq!(person.ok(["job", "log", job]), "begun\ndone\nstart\n");
}

#[test]
fn jobs_run_on_hosts_that_have_nothing_of_the_site_though_it_is_killed() {
    let test = "jobs_run_on_hosts_that_have_nothing_of_the_site_though_it_is_killed";
    let Some((engine, person)) = engines::apart(test) else {
        return;
    };
    person.ok(start());
    engines::absent(&engine, &person);
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
    let_go(&person, &piloted);
    let quick = person.ok(["job", "run", "--", "echo", "by the same pilot"]);
    assert_eq!(quick, "by the same pilot\n");
    // What a job is sent, and what it leaves.
    let sent = person.file("sent/in", &"x".repeat(3_000_000));
    let sent = sent.parent().unwrap();
    let line = [
        "job",
        "run",
        "--dir",
        sent.to_str().unwrap(),
        "--",
        "sh",
        "-c",
    ];
    person.ok(line
        .into_iter()
        .chain(["sha256sum <in >out; cp in twice; chmod +x twice"]));
    assert_eq!(
        std::fs::metadata(sent.join("twice")).unwrap().len(),
        3_000_000
    );
    person.kill_site();
    person.ok(start());
    let_go(&person, &direct);
    let cancelled = submit(&[]);
    until("it has begun", || {
        directory(&person, &cancelled).join("starts").exists()
    });
    person.ok(["job", "cancel", &cancelled]);
    let waited = person.run(["job", "wait", &cancelled]);
    assert!(told(&waited).contains("cancelled"), "{}", told(&waited));
}

#[test]
fn jobs_run_on_hosts_of_htcondor_that_have_nothing_of_the_site() {
    let test = "jobs_run_on_hosts_of_htcondor_that_have_nothing_of_the_site";
    let Some((engine, person)) = engines::networked(test) else {
        return;
    };
    // The site is on the schedd's machine.
    let site = |words: &[&str]| {
        let mut command = person.program("at-head", [kumiko_e2e::kumiko()]);
        let output = finish(command.args(words));
        assert!(output.status.success(), "{words:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let further = ["--landing", "10.93.0.1", "--carry", "--pilots", "0..1"];
    let start: Vec<&str> = engines::start("condor")
        .into_iter()
        .chain(further)
        .collect();
    site(&start);
    engines::absent_from_all(&engine, &person);
    let host = site(&["job", "run", "--", "hostname"]);
    assert!(["hosta\n", "hostb\n"].contains(&host.as_str()), "{host}");
    // By the engine itself, for it asks for what a pilot does not give.
    let sent = person.file("sent/in", &"x".repeat(100_000));
    let sent = sent.parent().unwrap().to_str().unwrap();
    let line = [
        "job", "run", "--memory", "64", "--dir", sent, "--", "sh", "-c",
    ];
    let line: Vec<&str> = line
        .into_iter()
        .chain(["hostname; wc -c <in >out"])
        .collect();
    let host = site(&line);
    assert!(["hosta\n", "hostb\n"].contains(&host.as_str()), "{host}");
    let out = std::fs::read_to_string(format!("{sent}/out")).unwrap();
    assert_eq!(out, "100000\n");
    site(&["site", "stop"]);
}

#[test]
fn ranks_of_one_program_are_on_hosts_that_have_nothing_of_the_site() {
    let test = "ranks_of_one_program_are_on_hosts_that_have_nothing_of_the_site";
    const COMPILER: &str = "mpicc.openmpi";
    for (program, package) in [(COMPILER, "libopenmpi-dev"), ("mpiexec.hydra", "mpich")] {
        if !has_program(program) {
            return skip(test, &format!("{program} (of {package})"));
        }
    }
    let Some((engine, person)) = engines::several("3", test) else {
        return;
    };
    // The site is on the controller's machine.
    let site = |words: &[&str]| {
        let mut command = person.program("at-controller", [kumiko_e2e::kumiko()]);
        finish(command.args(words))
    };
    let further = ["--landing", "10.92.0.1", "--carry"];
    let start = engines::start("slurm").into_iter().chain(further);
    let started = site(&start.collect::<Vec<_>>());
    assert!(started.status.success(), "{}", told(&started));
    engines::absent_from_several(&engine, &person, 3);
    let work = person.home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/batch/tests/hosts/ranks.c"
    );
    let mut compile = std::process::Command::new(COMPILER);
    let compile = compile.arg("-o").arg(work.join("ranks")).arg(source);
    let compiled = finish(compile);
    assert!(compiled.status.success(), "{}", told(&compiled));
    let folder = work.to_str().unwrap();
    // Between hosts no faster than its policy: 2.5 MB take 2 s.
    let policy = person.file("policy.toml", "[limits]\nnetwork_kbyte_s = 1250\n");
    let policy = policy.to_str().unwrap();
    let line = [
        "job", "run", "--hosts", "3", "--count", "5", "--policy", policy, "--dir", folder,
    ];
    let run = |library: &str, words: &[&str]| {
        let library = format!("--mpi={library}");
        let line = line.into_iter().chain([library.as_str(), "--"]);
        let line: Vec<&str> = line.chain(words.iter().copied()).collect();
        site(&line)
    };
    // Two on each host, of which the last has one only.
    let ran = run("openmpi", &["./ranks"]);
    assert!(ran.status.success(), "{}", told(&ran));
    for rank in 0..5 {
        let words = format!("rank {rank} of 5, host {}, in /job\n", rank / 2);
        assert!(told(&ran).contains(&words), "{}", told(&ran));
    }
    let said = String::from_utf8_lossy(&ran.stdout);
    let took = said
        .lines()
        .find_map(|line| line.strip_prefix("took ")?.strip_suffix(" ms"));
    assert!(took.unwrap().parse::<u64>().unwrap() >= 1000, "{said}");
    let failed = run("openmpi", &["./ranks", "fail"]);
    assert_eq!(failed.status.code(), Some(7), "{}", told(&failed));
    let ran = run("mpich", &["sh", "-c", "hostname >host.$PMI_RANK"]);
    assert!(ran.status.success(), "{}", told(&ran));
    let hosts: Vec<String> = (0..5)
        .map(|rank| std::fs::read_to_string(work.join(format!("host.{rank}"))).unwrap())
        .collect();
    assert!(
        hosts[0] == hosts[1]
            && hosts[1] != hosts[2]
            && hosts[2] == hosts[3]
            && hosts[3] != hosts[4],
        "{hosts:?}"
    );
    assert!(site(&["site", "stop"]).status.success());
}

#[test]
fn a_job_ends_when_its_host_loses_the_files_and_runs_again_if_it_may() {
    let test = "a_job_ends_when_its_host_loses_the_files_and_runs_again_if_it_may";
    let Some((engine, person)) = engines::apart(test) else {
        return;
    };
    person.ok(start());
    engines::absent(&engine, &person);
    let once = person.ok(["job", "submit", "--", "sh", "-c", COUNTED]);
    let again = "echo start >> starts; test $(wc -l < starts) -ge 2 && exit 5; sleep 600";
    let again = person.ok([
        "job", "submit", "--rerun", "--queue", "urgent", "--", "sh", "-c", again,
    ]);
    let (once, again) = (once.trim(), again.trim());
    for job in [once, again] {
        until("it has begun", || {
            directory(&person, job).join("starts").exists()
        });
    }
    let here = person.kumiko_home().join("state/spool-files/here");
    let here = std::os::unix::net::UnixStream::connect(here).unwrap();
    let (server, _) = kumiko_linux::unix_socket::peer(&here).unwrap();
    kumiko_e2e::kill(u32::try_from(server).unwrap(), "KILL");
    let waited = person.run(["job", "wait", once]);
    // Lost, or what its runner or the engine could still say of it; not its own end.
    let ended = waited.status.code();
    assert!(![Some(0), Some(5)].contains(&ended), "{}", told(&waited));
    let waited = person.run(["job", "wait", again]);
    assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
    assert_eq!(person.ok(["job", "run", "--", "echo", "well"]), "well\n");
}

#[test]
fn a_host_that_cannot_have_the_files_says_why() {
    let test = "a_host_that_cannot_have_the_files_says_why";
    let Some((engine, person)) = engines::apart(test) else {
        return;
    };
    person.ok(start());
    engines::absent(&engine, &person);
    engines::without_fuse(&engine, &person);
    let job = person.run(["job", "run", "--queue", "urgent", "--", "echo", "never"]);
    let said = told(&job);
    assert!(!job.status.success(), "{said}");
    assert!(said.contains("/dev/fuse"), "{said}");
    // Without a landing there is nowhere to have them from.
    person.ok(["site", "stop"]);
    let refused = person.run(["site", "start", "--batch", "slurm", "--carry"]);
    assert!(
        told(&refused).contains("by `landing`"),
        "{}",
        told(&refused)
    );
}

const TWICE: &str = r#"
import kumiko
from kumiko import Array

@kumiko.routine
def twice(n: int, x: Array[float, "n"]) -> Array[float, "n"]:
    return 2 * x
"#;

/// Each `step`th of so many elements, doubled. It is mapped memory, which the host's kernel sends to the site when it likes, unless it is told to.
fn comes_back_whole(caller: &Caller, routine: &str, count: u32, step: u32) {
    let many: Vec<f64> = (0..count).map(f64::from).collect();
    let many = caller.file("many.npy", &npy(&[u64::from(count)], &many));
    let option = match step {
        1 => "result=back.npy",
        _ => "x=back.npy",
    };
    let call = caller.begin(&[routine, &many, "--out", option]);
    caller.end_text(call);
    let back = std::fs::read(caller.person.home.path().join("back.npy")).unwrap();
    let chosen = (0..count).filter(|i| i % step == step - 1);
    let expected: Vec<u8> = chosen
        .flat_map(|i| f64::from(2 * i).to_le_bytes())
        .collect();
    assert!(
        back.ends_with(&expected),
        "{routine} gave back {} bytes, and not those of {count} elements",
        back.len()
    );
}

#[test]
fn calls_are_computed_on_hosts_that_have_nothing_of_the_site_though_it_is_killed() {
    let test = "calls_are_computed_on_hosts_that_have_nothing_of_the_site_though_it_is_killed";
    let Some((engine, person)) = engines::apart(test) else {
        return;
    };
    person.ok(start());
    engines::absent(&engine, &person);
    let caller = Caller { person };
    caller.make(&["samples"], &[]);
    let few = caller.file("few.npy", &npy(&[3], &[1., 2., 3.]));
    assert_eq!(caller.call(&["samples/sum", &few]), json!({"s": [6.0]}));
    // In files, also by processes that are kept.
    comes_back_whole(&caller, "samples/every_other", 100_000, 2);
    comes_back_whole(&caller, "samples/every_other", 4_000_000, 2);
    if numpy_is_here(test) {
        caller.person.file("twice.py", TWICE);
        caller.gen_and_register("twice", &[]);
        comes_back_whole(&caller, "twice/twice", 2_000_000, 1);
    }
    // It computes on while there is no site.
    let done = caller.file("done.npy", &npy_of_whole(&[1], &[100]));
    let started = caller.count_in_log("\"started\"");
    let call = caller.begin(&["samples/slow", "300", "10000", &done]);
    until("it is recorded as started", || {
        caller.count_in_log("\"started\"") > started
    });
    let planned = caller.count_in_log("\"planned\"");
    let run = caller.person.kumiko_home().join("run/site.json");
    let run: Value = serde_json::from_str(&std::fs::read_to_string(run).unwrap()).unwrap();
    caller.person.kill_site();
    let mut start = engines::start("slurm");
    start[3] = run["address"].as_str().unwrap();
    caller.person.ok(start.into_iter().chain(CARRIED));
    assert_eq!(caller.end(call), json!({"done": [400]}));
    assert_eq!(caller.count_in_log("\"planned\""), planned);
    caller.nothing_is_left();
}
