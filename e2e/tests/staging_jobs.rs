//! Jobs whose files come from and go to other servers: the Globus file servers as Debian packages them, and our own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::staging::{
    Counted, GassServer, OurServer, globus, needs, outcome, pattern, sha256,
};
use kumiko_e2e::{Person, finish, told, until};
use std::fs;
use std::process::Stdio;

const GRIDFTP: &[(&str, &str)] = &[
    ("globus-url-copy", "package globus-gass-copy-progs"),
    (
        "globus-gridftp-server",
        "package globus-gridftp-server-progs",
    ),
];
const GASS: &[(&str, &str)] = &[("globus-gass-server", "package globus-gass-server-ez-progs")];

#[test]
fn a_job_of_urls_only_runs_and_all_of_it_comes_back() {
    if !needs("a_job_of_urls_only_runs_and_all_of_it_comes_back", GASS) {
        return;
    }
    let person = Person::with_site();
    let mut server = GassServer::start(&person);
    let script = person.file(
        "there/prog",
        "#!/bin/sh\ncat; cat data/one; cat words; echo err >&2; echo made > out; \
         test -d \"$SCRATCH_DIRECTORY\" && pwd && ls -A\n",
    );
    let input = person.file("there/input", "from stdin\n");
    let one = person.file("there/one", "the one\n");
    let result = person.home.path().join("there/result");
    let url = |path: &std::path::Path| server.url(path);
    let job = person.ok([
        "job",
        "submit",
        "--delegate",
        "--stdin",
        &url(&input),
        "--stage-in",
        &format!("{}=data/one", url(&one)),
        "--stage-in-shared",
        "file:///usr/share/common-licenses/BSD=words",
        "--stage-out",
        &format!("out={}", url(&result)),
        "--stdout",
        &server.base("/dev/stdout"),
        "--stderr",
        "err.log",
        "--clean-up",
        "data",
        "--scratch",
        "tmp/scratch",
        "--",
        &url(&script),
    ]);
    let job = job.trim();
    person.ok(["job", "wait", job]);
    assert_eq!(fs::read_to_string(&result).unwrap(), "made\n");
    let license = fs::read_to_string("/usr/share/common-licenses/BSD").unwrap();
    let stdout = person.ok(["job", "log", job]);
    assert!(
        stdout.starts_with(&format!("from stdin\nthe one\n{license}")),
        "{stdout}"
    );
    server.said(&stdout);
    let folder = person.kumiko_home().join("state/jobs").join(job);
    assert_eq!(fs::read_to_string(folder.join("err.log")).unwrap(), "err\n");
    for gone in ["data", "tmp/scratch"] {
        assert!(!folder.join(gone).exists(), "{gone} is cleaned up");
    }
    until("nothing is left under way", || {
        fs::read_dir(person.kumiko_home().join("state/staging"))
            .unwrap()
            .count()
            == 0
    });
    let explained = person.ok(["job", "explain", job]);
    for word in [
        "4 files are to be fetched first",
        "stage_out[0] is moved: 5 bytes",
        "all is sent",
    ] {
        assert!(explained.contains(word), "{word}: {explained}");
    }
}

#[test]
fn stdout_is_seen_there_while_the_job_runs() {
    if !needs("stdout_is_seen_there_while_the_job_runs", GASS) {
        return;
    }
    let person = Person::with_site();
    let mut server = GassServer::start(&person);
    let script = "echo first; until test -e go; do sleep 0.02; done; echo last";
    let stdout = server.base("/dev/stdout");
    let job = person.ok([
        "job",
        "submit",
        "--delegate",
        "--stdout",
        &stdout,
        "--",
        "sh",
        "-c",
        script,
    ]);
    let job = job.trim();
    server.line_with("first");
    assert!(person.ok(["job", "show", job]).contains("active"));
    // The site dies and comes back: the stream goes on where it was.
    person.kill_site();
    person.start_site();
    fs::write(
        person.kumiko_home().join("state/jobs").join(job).join("go"),
        "",
    )
    .unwrap();
    assert_eq!(server.line_with("last"), "last");
    person.ok(["job", "wait", job]);
}

#[test]
fn a_site_that_is_killed_in_the_middle_of_a_file_goes_on_and_no_half_is_ever_seen() {
    let name = "a_site_that_is_killed_in_the_middle_of_a_file_goes_on_and_no_half_is_ever_seen";
    if !needs(name, &[]) {
        return;
    }
    let person = Person::with_site();
    let server = OurServer::start(&person);
    let bytes = pattern(64 << 20);
    fs::write(server.dir().join("big"), &bytes).unwrap();
    let job = person.ok([
        "job",
        "submit",
        "--delegate",
        "--stage-in",
        &format!("{}=big", server.url("/big")),
        "--stage-out",
        &format!("big={}", server.url("/back")),
        "--",
        "sh",
        "-c",
        "wc -c < big",
    ]);
    let job = job.trim();
    let state = person.kumiko_home().join("state");
    let (part, whole) = (
        state.join("staging").join(job).join("in-0.part"),
        state.join("jobs").join(job).join("big"),
    );
    until("some of it is there", || {
        fs::metadata(&part).is_ok_and(|meta| meta.len() > 0) || whole.exists()
    });
    person.kill_site();
    let seen = fs::metadata(&whole).map(|meta| meta.len());
    assert!(
        seen.as_ref()
            .map_or(true, |length| *length == bytes.len() as u64),
        "{seen:?}"
    );
    person.start_site();
    person.ok(["job", "wait", job]);
    assert_eq!(
        person.ok(["job", "log", job]).trim(),
        bytes.len().to_string()
    );
    assert!(fs::read(server.dir().join("back")).unwrap() == bytes);
}

