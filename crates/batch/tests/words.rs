//! What engines print against the vectors in spec/jobs/vectors, and what is asked of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_batch::engine::order::Order;
use kumiko_batch::engine::seen::{Row, Seen, Time, Verdict};
use kumiko_batch::{condor, slurm};
use kumiko_job::census::Census;
use kumiko_job::description::Resources;
use std::path::{Path, PathBuf};

fn vector(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/jobs/vectors");
    std::fs::read(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// All vectors that must not be believed.
fn invalid(ending: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/jobs/vectors/invalid");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let found: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|e| e == ending))
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    assert!(!found.is_empty(), "{ending}");
    found
}

/// A word for how far it is, and the cause of an end.
fn kind(seen: &Seen) -> String {
    match seen {
        Seen::Over(Verdict::ByItself(_)) => "by itself".to_owned(),
        Seen::Over(Verdict::NoRunner(_)) => "no runner".to_owned(),
        Seen::Over(Verdict::Ended(cause, _)) => format!("{cause:?}").to_lowercase(),
        Seen::Unknown(words) => format!("unknown: {words}"),
        Seen::Held(_) => "held by a person".to_owned(),
        Seen::Waiting(_) => "waits".to_owned(),
        Seen::Running(_) => "runs".to_owned(),
        Seen::Ending(_) => "ends".to_owned(),
    }
}

fn kinds(rows: &[Row]) -> Vec<(&str, &str, String)> {
    rows.iter()
        .map(|row| (row.tag.as_str(), row.number.as_str(), kind(&row.seen)))
        .collect()
}

#[test]
fn squeue_is_understood_or_not_believed() {
    let rows = slurm::words::rows(&vector("valid/states.squeue"), "kumiko-0a1b-").unwrap();
    let expected = [
        ("kumiko-0a1b-7.1", "17", "runs"),
        ("kumiko-0a1b-17.1", "28", "runs"),
        ("kumiko-0a1b-8.1", "18", "waits"),
        ("kumiko-0a1b-9.2", "19", "held by a person"),
        ("kumiko-0a1b-10.1", "20", "limit"),
        ("kumiko-0a1b-11.1", "21", "preempted"),
        ("kumiko-0a1b-12.1", "22", "hostlost"),
        ("kumiko-0a1b-13.1", "23", "removed"),
        ("kumiko-0a1b-14.1", "24", "limit"),
        ("kumiko-0a1b-15.1", "25", "by itself"),
        ("kumiko-0a1b-16.1", "26", "unknown: OF_ITS_OWN (a | bar)"),
    ];
    assert_eq!(
        kinds(&rows),
        expected.map(|(tag, number, seen)| (tag, number, seen.to_owned()))
    );
    let time = |left_ms, whole_ms| Some(Time { left_ms, whole_ms });
    assert_eq!(rows[0].hosts, ["n1"]);
    assert_eq!(rows[0].time, time(178_000, 180_000));
    assert_eq!(rows[1].hosts, ["n1", "n2", "n07"]);
    assert_eq!((rows[1].time, rows[2].time), (None, None));
    assert_eq!(
        slurm::words::rows(&vector("valid/nothing.squeue"), "kumiko-"),
        Ok(vec![])
    );
    for text in invalid("squeue") {
        assert!(slurm::words::rows(&text, "kumiko-").is_err(), "{text:?}");
    }
}

#[test]
fn condor_q_is_understood_or_not_believed() {
    let rows = condor::words::rows(&vector("valid/states.condorq")).unwrap();
    let expected = [
        ("kumiko-0a1b-7.1", "17", "runs"),
        ("kumiko-0a1b-8.1", "18", "waits"),
        ("kumiko-0a1b-9.1", "19", "held by a person"),
        ("kumiko-0a1b-10.1", "20", "limit"),
        ("kumiko-0a1b-11.1", "21", "held"),
        ("kumiko-0a1b-12.1", "22", "removed"),
        ("kumiko-0a1b-13.1", "23", "by itself"),
        ("kumiko-0a1b-14.1", "24", "unknown: JobStatus 9"),
        ("kumiko-0a1b-15.1", "25", "limit"),
        ("kumiko-0a1b-16.1", "26", "held"),
    ];
    assert_eq!(
        kinds(&rows),
        expected.map(|(tag, number, seen)| (tag, number, seen.to_owned()))
    );
    assert_eq!(rows[0].hosts, ["hosta@vm", "vm"]);
    let time = Time {
        left_ms: 178_000,
        whole_ms: 180_000,
    };
    assert_eq!((rows[0].time, rows[1].time), (Some(time), None));
    assert_eq!(
        condor::words::rows(&vector("valid/nothing.condorq")),
        Ok(vec![])
    );
    for text in invalid("condorq") {
        assert!(condor::words::rows(&text).is_err(), "{text:?}");
    }
}

#[test]
fn the_last_whole_event_of_a_log_counts() {
    let rows = [
        ("submitted", "waits"),
        ("running", "runs"),
        ("terminated", "by itself"),
        ("evicted", "waits"),
        ("evicted-and-run-again", "evicted"),
        ("removed", "removed"),
        ("held-by-person", "held by a person"),
        ("held-over-limit", "limit"),
        ("held-by-host-over-memory", "limit"),
        ("cut-in-the-last-event", "runs"),
        ("one-over-and-one-waiting", "waits"),
    ];
    for (name, expected) in rows {
        let seen = condor::words::last_event(&vector(&format!("valid/{name}.condorlog")));
        assert_eq!(kind(&seen.unwrap()), expected, "{name}");
    }
    for text in invalid("condorlog") {
        assert_eq!(condor::words::last_event(&text), None, "{text:?}");
    }
}

#[test]
fn every_resource_reaches_the_engine_in_its_own_words() {
    let order = |resources| Order {
        tag: "kumiko-0a1b-7.1".into(),
        site: "0a1b".into(),
        runner: PathBuf::from("/opt/it's/kumiko-run").into(),
        option: None,
        spool: "/srv/a $b \"c\"".into(),
        hosts: 1,
        cpus: 6,
        time_limit_ms: Some(90_000),
        resources,
        avoids: vec!["n1".into(), "n2.a".into()],
        wanted_on: None,
    };
    let all = order(Resources {
        cpus: Some(2),
        memory_mib: Some(512),
        gpus: Some(1),
        host_count: None,
        queue: Some("long".into()),
        project: Some("physics".into()),
        exclusive: true,
        ..Resources::default()
    });
    let line = slurm::words::submission(&all, false);
    for word in [
        "--job-name=kumiko-0a1b-7.1",
        "--cpus-per-task=6",
        "--time=2",
        "--mem=512M",
        "--gpus=1",
        "--partition=long",
        "--account=physics",
        "--exclusive",
        "--exclude=n1,n2.a",
        "--no-requeue",
        "--error=/srv/a $b \"c\"/slurm.log",
    ] {
        assert!(line.iter().any(|given| given == word), "{word}: {line:?}");
    }
    let carried = slurm::words::submission(&all, true);
    assert!(carried.iter().any(|given| given == "--error=/dev/null"));
    let none = slurm::words::submission(&order(Resources::default()), false);
    for name in ["--mem", "--gpus", "--partition", "--account", "--exclusive"] {
        assert!(
            !none.iter().any(|given| given.starts_with(name)),
            "{name}: {none:?}"
        );
    }
    assert_eq!(
        slurm::words::script(&all),
        "#!/bin/sh\nexec '/opt/it'\\''s/kumiko-run' '/srv/a $b \"c\"' 2>/dev/null\n"
    );
    let pilot = Order {
        option: Some("--pilot"),
        ..all.clone()
    };
    assert!(slurm::words::script(&pilot).contains("kumiko-run' '--pilot' '/srv"));
    let text = condor::words::submission(&pilot, None);
    assert!(text.contains("arguments = \"'--pilot' '/srv/a"), "{text}");
    assert!(!text.contains("kill_sig"), "it heeds SIGTERM: {text}");
    let three = Order {
        hosts: 3,
        ..all.clone()
    };
    let line = slurm::words::submission(&three, false);
    for word in ["--nodes=3", "--ntasks=3", "--cpus-per-task=6", "--mem=171M"] {
        assert!(line.iter().any(|given| given == word), "{word}: {line:?}");
    }
    let script = slurm::words::script(&three);
    let (step, first) = script
        .rsplit_once('\n')
        .map(|(all, _)| all)
        .unwrap()
        .rsplit_once('\n')
        .unwrap();
    assert!(
        step.contains("--nodes=2 --ntasks=2 --relative=1 --cpus-per-task=6"),
        "{step}"
    );
    assert_eq!(
        first,
        "exec '/opt/it'\\''s/kumiko-run' '/srv/a $b \"c\"' 2>/dev/null"
    );
    let text = condor::words::submission(&all, Some("/srv/a $b/script".as_ref()));
    for line in [
        "executable = /srv/a $(DOLLAR)b/script",
        "should_transfer_files = IF_NEEDED",
        "transfer_output_files =",
        "request_cpus = 6",
    ] {
        assert!(text.lines().any(|given| given == line), "{line}: {text}");
    }
    assert!(!text.contains("arguments"), "{text}");
    let text = condor::words::submission(&all, None);
    for line in [
        "executable = /opt/it's/kumiko-run",
        "arguments = \"'/srv/a $(DOLLAR)b \"\"c\"\"'\"",
        "request_cpus = 6",
        "request_memory = 512",
        "request_gpus = 1",
        "accounting_group = physics",
        "allowed_job_duration = 90",
        "kill_sig = SIGKILL",
        "+KumikoTag = \"kumiko-0a1b-7.1\"",
        "+KumikoSite = \"0a1b\"",
        "+KumikoAvoids = \"(^|@)(n1|n2[.]a)$(DOLLAR)\"",
        "requirements = (regexp(MY.KumikoAvoids, TARGET.Name) =!= true) && (TARGET.DynamicSlot =!= true || TARGET.Cpus <= MY.RequestCpus)",
    ] {
        assert!(text.lines().any(|given| given == line), "{line}: {text}");
    }
    let none = condor::words::submission(&order(Resources::default()), None);
    for name in ["request_memory", "request_gpus", "accounting_group"] {
        assert!(!none.contains(name), "{none}");
    }
}

#[test]
fn a_census_of_slurm_counts_hosts_once_and_jobs_by_queue() {
    let census = slurm::census::census(
        &vector("valid/two-queues.sinfo"),
        &vector("valid/two-queues.squeuecensus"),
    );
    let census = census.unwrap();
    let all = |c: &Census| (c.slots, c.slots_free, c.waiting, c.running);
    assert_eq!(all(&census), (80, 26, 3, 2));
    assert_eq!(census.slots_host, 14);
    let queues: Vec<_> = census
        .queues
        .iter()
        .map(|q| {
            (
                q.name.as_str(),
                q.open,
                q.slots,
                q.slots_free,
                q.waiting,
                q.running,
            )
        })
        .collect();
    let expected = [
        ("all", true, 64, 26, 2, 1),
        ("old", false, 16, 0, 0, 0),
        ("urgent", true, 32, 10, 2, 1),
    ];
    assert_eq!(queues, expected);
    assert_eq!(slurm::census::census(b"", b""), Ok(Census::default()));
    for text in invalid("sinfo") {
        assert!(slurm::census::census(&text, b"").is_err(), "{text:?}");
    }
    for text in invalid("squeuecensus") {
        assert!(slurm::census::census(b"", &text).is_err(), "{text:?}");
    }
}

#[test]
fn a_census_of_condor_takes_slots_and_schedulers_apart() {
    let census = condor::census::census(&vector("valid/pool.condorstatus")).unwrap();
    let expected = Census {
        slots: 68,
        slots_free: 57,
        slots_host: 32,
        waiting: 12,
        running: 4,
        ..Census::default()
    };
    assert_eq!(census, expected);
    assert_eq!(condor::census::census(b""), Ok(Census::default()));
    for text in invalid("condorstatus") {
        assert!(condor::census::census(&text).is_err(), "{text:?}");
    }
}
