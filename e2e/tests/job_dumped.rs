//! Jobs whose program links nothing and that go on where they were, from a dump by CRIU (spec/checkpoint, K52 to K58).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dumping;
#[allow(dead_code, unused_imports, unused_macros)]
mod engines;

use dumping::Dumping;
use engines::directory;
use kumiko_e2e::{Person, alive, finish, kill, runner_of, told, until};
use std::path::{Path, PathBuf};

/// Prints a line at each step, and writes it to a file that stays open. It has a thread, and a child that hears of each step by a pipe; both
/// of its processes count steps all over a megabyte. Told to (`go`), it ends, and says whether all that is right.
const COUNTS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { WORDS = 1 << 18 };
static const struct timespec pause_2_ms = {0, 2000000};
static volatile long beats, over;
static void *beat(void *unused) {
    for (; !over; beats++)
        nanosleep(&pause_2_ms, 0);
    return unused;
}
static void step(unsigned *memory) {
    for (int i = 0; i < WORDS; i++)
        memory[i]++;
    nanosleep(&pause_2_ms, 0);
}
static int is_right(unsigned *memory, unsigned steps) {
    for (int i = 0; i < WORDS; i++)
        if (memory[i] != steps)
            return 0;
    return 1;
}
int main(void) {
    unsigned *memory = calloc(WORDS, sizeof *memory);
    FILE *out = fopen("counted", "w");
    int pair[2];
    if (!memory || !out || pipe(pair))
        return 1;
    pid_t child = fork();
    if (!child) {
        char told;
        unsigned steps = 0;
        close(pair[1]);
        for (; read(pair[0], &told, 1) == 1; steps++)
            step(memory);
        _exit(is_right(memory, steps) ? 5 : 6);
    }
    close(pair[0]);
    pthread_t thread;
    if (pthread_create(&thread, 0, beat, 0))
        return 4;
    long i = 1;
    for (; access("go", F_OK); i++) {
        step(memory);
        if (write(pair[1], "", 1) != 1)
            return 2;
        printf("%ld\n", i);
        fflush(stdout);
        fprintf(out, "%ld\n", i);
        fflush(out);
    }
    close(pair[1]);
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 3;
    long before = beats;
    while (beats < before + 5)
        nanosleep(&pause_2_ms, 0);
    over = 1;
    pthread_join(thread, 0);
    printf("the end %d\n", is_right(memory, i - 1) ? WEXITSTATUS(status) : 8);
    return 7;
}
"#;

/// Such a site, and a program.
struct Place {
    person: Person,
    dumping: Dumping,
}

impl Place {
    fn new(test: &str) -> Option<Place> {
        dumping::new(test).map(Place::of)
    }

    fn on_condor(test: &str) -> Option<Place> {
        dumping::on_condor(test).map(Place::of)
    }

    fn on_slurm(test: &str) -> Option<Place> {
        dumping::on_slurm(test).map(Place::of)
    }

    fn of(of: (Person, Dumping)) -> Place {
        Place::with(of, COUNTS)
    }

    fn with((person, dumping): (Person, Dumping), program: &str) -> Place {
        let place = Place { person, dumping };
        place.person.file("program/counts.c", program);
        let cc = [
            "-O1",
            "-pthread",
            "-o",
            "program/counts",
            "program/counts.c",
        ];
        let compiled = finish(&mut place.person.program("cc", cc));
        assert!(compiled.status.success(), "{}", told(&compiled));
        place.start();
        place
    }

    fn start(&self) {
        self.dumping.start(&self.person);
    }

    fn policy(&self, says: &str) {
        self.dumping.policy(&self.person, says);
    }

    fn submit(&self, words: &[&str]) -> String {
        let often = "KUMIKO_CHECKPOINT_FAILURES_S=1";
        let line = [
            "job", "submit", "--rerun", "--dir", "program", "--env", often,
        ];
        let line = [&line[..], words].concat();
        self.person.ok(line).trim().to_owned()
    }

    fn state(&self, name: &str) -> PathBuf {
        self.person.kumiko_home().join("state").join(name)
    }

    fn dumps(&self, job: &str) -> Vec<u64> {
        let entries = std::fs::read_dir(self.state("dumps").join(job));
        let names = entries.into_iter().flatten().flatten();
        let numbers = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }

