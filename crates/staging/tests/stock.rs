//! The stock of an account: what has a SHA-256 travels once, whatever becomes of what is kept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Grid, SmallDisk, pattern};
use kumiko_job::description::StageIn;
use kumiko_job::id::JobId;
use kumiko_job::staging::Item;
use kumiko_job::transfer::{Fetch, Transfer, TransferFailure, Work};
use kumiko_policy::Policy;
use kumiko_staging::stock::Stock;
use kumiko_staging::{Mover, Setup};
use kumiko_testkit::{deadline, skip};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;
const NO_END: u64 = u64::MAX;

/// A plain HTTP server of one content, which counts what it sends of it.
struct Counting {
    port: u16,
    content: Arc<Mutex<Vec<u8>>>,
    sent: Arc<AtomicU64>,
}

impl Counting {
    fn start(content: &[u8]) -> Counting {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let counting = Counting {
            port: listener.local_addr().unwrap().port(),
            content: Arc::new(Mutex::new(content.to_vec())),
            sent: Arc::default(),
        };
        let (content, sent) = (Arc::clone(&counting.content), Arc::clone(&counting.sent));
        std::thread::spawn(move || {
            for link in listener.incoming().flatten() {
                let (content, sent) = (content.lock().unwrap().clone(), Arc::clone(&sent));
                std::thread::spawn(move || answer(link, &content, &sent));
            }
        });
        counting
    }

    fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    /// Bytes of the content since this was asked last.
    fn sent(&self) -> u64 {
        self.sent.swap(0, Ordering::SeqCst)
    }

    fn serves(&self, content: &[u8]) {
        *self.content.lock().unwrap() = content.to_vec();
    }
}

fn answer(mut link: TcpStream, content: &[u8], sent: &AtomicU64) {
    let _ = link.read(&mut [0; 4096]);
    sent.fetch_add(content.len() as u64, Ordering::SeqCst);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        content.len()
    );
    let _ = link.write_all(head.as_bytes());
    let _ = link.write_all(content);
}

fn sum(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A site of an account, on a disk.
struct Site {
    grid: Grid,
    root: PathBuf,
    mover: Mover,
    jobs: AtomicU64,
}

impl Site {
    fn at(root: &Path, stock_bytes: u64) -> Site {
        let grid = Grid::new();
        let mover = mover(&grid, root, stock_bytes);
        Site {
            grid,
            root: root.to_owned(),
            mover,
            jobs: AtomicU64::new(1),
        }
    }

    fn work(&self) -> Work {
        let job = self.jobs.fetch_add(1, Ordering::SeqCst);
        let directory = self.root.join(format!("jobs/{job}"));
        std::fs::create_dir_all(&directory).unwrap();
        Work {
            job: JobId(job),
            directory,
            policy: Policy::default(),
            cache: None,
            credential: None,
        }
    }

    /// What a new job gets.
    async fn fetch(&self, from: &str, sha256: &str) -> Result<Vec<u8>, TransferFailure> {
        self.fetch_as(&self.work(), from, sha256, false).await
    }

    async fn fetch_as(
        &self,
        work: &Work,
        from: &str,
        sha256: &str,
        shared: bool,
    ) -> Result<Vec<u8>, TransferFailure> {
        let what = StageIn {
            from: from.to_owned(),
            to: "in".to_owned(),
            bytes: None,
            sha256: Some(sha256.to_owned()),
        };
        let how = Fetch {
            item: if shared { Item::Shared(0) } else { Item::In(0) },
            shared,
            executable: false,
        };
        let fetched = deadline("the file", self.mover.fetch(work, &what, how)).await;
        let came = fetched.map(|_| std::fs::read(work.directory.join("in")).unwrap());
        self.mover.forget(work.job).await;
        came
    }

    fn stock(&self) -> PathBuf {
        self.root.join("stock")
    }

    /// Names and lengths of what is kept.
    fn kept(&self) -> Vec<(String, u64)> {
        let found = std::fs::read_dir(self.stock()).unwrap().map(Result::unwrap);
        let mut kept: Vec<_> = found
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, entry.metadata().unwrap().len())
            })
            .filter(|(name, _)| name != "lock")
            .collect();
        kept.sort();
        kept
    }
}

fn mover(grid: &Grid, root: &Path, stock_bytes: u64) -> Mover {
    let trust_dir = grid.ca.trust_dir();
    let known = trust_dir.clone();
    let trust = Arc::new(move || kumiko_identity::TrustStore::load(&known));
    let mut setup = Setup::new(root.join("staging"), root.join("cache"), trust, trust_dir);
    setup.stock = Some(Arc::new(Stock::new(root.join("stock"), stock_bytes)));
    Mover::new(setup).unwrap()
}

