//! Options of TCP sockets (tcp(7)) that std does not set. Not here: the sockets themselves.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What the kernel has taken cannot be overtaken by a smaller message any more; below this it asks for more.
pub const NOTSENT_LOWAT_BYTES: u32 = 128 * 1024;
/// Silence after which the kernel asks whether the peer lives.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// Sent and not acknowledged for so long, or not read for so long: the peer is gone. (The kernel counts a closed window
/// too, so this is as long as a person may stop a pager.)
const USER_TIMEOUT_MS: u32 = 600_000;

/// Makes a connection answer at once, hold little unsent, and notice a peer that is gone.
///
/// # Errors
/// The kernel's, for a descriptor that is no TCP socket.
pub fn tune(socket: impl AsFd) -> io::Result<()> {
    use rustix::net::sockopt;
    let fd = socket.as_fd();
    sockopt::set_tcp_nodelay(fd, true)?;
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(fd, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(fd, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(fd, USER_TIMEOUT_MS)?;
    // SAFETY: the pointer and the length are those of the live local `value`; rustix has no wrapper for this option.
    let result = unsafe {
        let value = NOTSENT_LOWAT_BYTES;
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has the kernel acknowledge at once what has come, once: to be asked for again after each read (TCP_QUICKACK, tcp(7)).
/// For peers that hold small pieces back until the last is acknowledged.
///
/// # Errors
/// The kernel's, for a descriptor that is no TCP socket.
pub fn acknowledge_at_once(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_quickack(socket, true)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tcp_socket_can_be_tuned_and_another_file_cannot() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        super::tune(&socket).unwrap();
        assert!(socket.nodelay().unwrap());
        assert!(super::tune(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
