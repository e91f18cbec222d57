//! Among sites that have a routine a call goes where its result would be first, by what calls before took. Not here: the estimate itself
//! (crates/directory), sites that fail (rpc_found.rs).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)] // what other scenarios use of it
#[path = "placement/grid.rs"]
mod grid;
mod routines;

use grid::{Grid, port};
use kumiko_e2e::told;
use routines::Caller;
use serde_json::{Value, json};

#[test]
fn a_call_goes_where_it_was_seen_to_compute_quickly() {
    let grid = Grid::new();
    let sites = ["one", "two"].map(|name| Caller {
        person: grid.site(name, ""),
    });
    for site in &sites {
        site.make(&["pi"], &[]);
    }
    grid.tells("routine = pi/trial", 2);
    let call = || {
        let mut words = vec!["rpc", "call", "--index", &grid.index.address, "--where", ""];
        words.extend(["pi/trial", "1", "100000", "--durability", "full"]);
        let output = grid.me.run(words);
        assert!(output.status.success(), "{}", told(&output));
        sites
            .each_ref()
            .map(|site| site.count_in_log("\"invoked\""))
    };
    let mut had = call();
    let cache = grid.me.home.path().join(".cache/kumiko/calls.json");
    for (quick, slow) in [(0, 1), (1, 0), (0, 1)] {
        let mut kept: Value = serde_json::from_slice(&std::fs::read(&cache).unwrap()).unwrap();
        for (at, rate) in [(quick, 1e15), (slow, 1e-3)] {
            let contact = format!("localhost:{}", port(&sites[at].person));
            assert!(kept["sites"].as_object().unwrap().len() <= 2, "{kept}");
            kept["sites"][contact] = json!({
                "at_ms": 1, "bytes_per_second": null, "operations_per_second": {"pi/trial": rate}
            });
        }
        std::fs::write(&cache, kept.to_string()).unwrap();
        let mut expected = had;
        expected[quick] += 1;
        had = call();
        assert_eq!(had, expected, "{kept}");
        // What it took now is known too, so it is not what was made up any more.
        let now = std::fs::read(&cache).unwrap();
        let now: Value = serde_json::from_slice(&now).unwrap();
        let contact = format!("localhost:{}", port(&sites[quick].person));
        assert!(now["sites"][contact]["at_ms"].as_u64() > Some(1), "{now}");
    }
}
