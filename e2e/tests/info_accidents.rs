//! Three levels of info servers, each at a host of its own (network namespaces, testbeds/levels): what `ldapsearch` and
//! `kumiko info` see at the top, and what it shows second by second when something is killed or cut.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::info::{
    Host, Levels, Server, Watch, hosts, index_settings, leaf_settings, set_load,
};
use kumiko_e2e::{Person, has_program, skip, until};
use std::time::Instant;

const TOP: &str = "10.91.1.1";
const MIDDLE: &str = "10.91.2.1";
const LEAF: &str = "10.91.2.2";

/// The three hosts, and somebody whose certificates bear their addresses.
struct World {
    levels: Levels,
    person: Person,
}

impl World {
    fn new(test: &str) -> Option<World> {
        let levels = Levels::new(test)?;
        let person = Person::new();
        let mut words = vec!["site", "start", "--listen", "127.0.0.1:0"];
        for address in [TOP, MIDDLE, LEAF] {
            words.extend(["--host-name", address]);
        }
        person.ok(words);
        person.ok(["site", "stop"]);
        Some(World { levels, person })
    }

    fn start(&self, host: &Host, name: &str, address: &str, settings: &str) -> Server {
        let listen = format!("{address}:2135");
        Server::start_at(Some(host), &self.person, name, &listen, settings)
    }

    fn top(&self) -> Server {
        self.start(&self.levels.top, "top", TOP, &index_settings(None))
    }

    fn middle(&self, top: &Server) -> Server {
        self.start(
            &self.levels.middle,
            "middle",
            MIDDLE,
            &index_settings(Some(top)),
        )
    }

    fn leaf(&self, middle: &Server) -> Server {
        let settings = leaf_settings(&self.person, middle, "0.25");
        self.start(&self.levels.leaf, "leaf", LEAF, &settings)
    }

    /// Until the top says so.
    #[track_caller]
    fn until_top_has(&self, top: &Server, expression: &str) {
        until(&format!("the top has {expression}"), || {
            hosts(Some(&self.levels.top), &self.person, top, expression) == "leaf.example"
        });
    }

    fn watch(&self, top: &Server) -> Watch {
        let watch = Watch::start(
            Some(&self.levels.top),
            &self.person,
            top,
            "host = leaf.example",
        );
        watch.until("complete");
        watch
    }
}

/// What the top shows of the leaf's host.
fn state(line: &str) -> &'static str {
    match line {
        line if line.contains("kumiko-stale-since") => "stale",
        line if line.contains("\"gone\"") => "gone",
        line if line.contains("\"entry\"") => "fresh",
        _ => "",
    }
}

/// The states that a watch told one after the other, printed second by second since `begun`.
fn table(
    accident: &str,
    before: &str,
    begun: Instant,
    heard: &[(Instant, String)],
) -> Vec<&'static str> {
    let told: Vec<(f64, &str)> = heard
        .iter()
        .map(|(at, line)| {
            (
                at.saturating_duration_since(begun).as_secs_f64(),
                state(line),
            )
        })
        .filter(|(_, state)| !state.is_empty())
        .collect();
    let last = told.last().map_or(0.0, |(at, _)| *at);
    eprintln!("{accident}:");
    for second in 0..=last.ceil() as u32 {
        let shown = told.iter().rev().find(|(at, _)| *at <= f64::from(second));
        eprintln!(
            "  {second:>3} s  {}",
            shown.map_or(before, |(_, state)| state)
        );
    }
    let mut states: Vec<&str> = told.into_iter().map(|(_, state)| state).collect();
    states.dedup();
    states
}

#[test]
fn ldapsearch_at_the_top_of_three_hosts_answers_for_the_lowest_which_it_cannot_reach() {
    let test = "ldapsearch_at_the_top_of_three_hosts_answers_for_the_lowest_which_it_cannot_reach";
    if !has_program("ldapsearch") {
        return skip(test, "ldap-utils");
    }
    let Some(world) = World::new(test) else {
        return;
    };
    let top = world.top();
    let middle = world.middle(&top);
    let _leaf = world.leaf(&middle);
    world.until_top_has(&top, "load = 0.25");
    let found = world.levels.top.ok(
        &world.person,
        &[
            "ldapsearch",
            "-x",
            "-LLL",
            "-H",
            &format!("ldap://{TOP}:2135"),
            "-b",
            "mds-vo-name=top, o=Grid",
            "(&(objectclass=MdsHost)(kumiko-load-1min<=0.5))",
            "kumiko-load-1min",
        ],
    );
    assert_eq!(
        found.trim(),
        "dn: Mds-Host-hn=leaf.example, Mds-Vo-name=middle, Mds-Vo-name=top, o=grid\nkumiko-load-1min: 0.25"
    );
    let routes = world.levels.top.ok(&world.person, &["ip", "route"]);
    assert!(
        !routes.contains("10.91.2"),
        "there is no way to the leaf: {routes}"
    );
    let watch = world.watch(&top);
    let changed = Instant::now();
    set_load(&world.person, "3.75");
    let heard = watch.until("3.75");
    let (at, _) = heard.last().unwrap();
    eprintln!(
        "a change of load is told at the top after {:?}",
        at.duration_since(changed)
    );
}

