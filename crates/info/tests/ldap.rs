//! The LDAP door (spec/info, L1 to L14): the unmodified ldapsearch, and bytes that no client would send.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Running, World, host, text};
use kumiko_directory::provider::Provider;
use kumiko_directory::source::Kind;
use kumiko_directory::{Attribute, Dn, Entry, Op, Stamp};
use kumiko_info::Limits;
use kumiko_testkit::{deadline, has_program, skip};
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BASE: &str = "mds-vo-name=Local,o=Grid";

async fn grid(world: &World) -> Running {
    let server = world.start(world.config("local", Kind::Index)).await;
    let mut entries: Vec<Entry> = (0..40)
        .map(|n| host(&format!("host{n}.example"), n, f64::from(n) / 10.0))
        .collect();
    let one = Dn::default().child("Mds-Host-hn", "host3.example");
    entries.push(
        Entry::new(one.child("Mds-Device-Group-name", "memory"))
            .with("objectClass", ["Mds", "MdsDeviceGroup"])
            .with("Mds-Device-Group-name", ["memory"]),
    );
    server.tell(entries);
    server
}

fn missing(test: &str) -> bool {
    let missing = !has_program("ldapsearch");
    if missing {
        skip(test, "ldap-utils");
    }
    missing
}

fn count(output: &std::process::Output) -> usize {
    text(output).matches("dn: ").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn ldapsearch_finds_by_every_kind_of_filter() {
    if missing("ldapsearch_finds_by_every_kind_of_filter") {
        return;
    }
    let world = World::new();
    let server = grid(&world).await;
    for (filter, expected) in [
        ("(objectclass=MdsHost)", 40),
        ("(OBJECTCLASS=mdshost)", 40),
        ("(objectclass=1.3.6.1.4.1.3536.2.6.1.1)", 40),
        ("(Mds-Host-hn=HOST7.example)", 1),
        ("(Mds-Cpu-Total-count>=30)", 10),
        ("(Mds-Cpu-Total-count<=4)", 5),
        ("(&(Mds-Cpu-Total-count>=30)(kumiko-load-1min<=3.5))", 6),
        (
            "(|(Mds-Host-hn=host1.example)(Mds-Host-hn=host2.example))",
            2,
        ),
        ("(&(objectclass=MdsHost)(!(Mds-Host-hn=host1*)))", 29),
        ("(Mds-Host-hn=*ost1*.example)", 11),
        ("(Mds-Host-hn=host1*)", 11),
        ("(Mds-Os-name~=linux)", 40),
        ("(Mds-Host-hn:=host9.example)", 1),
        ("(Mds-Host-hn:dn:=host3.example)", 2),
        ("(!(nobody=1))", 0),
        ("(Mds-Cpu-Total-count=many)", 0),
        ("(&)", 42),
    ] {
        let found = world.ldapsearch(&server.url(), &["-b", BASE, filter, "1.1"]);
        assert!(found.status.success(), "{filter}: {found:?}");
        assert_eq!(count(&found), expected, "{filter}\n{}", text(&found));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_attribute_lists_limits_and_pages_are_kept() {
    if missing("scopes_attribute_lists_limits_and_pages_are_kept") {
        return;
    }
    let world = World::new();
    let server = grid(&world).await;
    let host3 = format!("Mds-Host-hn=host3.example, {BASE}");
    let search = |arguments: &[&str]| world.ldapsearch(&server.url(), arguments);
    for (base, scope, expected) in [
        (BASE, "base", 1),
        (BASE, "one", 40),
        (BASE, "sub", 42),
        (BASE, "children", 41),
        (&host3, "base", 1),
        (&host3, "one", 1),
        (&host3, "sub", 2),
        ("o=grid", "one", 1),
        ("o=grid", "sub", 43),
    ] {
        let found = search(&["-b", base, "-s", scope, "1.1"]);
        assert_eq!(count(&found), expected, "{base} {scope}\n{found:?}");
    }
    let one = search(&[
        "-b",
        &host3,
        "-s",
        "base",
        "mds-cpu-total-COUNT",
        "Mds-validfrom",
        "nothing",
    ]);
    assert_eq!(
        text(&one).trim(),
        "dn: Mds-Host-hn=host3.example, Mds-Vo-name=local, o=grid\nMds-Cpu-Total-count: 3\nMds-validfrom: 20231114221320Z"
    );
    let types = text(&search(&["-A", "-b", &host3, "-s", "base", "Mds-Os-name"]));
    assert!(types.contains("Mds-Os-name:\n"), "{types}");
    let limited = search(&["-z", "5", "-b", BASE, "1.1"]);
    assert_eq!(
        (limited.status.code(), count(&limited)),
        (Some(4), 5),
        "{limited:?}"
    );
    let paged = search(&[
        "-E",
        "pr=7/noprompt",
        "-b",
        BASE,
        "(objectclass=MdsHost)",
        "1.1",
    ]);
    assert_eq!(count(&paged), 40, "{paged:?}");
    let nowhere = search(&["-b", "Mds-Host-hn=x, mds-vo-name=nowhere, o=grid"]);
    assert_eq!(nowhere.status.code(), Some(32));
    let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(said.contains("Matched DN: o=grid"), "{said}");
    assert_eq!(search(&["-b", "nonsense"]).status.code(), Some(34));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_and_the_schema_tell_what_there_is() {
    if missing("the_root_and_the_schema_tell_what_there_is") {
        return;
    }
    let world = World::new();
    let server = grid(&world).await;
    let root = world.ldapsearch(&server.url(), &["-b", "", "-s", "base", "+", "*"]);
    for line in [
        "namingContexts: o=grid",
        "supportedControl: 1.2.840.113556.1.4.319",
        "supportedExtension: 1.3.6.1.4.1.1466.20037",
        "subschemaSubentry: cn=subschema",
    ] {
        assert!(text(&root).contains(line), "{line}\n{}", text(&root));
    }
    let schema = world.ldapsearch(
        &server.url(),
        &["-b", "cn=subschema", "-s", "base", "attributeTypes"],
    );
    let line = "1.3.6.1.4.1.3536.2.6.2.4.4.0.1 NAME 'Mds-Cpu-Total-count'";
    assert!(text(&schema).contains(line), "{}", text(&schema));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_from_the_beginning_or_begun_later_and_certificates_may_be_wanted() {
    if missing("tls_is_spoken_from_the_beginning_or_begun_later_and_certificates_may_be_wanted") {
        return;
    }
    let world = World::new();
    let server = grid(&world).await;
    let ldaps = format!("ldaps://localhost:{}", server.address.port());
    let found = world.ldapsearch(&ldaps, &["-b", BASE, "1.1"]);
    assert_eq!(count(&found), 42, "{found:?}");
    let begun = world.ldapsearch(&server.url(), &["-ZZ", "-b", BASE, "1.1"]);
    assert_eq!(count(&begun), 42, "{begun:?}");
    let config = kumiko_info::Config {
        anonymous: false,
        ..world.config("closed", Kind::Index)
    };
    let closed = world.start(config).await;
    for url in [
        closed.url(),
        format!("ldaps://localhost:{}", closed.address.port()),
    ] {
        let refused = world.ldapsearch(&url, &["-b", "o=grid"]);
        assert_eq!(refused.status.code(), Some(48), "{refused:?}");
    }
    let folder = common::folder(&world, "alice");
    std::fs::create_dir_all(&folder).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    world.user.save_pair(&certificate, &key).unwrap();
    let ca = world.ca.dir().join("ca.pem");
    let known = std::process::Command::new("ldapsearch")
        .args(["-Q", "-Y", "EXTERNAL", "-LLL", "-b", "o=grid", "-H"])
        .arg(format!("ldaps://localhost:{}", closed.address.port()))
        .env("LDAPTLS_CACERT", ca)
        .env("LDAPTLS_CERT", certificate)
        .env("LDAPTLS_KEY", key)
        .output()
        .unwrap();
    if String::from_utf8_lossy(&known.stderr).contains("no mechanism available") {
        skip(
            "the SASL part of certificates_may_be_wanted",
            "libsasl2-modules",
        );
        return;
    }
    assert_eq!(count(&known), 2, "{known:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persistent_search_tells_changes_as_they_happen() {
    if missing("a_persistent_search_tells_changes_as_they_happen") {
        return;
    }
    let world = World::new();
    let server = grid(&world).await;
    let mut child = std::process::Command::new("ldapsearch");
    child.args([
        "-x",
        "-LLL",
        "-E",
        "!ps=15/1/1",
        "-H",
        &server.url(),
        "-b",
        BASE,
        "(Mds-Cpu-Total-count>=39)",
        "kumiko-load-1min",
    ]);
    let mut child = tokio::task::spawn_blocking(move || kumiko_testkit::Process::start(&mut child))
        .await
        .unwrap();
    // Its search counts as a query once it is under way.
    let queries = &server.index.counts.queries;
    common::until("the search is under way", || async {
        queries.load(Relaxed) > 0
    })
    .await;
    let dn = Dn::default().child("Mds-Host-hn", "host39.example");
    let attribute = |name: &str, value: &str| Attribute {
        name: name.into(),
        values: vec![value.into()],
        stamp: Stamp::default(),
    };
    let set = |attribute| {
        let dn = dn.clone();
        Op::Set { dn, attribute }
    };
    let mut said = |text: &'static str| tokio::task::block_in_place(|| child.line_with(text));
    server.change(vec![set(attribute("kumiko-load-1min", "77"))]);
    said("host39");
    said("kumiko-load-1min: 77");
    server.change(vec![set(attribute("Mds-Cpu-Total-count", "2"))]);
    said("# persistentSearch: delete");
    server.change(vec![set(attribute("Mds-Cpu-Total-count", "64"))]);
    said("kumiko-load-1min: 77");
    server.change(vec![Op::Remove { dn: dn.clone() }]);
    said("# persistentSearch: delete");
}

/// The forms of the questions that people put by grid-info-search, which hands them to ldapsearch as they are
/// (Globus Toolkit 2.4, "MDS 2.4 Schemas" and its test suite), here to a server that describes this very host.
#[tokio::test(flavor = "multi_thread")]
async fn the_questions_of_grid_info_search_are_answered_for_a_real_host() {
    if missing("the_questions_of_grid_info_search_are_answered_for_a_real_host") {
        return;
    }
    let world = World::new();
    let server = world.start(world.config("local", Kind::Leaf)).await;
    let mut provider = kumiko_info::HostProvider::new("here.example".to_owned());
    server.tell(provider.read().await.unwrap());
    let search = |filter: &str, wanted: &str| {
        let asked = ["-b", BASE, "-s", "sub", "-l", "30", filter, wanted];
        text(&world.ldapsearch(&server.url(), &asked))
    };
    for (filter, wanted) in [
        ("(objectclass=*)", "Mds-Host-hn"),
        ("(&(objectclass=MdsHost)(Mds-Host-hn=*))", "Mds-validto"),
        ("(objectclass=MdsComputer)", "Mds-Computer-isa"),
        (
            "(&(objectclass=MdsCpu)(Mds-Cpu-Total-count>=1))",
            "Mds-Cpu-model",
        ),
        (
            "(&(objectclass=MdsHost)(Mds-Cpu-Total-Free-1minX100>=0))",
            "Mds-Cpu-Total-Free-15minX100",
        ),
        ("(Mds-Device-Group-name=processors)", "Mds-Cpu-Total-count"),
        (
            "(Mds-Device-Group-name=memory)",
            "Mds-Memory-Ram-Total-sizeMB",
        ),
        (
            "(&(objectclass=MdsMemoryRam)(Mds-Device-name=physical memory))",
            "Mds-Memory-Ram-freeMB",
        ),
        (
            "(&(objectclass=MdsFs)(Mds-Fs-freeMB>=0)(Mds-Device-name=/))",
            "Mds-Fs-sizeMB",
        ),
        (
            "(&(objectclass=MdsNet)(Mds-Device-name=lo))",
            "Mds-Net-addr",
        ),
        (
            "(Mds-Software-deployment=operating system)",
            "Mds-Os-release",
        ),
        ("(&(objectclass=MdsOs)(Mds-Os-name=linux*))", "Mds-Os-name"),
    ] {
        let found = search(filter, wanted);
        assert!(
            found.contains(&format!("\n{wanted}: ")),
            "{filter} {wanted}:\n{found}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn python_ldap_works_unmodified() {
    // Debian's package belongs to Debian's own interpreter, whichever comes first in PATH.
    const PYTHON: &str = "/usr/bin/python3";
    let known = std::process::Command::new(PYTHON)
        .args(["-c", "import ldap"])
        .output();
    if !known.is_ok_and(|o| o.status.success()) {
        skip("python_ldap_works_unmodified", "python3-ldap");
        return;
    }
    let world = World::new();
    let server = grid(&world).await;
    let ca = world.ca.dir().join("ca.pem");
    let certificate = world.ca.authority().certificate().to_pem().unwrap();
    std::fs::write(&ca, certificate).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python_ldap.py");
    let mut command = std::process::Command::new(PYTHON);
    command.args([script, &server.url(), "40"]).arg(ca);
    let mut python =
        tokio::task::spawn_blocking(move || kumiko_testkit::Process::start(&mut command))
            .await
            .unwrap();
    let mut said = |text: &'static str| tokio::task::block_in_place(|| python.line_with(text));
    said("ready");
    let dn = Dn::default().child("Mds-Host-hn", "host39.example");
    let load = Attribute {
        name: "kumiko-load-1min".into(),
        values: vec!["77".into()],
        stamp: Stamp::default(),
    };
    server.change(vec![Op::Set {
        dn: dn.clone(),
        attribute: load,
    }]);
    said("host39.example [4] {'kumiko-load-1min': [b'77']}");
    server.change(vec![Op::Remove { dn }]);
    said("host39.example [2]");
    said("end");
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_asks_the_same_over_http() {
    if !has_program("curl") {
        return skip("curl_asks_the_same_over_http", "curl");
    }
    let world = World::new();
    let server = grid(&world).await;
    let ca = world.ca.dir().join("ca.pem");
    std::fs::write(&ca, world.ca.authority().certificate().to_pem().unwrap()).unwrap();
    let get_text = |path: &str| {
        let output = std::process::Command::new("curl")
            .args(["-s", "-w", "\n%{http_code}", "--cacert"])
            .arg(&ca)
            .arg(format!("https://localhost:{}{path}", server.address.port()))
            .output()
            .unwrap();
        let told = text(&output);
        let (body, code) = told.rsplit_once('\n').unwrap();
        (code.to_owned(), body.to_owned())
    };
    let get = |path: &str| {
        let (code, body) = get_text(path);
        let value: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        (value, code)
    };
    let (found, code) =
        get("/v1/info/query?expression=cpus+%3E%3D+30&rank=host&limit=2&attributes=host");
    assert_eq!(
        (found["matched"].as_u64(), code.as_str()),
        (Some(10), "200"),
        "{found}"
    );
    assert_eq!(
        found["entries"][0]["attributes"]["Mds-Host-hn"][0],
        "host30.example"
    );
    for (path, code, word) in [
        ("/v1/info/query?expression=cpus+%3E%3D", "400", "bad_query"),
        (
            "/v1/info/query?expression=nonsense+%3D+1",
            "400",
            "bad_query",
        ),
        ("/v1/info/query?limit=x", "400", "bad_query"),
        ("/v1/nothing", "404", "no_such_resource"),
    ] {
        let (refusal, status) = get(path);
        assert_eq!(
            (refusal["code"].as_str(), status.as_str()),
            (Some(word), code),
            "{path}"
        );
    }
    assert!(
        get("/v1/info/attributes")
            .0
            .as_array()
            .is_some_and(|a| a.len() > 50)
    );
    assert_eq!(get("/v1/info/status").0["name"], "local");
    let entries = get("/v1/info/status").0["entries"].clone();
    let (_, body) = get_text("/metrics");
    for line in [
        format!("kumiko_info_entries {entries}").as_str(),
        "kumiko_info_sources_live 0",
        "# TYPE kumiko_info_queries_total counter",
    ] {
        assert!(body.lines().any(|l| l == line), "{line}\n{body}");
    }
}

async fn answer_to(server: &Running, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // It may be refused before all of it is there.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = deadline("an end", stream.read_to_end(&mut answer)).await;
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_request_end_the_connection_with_a_word() {
    let world = World::new();
    let server = grid(&world).await;
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../spec/info/vectors/invalid"
    );
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|e| e == "ldap") {
            let answer = answer_to(&server, &std::fs::read(&path).unwrap()).await;
            let said = String::from_utf8_lossy(&answer).into_owned();
            assert!(
                said.contains("1.3.6.1.4.1.1466.20036"),
                "{}: {said}",
                path.display()
            );
        }
    }
    // And the server goes on.
    assert!(
        !common::hosts(&world.client(&server).await, "cpus >= 39")
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_given_up_and_holds_little_meanwhile() {
    let world = World::new();
    let limits = Limits {
        write_within_ms: 300,
        idle_ms: 300,
        ..Limits::default()
    };
    let config = kumiko_info::Config {
        limits,
        ..world.config("local", Kind::Index)
    };
    let server = world.start(config).await;
    server.tell(
        (0..20_000)
            .map(|n| host(&format!("host{n}"), n, 0.5))
            .collect(),
    );
    let search = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../spec/info/vectors/valid/search-all.ldap"
    ))
    .unwrap();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..50 {
        stream.write_all(&search).await.unwrap();
    }
    // 50 answers of 5 MB each were never held: the connection ends while the client does nothing.
    let given_up = &server.index.counts.given_up;
    common::until("the connection to be given up", || async {
        given_up.load(Relaxed) == 1
    })
    .await;
    let mut gone = Vec::new();
    let _ = stream.read_to_end(&mut gone).await;
    assert!(gone.len() < 40_000_000, "{} bytes were waiting", gone.len());
    // One that says nothing at all goes too.
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let bind = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../spec/info/vectors/valid/bind-anonymous.ldap"
    ))
    .unwrap();
    silent.write_all(&bind).await.unwrap();
    let mut answer = Vec::new();
    deadline(
        "the idle connection to end",
        silent.read_to_end(&mut answer),
    )
    .await
    .unwrap();
    assert!(answer.starts_with(&[0x30]));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_connections_from_one_address_are_turned_away() {
    let world = World::new();
    let limits = Limits {
        connections_per_address: 3,
        ..Limits::default()
    };
    let config = kumiko_info::Config {
        limits,
        ..world.config("local", Kind::Index)
    };
    let server = world.start(config).await;
    let bind = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../spec/info/vectors/valid/bind-anonymous.ldap"
    ))
    .unwrap();
    let mut held = Vec::new();
    let mut answered = 0;
    for _ in 0..5 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let _ = stream.write_all(&bind).await;
        let mut first = [0];
        let read = deadline("an answer or an end", stream.read(&mut first)).await;
        answered += usize::from(matches!(read, Ok(1)));
        held.push(stream);
    }
    assert_eq!(answered, 3);
}
