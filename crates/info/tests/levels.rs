//! Registration, deltas and what time and accidents do to them (spec/info, R1 to R14, W1 to W3).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::{
    Pair, Running, World, above, above_at, host, hosts, next_news, pair, query, status, until,
};
use kumiko_directory::ask::{Ask, News, Query};
use kumiko_directory::delta;
use kumiko_directory::source::{Hello, Kind};
use kumiko_directory::{Attribute, Dn, Op, Stamp};
use kumiko_info::{Above, Allow, Answers, AskError, Config, InfoClient};
use kumiko_testkit::deadline;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

fn load(name: &str, value: &str) -> Op {
    Op::Set {
        dn: Dn::default().child("Mds-Host-hn", name),
        attribute: Attribute {
            name: "kumiko-load-1min".into(),
            values: vec![value.into()],
            stamp: Stamp {
                measured_ms: 1_700_000_000_000,
                holds_ms: 0,
            },
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_at_a_leaf_is_seen_at_the_top_of_three_levels() {
    let world = World::new();
    let top = world.start(world.config("top", Kind::Index)).await;
    let index = world.config("middle", Kind::Index);
    let middle = world.below(above(&top, 60_000, 500), index).await;
    let leaf = world.config("leaf", Kind::Leaf);
    let leaf = world.below(above(&middle, 2_500, 500), leaf).await;
    leaf.tell(vec![host("a.example", 8, 0.5), host("b.example", 2, 0.1)]);
    let client = world.client(&top).await;
    until("the hosts at the top", || async {
        hosts(&client, "").await.len() == 2
    })
    .await;
    let asked = Query {
        expression: "cpus >= 4 and mem_free > 4GiB".into(),
        ..Query::default()
    };
    let found = query(&client, asked.clone()).await.unwrap();
    assert_eq!(
        found[0].dn,
        "Mds-Host-hn=a.example, Mds-Vo-name=middle, Mds-Vo-name=top, o=grid"
    );
    let mut watching = client.ask(&Ask::Watch(asked)).await.unwrap();
    assert!(matches!(next_news(&mut watching).await, News::Entry(_)));
    assert_eq!(next_news(&mut watching).await, News::Complete);
    let changed = Instant::now();
    leaf.change(vec![load("a.example", "7.5")]);
    let News::Entry(entry) = next_news(&mut watching).await else {
        panic!("a change was expected");
    };
    assert_eq!(entry.first("kumiko-load-1min"), Some("7.5"));
    eprintln!("leaf to top: {:?}", changed.elapsed());
    leaf.change(vec![Op::Remove {
        dn: Dn::default().child("Mds-Host-hn", "a.example"),
    }]);
    assert!(matches!(next_news(&mut watching).await, News::Gone { .. }));
    // In order: gone at once, everywhere.
    leaf.stop().await;
    until("the other host to go", || async {
        hosts(&client, "").await.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_with_two_parents_tells_both_and_the_loss_of_one_does_not_hold_up_the_other() {
    let world = World::new();
    let one = world.start(world.config("one", Kind::Index)).await;
    let other = world.start(world.config("other", Kind::Index)).await;
    let register = vec![above(&one, 60_000, 500), above(&other, 60_000, 500)];
    let config = world.config("leaf", Kind::Leaf);
    let leaf = world.start(Config { register, ..config }).await;
    leaf.tell(vec![host("a", 8, 0.5)]);
    let clients = [world.client(&one).await, world.client(&other).await];
    let both_show = async |expression: &str| {
        for client in &clients {
            until(expression, || async {
                hosts(client, expression).await.len() == 1
            })
            .await;
        }
    };
    both_show("cpus >= 8").await;
    leaf.change(vec![load("a", "7.5")]);
    both_show("load = 7.5").await;
    one.kill().await;
    leaf.change(vec![load("a", "2.5")]);
    until("the change at the other", || async {
        hosts(&clients[1], "load = 2.5").await.len() == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leaf_is_stale_and_then_gone() {
    let world = World::new();
    let Pair {
        leaf,
        client,
        top: _top,
    } = pair(&world, |top| above(top, 2_500, 800), &["a"]).await;
    leaf.kill().await;
    until("it is stale", || async {
        hosts(&client, "stale_since and cpus >= 8").await.len() == 1
    })
    .await;
    let begun = Instant::now();
    until("it is gone", || async {
        hosts(&client, "").await.is_empty()
    })
    .await;
    eprintln!("gone after {:?} of being stale", begun.elapsed());
}

/// A way that can be cut: bytes stay away, connections stay open.
fn proxy(to: SocketAddr) -> (SocketAddr, watch::Sender<bool>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let address = listener.local_addr().unwrap();
    let (cut, is_cut) = watch::channel(false);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let is_cut = is_cut.clone();
            tokio::spawn(async move {
                let Ok(far) = TcpStream::connect(to).await else {
                    return;
                };
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = far.into_split();
                tokio::spawn(pass(near_in, far_out, is_cut.clone()));
                pass(far_in, near_out, is_cut).await;
            });
        }
    });
    (address, cut)
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut is_cut: watch::Receiver<bool>,
) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut bytes = vec![0; 16 * 1024];
    loop {
        if is_cut.wait_for(|cut| !cut).await.is_err() {
            return;
        }
        match from.read(&mut bytes).await {
            Ok(count) if count > 0 => {
                if is_cut.wait_for(|cut| !cut).await.is_err()
                    || to.write_all(&bytes[..count]).await.is_err()
                {
                    return;
                }
            }
            _ => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_cut_link_hosts_are_stale_and_come_back_with_what_changed() {
    let world = World::new();
    let mut cut = watch::Sender::new(false);
    let through_proxy = |top: &Running| {
        let (address, switch) = proxy(top.address);
        cut = switch;
        above_at(address, 60_000, 300)
    };
    let Pair { top, leaf, client } = pair(&world, through_proxy, &["a", "b"]).await;
    let snapshots = top.index.counts.snapshots.load(Relaxed);
    cut.send_replace(true);
    until("both are stale", || async {
        hosts(&client, "stale_since").await.len() == 2
    })
    .await;
    leaf.change(vec![
        load("a", "3.25"),
        Op::Remove {
            dn: Dn::default().child("Mds-Host-hn", "b"),
        },
    ]);
    assert_eq!(
        hosts(&client, "").await.len(),
        2,
        "nothing is known of it yet"
    );
    cut.send_replace(false);
    until("what changed is known", || async {
        hosts(&client, "load = 3.25 and not stale_since").await == ["a"]
            && hosts(&client, "").await == ["a"]
    })
    .await;
    let after = top.index.counts.snapshots.load(Relaxed);
    assert_eq!(after, snapshots, "deltas were enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_was_killed_starts_warm_and_is_told_what_changed() {
    let world = World::new();
    let Pair { top, leaf, client } = pair(&world, |top| above(top, 60_000, 300), &["a", "b"]).await;
    let again = Config {
        listen: top.address,
        ..world.config("top", Kind::Index)
    };
    assert_eq!(status(&client).await.started, "cold");
    drop(client);
    top.stop().await;
    leaf.change(vec![Op::Remove {
        dn: Dn::default().child("Mds-Host-hn", "b"),
    }]);
    let top = world.start(again.clone()).await;
    let client = world.client(&top).await;
    let said = status(&client).await.started;
    assert!(
        said.starts_with("warm, with 2 entries of 1 source"),
        "{said}"
    );
    until("it is told anew", || async {
        hosts(&client, "not stale_since").await == ["a"]
    })
    .await;
    assert_eq!(
        hosts(&client, "").await,
        ["a"],
        "what went meanwhile is gone"
    );
    drop(client);
    top.stop().await;
    let snapshot = common::folder(&world, "top").join("state/snapshot");
    let whole = std::fs::read(&snapshot).unwrap();
    for damaged in [&whole[..whole.len() / 2], b"nonsense", b""] {
        std::fs::write(&snapshot, damaged).unwrap();
        let top = world.start(again.clone()).await;
        assert!(
            top.index
                .started
                .starts_with("cold: the snapshot cannot be used"),
            "{}",
            top.index.started
        );
        let client = world.client(&top).await;
        until("it is told everything", || async {
            hosts(&client, "").await == ["a"]
        })
        .await;
        drop(client);
        top.kill().await;
    }
}

fn hello(name: &str, id: &str) -> Hello {
    Hello {
        name: name.into(),
        kind: Kind::Leaf,
        id: id.into(),
        epoch: 1,
        ttl_ms: 60_000,
        heartbeat_ms: 1_000,
        below: BTreeSet::new(),
        now_ms: 0,
        first: 1,
        last: 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_register_is_told_so() {
    let world = World::new();
    let allow = vec![Allow {
        subject: "*CN=Alice".into(),
        name: "site-*".into(),
        hosts: "*.a.example".into(),
    }];
    let top = world
        .start(Config {
            allow,
            ..world.config("top", Kind::Index)
        })
        .await;
    let client = world.client(&top).await;
    let refused = |hello: Hello| async {
        let mut answers = client.ask(&Ask::Register(hello)).await.unwrap();
        match answers.next::<serde_json::Value>().await {
            Err(AskError::Refused { code, .. }) => code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        refused(hello("other", "1")).await,
        "not_allowed_to_register"
    );
    let id = top.index.read(|inner| inner.registrations.id().to_owned());
    assert_eq!(refused(hello("site-a", &id)).await, "registration_loop");
    assert_eq!(refused(hello("site-a", "")).await, "bad_registration");
    let mut first = client
        .ask(&Ask::Register(hello("site-a", "1")))
        .await
        .unwrap();
    assert!(first.next::<serde_json::Value>().await.unwrap().is_some());
    assert_eq!(refused(hello("SITE-A", "2")).await, "name_taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_of_indexes_is_refused_and_says_so() {
    let world = World::new();
    let a = world.start(world.config("a", Kind::Index)).await;
    let b = world
        .below(above(&a, 60_000, 300), world.config("b", Kind::Index))
        .await;
    let client = world.client(&b).await;
    until("b is below a", || async {
        status(&client)
            .await
            .above
            .iter()
            .any(|x| x.state == "registered")
    })
    .await;
    let port = a.address;
    a.stop().await;
    let a = world
        .start(Config {
            listen: port,
            register: vec![above(&b, 60_000, 300)],
            ..world.config("a", Kind::Index)
        })
        .await;
    let other = world.client(&a).await;
    until("one of both is refused", || async {
        let both = [status(&client).await, status(&other).await];
        both.iter()
            .flat_map(|s| &s.above)
            .any(|x| x.state.contains("circle"))
    })
    .await;
    b.tell(vec![host("x", 1, 0.1)]);
    until("what b tells is found once at a or not at all", || async {
        hosts(&other, "").await.len() <= 1
    })
    .await;
}

/// Registers by hand and tells one host of this name, measured then.
async fn registrant(client: &InfoClient, said: Hello, measured_ms: u64, holds_ms: u32) -> Answers {
    let name = said.name.clone();
    let mut stream = client.ask(&Ask::Register(said)).await.unwrap();
    assert!(stream.next::<serde_json::Value>().await.unwrap().is_some());
    let stamp = Stamp {
        measured_ms,
        holds_ms,
    };
    let entry = host(&name, 1, 0.5).stamped(stamp);
    let bytes = delta::write_ops(1, &[Op::Put(entry)]);
    stream.tell(delta::kind::OPS, bytes.into()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_hours_off_does_not_make_values_old_or_of_the_future() {
    let world = World::new();
    let top = world.start(world.config("top", Kind::Index)).await;
    let client = world.client(&top).await;
    let now_ms = top.index.clock.now_ms();
    let mut registered = Vec::new();
    for (name, offset_ms) in [
        ("slow", -5 * 3_600_000_i64),
        ("fast", 5 * 3_600_000),
        ("right", 0),
    ] {
        let theirs = now_ms.saturating_add_signed(offset_ms);
        let said = Hello {
            now_ms: theirs,
            ..hello(name, name)
        };
        registered.push(registrant(&client, said, theirs, 0).await);
    }
    until("all are known", || async {
        hosts(&client, "not stale_since").await.len() == 3
    })
    .await;
    let later_ms = top.index.clock.now_ms();
    for entry in query(&client, Query::default()).await.unwrap() {
        let measured_ms = entry.measured_ms.unwrap();
        assert!((now_ms..=later_ms).contains(&measured_ms), "{entry:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_that_lie_about_time_age_nobody_and_outlive_nothing() {
    let world = World::new();
    let top = world.start(world.config("top", Kind::Index)).await;
    let client = world.client(&top).await;
    let truth = registrant(&client, hello("true", "1"), 1_700_000_000_000, 0).await;
    let now_ms = top.index.clock.now_ms();
    let mut lies = Vec::new();
    for (name, theirs, measured_ms) in [
        ("future", now_ms, u64::MAX),
        ("eternal", u64::MAX, u64::MAX),
        ("first", 0, 1),
    ] {
        let said = Hello {
            now_ms: theirs,
            ttl_ms: u64::MAX,
            heartbeat_ms: u64::MAX,
            ..hello(name, name)
        };
        let mut stream = registrant(&client, said, measured_ms, u32::MAX).await;
        let mut bytes = Vec::new();
        delta::write_number(&mut bytes, u64::MAX - theirs);
        delta::write_number(&mut bytes, u64::MAX);
        stream
            .tell(delta::kind::HEARTBEAT, bytes.into())
            .await
            .unwrap();
        lies.push(stream);
    }
    until("all are known", || async {
        hosts(&client, "").await.len() == 4
    })
    .await;
    for entry in query(&client, Query::default()).await.unwrap() {
        let measured_ms = entry.measured_ms.unwrap();
        assert!(measured_ms <= top.index.clock.now_ms(), "{entry:?}");
    }
    assert_eq!(hosts(&client, "not stale_since").await.len(), 4);
    // Whatever they said of how long they last: who is lost is not heard.
    drop((lies, client));
    let client = world.client(&top).await;
    until("all are stale", || async {
        hosts(&client, "stale_since").await.len() == 4
    })
    .await;
    drop(truth);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sites_of_one_name_are_one_and_the_other_waits_until_it_is_gone() {
    let world = World::new();
    let named = |top: &Running| Above {
        name: Some("site".into()),
        ..above(top, 2_500, 300)
    };
    let Pair { top, leaf, client } = pair(&world, named, &["a"]).await;
    let second = world
        .below(named(&top), world.config("second", Kind::Leaf))
        .await;
    second.tell(vec![host("b", 8, 0.5)]);
    let asked = world.client(&second).await;
    until("the second is told why not", || async {
        let above = status(&asked).await.above;
        above.iter().any(|x| x.state.contains("is registered by"))
    })
    .await;
    assert_eq!(hosts(&client, "").await, ["a"], "the first is as it was");
    leaf.stop().await;
    until("the second has its name", || async {
        hosts(&client, "").await == ["b"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_does_not_read_holds_up_nobody_and_hears_the_truth_when_it_does() {
    let world = World::new();
    let top = world.start(world.config("top", Kind::Index)).await;
    let long = "x".repeat(4000);
    let all = (0..100).map(|n| host(&format!("host{n}"), 8, 0.5).with("note", [&long]));
    top.tell(all.collect());
    let client = world.client(&top).await;
    let mut lazy = client.ask(&Ask::Watch(Query::default())).await.unwrap();
    while next_news(&mut lazy).await != News::Complete {}
    // 400 kB a picture, and more changes than are kept for those who lag behind (N10).
    let other = world.client(&top).await;
    for round in 0..140 {
        let ops = (0..1000).map(|n| load(&format!("host{}", n % 100), &format!("{round}.{n}")));
        top.change(ops.collect());
        assert_eq!(hosts(&other, "host = host7").await, ["host7"]);
    }
    // By changes or by everything anew: that depends on how far it has lagged behind.
    let is_last = |news: News| match news {
        News::Entry(entry) => entry.first("kumiko-load-1min") == Some("139.999"),
        _ => false,
    };
    while !is_last(next_news(&mut lazy).await) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_delta_ends_the_registration_and_harms_nobody() {
    let world = World::new();
    let top = world.start(world.config("top", Kind::Index)).await;
    let client = world.client(&top).await;
    let other = host("taken", 1, 0.5);
    top.tell(vec![other.clone()]);
    for (kind, bytes) in [
        (delta::kind::OPS, &b"\xff\xff\xff"[..]),
        (delta::kind::SNAPSHOT_END, b"\x01"),
        (delta::kind::BELOW, b"[1]"),
        (0x77, b""),
    ] {
        let mut stream = client
            .ask(&Ask::Register(hello("site", "1")))
            .await
            .unwrap();
        assert!(stream.next::<serde_json::Value>().await.unwrap().is_some());
        let steal = delta::write_ops(1, &[Op::Put(other.clone()), Op::Put(host("own", 1, 0.5))]);
        stream.tell(delta::kind::OPS, steal.into()).await.unwrap();
        until("what is its own is taken", || async {
            hosts(&client, "host = own").await.len() == 1
        })
        .await;
        stream.tell(kind, Bytes::from_static(bytes)).await.unwrap();
        match deadline("a refusal", stream.next::<serde_json::Value>()).await {
            Err(AskError::Refused { code, .. }) => assert_eq!(code, "bad_registration"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        top.index.counts.refused_changes.load(Relaxed),
        4,
        "nobody's entry was taken over"
    );
}
