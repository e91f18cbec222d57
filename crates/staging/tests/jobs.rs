//! Files of jobs: what is seen when, what is checked, what is refused; peers that stall and lie; GridFTP by the packaged
//! programs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Grid, Serving, pattern};
use kumiko_job::description::{StageIn, StageOut};
use kumiko_job::id::JobId;
use kumiko_job::staging::Item;
use kumiko_job::transfer::{Fetch, Transfer, TransferFailure, Work};
use kumiko_policy::Policy;
use kumiko_staging::{Mover, Setup};
use kumiko_testkit::{Process, deadline, has_program, skip};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// A job's directory, and what moves its files.
struct Place {
    root: tempfile::TempDir,
    mover: Mover,
    work: Work,
}

impl Place {
    fn new(grid: &Grid) -> Place {
        Place::with_stall(grid, Duration::from_secs(30))
    }

    fn with_stall(grid: &Grid, stall: Duration) -> Place {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("jobs/7");
        std::fs::create_dir_all(&directory).unwrap();
        let mover = mover(grid, root.path(), stall);
        let work = Work {
            job: JobId(7),
            directory,
            policy: Policy::default(),
            cache: None,
            credential: Some(grid.alice.to_pem().unwrap()),
        };
        Place { root, mover, work }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.work.directory.join(name)
    }

    fn under_way(&self) -> Vec<PathBuf> {
        let Ok(names) = std::fs::read_dir(self.root.path().join("staging/7")) else {
            return Vec::new();
        };
        names.map(|name| name.unwrap().path()).collect()
    }

    async fn fetch(&self, what: StageIn) -> Result<u64, TransferFailure> {
        self.fetch_as(what, false).await
    }

    async fn fetch_as(&self, what: StageIn, shared: bool) -> Result<u64, TransferFailure> {
        let how = Fetch {
            item: if shared { Item::Shared(0) } else { Item::In(0) },
            shared,
            executable: false,
        };
        deadline("the file", self.mover.fetch(&self.work, &what, how)).await
    }

    async fn send(&self, from: &str, to: &str) -> Result<u64, TransferFailure> {
        let what = StageOut {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        deadline("the file", self.mover.send(&self.work, &what)).await
    }
}

fn mover(grid: &Grid, root: &Path, stall: Duration) -> Mover {
    let trust_dir = grid.ca.trust_dir();
    let known = trust_dir.clone();
    let trust = Arc::new(move || kumiko_identity::TrustStore::load(&known));
    let mut setup = Setup::new(root.join("staging"), root.join("cache"), trust, trust_dir);
    setup.stall = stall;
    Mover::new(setup).unwrap()
}

fn file(from: &str, to: &str) -> StageIn {
    StageIn {
        from: from.to_owned(),
        to: to.to_owned(),
        bytes: None,
        sha256: None,
    }
}

const SUM_OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[tokio::test]
async fn what_comes_is_checked_against_what_was_asked_for() {
    let grid = Grid::new();
    let (serving, place) = (Serving::start(&grid).await, Place::new(&grid));
    std::fs::write(serving.dir().join("f"), "abc").unwrap();
    let url = serving.url("/f");
    for shared in [false, true] {
        for (bytes, sum, fits) in [
            (None, None, true),
            (Some(3), Some(SUM_OF_ABC.to_uppercase()), true),
            (Some(4), None, false),
            (None, Some(SUM_OF_ABC.replace('b', "c")), false),
        ] {
            let what = StageIn {
                bytes,
                sha256: sum.clone(),
                ..file(&url, "deep/in/it")
            };
            let done = place.fetch_as(what, shared).await;
            assert_eq!(done.is_ok(), fits, "{bytes:?} {sum:?}: {done:?}");
            let target = place.file("deep/in/it");
            if fits {
                assert_eq!(std::fs::read(&target).unwrap(), b"abc");
                std::fs::remove_file(&target).unwrap();
            } else {
                assert_eq!(done.unwrap_err().code, "transfer_mismatch");
                assert!(!target.exists());
            }
            assert!(place.under_way().is_empty(), "{:?}", place.under_way());
        }
    }
}

#[tokio::test]
async fn what_many_name_is_fetched_once_and_goes_with_the_last_job() {
    let grid = Grid::new();
    let (serving, place) = (Serving::start(&grid).await, Place::new(&grid));
    std::fs::write(serving.dir().join("f"), "first").unwrap();
    let url = serving.url("/f");
    place.fetch_as(file(&url, "a"), true).await.unwrap();
    std::fs::write(serving.dir().join("f"), "second").unwrap();
    place.fetch_as(file(&url, "b"), true).await.unwrap();
    assert_eq!(std::fs::read(place.file("b")).unwrap(), b"first");
    // What a job does to its file is no other's business.
    std::fs::write(place.file("b"), "mine").unwrap();
    place.fetch_as(file(&url, "c"), true).await.unwrap();
    assert_eq!(std::fs::read(place.file("c")).unwrap(), b"first");
    let listed = place.mover.cache().list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].tags, [("job 7".to_owned(), 1)]);
    place.mover.forget(JobId(7)).await;
    assert!(place.mover.cache().list().unwrap().is_empty());
    place.fetch_as(file(&url, "d"), true).await.unwrap();
    assert_eq!(std::fs::read(place.file("d")).unwrap(), b"second");
}

