//! A copy of a folder in which somebody may be writing still, who may be hostile: by descriptors, through no link, as it is found. Not here: what
//! makes the copy of use (dumps have the lengths of files; `crate::dumps`).

use kumiko_linux::Dir;
use kumiko_linux::dir::{Entry, Kind, MAX_DEPTH};
use kumiko_linux::spooling::next_data;
use std::io::{self, Read, Seek, SeekFrom};

/// Of what this name is in `from`, under the same name in `to`, where nothing is yet. Sockets, pipes and devices are left out, and what vanishes
/// meanwhile. Names of one file are files of their own.
pub fn copied(from: &Dir, to: &Dir, name: &str) -> io::Result<()> {
    let entry = Entry {
        name: name.into(),
        kind: from.stat(name)?.kind,
    };
    copy(from, to, &entry, MAX_DEPTH)
}

fn copy(from: &Dir, to: &Dir, entry: &Entry, depth: usize) -> io::Result<()> {
    let made = match entry.kind {
        Kind::File => copy_file(from, to, entry),
        Kind::Link => from
            .read_link(&entry.name)
            .and_then(|target| to.symlink(target, &entry.name)),
        Kind::Directory => copy_folder(from, to, entry, depth),
        Kind::Other => return Ok(()),
    };
    match made {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        made => made,
    }
}

/// As long as it is now, for who writes to it may go on without end; and with its holes, for it may be longer than the disk.
fn copy_file(from: &Dir, to: &Dir, entry: &Entry) -> io::Result<()> {
    let file = from.open_file(&entry.name)?;
    let about = from.stat(&entry.name)?;
    if !file.metadata()?.is_file() {
        return Ok(()); // something else came in its place
    }
    let bytes = file.metadata()?.len();
    let copy = to.create_file(&entry.name, 0o600)?;
    copy.set_len(bytes)?;
    let mut at = 0;
    while let Some(data) = next_data(&file, at)?.filter(|data| data.start < bytes) {
        let end = data.end.min(bytes);
        for mut one in [&file, &copy] {
            one.seek(SeekFrom::Start(data.start))?;
        }
        io::copy(&mut (&file).take(end - data.start), &mut &copy)?;
        at = end;
    }
    copy.sync_data()?;
    to.set_mode(&entry.name, about.mode)
}

fn copy_folder(from: &Dir, to: &Dir, entry: &Entry, depth: usize) -> io::Result<()> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(io::Error::other("its folders are too deep to be copied"));
    };
    let (folder, about) = (from.open_dir(&entry.name)?, from.stat(&entry.name)?);
    to.mkdir(&entry.name, 0o700)?;
    let copies = to.open_dir(&entry.name)?;
    for entry in folder.list()? {
        copy(&folder, &copies, &entry, depth)?;
    }
    copies.sync()?;
    to.set_mode(&entry.name, about.mode)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::fs;
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    #[test]
    fn files_folders_and_links_are_copied_and_nothing_leads_out() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir_all(path("from/job/a/b")).unwrap();
        fs::create_dir(path("to")).unwrap();
        fs::write(path("secret"), "s").unwrap();
        fs::write(path("from/job/a/run"), "text").unwrap();
        fs::set_permissions(path("from/job/a/run"), fs::Permissions::from_mode(0o500)).unwrap();
        symlink("../../../secret", path("from/job/a/link")).unwrap();
        let hollow = fs::File::create(path("from/job/a/hollow")).unwrap();
        hollow.write_all_at(b"end", 1 << 40).unwrap();
        hollow.set_len(1 << 43).unwrap();
        let _socket = UnixListener::bind(path("from/job/a/b/socket")).unwrap();
        let (from, to) = (path("from"), path("to"));
        let (from, to) = (Dir::open(&from).unwrap(), Dir::open(&to).unwrap());
        copied(&from, &to, "job").unwrap();
        let copy = path("to/job/a");
        assert_eq!(fs::read_to_string(copy.join("run")).unwrap(), "text");
        let mode = fs::metadata(copy.join("run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o500);
        let link = fs::read_link(copy.join("link")).unwrap();
        assert_eq!(link.to_str(), Some("../../../secret"));
        assert_eq!(fs::read_dir(copy.join("b")).unwrap().count(), 0);
        let hollow = fs::metadata(copy.join("hollow")).unwrap();
        assert_eq!(hollow.len(), 1 << 43);
        let mut tail = [0; 4];
        let read = fs::File::open(copy.join("hollow")).unwrap();
        read.read_exact_at(&mut tail, (1 << 40) - 1).unwrap();
        assert_eq!(&tail, b"\0end");
        assert!(hollow.blocks() < 1 << 10);
        // It is another file.
        fs::remove_file(path("from/job/a/run")).unwrap();
        assert_eq!(fs::read_to_string(copy.join("run")).unwrap(), "text");
        assert!(copied(&from, &to, "nothing").is_err());
    }

    #[test]
    fn folders_without_end_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&to).unwrap();
        let deep = ["d"; MAX_DEPTH + 1].join("/");
        fs::create_dir_all(from.join(deep)).unwrap();
        let (from, to) = (Dir::open(&from).unwrap(), Dir::open(&to).unwrap());
        let error = copied(&from, &to, "d").unwrap_err();
        assert_eq!(error.to_string(), "its folders are too deep to be copied");
    }
}
