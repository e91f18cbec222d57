//! Registrants in the manner of MDS 2 (spec/info, G1 to G5): the unmodified ldapadd registers a server that is asked by
//! LDAP; whoever is not listed is refused, and never asked.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Running, World, host, hosts, text, until};
use kumiko_directory::source::Kind;
use kumiko_info::{Config, Legacy, generalized};
use kumiko_testkit::{has_program, skip};
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn missing(test: &str) -> bool {
    let missing = !has_program("ldapadd");
    if missing {
        skip(test, "ldap-utils");
    }
    missing
}

/// As grid-info-soft-register says it, of a server of this name and port; `ttl_s` from an hour ago.
fn register(index: &Running, name: &str, port: u16, ttl_s: u64) -> Output {
    let hour_ago =
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - Duration::from_secs(3600);
    let at = |s: u64| generalized(u64::try_from(hour_ago.as_millis()).unwrap() + 1000 * s);
    let ldif = format!(
        "dn: Mds-Vo-Op-name=register, Mds-Vo-name=top, o=grid\nobjectClass: Mds\nobjectClass: MdsVoOp\n\
         objectClass: MdsService\nobjectClass: MdsServiceLdap\nMds-Vo-Op-name: register\nMds-Service-type: ldap\n\
         Mds-Service-protocol: 0.1\nMds-Service-hn: {name}\nMds-Service-port: {port}\n\
         Mds-Service-Ldap-suffix: Mds-Vo-name=local, o=grid\nMds-Service-Ldap-sizelimit: 0\n\
         Mds-Service-Ldap-timeout: 10\nMds-Service-Ldap-cachettl: 1\nMds-Bind-Method-servers: ANONYM-ONLY\n\
         Mds-validfrom: {}\nMds-validto: {}\nMds-keepto: {}\n",
        at(0),
        at(ttl_s),
        at(ttl_s)
    );
    let mut child = Command::new("ldapadd")
        .args(["-x", "-H", &index.url()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(ldif.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

async fn index(world: &World, listed: &[u16]) -> Running {
    let legacy = listed.iter().map(|port| Legacy {
        address: format!("localhost:{port}"),
        hosts: "*.example".into(),
    });
    let config = Config {
        legacy: legacy.collect(),
        ..world.config("top", Kind::Index)
    };
    world.start(config).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listed_server_of_mds_is_asked_while_its_registration_holds() {
    if missing("a_listed_server_of_mds_is_asked_while_its_registration_holds") {
        return;
    }
    let world = World::new();
    let gris = world.start(world.config("local", Kind::Leaf)).await;
    gris.tell(vec![
        host("a.example", 8, 0.5),
        host("not.elsewhere", 8, 0.5),
    ]);
    let top = index(&world, &[gris.address.port()]).await;
    let client = world.client(&top).await;
    for _ in 0..2 {
        let added = register(&top, "LocalHost", gris.address.port(), 600);
        assert!(added.status.success(), "the same again is well: {added:?}");
    }
    until("its host is known", || async {
        hosts(&client, "").await == ["a.example"]
    })
    .await;
    let found = world.ldapsearch(
        &top.url(),
        &[
            "-b",
            "mds-vo-name=top,o=grid",
            "(Mds-Host-hn=*)",
            "Mds-Cpu-Total-count",
        ],
    );
    assert_eq!(
        text(&found).trim(),
        "dn: Mds-Host-hn=a.example, Mds-Vo-name=top, o=grid\nMds-Cpu-Total-count: 8"
    );
    gris.tell(vec![host("a.example", 16, 0.5), host("b.example", 2, 0.1)]);
    until("what changes there is known", || async {
        hosts(&client, "cpus = 16").await == ["a.example"] && hosts(&client, "").await.len() == 2
    })
    .await;
    // It falls silent: stale, and kept for as long as it is registered.
    gris.kill().await;
    until("it is stale", || async {
        hosts(&client, "stale_since").await.len() == 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_that_nobody_renews_ends_by_its_own_length_whatever_its_clock_says() {
    if missing("a_registration_that_nobody_renews_ends_by_its_own_length_whatever_its_clock_says") {
        return;
    }
    let world = World::new();
    let gris = world.start(world.config("local", Kind::Leaf)).await;
    gris.tell(vec![host("a.example", 8, 0.5)]);
    let top = index(&world, &[gris.address.port()]).await;
    let client = world.client(&top).await;
    // The server itself goes on: it is not asked any more.
    let changes = || top.index.counts.changes.load(Relaxed);
    for _ in 0..2 {
        let before = changes();
        assert!(
            register(&top, "localhost", gris.address.port(), 3)
                .status
                .success()
        );
        // It may be over before anybody looks.
        until("it was asked", || async { changes() > before }).await;
        until("it is over", || async {
            hosts(&client, "").await.is_empty()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_not_listed_is_refused_and_never_asked() {
    if missing("whoever_is_not_listed_is_refused_and_never_asked") {
        return;
    }
    let world = World::new();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    nobody.set_nonblocking(true).unwrap();
    let port = nobody.local_addr().unwrap().port();
    let off = world.start(world.config("top", Kind::Index)).await;
    let on = index(&world, &[1]).await;
    for (server, expected, words) in [
        (&off, 53, "come from their sources"),
        (&on, 50, "has not listed"),
    ] {
        let refused = register(server, "localhost", port, 600);
        assert_eq!(refused.status.code(), Some(expected), "{refused:?}");
        assert!(
            String::from_utf8_lossy(&refused.stderr).contains(words),
            "{refused:?}"
        );
    }
    // Listed, but elsewhere: this connection is not from there.
    let elsewhere = Config {
        legacy: vec![Legacy {
            address: format!("192.0.2.1:{port}"),
            hosts: "*".into(),
        }],
        ..world.config("top", Kind::Index)
    };
    let elsewhere = world.start(elsewhere).await;
    let refused = register(&elsewhere, "192.0.2.1", port, 600);
    assert_eq!(refused.status.code(), Some(50), "{refused:?}");
    let asked = nobody.accept().map(|(_, from)| from);
    assert!(asked.is_err(), "{asked:?}");
}