#[tokio::test]
async fn a_jobs_own_cache_is_below_its_directory_and_nowhere_else() {
    let grid = Grid::new();
    let (serving, mut place) = (Serving::start(&grid).await, Place::new(&grid));
    std::fs::write(serving.dir().join("f"), "abc").unwrap();
    place.work.cache = Some("its/cache".to_owned());
    for name in ["a", "b"] {
        let what = file(&serving.url("/f"), name);
        place.fetch_as(what, true).await.unwrap();
        std::fs::write(serving.dir().join("f"), "changed").unwrap();
    }
    assert_eq!(std::fs::read(place.file("b")).unwrap(), b"abc");
    assert_eq!(place.send("a", "x-gass-cache://k").await.unwrap(), 3);
    place.fetch(file("x-gass-cache://k", "c")).await.unwrap();
    assert_eq!(std::fs::read(place.file("c")).unwrap(), b"abc");
    let entries = std::fs::read_dir(place.file("its/cache/entries")).unwrap();
    assert_eq!(entries.count(), 2);
    assert!(place.mover.cache().list().unwrap().is_empty());
    // The account's does not know what is there, and the other way round.
    let nowhere = |failure: TransferFailure| assert_eq!(failure.code, "transfer_cache");
    place.work.cache = None;
    nowhere(
        place
            .fetch(file("x-gass-cache://k", "d"))
            .await
            .unwrap_err(),
    );
    // A job that puts a link in the way leads nobody out of its directory.
    let outside = place.root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    for at in ["link", "led/entries"] {
        let link = place.file(at);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        place.work.cache = Some(at.trim_end_matches("/entries").to_owned());
        place.send("a", "x-gass-cache://k").await.unwrap_err();
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "{at}");
    }
}

#[tokio::test]
async fn a_fetch_that_was_dropped_goes_on_where_it_was() {
    let grid = Grid::new();
    let (serving, place) = (Serving::start(&grid).await, Place::new(&grid));
    let bytes = pattern(48 << 20);
    std::fs::write(serving.dir().join("big"), &bytes).unwrap();
    let what = file(&serving.url("/big"), "big");
    let how = Fetch {
        item: Item::In(0),
        shared: false,
        executable: true,
    };
    let part = place.root.path().join("staging/7/in-0.part");
    let some = async {
        while std::fs::metadata(&part).map_or(0, |meta| meta.len()) < 4 << 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        done = place.mover.fetch(&place.work, &what, how) => panic!("it was to be dropped: {done:?}"),
        () = deadline("some of it", some) => {}
    }
    let had = std::fs::metadata(&part).unwrap().len();
    assert!(!place.file("big").exists());
    // What came is marked, to see whether it is fetched again.
    let marked = std::fs::File::options().write(true).open(&part).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&marked, b"here", 0).unwrap();
    deadline("the rest", place.mover.fetch(&place.work, &what, how))
        .await
        .unwrap();
    let found = std::fs::read(place.file("big")).unwrap();
    assert_eq!(
        &found[..4],
        b"here",
        "{had} bytes were there and were fetched again"
    );
    assert!(found[4..] == bytes[4..]);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(place.file("big")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o700);
}

