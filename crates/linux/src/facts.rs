//! Facts of the host that std does not tell: the room of file systems (statvfs(3)), the addresses of network
//! interfaces (getifaddrs(3)). Not here: what is a text in /proc or /sys; who wants it reads it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub size_bytes: u64,
    /// For an account without privileges.
    pub free_bytes: u64,
}

/// The file system that a path lies on.
///
/// # Errors
/// The kernel's.
pub fn room(path: &Path) -> io::Result<Room> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(Room {
        size_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
        free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
    })
}

/// An address of a network interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub interface: String,
    pub address: IpAddr,
    /// Bits of the network.
    pub prefix: u8,
}

/// All addresses of all interfaces that are up.
///
/// # Errors
/// The kernel's.
pub fn addresses() -> io::Result<Vec<Address>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is a live local that the call fills in; the list is freed once, below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: `at` is an element of the list that getifaddrs made, which is not freed before the loop's end.
        let one = unsafe { &*at };
        at = one.ifa_next;
        if one.ifa_flags & libc::IFF_UP as u32 == 0 || one.ifa_addr.is_null() {
            continue;
        }
        // SAFETY: names in the list are texts that end with a null byte (getifaddrs(3)).
        let name = unsafe { std::ffi::CStr::from_ptr(one.ifa_name) };
        // SAFETY: both pointers are null or point to socket addresses of the family that they name (getifaddrs(3)).
        let (address, mask) = unsafe { (ip(one.ifa_addr), ip(one.ifa_netmask)) };
        if let (Some(address), Some(mask)) = (address, mask) {
            found.push(Address {
                interface: name.to_string_lossy().into_owned(),
                address,
                prefix: ones(mask),
            });
        }
    }
    // SAFETY: the list of the call above; nothing borrowed from it is left.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// # Safety
/// `address` is null or points to a socket address of the family that it names.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: as the caller promises; a socket address has at least its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: AF_INET names this structure; it may lie at any alignment.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: AF_INET6 names this structure; it may lie at any alignment.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn ones(mask: IpAddr) -> u8 {
    let ones = match mask {
        IpAddr::V4(v4) => u32::from(v4).count_ones(),
        IpAddr::V6(v6) => u128::from(v6).count_ones(),
    };
    ones as u8 // at most 128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_room_and_what_is_not_there_has_none() {
        let room = room(Path::new("/")).unwrap();
        assert!(room.size_bytes > 0 && room.free_bytes <= room.size_bytes);
        assert!(super::room(Path::new("/nowhere at all")).is_err());
    }

    #[test]
    fn addresses_are_told_with_their_networks() {
        for one in addresses().unwrap() {
            assert!(!one.interface.is_empty());
            if one.interface == "lo" && one.address == IpAddr::V4(Ipv4Addr::LOCALHOST) {
                assert_eq!(one.prefix, 8);
            }
        }
    }
}
