//! What a person does with a site whose jobs a real engine runs; the same for each engine.

use kumiko_e2e::staging::{Counted, OurServer, pattern, sha256};
use kumiko_e2e::{Person, finish, has_program, kill, skip, told, until};
use kumiko_testkit::engine::Engine;
use std::path::{Path, PathBuf};

/// Each scenario as a test of its own, on one engine.
macro_rules! on {
    ($engine:literal: $($scenario:ident)*) => {
        $(#[test]
        fn $scenario() {
            if let Some(person) = engines::person($engine, stringify!($scenario)) {
                engines::$scenario($engine, &person);
            }
        })*
    };
}
pub(crate) use on;

/// A job that counts its own starts in its directory, runs until told, then exits with 5.
pub const COUNTED: &str = "echo start >> starts; echo begun; until test -e go; do sleep 0.02; done; echo done; cat starts; exit 5";
/// Fills a host of the testbed.
const ALL_CPUS: &str = "32";

/// What starts a site on that engine.
pub fn start(engine: &'static str) -> [&'static str; 6] {
    [
        "site",
        "start",
        "--listen",
        "127.0.0.1:0",
        "--batch",
        engine,
    ]
}

/// A person who has the engine's commands, and no site yet.
pub fn user(engine: &'static str, test: &str) -> Option<Person> {
    Some(user_of(Engine::shared(engine, test)?))
}

/// The same of an engine of the test's own.
pub fn user_of(testbed: &Engine) -> Person {
    let mut person = Person::new();
    person.variables = testbed.environment();
    let bin = kumiko_e2e::kumiko().parent().unwrap().to_owned();
    for (name, value) in &mut person.variables {
        if *name == "PATH" {
            let mut path = bin.clone().into_os_string();
            path.push(":");
            path.push(&value);
            *value = path;
        }
    }
    person
}