#[test]
fn a_site_that_is_killed_while_it_keeps_a_file_gives_each_job_the_whole_of_it() {
    let person = Person::with_site();
    let server = OurServer::start(&person);
    let stock = person.kumiko_home().join("state/stock");
    for (round, length) in [16 << 20, 48 << 20, 96 << 20].into_iter().enumerate() {
        let content = pattern(length);
        fs::write(server.dir().join("big"), &content).unwrap();
        let (sum, url) = (sha256(&content), server.url("/big"));
        let counted = Counted::before(&url);
        let submit = || {
            let (from, sum) = (format!("{}=big", counted.url(&url)), format!("big={sum}"));
            let flags = ["job", "submit", "--delegate", "--stage-in", &from];
            let more = ["--sha256", &sum, "--", "sha256sum", "big"];
            let job = person.ok(flags.into_iter().chain(more));
            job.trim().to_owned()
        };
        let expected = format!("{sum}  big\n");
        let ran = |job: &str| {
            person.ok(["job", "wait", job]);
            assert_eq!(person.ok(["job", "log", job]), expected, "round {round}");
        };
        let first = submit();
        until("it is on its way into the stock", || {
            stock.join("new").exists() || stock.join(&sum).exists()
        });
        person.kill_site();
        person.start_site();
        ran(&first);
        ran(&submit());
        counted.bytes();
        ran(&submit());
        assert_eq!(counted.bytes(), 0, "round {round}");
    }
}

#[test]
fn big_files_of_a_folder_that_was_sent_before_are_taken_from_the_stock_and_are_whole() {
    let person = Person::with_site();
    let folder = person.home.path().join("model");
    fs::create_dir(&folder).unwrap();
    let content = pattern(4 << 20);
    fs::write(folder.join("data"), &content).unwrap();
    let sum = sha256(&content);
    let entry = person.kumiko_home().join("state/stock").join(&sum);
    // A job's copy is its own.
    let script = "sha256sum data; echo more >> data";
    let run = || {
        let line = ["job", "submit", "--dir", "model", "--", "sh", "-c", script];
        let job = person.ok(line).trim().to_owned();
        person.ok(["job", "wait", &job]);
        let expected = format!("{sum}  data\n");
        assert_eq!(person.ok(["job", "log", &job]), expected);
    };
    let used = || fs::metadata(&entry).unwrap().modified().unwrap();
    run();
    let first = used();
    run();
    assert!(used() > first);
    fs::write(&entry, &content[1..]).unwrap();
    run();
    assert!(fs::read(&entry).unwrap() == content, "it is mended");
}

#[test]
fn what_cannot_be_moved_is_told_by_name_and_the_program_never_runs() {
    if !needs(
        "what_cannot_be_moved_is_told_by_name_and_the_program_never_runs",
        GASS,
    ) {
        return;
    }
    let person = Person::with_site();
    let server = GassServer::start(&person);
    let there = person.file("there/one", "one\n");
    let (absent, present) = (
        format!("{}=x", server.base("/none")),
        format!("{}=x", server.url(&there)),
    );
    let policy = person.file("alone.toml", "network = \"none\"\n");
    let policy = policy.to_str().unwrap();
    let unreachable = "https://localhost:1/x=x";
    let rows: &[(&[&str], &str, &str)] = &[
        (
            &["--delegate", "--stage-in", &absent],
            "transfer_no_such_file",
            "stage_in[0]",
        ),
        (
            &["--stage-in", &present],
            "transfer_no_credential",
            "stage_in[0]",
        ),
        (
            &["--delegate", "--policy", policy, "--stage-in", &present],
            "transfer_forbidden",
            "stage_in[0]",
        ),
        (
            &["--stage-in", "file:///etc/shadow=x"],
            "transfer_forbidden",
            "stage_in[0]",
        ),
        (
            &["--delegate", "--stage-in-shared", &absent],
            "transfer_no_such_file",
            "stage_in_shared[0]",
        ),
        (
            &["--delegate", "--stdin", unreachable.trim_end_matches("=x")],
            "transfer_unreachable",
            "stdin",
        ),
    ];
    for (flags, code, item) in rows {
        let mut submit = vec!["job", "submit"];
        submit.extend_from_slice(flags);
        submit.extend_from_slice(&["--", "touch", "ran"]);
        let job = person.ok(submit);
        let job = job.trim();
        let waited = person.run(["job", "wait", job]);
        assert_eq!(
            waited.status.code(),
            Some(125),
            "{flags:?}: {}",
            told(&waited)
        );
        let failed = &outcome(&person, job)["staging_failed"];
        assert_eq!(failed["code"], *code, "{flags:?}: {failed}");
        let explained = person.ok(["job", "explain", job]);
        assert!(explained.contains(item), "{explained}");
        let folder = person.kumiko_home().join("state/jobs").join(job);
        assert!(!folder.join("ran").exists());
    }
    // After it ran: the program's end and what became of its files are both told.
    let nowhere = format!("none={}", server.base("/none"));
    let job = person.ok([
        "job",
        "submit",
        "--delegate",
        "--stage-out",
        &nowhere,
        "--",
        "sh",
        "-c",
        "exit 3",
    ]);
    let waited = person.run(["job", "wait", job.trim()]);
    assert_eq!(waited.status.code(), Some(125), "{}", told(&waited));
    let failed = outcome(&person, job.trim())["staging_failed"].clone();
    assert_eq!(failed["code"], "transfer_not_made");
    assert!(
        failed["message"].as_str().unwrap().contains("status 3"),
        "{failed}"
    );
}

