//! A job through the gatekeeper is under the policies of site, virtual organisation, user and request, and its record says
//! so (spec/policy, P40 to P44).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::adversity::{Rest, refused, text};
use kumiko_e2e::{Person, told, until};
use std::fs;

/// The subject that the grid-mapfile names first.
fn subject(person: &Person) -> String {
    let map = fs::read_to_string(person.kumiko_home().join("grid-mapfile")).unwrap();
    map.split('"').nth(1).unwrap().to_owned()
}

fn restart(person: &Person) {
    person.ok(["site", "stop"]);
    person.start_site();
}

#[test]
fn site_organisation_user_and_request_narrow_each_other_and_the_record_names_them() {
    let person = Person::with_site();
    let home = person.kumiko_home();
    let (me, user) = (subject(&person), home.join("user"));
    let shared = home.join("shared");
    fs::create_dir_all(shared.join("mine")).unwrap();
    fs::write(shared.join("news"), "all is well\n").unwrap();
    fs::write(shared.join("mine/key"), "secret\n").unwrap();
    // The site shows a directory, to write to; the organisation to read; the user hides a part; the job has little memory.
    let real = shared.display();
    let site = format!(
        "[paths]\n\"/data\" = {{ access = \"write\", real = \"{real}\" }}\n[limits]\nmemory_mib = 4096\n"
    );
    fs::write(home.join("policy.toml"), site).unwrap();
    let organisation = |member: &str| {
        let text = format!(
            "vo = \"lattice\"\nexpires = 2100-01-01T00:00:00Z\nmembers = [\"{member}\"]\n[policy]\nfurther_processes = true\n[policy.paths]\n\"/data\" = \"read\"\n"
        );
        let text = person.file("lattice.toml", &text);
        let (cert, key) = (user.join("usercert.pem"), user.join("userkey.pem"));
        let words = [
            "identity",
            "sign",
            text.to_str().unwrap(),
            "--cert",
            cert.to_str().unwrap(),
        ];
        let out = home.join("lattice.vo");
        let rest = [
            "--key",
            key.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
        ];
        person.ok(words.into_iter().chain(rest));
        out
    };
    let signed = organisation(&me);
    let trusted = format!(
        "organisations = [{{ name = \"lattice\", administrator = \"{me}\", policy = \"{}\" }}]\n",
        signed.display()
    );
    let settings = fs::read_to_string(home.join("site.toml")).unwrap();
    fs::write(home.join("site.toml"), trusted + &settings).unwrap();
    let own = person.file(
        ".config/kumiko/policy.toml",
        "[paths]\n\"/data/mine\" = \"denied\"\n",
    );
    restart(&person);

    let job = person.file(
        "job.toml",
        "vo = \"lattice\"\nlimits = { memory_mib = 512 }\n",
    );
    let script =
        "cat /data/news; touch /data/new || echo no write; cat /data/mine/key || echo no key";
    let run = [
        "job",
        "run",
        "--policy",
        job.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        script,
    ];
    let output = person.run(run);
    assert_eq!(
        text(&output.stdout),
        "all is well\nno write\nno key\n",
        "{}",
        told(&output)
    );
    let record = person.ok(["job", "explain", "last"]);
    let signer = format!("policy of lattice, signed by {me}");
    let site = home.join("policy.toml");
    let layers = [
        "mechanism namespace: the cheapest that is admissible, predicted to cost ",
        site.to_str().unwrap(),
        &signer,
        own.to_str().unwrap(),
        "the job's policy",
        "memory limit of 512 MiB: ",
        "its sandbox took ",
    ];
    let mut rest = record.as_str();
    for words in layers {
        let at = rest
            .find(words)
            .unwrap_or_else(|| panic!("{words}: {record}"));
        rest = &rest[at..];
    }

    // What asks for more, or for what is not there, is refused with the name of who asks.
    let refuse = |policy: &str, says: &[&str]| {
        let policy = person.file("asks.toml", policy);
        let words = [
            "job",
            "run",
            "--policy",
            policy.to_str().unwrap(),
            "--",
            "true",
        ];
        refused(&person.run(words), 125, says);
    };
    refuse(
        "[paths]\n\"/data\" = \"write\"",
        &["the job's policy asks for more", "/data"],
    );
    refuse("vo = \"other\"", &["other", "lattice"]);
    organisation("/O=Grid/CN=Somebody Else");
    refuse("vo = \"lattice\"", &["does not list", &me]);
    fs::write(&signed, "not signed").unwrap();
    refuse("", &["lattice.vo", "no signed text"]);
    fs::remove_file(&own).unwrap();
    organisation(&me);
    person.ok(["job", "run", "--", "true"]);
}