    fn log(&self, attempt: &str) -> String {
        let log = self.state("spool").join(attempt).join("log");
        std::fs::read_to_string(log).unwrap_or_default()
    }

    #[track_caller]
    fn until_dumped(&self, job: &str, least: u64) {
        until("it is dumped", || {
            self.dumps(job)
                .last()
                .is_some_and(|newest| *newest >= least)
        });
    }

    #[track_caller]
    fn until_resumed(&self, attempt: &str) {
        until("it goes on", || {
            self.log(attempt).contains("it goes on from its dump")
        });
    }

    /// Each step stands once where it was printed and where it was written.
    #[track_caller]
    fn ends_well(&self, job: &str) {
        let counted = directory(&self.person, job).join("counted");
        let lines = || std::fs::read_to_string(&counted).unwrap().lines().count();
        let begun = lines();
        until("it counts", || lines() > begun + 20);
        std::fs::write(counted.with_file_name("go"), "").unwrap();
        let waited = self.person.run(["job", "wait", job]);
        assert_eq!(waited.status.code(), Some(7), "{}", told(&waited));
        let printed = self.person.ok(["job", "log", job]);
        let mut printed: Vec<&str> = printed.lines().collect();
        assert_eq!(printed.pop(), Some("the end 5"));
        let steps: Vec<String> = (1..=printed.len()).map(|step| step.to_string()).collect();
        assert_eq!(printed, steps);
        let counted = std::fs::read_to_string(counted).unwrap();
        assert_eq!(counted.lines().collect::<Vec<_>>(), steps);
        until("its dumps are removed", || {
            !self.state("dumps").join(job).exists()
        });
    }
}

#[test]
fn a_job_that_links_nothing_migrates_with_what_it_printed_wrote_and_started() {
    let test = "a_job_that_links_nothing_migrates_with_what_it_printed_wrote_and_started";
    let Some(place) = Place::new(test) else {
        return;
    };
    let job = place.submit(&["--", "./counts"]);
    for attempt in 1..4 {
        place.until_dumped(&job, attempt);
        place.person.ok(["job", "migrate", &job]);
        place.until_resumed(&format!("{job}.{}", attempt + 1));
    }
    let why = place.person.ok(["job", "explain", &job]);
    assert!(why.contains("it is dumped by CRIU "), "{why}");
    assert!(why.contains(", and goes on from its dump "), "{why}");
    place.ends_well(&job);
}

#[test]
fn a_job_that_is_to_leave_is_dumped_once_more_and_takes_no_step_again() {
    let test = "a_job_that_is_to_leave_is_dumped_once_more_and_takes_no_step_again";
    let Some(place) = Place::new(test) else {
        return;
    };
    // A dump by itself, and no other within the hour.
    let line = ["job", "submit", "--rerun", "--dir", "program", "--"];
    let job = place.person.ok([&line[..], &["./counts"]].concat());
    let job = job.trim().to_owned();
    let counted = directory(&place.person, &job).join("counted");
    let steps = || std::fs::read_to_string(&counted).map_or(0, |all| all.lines().count());
    place.until_dumped(&job, 1);
    for attempt in 1..3 {
        let begun = steps();
        until("it counts on", || steps() > begun + 100);
        let before = steps();
        place.person.ok(["job", "migrate", &job]);
        place.until_resumed(&format!("{job}.{}", attempt + 1));
        let after = steps();
        assert!(after >= before, "{before} steps, then {after}");
    }
    place.ends_well(&job);
}

#[test]
fn a_job_whose_runner_is_killed_goes_on_from_a_dump_that_is_whole() {
    let test = "a_job_whose_runner_is_killed_goes_on_from_a_dump_that_is_whole";
    let Some(place) = Place::new(test) else {
        return;
    };
    let job = place.submit(&["--", "./counts"]);
    place.until_dumped(&job, 2);
    let runner = runner_of(&place.state("spool").join(format!("{job}.1")));
    // No site sees to it before the newest dump is torn.
    place.person.kill_site();
    kill(runner, "KILL");
    let all = place.dumps(&job);
    let newest = place.state("dumps").join(&job).join(all[1].to_string());
    let pages = newest.join("pages-1.img.lz4");
    let bytes = std::fs::read(&pages).unwrap();
    std::fs::write(&pages, &bytes[..bytes.len() - 1]).unwrap();
    place.start();
    place.until_resumed(&format!("{job}.2"));
    let log = place.log(&format!("{job}.2"));
    let torn = format!(
        "its dump {} is of no use: pages-1.img.lz4 is not as it was written",
        all[1]
    );
    assert!(log.contains(&torn), "{log}");
    assert!(
        log.contains(&format!("it goes on from its dump {}", all[0])),
        "{log}"
    );
    place.ends_well(&job);
}

