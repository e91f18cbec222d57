//! Folders whose big files the other side has by their SHA-256 (spec/rest F7, spec/staging C15): they do not travel again, and what
//! is unpacked is what was packed, whatever became of the stock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{SmallDisk, pattern};
use kumiko_staging::stock::{Stock, Sum};
use kumiko_staging::{BIG_BYTES, Limits, Packing, StagingError, Sums, Unpacked, Unpacking};
use kumiko_testkit::skip;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MIB: usize = 1 << 20;
const NO_END: u64 = u64::MAX;

/// Where folders are sent, with a stock.
struct There {
    root: PathBuf,
    stock: Option<Arc<Stock>>,
    limits: Limits,
}

impl There {
    fn at(root: &Path, stock_bytes: u64) -> There {
        let stock = Some(Arc::new(Stock::new(root.join("stock"), stock_bytes)));
        There {
            root: root.to_owned(),
            stock,
            limits: Limits::UPLOAD,
        }
    }

    fn entry(&self, content: &[u8]) -> PathBuf {
        self.root.join("stock").join(sum(content).to_string())
    }

    fn arrived(&self) -> PathBuf {
        self.root.join("arrived")
    }

    /// The bytes that it took to send the folder, but for files that are `held`.
    async fn take(&self, from: &Path, held: Sums) -> Result<(u64, Unpacked), StagingError> {
        let _ = fs::remove_dir_all(self.arrived()); // of the last time
        fs::create_dir(self.arrived()).unwrap();
        let stock = self.stock.clone();
        let mut packing = Packing::start_but(from.to_owned(), held, Limits::RESULTS);
        let mut unpacking = Unpacking::whole_or_gone(self.arrived(), self.limits, stock);
        let mut sent = 0;
        while let Some(piece) = packing.next().await.unwrap() {
            sent += piece.len() as u64;
            unpacking.push(piece).await?;
        }
        let unpacked = unpacking.finish().await?;
        assert_eq!(packing.packed().bytes, unpacked.bytes);
        Ok((sent, unpacked))
    }
}

fn sum(content: &[u8]) -> Sum {
    Sum::of(content).unwrap()
}

/// Two big files of one content, one of another, one that is just not big.
struct Here {
    folder: tempfile::TempDir,
    content: Vec<u8>,
    other: Vec<u8>,
}