#[test]
fn limits_of_a_job_are_changed_while_it_runs_within_what_the_site_gives() {
    let person = Person::with_site();
    let home = person.kumiko_home();
    fs::write(home.join("policy.toml"), "[limits]\nmemory_mib = 1024\n").unwrap();
    person.ok(["job", "submit", "--", "sleep", "1000"]);
    until("it runs", || {
        person.ok(["job", "explain", "last"]).contains("It runs.")
    });
    refused(
        &person.run(["sandbox", "set", "last", "memory=2GiB"]),
        1,
        &["2048", "memory limit of 1024 MiB"],
    );
    refused(
        &person.run(["sandbox", "set", "last", "net=fast"]),
        2,
        &["100Mbit/s"],
    );
    person.ok(["sandbox", "set", "last", "memory=512MiB", "net=10MB/s"]);
    person.ok(["sandbox", "set", "last", "wall-time=1s"]);
    until("it ended for its limit", || {
        person
            .ok(["job", "explain", "last"])
            .contains("wall time limit of 1 s")
    });
    refused(
        &person.run(["sandbox", "set", "99", "net=1MB/s"]),
        1,
        &["99"],
    );
}

#[test]
fn jobs_that_run_follow_an_edit_of_the_sites_policy_under_every_mechanism() {
    let person = Person::with_site();
    let home = person.kumiko_home();
    let shared = home.join("shared");
    fs::create_dir_all(&shared).unwrap();
    fs::write(shared.join("news"), "all is well\n").unwrap();
    let real = shared.display();
    let shown = format!("[paths]\n\"/data\" = {{ access = \"read\", real = \"{real}\" }}\n");
    let policy = home.join("policy.toml");
    fs::write(&policy, &shown).unwrap();
    // One names the file otherwise, which makes no difference.
    let own = person.file(
        "own.toml",
        "[paths]\n\"/mine\" = { access = \"read\", real = \"/data\" }\n",
    );
    let own = ["--policy", own.to_str().unwrap()];
    let jobs = [
        ("namespace", "/data/news", &[][..]),
        ("notify", "/data/news", &[]),
        ("ptrace", "/data/news", &[]),
        ("namespace", "/mine/news", &own),
        ("notify", "/mine/news", &own),
    ];
    let machine = admitted(&person);
    let jobs: Vec<_> = jobs
        .into_iter()
        .filter(|(mechanism, ..)| machine.contains(&(*mechanism).to_owned()))
        .enumerate()
        .collect();
    for (_, (mechanism, file, more)) in &jobs {
        let script = format!(
            "echo up; while cat {file} >/dev/null 2>&1; do sleep 0.02; done; echo gone; until cat {file} 2>/dev/null; do sleep 0.02; done"
        );
        let words = ["job", "submit", "--mechanism", mechanism];
        let rest = ["--", "sh", "-c", script.as_str()];
        person.ok(words.into_iter().chain(more.iter().copied()).chain(rest));
    }
    let says = |index: usize, expected: &str| {
        let attempt = format!("state/spool/{}.1/stdout", index + 1);
        until(&format!("{attempt} says {expected:?}"), || {
            fs::read_to_string(home.join(&attempt)).is_ok_and(|said| said == expected)
        });
    };
    for (index, _) in &jobs {
        says(*index, "up\n");
    }
    fs::write(&policy, "").unwrap();
    for (index, _) in &jobs {
        says(*index, "up\ngone\n");
    }
    fs::write(&policy, &shown).unwrap();
    for (index, _) in &jobs {
        says(*index, "up\ngone\nall is well\n");
    }
}

#[test]
fn owners_narrow_what_runs_and_give_it_back_within_what_it_began_with() {
    let person = Person::with_site();
    let home = person.kumiko_home();
    let shared = home.join("shared");
    fs::create_dir_all(&shared).unwrap();
    fs::write(shared.join("news"), "all is well\n").unwrap();
    let real = shared.display();
    let shown = format!("[paths]\n\"/data\" = {{ access = \"read\", real = \"{real}\" }}\n");
    fs::write(home.join("policy.toml"), &shown).unwrap();
    let mechanisms = admitted(&person);
    for mechanism in &mechanisms {
        let script = "echo up; while cat /data/news >/dev/null 2>&1; do sleep 0.02; done; echo gone; until cat /data/news 2>/dev/null; do sleep 0.02; done";
        let words = ["job", "submit", "--mechanism", mechanism, "--", "sh", "-c"];
        person.ok(words.into_iter().chain([script]));
    }
    let all = format!("1-{}", mechanisms.len());
    let say = |expected: &str| {
        for number in 1..=mechanisms.len() {
            let attempt = format!("state/spool/{number}.1/stdout");
            until(&format!("{attempt} says {expected:?}"), || {
                fs::read_to_string(home.join(&attempt)).is_ok_and(|said| said == expected)
            });
        }
    };
    let set = |change: &[&str]| person.run(["sandbox", "set", &all].iter().chain(change));
    say("up\n");
    refused(&set(&["/data=write"]), 1, &["/data", "read only"]);
    refused(&set(&["/data=temporary"]), 2, &["temporary place"]);
    refused(&set(&["/root/.ssh=read"]), 1, &["does not show"]);
    let hidden = set(&["/data=hidden"]);
    assert!(hidden.status.success(), "{}", told(&hidden));
    say("up\ngone\n");
    let record = person.ok(["job", "explain", "1"]);
    assert!(
        record.contains("its owner narrowed what it may see and reach: /data hidden"),
        "{record}"
    );
    let back = person.file("back.toml", "[paths]\n\"/data\" = \"read\"\n");
    let by_file = set(&["--policy", back.to_str().unwrap()]);
    assert!(by_file.status.success(), "{}", told(&by_file));
    say("up\ngone\nall is well\n");
}