#[test]
fn a_runner_that_is_killed_while_it_dumps_or_restores_leaves_what_was_whole() {
    let test = "a_runner_that_is_killed_while_it_dumps_or_restores_leaves_what_was_whole";
    let Some(place) = Place::new(test) else {
        return;
    };
    let job = place.submit(&["--", "./counts"]);
    let dumps = place.state("dumps").join(&job);
    let killed_when = |attempt: u64, what: &str| {
        let runner = runner_of(&place.state("spool").join(format!("{job}.{attempt}")));
        until("it is half-way", || dumps.join(what).exists());
        kill(runner, "KILL");
    };
    place.until_dumped(&job, 1);
    killed_when(1, "new");
    place.until_resumed(&format!("{job}.2"));
    killed_when(2, "new");
    // It may have been restored when it is killed, with nothing said of that.
    killed_when(3, "plain");
    place.until_resumed(&format!("{job}.4"));
    place.ends_well(&job);
}

/// CRIU at work for the attempt whose spool this is, stopped before it is done. None: it was quicker.
fn stopped_criu(spool: &Path) -> Option<u32> {
    let runner = runner_of(spool);
    loop {
        let children = std::fs::read_to_string(format!("/proc/{runner}/task/{runner}/children"));
        for child in children.ok()?.split_whitespace() {
            let words = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if words.starts_with(b"criu\0restore\0") {
                kill(child.parse().unwrap(), "STOP");
                return Some(runner);
            }
            if words.starts_with(b"./counts") {
                return None;
            }
        }
    }
}

#[test]
fn a_job_is_cancelled_while_it_is_restored() {
    let test = "a_job_is_cancelled_while_it_is_restored";
    let Some(place) = Place::new(test) else {
        return;
    };
    let job = place.submit(&["--", "./counts"]);
    place.until_dumped(&job, 1);
    let stopped = (2..=4).find_map(|attempt| {
        let attempt = format!("{job}.{attempt}");
        place.person.ok(["job", "migrate", &job]);
        let stopped = stopped_criu(&place.state("spool").join(&attempt));
        if stopped.is_none() {
            place.until_resumed(&attempt);
        }
        stopped
    });
    let runner = stopped.expect("CRIU was always quicker");
    place.person.ok(["job", "cancel", &job]);
    let waited = place.person.run(["job", "wait", &job]);
    assert!(told(&waited).contains("cancelled"), "{}", told(&waited));
    until("its runner is gone", || {
        !Path::new(&format!("/proc/{runner}")).exists()
    });
}

#[test]
fn a_guest_goes_on_when_there_is_no_room_for_its_dump_and_is_dumped_when_there_is() {
    let test = "a_guest_goes_on_when_there_is_no_room_for_its_dump_and_is_dumped_when_there_is";
    let Some(place) = dumping::on_a_small_disk(test, "size=128m").map(Place::of) else {
        return;
    };
    // It prints nothing, for which there would be no room either.
    let waits = "until test -e go; do sleep 0.05; done; exit 7";
    let job = place.submit(&["--", "sh", "-c", waits]);
    place.until_dumped(&job, 1);
    let new = place.state("dumps").join(&job).join("new");
    let filler = place.person.fill_disk();
    until("it is tried", || new.exists());
    until("it is given up", || !new.exists());
    let newest = place.dumps(&job).pop().unwrap();
    std::fs::remove_file(filler).unwrap();
    place.until_dumped(&job, newest + 1);
    place.person.ok(["job", "migrate", &job]);
    place.until_resumed(&format!("{job}.2"));
    std::fs::write(directory(&place.person, &job).join("go"), "").unwrap();
    let waited = place.person.run(["job", "wait", &job]);
    assert_eq!(waited.status.code(), Some(7), "{}", told(&waited));
}