/// A plain HTTP server that answers each connection with these bytes, and closes if `closes`.
fn liar(answer: &'static [u8], closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut link in listener.incoming().flatten() {
            let _ = link.read(&mut [0; 4096]);
            let _ = link.write_all(answer);
            if !closes {
                open.push(link);
            }
        }
    });
    format!("http://127.0.0.1:{port}/f")
}

#[tokio::test]
async fn servers_that_stall_or_lie_are_told_by_name_and_leave_nothing() {
    let grid = Grid::new();
    let place = Place::with_stall(&grid, Duration::from_millis(300));
    let rows: &[(&[u8], bool, &str, bool)] = &[
        (b"", true, "transfer_cut", true),
        (b"", false, "transfer_stalled", true),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", true, "transfer_cut", true),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", false, "transfer_stalled", true),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999\r\n\r\nabc", false, "transfer_too_large", false),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true, "transfer_cut", true),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", true, "transfer_cut", true),
        (b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\nabcde", true, "transfer_protocol", false),
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", true, "transfer_protocol", false),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", true, "transfer_no_such_file", false),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", true, "transfer_denied", false),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", true, "transfer_failing", true),
        (b"SSH-2.0-OpenSSH_9.2\r\n", false, "transfer_protocol", false),
    ];
    for (answer, closes, code, retry) in rows {
        let told = || String::from_utf8_lossy(answer);
        let failure = place
            .fetch(file(&liar(answer, *closes), "f"))
            .await
            .unwrap_err();
        assert_eq!(
            (failure.code.as_str(), failure.retry),
            (*code, *retry),
            "{}: {failure}",
            told()
        );
        assert!(!place.file("f").exists(), "{}", told());
    }
    // A megabyte of header.
    let long = [b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &[b'x'; 1 << 20]].concat();
    let failure = place
        .fetch(file(&liar(long.leak(), false), "f"))
        .await
        .unwrap_err();
    assert_eq!(failure.code, "transfer_protocol", "{failure}");
    // One that does not even shake hands.
    std::fs::write(place.file("out"), "x").unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "https://127.0.0.1:{}/f",
        silent.local_addr().unwrap().port()
    );
    let failure = tokio::time::timeout(Duration::from_secs(30), place.send("out", &url)).await;
    assert_eq!(failure.unwrap().unwrap_err().code, "transfer_unreachable");
}

#[tokio::test]
async fn nothing_is_moved_with_a_proxy_that_has_ended_and_all_is_with_the_next() {
    let grid = Grid::new();
    let (serving, mut place) = (Serving::start(&grid).await, Place::new(&grid));
    std::fs::write(serving.dir().join("f"), "abc").unwrap();
    std::fs::write(place.file("out"), "xyz").unwrap();
    let url = serving.url("/f");
    let valid = place.work.credential.take();
    let ended = grid.ca.expired_proxy(&grid.ca.user("Alice"));
    place.work.credential = Some(ended.to_pem().unwrap());
    for done in [
        place.fetch(file(&url, "in")).await,
        place.send("out", &url).await,
    ] {
        // Its refusal may be lost with a link that is closed under what was sent.
        let failure = done.unwrap_err();
        let codes = ["transfer_denied", "transfer_cut"];
        assert!(codes.contains(&failure.code.as_str()), "{failure}");
    }
    assert!(!place.file("in").exists());
    place.work.credential = valid;
    place.fetch(file(&url, "in")).await.unwrap();
    place.send("out", &url).await.unwrap();
    assert_eq!(std::fs::read(place.file("in")).unwrap(), b"abc");
    assert_eq!(std::fs::read(serving.dir().join("f")).unwrap(), b"xyz");
}

