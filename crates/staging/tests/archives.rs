//! Archives against spec/rest/vectors, real trees, GNU tar, and trees that change while we look (F1 to F6).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_staging::{Limits, Packing, StagingError, Unpacking, mark, pack, unpack};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

fn vectors(kind: &str) -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/rest/vectors")
        .join(kind);
    let mut found: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "tar"))
        .map(|path| {
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                fs::read(path).unwrap(),
            )
        })
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// A folder within a folder, so that what escapes by one level is seen.
struct Place {
    outer: TempDir,
    folder: PathBuf,
}

impl Place {
    fn new() -> Place {
        let outer = TempDir::with_prefix("kumiko-staging-").unwrap();
        let folder = outer.path().join("folder");
        fs::create_dir(&folder).unwrap();
        Place { outer, folder }
    }

    fn assert_nothing_escaped(&self, name: &str) {
        let names: Vec<_> = fs::read_dir(self.outer.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["folder"], "{name}");
        assert!(!Path::new("/tmp/kumiko-escaped").exists(), "{name}");
    }
}

/// All names below, links with what they say, files with their content.
fn tree(root: &Path) -> Vec<String> {
    fn walk(root: &Path, at: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let kind = fs::symlink_metadata(&path).unwrap();
            if kind.is_symlink() {
                found.push(format!(
                    "{name} -> {}",
                    fs::read_link(&path).unwrap().display()
                ));
            } else if kind.is_dir() {
                found.push(format!("{name}/"));
                walk(root, &path, found);
            } else {
                found.push(format!(
                    "{name}={}",
                    String::from_utf8_lossy(&fs::read(&path).unwrap())
                ));
            }
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort();
    found
}

#[test]
fn valid_archives_are_unpacked() {
    let long = "n".repeat(200);
    let far = "t".repeat(300);
    let deep: Vec<String> = (1..=5).map(|i| "d/".repeat(i)).collect();
    for (name, bytes) in vectors("valid") {
        let place = Place::new();
        unpack(&*bytes, &place.folder, Limits::UPLOAD).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut expected: Vec<String> = match name.as_str() {
            "folder" => vec!["a/".into(), "a/file=text".into(), "link -> a/file".into()],
            "no-directories" => vec!["x/".into(), "x/y/".into(), "x/y/z=1".into()],
            "long-names-gnu" => [
                deep.clone(),
                vec![format!("{}{long}=gnu", deep[4]), format!("l -> {far}")],
            ]
            .concat(),
            "long-names-pax" => [
                deep.clone(),
                vec![
                    format!("{}{long}=pax", deep[4]),
                    format!("l -> {far}"),
                    "é=".into(),
                ],
            ]
            .concat(),
            "twice" => vec!["f=second".into()],
            "empty" => vec![],
            "pax-other" => vec!["renamed=1".into()],
            other => panic!("no row for {other}"),
        };
        expected.sort();
        assert_eq!(tree(&place.folder), expected, "{name}");
        place.assert_nothing_escaped(&name);
    }
}

#[test]
fn invalid_archives_are_refused_and_nothing_escapes() {
    for (name, bytes) in vectors("invalid") {
        let place = Place::new();
        let error = unpack(&*bytes, &place.folder, Limits::UPLOAD).expect_err(&name);
        let fits = match name.as_str() {
            "cut" | "huge-header" => {
                matches!(error, StagingError::Cut | StagingError::Header { .. })
            }
            "not-tar" | "checksum" => matches!(error, StagingError::Archive { .. }),
            "hard-link" | "device" | "pipe" | "sparse" => {
                matches!(error, StagingError::Kind { .. })
            }
            "through-link" | "directory-over-link" | "file-over-directory" => {
                matches!(error, StagingError::File { .. })
            }
            "pax-size" | "pax-sparse" | "sum-and-content" | "sum-short" => {
                matches!(error, StagingError::Header { .. })
            }
            "sum-not-stocked" => matches!(error, StagingError::NotStocked { .. }),
            "deep" => matches!(error, StagingError::Limit { .. }),
            _ => matches!(error, StagingError::Name { .. }),
        };
        assert!(fits, "{name}: {error:?}");
        place.assert_nothing_escaped(&name);
    }
}

#[test]
fn what_was_packed_is_unpacked_the_same() {
    let (from, to) = (Place::new(), Place::new());
    let deep = from.folder.join("deep/er");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("program"), "#!").unwrap();
    fs::set_permissions(deep.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(from.folder.join("n".repeat(255)), vec![b'x'; 100_000]).unwrap();
    symlink("deep/er", from.folder.join("inward")).unwrap();
    symlink("/etc/passwd", from.folder.join("outward")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(from.folder.join("socket")).unwrap();
    let old = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(deep.join("program"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    fs::set_permissions(from.folder.join("deep"), fs::Permissions::from_mode(0o500)).unwrap();

    let mut archive = Vec::new();
    let packed = pack(&from.folder, None, Limits::RESULTS, &mut archive).unwrap();
    assert_eq!(
        (packed.entries, packed.bytes, packed.left_out),
        (6, 100_002, 1)
    );
    unpack(&*archive, &to.folder, Limits::UPLOAD).unwrap();
    drop(socket);
    fs::remove_file(from.folder.join("socket")).unwrap();
    assert_eq!(tree(&to.folder), tree(&from.folder));
    let program = fs::metadata(to.folder.join("deep/er/program")).unwrap();
    assert_eq!(
        (
            program.permissions().mode() & 0o777,
            program.modified().unwrap()
        ),
        (0o755, old)
    );
    let directory = fs::metadata(to.folder.join("deep")).unwrap();
    assert_eq!(
        directory.permissions().mode() & 0o777,
        0o700,
        "made so that its owner can clear it away"
    );
    fs::set_permissions(from.folder.join("deep"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn gnu_tar_and_we_read_each_other() {
    let (from, ours, theirs) = (Place::new(), Place::new(), Place::new());
    fs::create_dir_all(from.folder.join("a b/c")).unwrap();
    fs::write(from.folder.join("a b/c").join("é".repeat(100)), "long").unwrap();
    for format in ["gnu", "posix", "ustar"] {
        if format == "ustar" {
            fs::remove_dir_all(from.folder.join("a b")).unwrap();
            fs::write(from.folder.join("short"), "s").unwrap();
        }
        let tar = Command::new("tar")
            .args(["--format", format, "-cf", "-", "-C"])
            .arg(&from.folder)
            .arg(".")
            .output()
            .unwrap();
        assert!(tar.status.success());
        let place = Place::new();
        unpack(&*tar.stdout, &place.folder, Limits::UPLOAD)
            .unwrap_or_else(|e| panic!("{format}: {e}"));
        assert_eq!(tree(&place.folder), tree(&from.folder), "{format}");
    }
    fs::create_dir_all(ours.folder.join("x".repeat(120))).unwrap();
    fs::write(ours.folder.join("x".repeat(120)).join("y"), "1").unwrap();
    let archive = ours.outer.path().join("archive.tar");
    pack(
        &ours.folder,
        None,
        Limits::RESULTS,
        fs::File::create(&archive).unwrap(),
    )
    .unwrap();
    let tar = Command::new("tar")
        .arg("-xf")
        .arg(&archive)
        .arg("-C")
        .arg(&theirs.folder)
        .status()
        .unwrap();
    assert!(tar.success());
    assert_eq!(tree(&theirs.folder), tree(&ours.folder));
}

#[test]
fn only_what_is_new_or_changed_since_a_mark_is_packed() {
    let place = Place::new();
    for name in ["same", "written", "mode", "renamed"] {
        fs::write(place.folder.join(name), name).unwrap();
    }
    let mark = mark(&place.folder).unwrap();
    fs::write(place.folder.join("written"), "again").unwrap();
    // A program that sets the time back deceives nobody.
    fs::File::open(place.folder.join("written"))
        .unwrap()
        .set_modified(UNIX_EPOCH)
        .unwrap();
    fs::set_permissions(place.folder.join("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(place.folder.join("renamed"), place.folder.join("moved")).unwrap();
    fs::create_dir(place.folder.join("new")).unwrap();
    fs::write(place.folder.join("new/file"), "n").unwrap();
    let (mut archive, back) = (Vec::new(), Place::new());
    pack(&place.folder, Some(mark), Limits::RESULTS, &mut archive).unwrap();
    unpack(&*archive, &back.folder, Limits::UPLOAD).unwrap();
    assert_eq!(
        tree(&back.folder),
        [
            "mode=mode",
            "moved=renamed",
            "new/",
            "new/file=n",
            "written=again"
        ]
    );
}

#[test]
fn archives_over_a_limit_are_refused_on_both_sides() {
    let place = Place::new();
    fs::create_dir_all(place.folder.join("a/b/c")).unwrap();
    fs::write(place.folder.join("a/b/c/f"), vec![0; 1000]).unwrap();
    let mut archive = Vec::new();
    pack(&place.folder, None, Limits::RESULTS, &mut archive).unwrap();
    for limits in [
        Limits {
            bytes: 999,
            ..Limits::UPLOAD
        },
        Limits {
            entries: 3,
            ..Limits::UPLOAD
        },
        Limits {
            depth: 3,
            ..Limits::UPLOAD
        },
    ] {
        let error = pack(&place.folder, None, limits, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, StagingError::Limit { .. }), "{error}");
        let error = unpack(&*archive, &Place::new().folder, limits).unwrap_err();
        assert!(matches!(error, StagingError::Limit { .. }), "{error}");
    }
    unpack(
        &*archive,
        &Place::new().folder,
        Limits {
            bytes: 1000,
            entries: 4,
            depth: 4,
        },
    )
    .unwrap();
}

#[test]
fn a_tree_that_is_swapped_for_links_while_it_is_packed_gives_nothing_away() {
    let place = Place::new();
    let secret = place.outer.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("file"), "SECRET").unwrap();
    let (inside, aside) = (place.folder.join("inside"), place.folder.join("aside"));
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("file"), "public").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = fs::rename(&inside, &aside);
                let _ = symlink(&secret, &inside);
                let _ = fs::remove_file(&inside);
                let _ = fs::rename(&aside, &inside);
            }
        });
        for _ in 0..300 {
            let mut archive = Vec::new();
            // An error is in order: what was a directory may be a link by now.
            let _ = pack(&place.folder, None, Limits::RESULTS, &mut archive);
            assert!(!archive.windows(6).any(|w| w == b"SECRET"));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[tokio::test]
async fn archives_go_through_pieces_and_a_missing_end_is_a_cut() {
    let (from, to) = (Place::new(), Place::new());
    fs::write(from.folder.join("big"), vec![b'b'; 3_000_000]).unwrap();
    let mut packing = Packing::start(from.folder.clone(), None, Limits::RESULTS);
    let mut unpacking = Unpacking::start(to.folder.clone(), Limits::UPLOAD);
    let mut pieces = Vec::new();
    while let Some(piece) = packing.next().await.unwrap() {
        assert!(piece.len() <= kumiko_staging::PIECE_BYTES);
        unpacking.push(piece.clone()).await.unwrap();
        pieces.push(piece);
    }
    assert_eq!(packing.packed().bytes, 3_000_000);
    assert_eq!(unpacking.finish().await.unwrap().bytes, 3_000_000);
    assert_eq!(tree(&to.folder), tree(&from.folder));

    let cut_off = Place::new();
    let mut unpacking = Unpacking::start(cut_off.folder.clone(), Limits::UPLOAD);
    unpacking.push(pieces[0].clone()).await.unwrap();
    let cut = unpacking.finish().await;
    assert!(
        cut.is_err(),
        "an archive without its end was taken: {cut:?}"
    );

    let missing = from.outer.path().join("missing");
    let error = Packing::start(missing, None, Limits::RESULTS)
        .next()
        .await
        .unwrap_err();
    assert!(matches!(error, StagingError::File { .. }), "{error}");
}
