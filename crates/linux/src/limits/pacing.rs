//! The pace at which sockets of another process send: the kernel's own (SO_MAX_PACING_RATE, socket(7); TCP paces itself
//! since Linux 4.13), and how much may come to them that was not read (TCP_WINDOW_CLAMP, tcp(7)), set from outside on
//! copies of its descriptors (pidfd_getfd(2)) that live for microseconds.
//! No call of the process is touched. Not here: what each is given.

use super::tasks::{place, survivor};
use crate::process;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// No limit, as the kernel writes it (sk_max_pacing_rate).
pub const UNPACED: u64 = u64::MAX;

/// No bound of the window: above any that TCP has.
pub const UNBOUNDED: u32 = 1 << 30;

/// Where the kernel keeps them in struct tcp_info (linux/tcp.h).
const BYTES_RECEIVED_AT: usize = 128;
const NOTSENT_BYTES_AT: usize = 144;
const BYTES_SENT_AT: usize = 200;
const TCP_INFO_BYTES: usize = 256;
/// Its first byte: TCP_CLOSE and TCP_LISTEN (net/tcp_states.h).
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;

/// How a TCP socket does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// All bytes that it sent since it was connected, those sent again too.
    pub bytes: u64,
    /// All bytes that came to it, read or not.
    pub received: u64,
    /// Bytes that its process has given it and that wait to be sent.
    pub waiting: u32,
    /// It sends nothing yet, or ever: it listens, or is not connected.
    pub apart: bool,
}

/// A process whose sockets can be reached, by one of its threads: all have the same descriptors.
#[derive(Debug)]
pub struct Owner {
    thread: OwnedFd,
    sockets: BTreeMap<u64, i32>,
}

impl Owner {
    /// With the sockets that it has now.
    ///
    /// # Errors
    /// It has ended, or is not to be looked at.
    pub fn new(pid: i32) -> io::Result<Owner> {
        let owner = match sockets(pid) {
            Ok(sockets) if !sockets.is_empty() => {
                return Ok(Owner::by(process::pidfd(pid)?, sockets));
            }
            told => told,
        };
        // The first thread has none any more when it has ended; others may.
        match survivor(pid) {
            Some(tid) => Ok(Owner::by(process::threadfd(tid)?, sockets(tid)?)),
            None => Ok(Owner::by(process::pidfd(pid)?, owner?)),
        }
    }

    fn by(thread: OwnedFd, sockets: BTreeMap<u64, i32>) -> Owner {
        Owner { thread, sockets }
    }

    /// Its sockets: the number of each in the kernel (inode), and by which descriptor it has it.
    pub fn sockets(&self) -> &BTreeMap<u64, i32> {
        &self.sockets
    }

    /// Paces a socket, and tells how it does. None: it is no TCP socket, and cannot be paced.
    ///
    /// # Errors
    /// The descriptor is closed by now, or the process is not ours to look into.
    pub fn pace(&self, descriptor: i32, bytes_a_second: u64) -> io::Result<Option<Sent>> {
        let socket = process::descriptor_of(self.thread.as_fd(), descriptor)?;
        let Some(sent) = sent(socket.as_fd()) else {
            return Ok(None);
        };
        pace(socket.as_fd(), bytes_a_second)?;
        Ok(Some(sent))
    }

    /// How a socket does. None: it is no TCP socket.
    ///
    /// # Errors
    /// As [`Owner::pace`].
    pub fn look(&self, descriptor: i32) -> io::Result<Option<Sent>> {
        let socket = process::descriptor_of(self.thread.as_fd(), descriptor)?;
        Ok(sent(socket.as_fd()))
    }