impl Here {
    fn new() -> Here {
        let folder = tempfile::tempdir().unwrap();
        let (content, other) = (pattern(3 * MIB), vec![7; BIG_BYTES as usize]);
        let below = folder.path().join("d".repeat(200));
        fs::create_dir(&below).unwrap();
        fs::write(below.join("data"), &content).unwrap();
        fs::write(folder.path().join("program"), &content).unwrap();
        fs::write(folder.path().join("other"), &other).unwrap();
        fs::write(folder.path().join("small"), &other[1..]).unwrap();
        let runs = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path().join("program"), runs).unwrap();
        Here {
            folder,
            content,
            other,
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    async fn sums(&self) -> Sums {
        Sums::of_big(self.path().to_owned()).await.unwrap()
    }

    fn is_at(&self, there: &There) {
        let far = there.arrived();
        let below = PathBuf::from("d".repeat(200)).join("data");
        for name in [&below, Path::new("program"), Path::new("other")] {
            let (here, there) = (self.path().join(name), far.join(name));
            assert!(
                fs::read(&here).unwrap() == fs::read(&there).unwrap(),
                "{name:?}"
            );
            let about = |path| {
                let meta = fs::metadata(path).unwrap();
                let modified = meta
                    .modified()
                    .unwrap()
                    .duration_since(std::time::UNIX_EPOCH);
                (meta.permissions().mode(), modified.unwrap().as_secs())
            };
            assert_eq!(about(here), about(there), "{name:?}");
        }
        assert_eq!(fs::read(far.join("small")).unwrap(), self.other[1..]);
    }
}

fn is_not_stocked<T: std::fmt::Debug>(taken: Result<T, StagingError>) {
    let error = taken.unwrap_err();
    assert!(
        matches!(error, StagingError::NotStocked { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn big_files_travel_once() {
    let (here, root) = (Here::new(), tempfile::tempdir().unwrap());
    let there = There::at(root.path(), NO_END);
    let sums = here.sums().await;
    let expected = [sum(&here.content), sum(&here.other)];
    assert!(expected.iter().all(|sum| sums.all().contains(sum)));
    assert_eq!(sums.all().len(), 2);
    let (sent, first) = there.take(here.path(), Sums::default()).await.unwrap();
    here.is_at(&there);
    assert!(sent > 8 * MIB as u64, "{sent}");
    for kept in [&here.content, &here.other] {
        assert!(fs::read(there.entry(kept)).unwrap() == *kept);
    }
    assert_eq!(fs::read_dir(root.path().join("stock")).unwrap().count(), 3); // and the lock
    let (sent, second) = there.take(here.path(), sums).await.unwrap();
    here.is_at(&there);
    assert!(sent < (MIB + 64 * 1024) as u64, "{sent}");
    assert_eq!(first, second, "it counts what there is then");
    // What is there is the folder's own: the stock's stays as it is.
    fs::write(there.arrived().join("program"), "changed").unwrap();
    assert!(fs::read(there.entry(&here.content)).unwrap() == here.content);
}

#[tokio::test]
async fn what_is_named_and_is_not_there_as_named_is_refused_and_nothing_stays() {
    let (here, root) = (Here::new(), tempfile::tempdir().unwrap());
    let there = There::at(root.path(), NO_END);
    let named = || here.sums();
    is_not_stocked(there.take(here.path(), named().await).await);
    assert!(!there.arrived().exists());
    there.take(here.path(), Sums::default()).await.unwrap();
    // By a disk that forgot, or as long as before but other.
    let longer = [here.content.clone(), vec![0]].concat();
    for wrong in [&here.content[1..], &vec![0; here.content.len()], &longer] {
        fs::write(there.entry(&here.content), wrong).unwrap();
        is_not_stocked(there.take(here.path(), named().await).await);
        assert!(!there.arrived().exists());
        assert!(!there.entry(&here.content).exists(), "it went");
        there.take(here.path(), Sums::default()).await.unwrap();
        here.is_at(&there);
        assert!(there.entry(&here.content).exists(), "it is mended");
    }
    let without = There {
        stock: None,
        ..There::at(root.path(), NO_END)
    };
    is_not_stocked(without.take(here.path(), named().await).await);
}

#[tokio::test]
async fn what_is_named_counts_as_if_it_came() {
    let (here, root) = (Here::new(), tempfile::tempdir().unwrap());
    let mut there = There::at(root.path(), NO_END);
    let (_, all) = there.take(here.path(), Sums::default()).await.unwrap();
    there.limits.bytes = all.bytes;
    there.take(here.path(), here.sums().await).await.unwrap();
    there.limits.bytes = all.bytes - 1;
    let refused = there.take(here.path(), here.sums().await).await;
    let over = matches!(refused, Err(StagingError::Limit { of: "bytes", .. }));
    assert!(over, "{refused:?}");
}

#[tokio::test]
async fn an_upload_comes_whether_or_not_it_is_kept() {
    let (here, root) = (Here::new(), tempfile::tempdir().unwrap());
    let there = There::at(root.path(), 2 * MIB as u64);
    there.take(here.path(), Sums::default()).await.unwrap();
    here.is_at(&there);
    assert!(!there.entry(&here.content).exists() && there.entry(&here.other).exists());
    fs::remove_dir_all(root.path().join("stock")).unwrap();
    fs::write(root.path().join("stock"), "no directory").unwrap();
    there.take(here.path(), Sums::default()).await.unwrap();
    here.is_at(&there);
}

#[tokio::test]
async fn on_a_full_disk_the_stock_makes_room_for_an_upload() {
    let test = "on_a_full_disk_the_stock_makes_room_for_an_upload";
    let Some(disk) = SmallDisk::mount(16) else {
        return skip(test, "the right to mount a small tmpfs (root)");
    };
    let here = Here::new();
    let there = There::at(disk.path(), NO_END);
    there.take(here.path(), Sums::default()).await.unwrap();
    assert!(there.entry(&here.content).exists());
    fs::remove_dir_all(there.arrived()).unwrap();
    // 4 of 16 MiB are kept, 8 are to come.
    fs::write(disk.path().join("filling"), vec![3; 7 * MIB]).unwrap();
    there.take(here.path(), Sums::default()).await.unwrap();
    here.is_at(&there);
    assert!(!there.entry(&here.content).exists(), "it has gone");
}