/// What a command of the engine answers, asked again while the engine is too busy to.
pub fn said(person: &Person, command: &str, words: &[&str]) -> String {
    for _ in 0..20 {
        let output = finish(&mut person.program(command, words));
        if output.status.success() {
            return String::from_utf8(output.stdout).unwrap().trim().to_owned();
        }
        eprintln!("{command} {words:?}: {}", told(&output));
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    panic!("{command} {words:?} does not succeed");
}

/// A person with a site on that engine.
pub fn person(engine: &'static str, test: &str) -> Option<Person> {
    let person = user(engine, test)?;
    person.ok(start(engine));
    Some(person)
}

/// A Slurm of its own, whose one host can see a folder in another way than the site does; and a person who has no site yet.
pub fn apart(test: &str) -> Option<(Engine, Person)> {
    if !kumiko_linux::is_root() {
        skip(test, "root, for a host with a view of its own");
        return None;
    }
    let own = [("SLURM_HOSTS", "1"), ("SLURM_VIEWS", "yes")];
    let engine = Engine::own("slurm", &own, test)?;
    let mut person = Person::new();
    person.variables = engine.environment();
    Some((engine, person))
}

/// An HTCondor of its own, whose hosts have networks, names and masters of their own; and a person who has no site yet.
pub fn networked(test: &str) -> Option<(Engine, Person)> {
    if !kumiko_linux::is_root() {
        skip(test, "root, for hosts with networks of their own");
        return None;
    }
    let engine = Engine::own("condor", &[("CONDOR_NETWORKS", "yes")], test)?;
    let mut person = Person::new();
    person.variables = engine.environment();
    Some((engine, person))
}

/// A Slurm of its own of so many hosts, which have networks, names and views of their own; and a person who has no site yet.
pub fn several(hosts: &str, test: &str) -> Option<(Engine, Person)> {
    if !kumiko_linux::is_root() {
        skip(test, "root, for hosts with networks of their own");
        return None;
    }
    let own = [("SLURM_NETWORKS", "yes"), ("SLURM_HOSTS", hosts)];
    let engine = Engine::own("slurm", &own, test)?;
    let mut person = Person::new();
    person.variables = engine.environment();
    Some((engine, person))
}

/// HTCondor starts nothing more on this host, as when its owner is back.
pub fn owner_is_back(engine: &Engine, host: &str) {
    add_settings(&engine.directory.path().join(host), "START = False\n");
}

/// Gives a host of HTCondor further settings, by which it goes at once.
fn add_settings(host: &Path, further: &str) {
    let settings = host.join("condor_config");
    let mut text = std::fs::read_to_string(&settings).unwrap();
    text.push_str(further);
    std::fs::write(settings, text).unwrap();
    let master = std::fs::read_to_string(host.join("run/master.pid")).unwrap();
    kill(master.trim().parse().unwrap(), "HUP");
}

/// Has the first host of Slurm see a folder of the site's state through an overlay: it stands for a directory that a file server shares, since
/// to connect through it fails as from another kernel.
pub fn overlay(engine: &Engine, person: &Person, folder: &str) {
    let state = person.kumiko_home().join("state");
    for name in ["nothing", "work"] {
        std::fs::create_dir(state.join(name)).unwrap();
    }
    let slurmd = engine.directory.path().join("slurmd.n1.pid");
    let slurmd = std::fs::read_to_string(slurmd).unwrap();
    let (seen, state) = (state.join(folder), state.display());
    let options =
        format!("lowerdir={state}/nothing,upperdir={state}/{folder},workdir={state}/work");
    let line = ["-t", slurmd.trim(), "-m", "mount", "-t", "overlay", "-o"];
    let line = line.into_iter().chain([options.as_str(), "none"]);
    let mounted = finish(person.program("nsenter", line).arg(seen));
    assert!(mounted.status.success(), "{}", told(&mounted));
}

/// Has the first host of Slurm have nothing of a person's, and no kumiko: it stands for one that shares no file system with the site.
pub fn absent(engine: &Engine, person: &Person) {
    let slurmd = engine.directory.path().join("slurmd.n1.pid");
    hide(&std::fs::read_to_string(slurmd).unwrap(), person);
}

/// As [`absent`], for all hosts of such a Slurm.
pub fn absent_from_several(engine: &Engine, person: &Person, hosts: u32) {
    for number in 1..=hosts {
        let slurmd = engine
            .directory
            .path()
            .join(format!("slurmd.n{number}.pid"));
        hide(&std::fs::read_to_string(slurmd).unwrap(), person);
    }
}

/// As [`absent`], for all hosts of an HTCondor with networks, which are told that they share none.
pub fn absent_from_all(engine: &Engine, person: &Person) {
    for host in ["hosta", "hostb"] {
        let own = engine.directory.path().join(host);
        add_settings(&own, &format!("FILESYSTEM_DOMAIN = {host}\n"));
        hide(
            &std::fs::read_to_string(own.join("run/master.pid")).unwrap(),
            person,
        );
    }
    until("HTCondor knows it", || {
        let line = ["-af", "FileSystemDomain"];
        let said = said(person, "condor_status", &line);
        !said.is_empty() && said.lines().all(|domain| domain != "testbed")
    });
}

fn hide(daemon: &str, person: &Person) {
    let home = person.kumiko_home();
    let programs = kumiko_e2e::kumiko().parent().unwrap().to_owned();
    for hidden in [home.as_path(), &programs] {
        mount(
            daemon,
            person,
            &["-t", "tmpfs", "none", hidden.to_str().unwrap()],
        );
    }
}

/// Has the first host of Slurm have no file systems of its users' own.
pub fn without_fuse(engine: &Engine, person: &Person) {
    let slurmd = engine.directory.path().join("slurmd.n1.pid");
    let slurmd = std::fs::read_to_string(slurmd).unwrap();
    mount(&slurmd, person, &["--bind", "/dev/null", "/dev/fuse"]);
}

/// Where a daemon and its jobs see it.
fn mount(daemon: &str, person: &Person, words: &[&str]) {
    let line = ["-t", daemon.trim(), "-m", "mount"];
    let line = line.into_iter().chain(words.iter().copied());
    let mounted = finish(&mut person.program("nsenter", line));
    assert!(mounted.status.success(), "{}", told(&mounted));
}

/// The kernel forgets what the host has seen of directories, as a client of a file server does after a while.
pub fn forget() {
    std::fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
}

/// Those that have their places beneath these spools, as HTCondor is asked for them.
pub fn pilots(person: &Person, spools: &str) -> String {
    let site = person.kumiko_home().join("state").join(spools).join("site");
    let site = std::fs::read_to_string(site).unwrap();
    format!("regexp(\"^kumiko-{site}-pilot-\", KumikoTag)")
}

/// HTCondor takes back the slots of the pilots that have their places beneath these spools. By itself it ends none that goes on.
pub fn vacate(person: &Person, spools: &str) {
    let pilots = pilots(person, spools);
    let vacated = finish(&mut person.program("condor_vacate_job", ["-constraint", &pilots]));
    assert!(vacated.status.success(), "{}", told(&vacated));
}

fn show(person: &Person, job: &str) -> serde_json::Value {
    let shown = person.ok(["--output", "json", "job", "show", job]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    shown[0].clone()
}

pub fn directory(person: &Person, job: &str) -> PathBuf {
    person.kumiko_home().join("state/jobs").join(job)
}

pub fn a_program_runs_and_its_output_and_exit_status_come_back(engine: &str, person: &Person) {
    let check = |command: &[&str], stdout: &str, stderr: &str, status: i32| {
        let mut args = vec!["job", "run", "--"];
        args.extend(command);
        let output = person.run(args);
        let said = told(&output);
        assert_eq!(output.status.code(), Some(status), "{command:?}: {said}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            stdout,
            "{command:?}: {said}"
        );
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(stderr),
            "{command:?}: {said}"
        );
    };
    check(&["echo", "hello"], "hello\n", "", 0);
    check(
        &["sh", "-c", "echo out; echo err >&2; exit 7"],
        "out\n",
        "err",
        7,
    );
    check(&["/no/such/program"], "", "/no/such/program", 127);
    assert_eq!(show(person, "1")["batch"], engine);
}

pub fn flags_and_standard_input_reach_the_job(_: &str, person: &Person) {
    let ranks = person.ok([
        "job",
        "run",
        "--count",
        "3",
        "--cpus",
        "2",
        "--memory",
        "64",
        "--",
        "sh",
        "-c",
        "echo $KUMIKO_RANK/$KUMIKO_COUNT",
    ]);
    let mut ranks: Vec<&str> = ranks.lines().collect();
    ranks.sort_unstable();
    assert_eq!(ranks, ["0/3", "1/3", "2/3"]);
    let output = kumiko_e2e::finish_with(
        &mut person.kumiko(["exec", "local", "--", "tr", "a-z", "A-Z"]),
        b"typed before it began\n",
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "TYPED BEFORE IT BEGAN\n",
        "{}",
        told(&output)
    );
    let late = person.run(["job", "run", "--time", "200ms", "--", "sleep", "50"]);
    assert_eq!(late.status.code(), Some(125), "{}", told(&late));
    assert!(told(&late).contains("time limit"), "{}", told(&late));
}

pub fn ranks_of_mpi_run_in_one_slot(_: &str, person: &Person) {
    let test = "ranks_of_mpi_run_in_one_slot";
    if !has_program("mpiexec") {
        return skip(test, "mpiexec (of mpich or openmpi-bin)");
    }
    let script = "echo ${PMI_RANK-$OMPI_COMM_WORLD_RANK}/$KUMIKO_COUNT";
    let ranks = person.ok(["job", "run", "--mpi", "-n", "3", "--", "sh", "-c", script]);
    let mut ranks: Vec<&str> = ranks.lines().collect();
    ranks.sort_unstable();
    assert_eq!(ranks, ["0/3", "1/3", "2/3"]);
}

pub fn a_running_job_is_cancelled_with_term_and_then_kill(_: &str, person: &Person) {
    let script = "trap 'echo bye; exit 0' TERM; echo up; sleep 100 & wait";
    let job = person.ok(["job", "submit", "--", "sh", "-c", script]);
    let job = job.trim();
    until("it is up", || {
        person.ok(["job", "log", "--follow=no", job]) == "up\n"
    });
    person.ok(["job", "cancel", job]);
    person.run(["job", "wait", job]);
    assert_eq!(person.ok(["job", "log", job]), "up\nbye\n");
    assert_eq!(show(person, job)["outcome"], "cancelled");
}

pub fn what_waits_at_the_engine_says_so_and_is_cancelled_at_once(engine: &str, person: &Person) {
    let submit = |script: &str| {
        let job = person.ok([
            "job", "submit", "--cpus", ALL_CPUS, "--", "sh", "-c", script,
        ]);
        job.trim().to_owned()
    };
    // As long as these two have both hosts.
    let before = [submit(COUNTED), submit(COUNTED)];
    for job in &before {
        until("it counts", || {
            directory(person, job).join("starts").exists()
        });
    }
    let waiting = submit("touch ran");
    until("explain has the engine's words", || {
        let told = person.ok(["job", "explain", &waiting]);
        told.contains(&format!("Now {engine} says "))
    });
    person.ok(["job", "cancel", &waiting]);
    person.run(["job", "wait", &waiting]);
    assert_eq!(show(person, &waiting)["outcome"], "cancelled");
    for job in &before {
        std::fs::write(directory(person, job).join("go"), "").unwrap();
        assert_eq!(person.run(["job", "wait", job]).status.code(), Some(5));
    }
    assert!(!directory(person, &waiting).join("ran").exists());
}

pub fn a_job_survives_kill_9_of_the_site_and_ends_while_it_is_down(
    engine: &'static str,
    person: &Person,
) {
    let job = person.ok(["job", "submit", "--", "sh", "-c", COUNTED]);
    let job = job.trim();
    until("it has begun", || {
        person.ok(["job", "log", "--follow=no", job]) == "begun\n"
    });
    person.kill_site();
    std::fs::write(directory(person, job).join("go"), "").unwrap();
    let status = person
        .kumiko_home()
        .join("state/spool")
        .join(format!("{job}.1/status"));
    until("the runner has written the status", || status.exists());
    person.ok(start(engine));
    let waited = person.run(["job", "wait", job]);
    assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
    assert_eq!(person.ok(["job", "log", job]), "begun\ndone\nstart\n");
}

pub fn jobs_that_the_engine_holds_while_the_site_is_killed_run_once(
    engine: &'static str,
    person: &Person,
) {
    let jobs: Vec<String> = (0..8)
        .map(|_| {
            let job = person.ok([
                "job",
                "submit",
                "--",
                "sh",
                "-c",
                "echo start >> starts; cat starts",
            ]);
            job.trim().to_owned()
        })
        .collect();
    // Some run, some wait, some may have ended, and one may be on its way to the engine.
    person.kill_site();
    person.ok(start(engine));
    for job in &jobs {
        let waited = person.run(["job", "wait", job]);
        assert_eq!(waited.status.code(), Some(0), "{}", told(&waited));
        assert_eq!(person.ok(["job", "log", job]), "start\n");
    }
}

pub fn a_file_that_is_named_by_its_sum_travels_once(_: &str, person: &Person) {
    let server = OurServer::start(person);
    let content = pattern(5 << 20);
    std::fs::write(server.dir().join("big"), &content).unwrap();
    let (sum, url) = (sha256(&content), server.url("/big"));
    let counted = Counted::before(&url);
    let sum_there = || {
        let run = ["job", "run", "--delegate", "--stage-in"];
        let files = [format!("{}=big", counted.url(&url)), format!("big={sum}")];
        let flags = [&files[0], "--sha256", &files[1], "--", "sha256sum", "big"];
        person.ok(run.into_iter().chain(flags))
    };
    let there = format!("{sum}  big\n");
    assert_eq!(sum_there(), there);
    assert!(counted.bytes() >= 5 << 20);
    assert_eq!(sum_there(), there);
    assert_eq!(counted.bytes(), 0, "it was there");
    // One whose content has changed on the disk is no use to anybody.
    let entry = person.kumiko_home().join("state/stock").join(&sum);
    std::fs::write(&entry, "something else").unwrap();
    assert_eq!(sum_there(), there);
    assert!(counted.bytes() >= 5 << 20);
    assert!(std::fs::read(entry).unwrap() == content);
}

pub fn what_the_engine_cannot_do_is_refused(engine: &str, person: &Person) {
    if engine == "condor" {
        let refused = person.run(["job", "run", "--exclusive", "--", "true"]);
        assert_eq!(refused.status.code(), Some(125), "{}", told(&refused));
        assert!(told(&refused).contains("exclusive"), "{}", told(&refused));
    }
    let refused = person.run(["job", "run", "--queue", "no-such-queue", "--", "true"]);
    assert_eq!(refused.status.code(), Some(125), "{}", told(&refused));
    let said = told(&refused);
    match engine {
        "slurm" => assert!(said.contains("no-such-queue"), "{said}"),
        _ => assert!(said.contains("queue"), "{said}"),
    }
}

pub fn pilots_take_short_jobs_at_once_and_outlive_the_site(engine: &'static str, test: &str) {
    let Some(person) = user(engine, test) else {
        return;
    };
    let with_pilots = || start(engine).into_iter().chain(["--pilots", "1..1"]);
    person.ok(with_pilots());
    let run = |text: &str| person.ok(["job", "run", "--", "sh", "-c", text]);
    for number in ["1", "2", "3"] {
        assert_eq!(run(&format!("echo {number}")), format!("{number}\n"));
    }
    let submit = || {
        let job = person.ok(["job", "submit", "--", "sh", "-c", COUNTED]);
        job.trim().to_owned()
    };
    let (first, second) = (submit(), submit());
    until("the first has begun", || {
        person.ok(["job", "log", "--follow=no", &first]) == "begun\n"
    });
    until("the second says what it waits for", || {
        person
            .ok(["job", "explain", &second])
            .contains("waits for a pilot")
    });
    person.kill_site();
    person.ok(with_pilots());
    for job in [&first, &second] {
        std::fs::write(directory(&person, job).join("go"), "").unwrap();
        let waited = person.run(["job", "wait", job]);
        assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
        assert_eq!(
            person.ok(["job", "log", job]),
            "begun\ndone\nstart\n",
            "it ran once"
        );
    }
    let spools = std::fs::read_dir(person.kumiko_home().join("state/spool")).unwrap();
    let names = spools.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pilots: Vec<String> = names.filter(|name| name.starts_with("pilot-")).collect();
    assert_eq!(pilots, ["pilot-1"], "all by one pilot");
}

/// All hosts are taken meanwhile, so that they wait in the engine's own queue; each runs once.
pub fn a_thousand_waiting_jobs_outlive_a_site_that_is_killed(engine: &'static str, test: &str) {
    const MANY: usize = 1000;
    let Some(person) = person(engine, test) else {
        return;
    };
    let submit = |more: &[&str], script: &str| {
        let line = ["job", "submit"].iter().chain(more);
        let job = person.ok(line.chain(&["--", "sh", "-c", script]));
        job.trim().to_owned()
    };
    let filling: Vec<String> = (0..2)
        .map(|_| submit(&["--cpus", ALL_CPUS], COUNTED))
        .collect();
    for job in &filling {
        until("all hosts are taken", || {
            directory(&person, job).join("starts").exists()
        });
    }
    let all: Vec<String> = (0..MANY)
        .map(|number| submit(&[], &format!("echo {number} >> ran")))
        .collect();
    person.kill_site();
    person.ok(start(engine));
    for job in &filling {
        std::fs::write(directory(&person, job).join("go"), "").unwrap();
    }
    for (number, job) in all.iter().enumerate() {
        let waited = person.run(["job", "wait", job]);
        assert!(waited.status.success(), "{job}: {}", told(&waited));
        let ran = std::fs::read_to_string(directory(&person, job).join("ran")).unwrap();
        assert_eq!(ran, format!("{number}\n"), "{job}");
    }
}
