//! bubblewrap (bwrap(1)) with a view like that of the default policy: the system read-only, a private /tmp, /dev and
//! /proc, one writable directory, the host's network, own user, mount, pid, ipc and uts namespaces.

use std::path::Path;
use std::process::Command;

/// `bwrap ... PROGRAM`.
pub fn command(writable: &Path, program: &str) -> Command {
    let mut bwrap = view(writable);
    bwrap.args(["--chdir", "/job", program]);
    bwrap
}

/// As [`command`], without a program yet: more may be shown first.
pub fn view(writable: &Path) -> Command {
    let mut bwrap = Command::new("bwrap");
    bwrap.args([
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--die-with-parent",
    ]);
    bwrap.args(["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]);
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let path = Path::new("/").join(name);
        // Merged /usr has links there; an older system has folders.
        match std::fs::read_link(&path) {
            Ok(target) => _ = bwrap.arg("--symlink").arg(target).arg(&path),
            Err(_) if path.is_dir() => _ = bwrap.arg("--ro-bind").arg(&path).arg(&path),
            Err(_) => {}
        }
    }
    bwrap
        .args([
            "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind",
        ])
        .arg(writable)
        .arg("/job");
    bwrap
}