#[test]
fn files_of_a_guest_that_makes_links_are_not_followed() {
    let name = "files_of_a_guest_that_makes_links_are_not_followed";
    if !needs(name, &[]) {
        return;
    }
    let person = Person::with_site();
    let server = OurServer::start(&person);
    person.file("secret", "mine");
    let secret = person.home.path().join("secret");
    let script = format!(
        "ln -s {} out; ln -s {} up",
        secret.display(),
        person.home.path().display()
    );
    let job = person.ok([
        "job",
        "submit",
        "--delegate",
        "--stage-out",
        &format!("out={}", server.url("/got")),
        "--stage-out",
        &format!("up/secret={}", server.url("/got")),
        "--clean-up",
        "up/secret",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let waited = person.run(["job", "wait", job.trim()]);
    assert_eq!(waited.status.code(), Some(125), "{}", told(&waited));
    assert!(!server.dir().join("got").exists());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "mine");
}

#[test]
fn a_cancelled_job_moves_nothing_more() {
    let name = "a_cancelled_job_moves_nothing_more";
    if !needs(name, &[]) {
        return;
    }
    let person = Person::with_site();
    // Takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let job = person.ok([
        "job",
        "submit",
        "--stage-in",
        &format!("http://127.0.0.1:{port}/x=x"),
        "--",
        "true",
    ]);
    let job = job.trim();
    let (link, _) = silent.accept().unwrap();
    assert!(person.ok(["job", "show", job]).contains("staging in"));
    person.ok(["job", "cancel", job]);
    let waited = finish(person.kumiko(["job", "wait", job]).stdin(Stdio::null()));
    assert_eq!(waited.status.code(), Some(125), "{}", told(&waited));
    assert_eq!(outcome(&person, job), "cancelled");
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut &link, &mut rest).unwrap();
    assert!(
        rest.starts_with(b"GET /x HTTP/1.1\r\n"),
        "it was asked, and then left"
    );
}

#[test]
fn a_job_stages_by_gridftp_at_the_sites_own_server_which_ends_with_the_site() {
    let name = "a_job_stages_by_gridftp_at_the_sites_own_server_which_ends_with_the_site";
    if !needs(name, GRIDFTP) {
        return;
    }
    let person = Person::new();
    person.ok([
        "site",
        "start",
        "--listen",
        "127.0.0.1:0",
        "--gridftp=127.0.0.1:0",
    ]);
    let status = person.ok(["--output", "json", "site", "status"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let base = status["gridftp"].as_str().unwrap().to_owned();
    let there = person.file("there/one", "the one\n");
    let url = |path: &std::path::Path| format!("{base}{}", path.display());
    let back = person.home.path().join("there/back");
    let job = person.ok([
        "job",
        "submit",
        "--delegate",
        "--stage-in",
        &format!("{}=one", url(&there)),
        "--stage-out",
        &format!("two={}", url(&back)),
        "--",
        "sh",
        "-c",
        "tr o O < one > two",
    ]);
    person.ok(["job", "wait", job.trim()]);
    assert_eq!(fs::read_to_string(&back).unwrap(), "the One\n");

    // As anybody else's: by the unmodified client.
    let copy = |from: &str, to: &str| {
        finish(globus(&person, "globus-url-copy", [from, to]).stdin(Stdio::null()))
    };
    let (local, remote) = (
        person.home.path().join("local"),
        person.home.path().join("remote"),
    );
    fs::write(&local, pattern(3 << 20)).unwrap();
    let file = |path: &std::path::Path| format!("file://{}", path.display());
    let out = copy(&file(&local), &url(&remote));
    assert!(out.status.success(), "{}", told(&out));
    fs::remove_file(&local).unwrap();
    let out = copy(&url(&remote), &file(&local));
    assert!(out.status.success(), "{}", told(&out));
    assert!(fs::read(&local).unwrap() == pattern(3 << 20));

    // It ends with the site, even one that is killed.
    let port: u16 = base.rsplit(':').next().unwrap().parse().unwrap();
    let answers = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(answers());
    person.kill_site();
    until("the GridFTP server ends with its site", || !answers());
}