#[test]
fn addresses_of_jobs_that_run_are_followed_or_said_not_to_be_under_every_mechanism() {
    let person = Person::with_site();
    let policy = person.kumiko_home().join("policy.toml");
    // A fence will do, so that all of them can be asked for.
    fs::write(&policy, "complete = false\n").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Until the test's process ends: who is not accepted would wait.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let reach = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' 2>/dev/null");
    let mechanisms: Vec<String> = admitted(&person)
        .into_iter()
        .chain(["library".to_owned()])
        .collect();
    for mechanism in &mechanisms {
        let script = format!(
            "echo up; while {reach}; do sleep 0.02; done; echo gone; until {reach}; do sleep 0.02; done; echo back; sleep 1000"
        );
        let words = ["job", "submit", "--mechanism", mechanism, "--", "sh", "-c"];
        person.ok(words.into_iter().chain([script.as_str()]));
    }
    let numbered = || (1..).zip(&mechanisms);
    let says = |number: u32, expected: &str| {
        let attempt = format!("state/spool/{number}.1/stdout");
        until(&format!("{attempt} says {expected:?}"), || {
            let said = fs::read_to_string(person.kumiko_home().join(&attempt));
            said.is_ok_and(|said| said == expected)
        });
    };
    let explained = |number: u32, expected: &str| {
        until(&format!("the record of {number} says {expected:?}"), || {
            let record = person.ok(["job", "explain", &number.to_string()]);
            record.contains(expected)
        });
    };
    let rest = Rest::new(&person);
    let ask = |number: u32, policy: &str| {
        let body = format!("{{\"policy\": \"{policy}\"}}");
        let (status, answer) = rest.ask(&["--json", &body], &format!("/v1/jobs/{number}/policy"));
        (status, text(&answer))
    };
    for (number, mechanism) in numbered() {
        says(number, "up\n");
        let name = number.to_string();
        let set = person.run(["sandbox", "set", &name, "deny=127.0.0.0/8"]);
        let (status, answer) = ask(number, "network.deny = ['127.0.0.0/8']");
        if mechanism == "namespace" {
            refused(&set, 1, &["what namespace lets a program reach", "notify"]);
            assert_eq!(status, 422, "{answer}");
            assert!(answer.contains("not_followed"), "{answer}");
            assert!(!person.ok(["job", "explain", &name]).contains("narrowed"));
            continue;
        }
        let not = "addresses, of datagrams that are sent without connecting";
        assert!(set.status.success(), "{mechanism}: {}", told(&set));
        assert!(
            text(&set.stderr).contains(not),
            "{mechanism}: {}",
            told(&set)
        );
        assert!(
            status == 200 && answer.contains(not),
            "{mechanism}: {answer}"
        );
        says(number, "up\ngone\n");
        explained(number, not);
        let (status, answer) = ask(number, "network.allow = ['*']");
        assert_eq!(status, 200, "{mechanism}: {answer}");
        says(number, "up\ngone\nback\n");
    }
    // By the site's file nobody can be refused: what is not followed stands in the record, until it holds again.
    fs::write(
        &policy,
        "complete = false\nnetwork = { deny = [\"127.0.0.0/8\"] }\n",
    )
    .unwrap();
    let namespace = numbered().find(|(_, mechanism)| *mechanism == "namespace");
    if let Some((number, _)) = namespace {
        let not =
            "attempt 1 does not follow all of the policies that hold by now: network and addresses";
        explained(number, not);
        fs::write(&policy, "complete = false\n").unwrap();
        explained(
            number,
            "attempt 1 follows all of the policies that hold by now",
        );
    }
}