#[tokio::test]
async fn what_has_a_sum_travels_once_by_whatever_address_and_for_a_later_site_too() {
    let root = tempfile::tempdir().unwrap();
    let mut site = Site::at(root.path(), NO_END);
    let content = pattern(3 * MIB as usize);
    let server = Counting::start(&content);
    let named = sum(&content);
    assert_eq!(site.fetch(&server.url("a"), &named).await.unwrap(), content);
    assert_eq!(server.sent(), 3 * MIB);
    // What a job does to its file is no other's business.
    std::fs::write(root.path().join("jobs/1/in"), "mine").unwrap();
    for restarted in [false, true] {
        if restarted {
            site.mover = mover(&site.grid, root.path(), NO_END);
        }
        for (url, sum) in [("a", named.clone()), ("b", named.to_uppercase())] {
            let came = site.fetch(&server.url(url), &sum).await;
            assert_eq!(came.unwrap(), content, "{url}, restarted: {restarted}");
        }
        let (work, url) = (site.work(), server.url("c"));
        let shared = site.fetch_as(&work, &url, &named, true).await;
        assert_eq!(shared.unwrap(), content);
    }
    assert_eq!(server.sent(), 0);
    let mode = |path: PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode(site.stock()), 0o700);
    assert_eq!(mode(site.stock().join(&named)), 0o600);
}

#[tokio::test]
async fn without_a_sum_it_travels_each_time_and_nothing_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::at(root.path(), NO_END);
    let server = Counting::start(b"content");
    let what = StageIn {
        from: server.url("a"),
        to: "in".to_owned(),
        bytes: Some(7),
        sha256: None,
    };
    let how = Fetch {
        item: Item::In(0),
        shared: false,
        executable: false,
    };
    for _ in 0..2 {
        site.mover.fetch(&site.work(), &what, how).await.unwrap();
        assert_eq!(server.sent(), 7);
    }
    assert!(!site.stock().exists());
}

#[tokio::test]
async fn an_entry_that_does_not_fit_its_name_is_fetched_again_and_mended() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::at(root.path(), NO_END);
    let content = pattern(MIB as usize);
    let (server, named) = (Counting::start(&content), sum(&content));
    site.fetch(&server.url("a"), &named).await.unwrap();
    server.sent();
    let entry = site.stock().join(&named);
    let mut flipped = content.clone();
    flipped[77_777] ^= 1;
    let longer = [content.as_slice(), b"x"].concat();
    for damaged in [flipped.as_slice(), &content[..9], b"", &longer] {
        std::fs::write(&entry, damaged).unwrap();
        for travels in [MIB, 0] {
            let came = site.fetch(&server.url("a"), &named).await;
            assert_eq!(came.unwrap(), content, "{} bytes", damaged.len());
            assert_eq!(server.sent(), travels, "{} bytes", damaged.len());
        }
        assert_eq!(std::fs::read(&entry).unwrap(), content);
    }
    // What is no file at all stays in the way, and no job minds.
    std::fs::remove_file(&entry).unwrap();
    std::fs::create_dir(&entry).unwrap();
    for _ in 0..2 {
        let came = site.fetch(&server.url("a"), &named).await;
        assert_eq!(came.unwrap(), content);
        assert_eq!(server.sent(), MIB);
    }
}

#[tokio::test]
async fn what_came_is_kept_only_if_it_is_what_was_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::at(root.path(), NO_END);
    let server = Counting::start(b"something else");
    let named = sum(b"content");
    let failure = site.fetch(&server.url("a"), &named).await.unwrap_err();
    assert_eq!(failure.code, "transfer_mismatch");
    assert!(!site.stock().join(&named).exists());
    server.serves(b"content");
    let came = site.fetch(&server.url("a"), &named).await;
    assert_eq!(came.unwrap(), b"content");
    // A length that is wrong is wrong of what was kept, too.
    let what = StageIn {
        from: server.url("a"),
        to: "in".to_owned(),
        bytes: Some(8),
        sha256: Some(named),
    };
    let how = Fetch {
        item: Item::In(0),
        shared: false,
        executable: false,
    };
    let done = site.mover.fetch(&site.work(), &what, how).await;
    assert_eq!(done.unwrap_err().code, "transfer_mismatch");
}

#[tokio::test]
async fn a_job_that_may_speak_to_nobody_gets_nothing_that_others_fetched() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::at(root.path(), NO_END);
    let server = Counting::start(b"content");
    let named = sum(b"content");
    site.fetch(&server.url("a"), &named).await.unwrap();
    let mut work = site.work();
    work.policy = kumiko_policy::parse("network = \"none\"", "test").unwrap();
    let refused = site.fetch_as(&work, &server.url("a"), &named, false).await;
    assert_eq!(refused.unwrap_err().code, "transfer_forbidden");
}

