//! Calls on a guest's sockets, made in its place on a copy of its descriptor. The kernel checks what an address says.

use super::errno::{Errno, check};
use std::os::fd::{AsRawFd, BorrowedFd};

pub fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> Result<i64, Errno> {
    // SAFETY: a live buffer with its length, as in the calls below.
    let done = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            address.as_ptr().cast(),
            address.len() as u32,
        )
    };
    check(done.into())
}

pub fn bind(socket: BorrowedFd<'_>, address: &[u8]) -> Result<i64, Errno> {
    // SAFETY: as above.
    let done = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            address.as_ptr().cast(),
            address.len() as u32,
        )
    };
    check(done.into())
}

/// sendmsg(2) of these bytes, without a signal. `address` and `control` may be empty.
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    flags: i32,
    address: &[u8],
    control: &[u8],
) -> Result<i64, Errno> {
    // A header of control data begins at a multiple of eight.
    let mut aligned = vec![0u64; control.len().div_ceil(8)];
    for (word, bytes) in aligned.iter_mut().zip(control.chunks(8)) {
        let mut whole = [0; 8];
        whole
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        *word = u64::from_ne_bytes(whole);
    }
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all zeros is an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if !address.is_empty() {
        message.msg_name = address.as_ptr().cast_mut().cast();
        message.msg_namelen = address.len() as u32;
    }
    if !control.is_empty() {
        message.msg_control = aligned.as_mut_ptr().cast();
        message.msg_controllen = control.len();
    }
    // SAFETY: everything that the message points at is live, and only read.
    let sent = unsafe {
        libc::sendmsg(
            socket.as_raw_fd(),
            &raw const message,
            flags | libc::MSG_NOSIGNAL,
        )
    };
    check(sent as libc::c_long)
}

/// Does it wait rather than fail?
pub fn is_blocking(socket: BorrowedFd<'_>) -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_GETFL) & libc::O_NONBLOCK == 0 }
}

/// Is what is sent a stream, with no bounds in it?
pub fn is_stream(socket: BorrowedFd<'_>) -> bool {
    let mut kind: libc::c_int = 0;
    let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: a live local and its size.
    let told = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TYPE,
            (&raw mut kind).cast(),
            &raw mut bytes,
        )
    };
    told == 0 && kind == libc::SOCK_STREAM
}

/// As the kernel does to who sends where nobody reads any more.
pub fn signal_broken_pipe(tid: i32) {
    // SAFETY: plain numbers. A thread that is gone needs none.
    unsafe { libc::syscall(libc::SYS_tkill, tid, libc::SIGPIPE) };
}