    /// How many bytes may come to a TCP socket before they are read; the kernel has a least (a few packets), and may
    /// widen it later.
    ///
    /// # Errors
    /// As [`Owner::pace`], or it is no TCP socket.
    pub fn bound_window(&self, descriptor: i32, bytes: u32) -> io::Result<()> {
        let socket = process::descriptor_of(self.thread.as_fd(), descriptor)?;
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        // SAFETY: the pointer and the length are those of the live local `bytes`; rustix has no wrapper for this option.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_WINDOW_CLAMP,
                (&raw const bytes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Those of a thread.
fn sockets(tid: i32) -> io::Result<BTreeMap<u64, i32>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(place(tid).join("fd"))?.flatten() {
        let Ok(link) = fs::read_link(entry.path()) else {
            continue;
        };
        let inode = link
            .to_str()
            .and_then(|link| link.strip_prefix("socket:["))
            .and_then(|link| link.strip_suffix(']'))
            .and_then(|inode| inode.parse().ok());
        let number = entry.file_name();
        let number = number.to_str().and_then(|number| number.parse().ok());
        if let (Some(inode), Some(number)) = (inode, number) {
            all.insert(inode, number);
        }
    }
    Ok(all)
}

/// The most that a socket sends, bytes a second; sockets that it accepts have the same.
pub fn pace(socket: BorrowedFd<'_>, bytes_a_second: u64) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of the live local `bytes_a_second`; rustix has no wrapper for this
    // option.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_a_second).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// None: no TCP socket.
fn sent(socket: BorrowedFd<'_>) -> Option<Sent> {
    let mut info = [0_u8; TCP_INFO_BYTES];
    let mut length = TCP_INFO_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which are those of the live local `info`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return None;
    }
    // What an older kernel does not tell stays 0.
    let apart = matches!(info[0], CLOSE | LISTEN);
    let waiting = info.get(NOTSENT_BYTES_AT..NOTSENT_BYTES_AT + 4)?;
    let bytes = info.get(BYTES_SENT_AT..BYTES_SENT_AT + 8)?;
    let received = info.get(BYTES_RECEIVED_AT..BYTES_RECEIVED_AT + 8)?;
    Some(Sent {
        bytes: u64::from_ne_bytes(bytes.try_into().ok()?),
        received: u64::from_ne_bytes(received.try_into().ok()?),
        waiting: u32::from_ne_bytes(waiting.try_into().ok()?),
        apart,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_tcp_socket_is_paced_from_outside_and_tells_what_it_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let owner = Owner::new(std::process::id() as i32).unwrap();
        let sockets = owner.sockets();
        let number = near.as_raw_fd();
        assert!(sockets.values().any(|descriptor| *descriptor == number));
        near.write_all(&[7; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        let sent = owner.pace(number, 1_000_000).unwrap().unwrap();
        assert_eq!((sent.bytes, sent.waiting, sent.received), (1000, 0, 0));
        let came = owner.look(far.as_raw_fd()).unwrap().unwrap();
        assert_eq!((came.bytes, came.received), (0, 1000));
        assert!(!owner.pace(number, UNPACED).unwrap().unwrap().apart);
        let listener = owner.pace(listener.as_raw_fd(), UNPACED).unwrap();
        assert!(listener.unwrap().apart);
    }

    #[test]
    fn no_more_comes_to_a_socket_that_is_not_read_than_its_window() {
        let owner = Owner::new(std::process::id() as i32).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let window = 100_000;
        owner.bound_window(far.as_raw_fd(), window).unwrap();
        near.set_nonblocking(true).unwrap();
        // What was told to be free before stays free: one window, of 64 KiB at first.
        let most = u64::from(window) + (1 << 16);
        let begun = std::time::Instant::now();
        while near.write(&[7; 4096]).is_ok() && begun.elapsed().as_secs() < 60 {}
        let came = owner.look(far.as_raw_fd()).unwrap().unwrap();
        assert!(came.received <= most, "{came:?}");
        assert!(owner.bound_window(i32::MAX, window).is_err());
    }

    #[test]
    fn what_is_no_tcp_socket_is_told_apart() {
        let owner = Owner::new(std::process::id() as i32).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(owner.pace(udp.as_raw_fd(), 1).unwrap(), None);
        assert_eq!(owner.look(udp.as_raw_fd()).unwrap(), None);
        assert!(owner.pace(i32::MAX, 1).is_err());
    }
}
