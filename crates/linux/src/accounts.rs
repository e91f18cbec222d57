//! Accounts of this machine: by the system's own databases (getpwnam_r(3), getgrouplist(3), which ask whatever
//! nsswitch.conf(5) says), or by one file in the format of passwd(5), where a site would rather have nothing of that in
//! a process of root. Not here: which account may be used.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Longest line of a password database that is sensible (getpwnam_r(3) asks the caller to choose).
const PASSWD_BYTES: usize = 16 * 1024;
/// Most groups of an account that are taken over; the kernel's own limit (NGROUPS_MAX, limits.h).
const GROUPS_MOST: usize = 65_536;
/// The first guess; more are asked for when there are more.
const GROUPS_USUAL: usize = 64;

/// Who a process can become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// All groups, `gid` among them.
    pub groups: Vec<u32>,
    pub home: PathBuf,
}

/// The account of that name in the system's databases; None: there is none.
///
/// # Errors
/// A database that cannot be asked now.
pub fn find(name: &str) -> io::Result<Option<Account>> {
    let Ok(c_name) = CString::new(name) else {
        return Ok(None);
    };
    let mut buffer = vec![0 as libc::c_char; PASSWD_BYTES];
    // SAFETY: an all-zero passwd is a valid value of that plain C struct; getpwnam_r overwrites it.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: name, entry, buffer (with its length) and found are ours and outlive the call.
    let error = unsafe {
        libc::getpwnam_r(
            c_name.as_ptr(),
            &mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &mut found,
        )
    };
    match error {
        _ if !found.is_null() => {}
        // getpwnam_r(3), ERRORS: these all say that there is none.
        0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    // SAFETY: on success pw_dir is a NUL-terminated string within buffer, which is still alive.
    let home = unsafe { CStr::from_ptr(entry.pw_dir) };
    Ok(Some(Account {
        name: name.to_owned(),
        uid: entry.pw_uid,
        gid: entry.pw_gid,
        groups: groups(&c_name, entry.pw_gid)?,
        home: PathBuf::from(std::ffi::OsStr::from_bytes(home.to_bytes())),
    }))
}

fn groups(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut room = GROUPS_USUAL;
    while room <= GROUPS_MOST {
        let mut list = vec![0 as libc::gid_t; room];
        let mut count = libc::c_int::try_from(room).unwrap_or(libc::c_int::MAX);
        // SAFETY: name is NUL-terminated, list has room for `count` entries, and both outlive the call.
        let got = unsafe { libc::getgrouplist(name.as_ptr(), gid, list.as_mut_ptr(), &mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if got >= 0 && count <= room {
            list.truncate(count);
            return Ok(list);
        }
        room = count.max(room * 2);
    }
    Err(io::Error::other(format!("more than {GROUPS_MOST} groups")))
}

/// A line of a file of accounts that is none; lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is no account: it is to be NAME:x:UID:GID:COMMENT:HOME:SHELL (passwd(5))")]
pub struct BadAccountLine {
    pub line: usize,
}

/// The account of that name in a text in the format of passwd(5), with no groups but its own. The first line of a name
/// counts; one bad line refuses all.
///
/// # Errors
/// The first line that is no account.
pub fn find_in(text: &str, name: &str) -> Result<Option<Account>, BadAccountLine> {
    let mut found = None;
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let account = account(line).ok_or(BadAccountLine { line: index + 1 })?;
        if account.name == name && found.is_none() {
            found = Some(account);
        }
    }
    Ok(found)
}

fn account(line: &str) -> Option<Account> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, _, home, _] = fields.as_slice() else {
        return None;
    };
    let gid = gid.parse().ok()?;
    (!name.is_empty() && home.starts_with('/')).then_some(())?;
    Some(Account {
        name: (*name).to_owned(),
        uid: uid.parse().ok()?,
        gid,
        groups: vec![gid],
        home: PathBuf::from(home),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_and_nobody_of_a_strange_name() {
        let root = find("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(find("no such account").unwrap(), None);
        assert_eq!(find("a\0b").unwrap(), None);
        assert_eq!(find("").unwrap(), None);
    }

    #[test]
    fn a_file_of_accounts_is_read_whole_or_not_at_all() {
        let alice = "alice:x:2001:2002:Alice:/home/alice:/bin/sh";
        let check = |text: &str, expected: Result<Option<u32>, usize>| {
            let got = find_in(text, "alice").map(|found| found.map(|a| a.uid));
            assert_eq!(got.map_err(|e| e.line), expected, "{text:?}");
        };
        check(alice, Ok(Some(2001)));
        check("", Ok(None));
        check(
            &format!("# people\n\n{alice}\nalice:x:0:0::/root:/bin/sh\n"),
            Ok(Some(2001)),
        );
        check("bob:x:1:1::/home/bob:/bin/sh", Ok(None));
        for bad in [
            "alice",
            "alice:x:2001:2002:Alice:/home/alice",
            "alice:x:2001:2002:Alice:/home/alice:/bin/sh:more",
            "alice:x::2002:Alice:/home/alice:/bin/sh",
            "alice:x:-1:2002:Alice:/home/alice:/bin/sh",
            "alice:x:2001:4294967296:Alice:/home/alice:/bin/sh",
            "alice:x:2001:2002:Alice:home:/bin/sh",
            ":x:2001:2002:Alice:/home/alice:/bin/sh",
        ] {
            check(&format!("{alice}\n{bad}"), Err(2));
        }
    }
}
