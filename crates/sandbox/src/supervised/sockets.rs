//! Sockets whose addresses may be names of files or held to rules: connected and bound in a guest's place, or by itself
//! with words that it cannot change, from one reading of the address. Not in it: what is sent (messages.rs; datagrams
//! between UNIX sockets, which carry addresses anywhere, do not exist).

use super::caller::Caller;
use super::resolve::{End, last_name, parent};
use super::serve::Outcome;
use super::view::{c_string, flag};
use kumiko_linux::limits::pacing;
use kumiko_linux::supervise::calls::{self, FileKind};
use kumiko_linux::supervise::{Errno, memory, sockets as kernel};
use kumiko_policy::{binds, reaches};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// sizeof(struct sockaddr_storage).
const ADDRESS_BYTES: usize = 128;
/// sizeof(sun_path).
const PATH_BYTES: usize = 108;
const UNIX: u16 = 1;
const IPV4: u16 = 2;
const IPV6: u16 = 10;

pub(super) fn connect(caller: &Caller<'_>) -> Result<Outcome, Errno> {
    let address = address(caller, caller.word(1), caller.int(2))?;
    if let Some(asked) = internet(&address) {
        if !reaches(caller.view.reach(), asked).reached {
            return Err(Errno::EACCES);
        }
        pace(caller)?;
    }
    let Some(path) = path_of(&address) else {
        return Ok(Outcome::Connect(address));
    };
    match caller.end(flag::AT_CWD, &path, true)? {
        End::There { handle, .. } => {
            if calls::about(handle.as_fd())?.kind() != FileKind::Socket {
                return Err(Errno(111)); // ECONNREFUSED, as for any file
            }
            let address = unix(calls::own_path(handle.as_fd()).as_bytes())?;
            connected(caller, address, Some(handle))
        }
        End::Missing { .. } => Err(Errno::ENOENT),
        _ => Err(Errno::EACCES),
    }
}

/// Connects in the guest's place. `kept`: what the address names.
pub(super) fn connected(
    caller: &Caller<'_>,
    address: Vec<u8>,
    kept: Option<OwnedFd>,
) -> Result<Outcome, Errno> {
    let socket = calls::descriptor_of(caller.tid, caller.int(0))?;
    let waits = kernel::is_blocking(socket.as_fd());
    let connect = move || {
        let done = kernel::connect(socket.as_fd(), &address).map(Outcome::Value);
        drop(kept);
        done
    };
    if waits {
        return Ok(Outcome::Slow(Box::new(connect)));
    }
    connect()
}

pub(super) fn bind(caller: &Caller<'_>) -> Result<i64, Errno> {
    let mut address = address(caller, caller.word(1), caller.int(2))?;
    let mut kept = None;
    // AF_UNSPEC may be the kernel's IPv4 here as well (ip(7)).
    if internet_sent_to(&address).is_some_and(|asked| !binds(caller.view.reach(), asked)) {
        return Err(Errno::EACCES);
    }
    if internet(&address).is_some() {
        pace(caller)?;
    }
    if let Some(path) = path_of(&address) {
        match caller.end(flag::AT_CWD, &path, false)? {
            End::Missing {
                place,
                directory: false,
            } => {
                caller.may_write(parent(&place))?;
                let (mount, rest) = caller.view.mount_of(parent(&place))?;
                let directory = mount.open(rest, flag::PATH | flag::DIRECTORY, 0)?;
                let name = calls::own_path_of(directory.as_fd(), &c_string(last_name(&place))?);
                address = unix(name.as_bytes())?;
                kept = Some((directory, super::processes::umask_of(caller.tid)?));
            }
            End::Missing { .. } => return Err(Errno::ENOENT),
            _ => return Err(Errno(98)), // EADDRINUSE
        }
    }
    let socket = calls::descriptor_of(caller.tid, caller.int(0))?;
    let bound = kernel::bind(socket.as_fd(), &address)?;
    if let Some((directory, umask)) = kept {
        // Made without a mask, which is this process's and not a thread's.
        let made = path_of(&address).unwrap_or_default();
        let fd = calls::open_beneath(
            directory.as_fd(),
            &c_string(last_name(&made))?,
            flag::PATH | flag::NOFOLLOW,
            0,
        )?;
        calls::change_mode(fd.as_fd(), 0o777 & !umask)?;
    }
    Ok(bound)
}

/// A socket has a pace before it sends anything, and one that listens gives it to those that it accepts (P52).
fn pace(caller: &Caller<'_>) -> Result<(), Errno> {
    let Some(bytes_a_second) = caller.view.pace() else {
        return Ok(());
    };
    let socket = calls::descriptor_of(caller.tid, caller.int(0))?;
    // What has no pace is no socket: the call that follows says so.
    let _ = pacing::pace(socket.as_fd(), bytes_a_second);
    Ok(())
}

pub(super) fn address(caller: &Caller<'_>, at: u64, length: i32) -> Result<Vec<u8>, Errno> {
    if !(0..=ADDRESS_BYTES as i32).contains(&length) {
        return Err(Errno::EINVAL);
    }
    let mut address = vec![0; length as usize];
    memory::read(caller.tid, at, &mut address)?;
    Ok(address)
}

/// The path in a UNIX address; None: another family, or a name that is no file's.
fn path_of(address: &[u8]) -> Option<Vec<u8>> {
    let family = u16::from_ne_bytes(address.get(..2)?.try_into().ok()?);
    let path = address.get(2..)?;
    if family != UNIX || path.first().is_none_or(|byte| *byte == 0) {
        return None;
    }
    path.split(|byte| *byte == 0).next().map(<[u8]>::to_vec)
}

/// The address and port of an Internet address (ip(7), ipv6(7)); None: another family, or too short for the kernel too.
fn internet(address: &[u8]) -> Option<SocketAddr> {
    let part = |at: usize, count: usize| address.get(at..at + count);
    let family = u16::from_ne_bytes(part(0, 2)?.try_into().ok()?);
    let port = u16::from_be_bytes(part(2, 2)?.try_into().ok()?);
    let address = match family {
        IPV4 => IpAddr::from(<[u8; 4]>::try_from(part(4, 4)?).ok()?),
        IPV6 => IpAddr::from(<[u8; 16]>::try_from(part(8, 16)?).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

/// As [`internet`], of what is sent to: the kernel takes AF_UNSPEC for IPv4 there.
pub(super) fn internet_sent_to(address: &[u8]) -> Option<SocketAddr> {
    let family = address.get(..2)?;
    if family == [0; 2] {
        let as_ipv4 = [&IPV4.to_ne_bytes(), address.get(2..)?].concat();
        return internet(&as_ipv4);
    }
    internet(address)
}

fn unix(path: &[u8]) -> Result<Vec<u8>, Errno> {
    if path.len() >= PATH_BYTES {
        return Err(Errno::ENAMETOOLONG);
    }
    Ok([UNIX.to_ne_bytes().as_slice(), path, b"\0"].concat())
}