#[test]
fn a_job_that_runs_follows_the_policies_of_its_organisation_and_its_user_alone() {
    let person = Person::with_site();
    let home = person.kumiko_home();
    let me = subject(&person);
    let shared = home.join("shared");
    fs::create_dir_all(&shared).unwrap();
    fs::write(shared.join("news"), "all is well\n").unwrap();
    let real = shared.display();
    let shown = format!("[paths]\n\"/data\" = {{ access = \"read\", real = \"{real}\" }}\n");
    fs::write(home.join("policy.toml"), shown).unwrap();
    let sign = |access: &str| {
        let text = format!(
            "vo = \"lattice\"\nexpires = 2100-01-01T00:00:00Z\nmembers = [\"{me}\"]\n[policy.paths]\n\"/data\" = \"{access}\"\n"
        );
        let text = person.file("lattice.toml", &text);
        let user = home.join("user");
        let place = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        let words = [
            "identity".to_owned(),
            "sign".to_owned(),
            place(text),
            "--cert".to_owned(),
            place(user.join("usercert.pem")),
            "--key".to_owned(),
            place(user.join("userkey.pem")),
            "--out".to_owned(),
            place(home.join("lattice.vo")),
        ];
        person.ok(words);
    };
    sign("read");
    let trusted = format!(
        "organisations = [{{ name = \"lattice\", administrator = \"{me}\", policy = \"{}\" }}]\n",
        home.join("lattice.vo").display()
    );
    let settings = fs::read_to_string(home.join("site.toml")).unwrap();
    fs::write(home.join("site.toml"), trusted + &settings).unwrap();
    restart(&person);
    let script = "echo up; while :; do while cat /data/news >/dev/null 2>&1; do sleep 0.02; done; echo gone; until cat /data/news 2>/dev/null; do sleep 0.02; done; done";
    person.ok(["job", "submit", "--", "sh", "-c", script]);
    let mut expected = "up\n".to_owned();
    let says = |expected: &str| {
        until(&format!("it says {expected:?}"), || {
            let said = fs::read_to_string(home.join("state/spool/1.1/stdout"));
            said.is_ok_and(|said| said == expected)
        });
    };
    says(&expected);
    // The user had none until now, not even a folder for it.
    let own = "[paths]\n\"/data\" = \"hidden\"\n";
    let own = person.file(".config/kumiko/policy.toml", own);
    expected += "gone\n";
    says(&expected);
    fs::remove_file(own).unwrap();
    expected += "all is well\n";
    says(&expected);
    sign("hidden");
    expected += "gone\n";
    says(&expected);
    sign("read");
    expected += "all is well\n";
    says(&expected);
}

#[test]
fn a_call_that_computes_follows_an_edit_of_the_sites_policy() {
    if !kumiko_e2e::has_program("cc") {
        return kumiko_e2e::skip(
            "a_call_that_computes_follows_an_edit_of_the_sites_policy",
            "cc",
        );
    }
    let caller = routines::Caller::new();
    let home = caller.person.kumiko_home();
    let shared = home.join("shared");
    fs::create_dir_all(&shared).unwrap();
    fs::write(shared.join("news"), "all is well\n").unwrap();
    let real = shared.display();
    let shown = format!("[paths]\n\"/data\" = {{ access = \"read\", real = \"{real}\" }}\n");
    let policy = home.join("policy.toml");
    fs::write(&policy, &shown).unwrap();
    let text = r#"Module follow;
Globals { #include <unistd.h> }
Define follow(IN int n, OUT int *gone)
"Waits until a file is gone, and until it is there again."
{
    *gone = n;
    while (access("/data/news", R_OK) == 0) usleep(20000);
    *gone += 1;
    close(creat("/job/gone", 0600));
    while (access("/data/news", R_OK) != 0) usleep(20000);
    *gone += 1;
}
"#;
    fs::write(caller.person.home.path().join("follow.idl"), text).unwrap();
    caller.gen_and_register("follow", &[]);
    let call = caller.begin(&["follow/follow", "1"]);
    let pid = caller.routine_pid(&[]);
    fs::write(&policy, "").unwrap();
    let job = format!("/proc/{pid}/root/job/gone");
    until("the file is gone", || fs::metadata(&job).is_ok());
    fs::write(&policy, &shown).unwrap();
    assert_eq!(caller.end(call)["gone"][0], 3);
}

/// Mechanisms that this machine admits.
fn admitted(person: &Person) -> Vec<String> {
    let told = person.run(["sandbox", "probe"]);
    let told = text(&told.stdout);
    ["namespace", "notify", "ptrace"]
        .map(str::to_owned)
        .into_iter()
        .filter(|name| {
            let line = told.lines().find(|line| line.starts_with(name.as_str()));
            line.is_some_and(|line| line.split_whitespace().nth(1) == Some("yes"))
        })
        .collect()
}