#[test]
fn a_killed_leaf_is_stale_then_gone_at_the_top_and_back_when_it_is() {
    let test = "a_killed_leaf_is_stale_then_gone_at_the_top_and_back_when_it_is";
    let Some(world) = World::new(test) else {
        return;
    };
    let top = world.top();
    let middle = world.middle(&top);
    let leaf = world.leaf(&middle);
    world.until_top_has(&top, "not stale_since");
    let watch = world.watch(&top);
    let begun = Instant::now();
    leaf.kill();
    let heard = watch.until("\"gone\"");
    assert_eq!(
        table("kill -9 of the leaf (ttl 2.5 s)", "fresh", begun, &heard),
        ["stale", "gone"]
    );
    let begun = Instant::now();
    let _leaf = world.leaf(&middle);
    let heard = watch.until("\"entry\"");
    assert_eq!(
        table("the leaf is started again", "gone", begun, &heard),
        ["fresh"]
    );
}

#[test]
fn behind_a_cut_link_the_leaf_is_stale_until_the_link_is_whole_and_then_as_it_is() {
    let test = "behind_a_cut_link_the_leaf_is_stale_until_the_link_is_whole_and_then_as_it_is";
    let Some(world) = World::new(test) else {
        return;
    };
    let top = world.top();
    let middle = world.middle(&top);
    let _leaf = world.leaf(&middle);
    world.until_top_has(&top, "not stale_since");
    let watch = world.watch(&top);
    let begun = Instant::now();
    let link = |state| {
        world
            .levels
            .middle
            .ok(&world.person, &["ip", "link", "set", "up0", state])
    };
    link("down");
    let mut heard = watch.until("kumiko-stale-since");
    set_load(&world.person, "3.75");
    until("the middle knows what the top cannot", || {
        let middle_host = Some(&world.levels.middle);
        hosts(middle_host, &world.person, &middle, "load = 3.75") == "leaf.example"
    });
    world.until_top_has(&top, "load = 0.25 and stale_since");
    link("up");
    heard.extend(watch.until("3.75"));
    heard.retain(|(_, line)| !line.contains("complete"));
    let states = table(
        "a cut link between middle and top (ttl 600 s)",
        "fresh",
        begun,
        &heard,
    );
    assert_eq!(states.first(), Some(&"stale"), "{states:?}");
    assert!(!states.contains(&"gone"), "{states:?}");
    world.until_top_has(&top, "load = 3.75 and not stale_since");
}

#[test]
fn a_killed_index_leaves_what_it_told_stale_and_both_it_and_the_top_come_back() {
    let test = "a_killed_index_leaves_what_it_told_stale_and_both_it_and_the_top_come_back";
    let Some(world) = World::new(test) else {
        return;
    };
    let top = world.top();
    let middle = world.middle(&top);
    let _leaf = world.leaf(&middle);
    world.until_top_has(&top, "not stale_since");
    let watch = world.watch(&top);
    let begun = Instant::now();
    middle.kill();
    let mut heard = watch.until("kumiko-stale-since");
    let _middle = world.middle(&top);
    world.until_top_has(&top, "not stale_since");
    set_load(&world.person, "1.5");
    heard.extend(watch.until("\"1.5\""));
    let states = table(
        "kill -9 of the middle index, started again at once",
        "fresh",
        begun,
        &heard,
    );
    // Started cold it has nothing to tell until the leaf has come back to it.
    assert_eq!(
        (states.first(), states.last()),
        (Some(&"stale"), Some(&"fresh")),
        "{states:?}"
    );
    drop(watch);
    let begun = Instant::now();
    top.kill();
    let top = world.top();
    world.until_top_has(&top, "not stale_since");
    eprintln!(
        "kill -9 of the top, started {}: fresh after {:?}",
        top.started,
        begun.elapsed()
    );
}