#[tokio::test]
async fn files_of_this_host_come_only_where_the_policy_shows_them() {
    let grid = Grid::new();
    let mut place = Place::new(&grid);
    let shown = file("file:///etc/hostname", "h");
    assert_eq!(
        place
            .fetch(file("file:///etc/shadow", "h"))
            .await
            .unwrap_err()
            .code,
        "transfer_forbidden"
    );
    assert_eq!(
        place
            .fetch(file("file:///none", "h"))
            .await
            .unwrap_err()
            .code,
        "transfer_forbidden"
    );
    place.fetch(file("file:///usr/bin/env", "h")).await.unwrap();
    place.work.policy = Policy::empty();
    assert_eq!(
        place.fetch(shown).await.unwrap_err().code,
        "transfer_forbidden"
    );
}

/// The packaged server, for Alice as whoever runs the test.
fn gridftp(grid: &Grid) -> (Process, u16) {
    let host = grid.ca.host("localhost");
    let (certificate, key) = (grid.dir().join("hostcert"), grid.dir().join("hostkey"));
    host.save_pair(&certificate, &key).unwrap();
    let account = kumiko_linux::this_process::account_name();
    let map = grid.dir().join("mapfile");
    std::fs::write(
        &map,
        kumiko_testkit::Ca::mapfile(&[(&grid.alice, &account)]),
    )
    .unwrap();
    let mut command = Command::new("globus-gridftp-server");
    command
        .env_clear()
        .env("PATH", "/usr/bin:/usr/sbin:/bin")
        .env("HOME", grid.dir())
        .env("X509_CERT_DIR", grid.ca.trust_dir())
        .env("X509_USER_CERT", certificate)
        .env("X509_USER_KEY", key)
        .env("GRIDMAP", map)
        .args([
            "-c",
            "/dev/null",
            "-no-detach",
            "-p",
            "0",
            "-allow-root",
            "-hostname",
            "localhost",
        ])
        .args([
            "-control-interface",
            "127.0.0.1",
            "-data-interface",
            "127.0.0.1",
        ]);
    let mut server = Process::start(&mut command);
    let line = server.line_with("listening at");
    let port = line.rsplit(':').next().unwrap().trim().parse().unwrap();
    (server, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_and_go_by_gridftp_with_any_kind_of_key() {
    let name = "files_come_and_go_by_gridftp_with_any_kind_of_key";
    for (program, package) in [
        ("globus-url-copy", "globus-gass-copy-progs"),
        (
            "/usr/sbin/globus-gridftp-server",
            "globus-gridftp-server-progs",
        ),
    ] {
        if !has_program(program) && !Path::new(program).exists() {
            return skip(name, &format!("{program} (package {package})"));
        }
    }
    for grid in [Grid::for_globus(), Grid::new()] {
        let place = Place::new(&grid);
        let (_server, port) = gridftp(&grid);
        let there = grid.dir().join("there file");
        let url = format!(
            "gsiftp://localhost:{port}{}",
            kumiko_job::url::encode(there.as_os_str().as_encoded_bytes())
        );
        for bytes in [pattern(0), pattern(3 << 20)] {
            std::fs::write(place.file("out"), &bytes).unwrap();
            assert_eq!(place.send("out", &url).await.unwrap(), bytes.len() as u64);
            assert!(std::fs::read(&there).unwrap() == bytes);
            assert_eq!(
                place.fetch(file(&url, "in")).await.unwrap(),
                bytes.len() as u64
            );
            assert!(std::fs::read(place.file("in")).unwrap() == bytes);
        }
        let absent = place
            .fetch(file(&format!("{url}-none"), "in"))
            .await
            .unwrap_err();
        assert_eq!(absent.code, "transfer_url_copy", "{absent}");
        assert!(place.under_way().is_empty(), "{:?}", place.under_way());
    }
}
