//! What a guest finds of a view in its table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_preload::table::{AMBIGUOUS, ASK, Index, Mount, Table, WRITABLE, make};

fn table() -> Vec<u8> {
    let mount = |place: &str, real: &str, flags| Mount {
        place: place.as_bytes().to_vec(),
        real: real.as_bytes().to_vec(),
        flags,
    };
    make(&[
        mount("/", "/room/0", ASK),
        mount("/usr", "/usr", 0),
        mount("/usr/lib/closed", "/room/1", ASK),
        mount(
            "/job",
            "/home/somebody/a/rather/long/place/on/the/host",
            WRITABLE,
        ),
        mount("/twice/a", "/data", 0),
        mount("/twice/b", "/data", 0),
        mount("/host", "/", 0),
    ])
    .unwrap()
}

#[test]
fn the_deepest_mount_of_a_path_is_found_however_it_is_written() {
    let bytes = table();
    let table = Table::new(&bytes);
    // Path, path on the host of its mount and flags, what is left of the path.
    let check = |path: &str, expected: Option<(&str, u32, &str)>| {
        let found = table.deepest(Index::Place, path.as_bytes());
        let got = found.map(|found| {
            let real = table.real(&found.slot).unwrap();
            (
                std::str::from_utf8(real).unwrap(),
                found.slot.flags,
                &path[found.named..],
            )
        });
        assert_eq!(got, expected, "{path}");
    };
    check("/usr/bin/env", Some(("/usr", 0, "/bin/env")));
    check("//usr/./bin//env/", Some(("/usr", 0, "/./bin//env/")));
    check("/./usr", Some(("/usr", 0, "")));
    check("/usr/lib/closed/key", Some(("/room/1", ASK, "/key")));
    check("/usr/lib/closedness", Some(("/usr", 0, "/lib/closedness")));
    check("/usrs", Some(("/room/0", ASK, "/usrs")));
    check("/", Some(("/room/0", ASK, "/")));
    let home = "/home/somebody/a/rather/long/place/on/the/host";
    check("/job/x", Some((home, WRITABLE, "/x")));
    check("/host/etc", Some(("", 0, "/etc")));
    for asked in ["/usr/../etc", "/..", "usr", "", "/usr/bin/.."] {
        check(asked, None);
    }
    check("/usr/...", Some(("/usr", 0, "/...")));
    let long = format!("/usr{}/x", "/".repeat(5000));
    check(&long, Some(("/usr", 0, &long[4..])));
}

#[test]
fn a_path_on_the_host_leads_back_to_its_place_or_to_more_than_one() {
    let bytes = table();
    let table = Table::new(&bytes);
    let check = |path: &str, place: &str, ambiguous: bool| {
        let found = table.deepest(Index::Real, path.as_bytes()).unwrap();
        let told = table.place(&found.slot).unwrap();
        assert_eq!(found.slot.flags & AMBIGUOUS != 0, ambiguous, "{path}");
        if !ambiguous {
            assert_eq!(told, place.as_bytes(), "{path}");
        }
    };
    check("/usr/lib", "/usr", false);
    check(
        "/home/somebody/a/rather/long/place/on/the/host/x/y",
        "/job",
        false,
    );
    check("/data/x", "", true);
    check("/elsewhere", "/host", false);
}

#[test]
fn a_table_of_any_size_finds_all_its_places_and_a_broken_one_none() {
    for count in [0, 1, 2, 3, 100, 1000] {
        let mounts: Vec<Mount> = (0..count)
            .map(|number| Mount {
                place: format!("/places/{number}").into_bytes(),
                real: format!("/real/{}", number / 2).into_bytes(),
                flags: 0,
            })
            .collect();
        let bytes = make(&mounts).unwrap();
        for mount in &mounts {
            let table = Table::new(&bytes);
            let found = table.deepest(Index::Place, &mount.place).unwrap();
            assert_eq!(table.real(&found.slot).unwrap(), mount.real);
        }
        for cut in 0..bytes.len().min(200) {
            // Whatever is found, nothing panics.
            let table = Table::new(&bytes[..cut]);
            let found = table.deepest(Index::Place, b"/places/1/x");
            found.map(|found| table.real(&found.slot));
        }
    }
    assert_eq!(Table::new(&[]).deepest(Index::Place, b"/x"), None);
}
