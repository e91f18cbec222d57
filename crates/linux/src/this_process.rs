//! What a process may ask of itself and its host: its account's name, the host's name, room for descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::CStr;
use std::io;

/// Longest line of a password database that is sensible (getpwuid_r(3) asks the caller to choose).
const PASSWD_BYTES: usize = 16 * 1024;

/// The name of this process's effective account; "uid1234" where the password database has none.
pub fn account_name() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let mut buffer = vec![0 as libc::c_char; PASSWD_BYTES];
    // SAFETY: an all-zero passwd is a valid value of that plain C struct; getpwuid_r overwrites it.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: entry, buffer (with its length) and found are ours and outlive the call.
    let error = unsafe {
        libc::getpwuid_r(
            uid,
            &mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &mut found,
        )
    };
    if error != 0 || found.is_null() {
        return format!("uid{uid}");
    }
    // SAFETY: on success pw_name is a NUL-terminated string within buffer, which is still alive.
    unsafe { CStr::from_ptr(entry.pw_name) }
        .to_string_lossy()
        .into_owned()
}

/// The kernel's release and version (uname(2)).
pub fn kernel() -> String {
    let told = rustix::system::uname();
    let words = [told.release(), told.version()].map(CStr::to_string_lossy);
    words.join(" ")
}

/// The host's name as the kernel has it (uname(2)).
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The kernel's release, e.g. 6.1.0.
pub fn kernel_release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// Has memory that was freed in pieces of less than `piece_bytes` stay with this process, up to `most_bytes`, where glibc would
/// give it back (mallopt(3)): a stream's buffers are freed and wanted again hundreds of times a second, and each page of
/// them would be a fault.
pub fn keep_freed_memory(most_bytes: i32, piece_bytes: i32) {
    #[cfg(target_env = "gnu")]
    for (of, bytes) in [
        (libc::M_TRIM_THRESHOLD, most_bytes),
        (libc::M_MMAP_THRESHOLD, piece_bytes),
    ] {
        // SAFETY: sets a number of the allocator's; what it refuses stays as it was.
        unsafe { libc::mallopt(of, bytes) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = (most_bytes, piece_bytes);
}

/// Raises the soft limit of open files to the hard one, and returns it: a live job holds a descriptor.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// How many descriptors this process may have.
pub fn most_open_files() -> usize {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// Makes this process the leader of a session of its own, so that the terminal's signals do not reach it.
pub fn new_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_has_an_account_and_a_host() {
        assert!(!super::account_name().is_empty());
        assert!(!super::host_name().is_empty());
        assert!(super::raise_open_files().unwrap() >= 256);
    }
}