#[tokio::test]
async fn the_bound_holds_and_what_was_used_least_recently_goes() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::at(root.path(), 3 * MIB);
    let contents: Vec<Vec<u8>> = (0..4u8).map(|first| vec![first; MIB as usize]).collect();
    let server = Counting::start(b"");
    let travels = async |which: usize| {
        server.serves(&contents[which]);
        let came = site.fetch(&server.url("a"), &sum(&contents[which])).await;
        assert_eq!(came.unwrap(), contents[which]);
        let all: u64 = site.kept().iter().map(|(_, bytes)| bytes).sum();
        assert!(all <= 3 * MIB, "{all}");
        server.sent() > 0
    };
    // (which, whether it travels): 1 was used after 0, and 2 goes when 3 comes.
    let rows = [
        (0, true),
        (2, true),
        (1, true),
        (0, false),
        (3, true),
        (0, false),
        (1, false),
        (2, true),
        (3, true),
    ];
    for (at, (which, expected)) in rows.into_iter().enumerate() {
        assert_eq!(travels(which).await, expected, "row {at}: {which}");
    }
    // What is larger than all of it displaces nothing.
    let before = site.kept();
    let large = vec![9; 4 * MIB as usize];
    server.serves(&large);
    for _ in 0..2 {
        let came = site.fetch(&server.url("a"), &sum(&large)).await;
        assert_eq!(came.unwrap(), large);
        assert_eq!(server.sent(), 4 * MIB);
    }
    assert_eq!(site.kept(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_several_jobs_want_at_once_travels_once() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::at(root.path(), NO_END);
    let content = pattern(8 * MIB as usize);
    let (server, named) = (Counting::start(&content), sum(&content));
    let all = (0..8).map(|index| {
        let url = server.url(if index % 2 == 0 { "a" } else { "b" });
        let (site, named) = (&site, &named);
        async move { site.fetch_as(&site.work(), &url, named, index > 5).await }
    });
    for came in futures_util::future::join_all(all).await {
        assert!(came.unwrap() == content);
    }
    assert_eq!(server.sent(), 8 * MIB);
}

#[tokio::test]
async fn what_a_killed_site_left_is_in_nobodys_way() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::at(root.path(), 2 * MIB);
    let content = pattern(MIB as usize);
    let (server, named) = (Counting::start(&content), sum(&content));
    std::fs::create_dir_all(site.stock()).unwrap();
    std::fs::write(site.stock().join("new"), vec![1; 5 * MIB as usize]).unwrap();
    for travels in [MIB, 0] {
        let came = site.fetch(&server.url("a"), &named).await;
        assert_eq!(came.unwrap(), content);
        assert_eq!(server.sent(), travels);
        assert_eq!(site.kept(), [(named.clone(), MIB)]);
    }
}

#[tokio::test]
async fn a_stock_that_cannot_be_written_keeps_no_job_from_its_file() {
    let root = tempfile::tempdir().unwrap();
    let site = Site::at(root.path(), NO_END);
    let server = Counting::start(b"content");
    std::fs::write(site.stock(), "no directory").unwrap();
    for _ in 0..2 {
        let came = site.fetch(&server.url("a"), &sum(b"content")).await;
        assert_eq!(came.unwrap(), b"content");
        assert_eq!(server.sent(), 7);
    }
}

#[tokio::test]
async fn on_a_full_disk_the_stock_makes_room_and_is_no_jobs_end() {
    let test = "on_a_full_disk_the_stock_makes_room_and_is_no_jobs_end";
    let Some(disk) = SmallDisk::mount(16) else {
        return skip(test, "the right to mount a small tmpfs (root)");
    };
    let site = Site::at(disk.path(), NO_END);
    let (first, second) = (vec![1; 4 * MIB as usize], vec![2; 9 * MIB as usize]);
    let server = Counting::start(&first);
    let job = async |content: &[u8]| {
        server.serves(content);
        let work = site.work();
        let came = site
            .fetch_as(&work, &server.url("a"), &sum(content), false)
            .await;
        std::fs::remove_dir_all(work.directory).unwrap(); // the job has gone
        came
    };
    assert!(job(&first).await.unwrap() == first);
    assert_eq!(site.kept(), [(sum(&first), 4 * MIB)]);
    // A guest has filled what was left, but for less than what comes.
    std::fs::write(site.root.join("filling"), vec![3; 6 * MIB as usize]).unwrap();
    assert!(job(&second).await.unwrap() == second);
    assert_eq!(
        site.kept(),
        [],
        "it has gone, and half of the room is too little for the other"
    );
    // Where there is nothing to give, it is said to be the disk.
    let failure = job(&vec![4; 12 * MIB as usize]).await.unwrap_err();
    assert_eq!(failure.code, "disk_full", "{failure}");
}
