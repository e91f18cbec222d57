//! UNIX sockets at paths of any length: sun_path holds 108 bytes (unix(7)), so the last name is reached through the
//! directory's descriptor, /proc/self/fd/N/NAME.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Listens at `path`. Not there before; its permissions are the umask's: put it in a directory of your own.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let (_directory, short) = shorten(path)?;
    UnixListener::bind(short)
}

/// Connects to `path`.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_directory, short) = shorten(path)?;
    UnixStream::connect(short)
}

/// (process id, user id) of whoever connected, as of then (SO_PEERCRED).
pub fn peer(socket: &UnixStream) -> io::Result<(i32, u32)> {
    let credentials = rustix::net::sockopt::socket_peercred(socket)?;
    Ok((
        credentials.pid.as_raw_nonzero().get(),
        credentials.uid.as_raw(),
    ))
}

/// The short path lives as long as the directory is open.
fn shorten(path: &Path) -> io::Result<(crate::Dir, PathBuf)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = crate::Dir::open(parent)?;
    let short = crate::proc_path(directory.as_fd()).join(name);
    Ok((directory, short))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_socket_may_stand_at_a_long_path() {
        let top = std::env::temp_dir().join(format!("kumiko-unix-{}", std::process::id()));
        let deep = top.join("x".repeat(200)).join("y".repeat(200));
        std::fs::create_dir_all(&deep).unwrap();
        let listener = listen(&deep.join("control")).unwrap();
        let mut ours = connect(&deep.join("control")).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        ours.write_all(b"hello").unwrap();
        let mut got = [0; 5];
        theirs.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
        assert_eq!(peer(&theirs).unwrap().0, std::process::id() as i32);
        std::fs::remove_dir_all(top).unwrap();
    }
}