/// Has so much memory that does not get smaller when it is packed.
const RANDOM: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
enum { BYTES = 16 << 20, PIECE = 1 << 16 };
int main(void) {
    char *memory = malloc(BYTES), *also = malloc(BYTES);
    for (long at = 0; at < BYTES; at += PIECE)
        if (getrandom(memory + at, PIECE, 0) != PIECE)
            return 1;
    memcpy(also, memory, BYTES);
    while (access("go", F_OK))
        usleep(20000);
    return memcmp(also, memory, BYTES) ? 2 : 7;
}
"#;

#[test]
fn a_dump_waits_for_room_to_go_on_from_it() {
    let test = "a_dump_waits_for_room_to_go_on_from_it";
    let small = dumping::on_a_small_disk(test, "size=256m");
    let Some(place) = small.map(|small| Place::with(small, RANDOM)) else {
        return;
    };
    let job = place.submit(&["--", "./counts"]);
    place.until_dumped(&job, 1);
    let runner = runner_of(&place.state("spool").join(format!("{job}.1")));
    kill(runner, "STOP");
    // Enough for all that the site writes.
    let filler = place.person.fill_disk();
    let full = std::fs::metadata(&filler).unwrap().len();
    let file = std::fs::File::options().write(true).open(&filler).unwrap();
    file.set_len(full - (8 << 20)).unwrap();
    drop(file);
    kill(runner, "KILL");
    let attempt = format!("{job}.2");
    until("it waits", || {
        place.log(&attempt).contains(" waits for room: ")
    });
    let newest = place.dumps(&job);
    assert!(!newest.is_empty());
    std::fs::remove_file(filler).unwrap();
    place.until_resumed(&attempt);
    std::fs::write(directory(&place.person, &job).join("go"), "").unwrap();
    let waited = place.person.run(["job", "wait", &job]);
    assert_eq!(waited.status.code(), Some(7), "{}", told(&waited));
}

/// Says what it has, then is as dead as can be.
const LOOKS: &str = "grep Seccomp: /proc/self/status; unshare --user true 2>&1; sleep 1000";

#[test]
fn a_guest_does_without_its_filter_only_where_it_is_dumped_and_makes_no_namespaces() {
    let test = "a_guest_does_without_its_filter_only_where_it_is_dumped_and_makes_no_namespaces";
    let Some(place) = Place::new(test) else {
        return;
    };
    let said = |job: &str, expected: &[&str]| {
        let stdout = place.state("spool").join(format!("{job}.1/stdout"));
        let looked = || std::fs::read_to_string(&stdout).unwrap_or_default();
        until("it has looked", || looked().matches('\n').count() == 2);
        let said = looked();
        for expected in expected {
            assert!(said.contains(expected), "{said}");
        }
        let why = place.person.ok(["job", "explain", job]);
        place.person.ok(["job", "cancel", job, "--grace", "0"]);
        why
    };
    let dumped = place.submit(&["--", "sh", "-c", LOOKS]);
    place.until_dumped(&dumped, 1);
    said(
        &dumped,
        &["Seccomp:\t0", "unshare failed: No space left on device"],
    );
    until("its dumps are removed", || {
        !place.state("dumps").join(&dumped).exists()
    });

    let filtered = ["Seccomp:\t2", "unshare failed: Operation not permitted"];
    let back = place.person.file("back.toml", "dump = false\n");
    let back = back.to_str().unwrap();
    let asked = place.submit(&["--policy", back, "--", "sh", "-c", LOOKS]);
    let why = said(&asked, &filtered);
    assert!(!why.contains("CRIU"), "{why}");
    let other = place.submit(&["--mechanism", "notify", "--", "sh", "-c", LOOKS]);
    let why = said(&other, &["Seccomp:\t2"]);
    assert!(
        why.contains("it is not dumped by CRIU: only namespace can"),
        "{why}"
    );
    place.policy("");
    let unsaid = place.submit(&["--", "sh", "-c", LOOKS]);
    said(&unsaid, &filtered);
    let given = place.person.file("given.toml", "dump = true\n");
    let given = given.to_str().unwrap();
    let asked = place.submit(&["--policy", given, "--", "sh", "-c", LOOKS]);
    said(&asked, &filtered);
}

