//! Resolution held against the kernel's own (openat2(2), RESOLVE_IN_ROOT), over trees and paths made at random.

use super::*;
use kumiko_linux::supervise::calls::{self, FileKind};
use proptest::prelude::*;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;

/// A directory of the host as a whole view.
struct Root<'a>(BorrowedFd<'a>);

impl Look for Root<'_> {
    type Handle = (u64, u64);
    fn look(&mut self, place: &[u8]) -> Result<Thing<(u64, u64)>, Errno> {
        let rest = CString::new(&place[1..]).unwrap();
        let flags = 0o010_000_000 | 0o400_000; // O_PATH, O_NOFOLLOW
        let fd = calls::open_beneath(self.0, &rest, flags, 0)?;
        let about = calls::about(fd.as_fd())?;
        let handle = (about.device, about.inode);
        Ok(match about.kind() {
            FileKind::Directory => Thing::Directory(handle),
            FileKind::Link => Thing::Link(calls::read_link_at(fd.as_fd(), c"")?),
            _ => Thing::Other(handle),
        })
    }
}

fn kernel(root: BorrowedFd<'_>, path: &str, follow: bool) -> Result<(u64, u64), Errno> {
    let fd = calls::open_in_root(root, &CString::new(path).unwrap(), follow)?;
    let about = calls::about(fd.as_fd())?;
    Ok((about.device, about.inode))
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![6 => name().prop_map(str::to_owned), 1 => Just(".".to_owned()), 2 => Just("..".to_owned()), 1 => Just(String::new())];
    (
        prop::bool::ANY,
        prop::collection::vec(part, 1..6),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(absolute, parts, closing)| {
            let slash = |yes| if yes { "/" } else { "" };
            format!("{}{}{}", slash(absolute), parts.join("/"), slash(closing))
        })
}

#[derive(Clone, Debug)]
enum Made {
    Directory(String),
    File(String),
    Link(String, String),
}

fn made() -> impl Strategy<Value = Made> {
    let place = prop::collection::vec(name(), 1..4).prop_map(|names| names.join("/"));
    (0..5, place, path()).prop_map(|(kind, place, words)| match kind {
        0 | 1 => Made::Directory(place),
        2 => Made::File(place),
        _ => Made::Link(place, words),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_path_leads_where_the_kernel_says(tree in prop::collection::vec(made(), 1..14), paths in prop::collection::vec(path(), 12)) {
        let directory = tempfile::tempdir().unwrap();
        for made in &tree {
            let (Made::Directory(place) | Made::File(place) | Made::Link(place, _)) = made;
            let at = directory.path().join(place);
            // A link made before may lead out of the directory.
            let through_link = |above: &Path| above != directory.path() && above.is_symlink();
            if at.ancestors().take_while(|above| above.starts_with(directory.path())).any(through_link) {
                continue;
            }
            // What finds no place is left out.
            let _ = match made {
                Made::Directory(_) => std::fs::create_dir_all(&at),
                Made::File(_) => std::fs::write(&at, ""),
                Made::Link(_, words) => symlink(words, &at),
            };
        }
        let root: OwnedFd = std::fs::File::open(directory.path()).unwrap().into();
        for path in paths.iter().filter(|path| !path.is_empty()) {
            for follow in [true, false] {
                let expected = kernel(root.as_fd(), path, follow);
                let got = resolve(&mut Root(root.as_fd()), b"/", path.as_bytes(), follow);
                let told = match got {
                    Ok(End::There { handle, place, .. }) => {
                        // The place is where it says, with no link on the way.
                        let place = String::from_utf8(place).unwrap();
                        prop_assert_eq!(kernel(root.as_fd(), &place, false).unwrap(), handle);
                        Ok(handle)
                    }
                    Ok(End::Link { place }) => kernel(root.as_fd(), std::str::from_utf8(&place).unwrap(), false),
                    Ok(End::Missing { .. }) => Err(Errno::ENOENT),
                    Ok(End::Alone { .. }) => unreachable!(),
                    Err(errno) => Err(errno),
                };
                prop_assert_eq!(told, expected, "{} (follow {}) in {:?}", path, follow, tree);
            }
        }
    }
}

#[test]
fn places_are_told_by_words_alone_only_where_that_is_safe() {
    let check = |path: &str, expected: Option<&str>| {
        assert_eq!(
            as_place(path.as_bytes()).as_deref(),
            expected.map(str::as_bytes),
            "{path}"
        );
    };
    check("/a//b", Some("/a/b"));
    check("/a/./b", None);
    check("/a/../b", None);
    check("/a/", None);
    check("/", None);
    check("a", None);
}

#[test]
fn parents_and_names() {
    assert_eq!(parent(b"/a/b"), b"/a");
    assert_eq!(parent(b"/a"), b"/");
    assert_eq!(parent(b"/"), b"/");
    assert_eq!(last_name(b"/a/b"), b"b");
    assert_eq!(last_name(b"/"), b"");
    assert_eq!(join(b"/", b"a"), b"/a");
    assert_eq!(join(b"/a", b""), b"/a");
}