#[test]
fn what_a_dump_would_not_hold_is_told_and_nothing_is_dumped() {
    let test = "what_a_dump_would_not_hold_is_told_and_nothing_is_dumped";
    let Some(place) = Place::new(test) else {
        return;
    };
    let check = |script: &str, expected: &str| {
        let job = place.submit(&["--", "sh", "-c", script]);
        let attempt = format!("{job}.1");
        until("it is told", || place.log(&attempt).contains(expected));
        assert_eq!(place.dumps(&job), [0; 0], "{}", place.log(&attempt));
        // It goes on all the same.
        std::fs::write(directory(&place.person, &job).join("go"), "").unwrap();
        let waited = place.person.run(["job", "wait", &job]);
        assert_eq!(waited.status.code(), Some(4), "{}", told(&waited));
    };
    let wait = "until test -e go; do sleep 0.05; done; exit 4";
    check(
        &format!("echo lost >/tmp/left; {wait}"),
        "it could not be dumped: /tmp/left would not be there",
    );
    check(
        &format!("(setsid sleep 1000 &) ; {wait}"),
        "it could not be dumped: a process of it has left its parents",
    );
}

#[test]
fn a_file_that_became_shorter_has_the_job_begin_again() {
    let test = "a_file_that_became_shorter_has_the_job_begin_again";
    let Some(place) = Place::new(test) else {
        return;
    };
    let job = place.submit(&["--", "./counts"]);
    let counted: &Path = &directory(&place.person, &job).join("counted");
    until("it has counted", || {
        counted.metadata().is_ok_and(|about| about.len() > 0)
    });
    let before = place.dumps(&job).last().copied().unwrap_or(0);
    place.until_dumped(&job, before + 1);
    let runner = runner_of(&place.state("spool").join(format!("{job}.1")));
    place.person.kill_site();
    let children = std::fs::read_to_string(format!("/proc/{runner}/task/{runner}/children"));
    let children = children.unwrap();
    let children: Vec<u32> = children
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(!children.is_empty());
    kill(runner, "KILL");
    // It would write on behind what was cut.
    until("its guest is gone", || {
        !children.iter().any(|pid| alive(*pid))
    });
    std::fs::write(counted, "").unwrap();
    place.start();
    let log = || place.log(&format!("{job}.2"));
    until("it is told", || {
        log().contains("counted is shorter than it was")
    });
    place.ends_well(&job);
}

#[test]
fn a_job_that_htcondor_takes_from_its_host_goes_on_from_its_newest_dump() {
    let test = "a_job_that_htcondor_takes_from_its_host_goes_on_from_its_newest_dump";
    let Some(place) = Place::on_condor(test) else {
        return;
    };
    let job = place.submit(&["--", "./counts"]);
    place.until_dumped(&job, 1);
    engines::said(&place.person, "condor_vacate_job", &["-all"]);
    place.until_resumed(&format!("{job}.2"));
    place.ends_well(&job);
}

#[test]
fn a_job_that_slurm_preempts_goes_on_from_its_dump() {
    let test = "a_job_that_slurm_preempts_goes_on_from_its_dump";
    let Some(place) = Place::on_slurm(test) else {
        return;
    };
    let job = place.submit(&["--", "./counts"]);
    place.until_dumped(&job, 1);
    // Slurm tells all processes there to end, the job's own too.
    let all = [
        "--partition=urgent",
        "--exclusive",
        "--nodes=2",
        "--wrap=sleep 1",
    ];
    engines::said(&place.person, "sbatch", &all);
    place.until_resumed(&format!("{job}.2"));
    place.ends_well(&job);
}

#[test]
fn a_job_that_is_not_dumped_any_more_begins_again_and_leaves_no_dump_behind() {
    let test = "a_job_that_is_not_dumped_any_more_begins_again_and_leaves_no_dump_behind";
    let Some(place) = Place::new(test) else {
        return;
    };
    let job = place.submit(&["--", "./counts"]);
    place.until_dumped(&job, 1);
    place.policy("");
    place.person.ok(["job", "migrate", &job]);
    until("its dumps are removed", || place.dumps(&job).is_empty());
    place.policy("dump = true");
    place.person.ok(["job", "migrate", &job]);
    place.until_dumped(&job, 1);
    assert!(!place.log(&format!("{job}.3")).contains("it goes on from"));
    place.ends_well(&job);
}
