//! The ranks of one site of an MPI program over several (spec/jobs/mpi.md, N31), as a guest: MPICH's proxy, whose connection to its
//! launcher is this program's stdin and stdout. Not here: the launcher, and the way to it.

use super::NETWORKS;
use super::meeting;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("usage: PROXY ARGUMENT...")]
    Misuse,
    #[error("cannot listen for MPICH's proxy: {0}")]
    Listen(io::Error),
    #[error("cannot start {program}: {cause}")]
    Start { program: String, cause: io::Error },
    #[error("cannot wait for {program}: {cause}")]
    Wait { program: String, cause: io::Error },
}

/// Its exit status.
pub fn run(words: &[String]) -> Result<u8, ProxyError> {
    let [program, arguments @ ..] = words else {
        return Err(ProxyError::Misuse);
    };
    meeting::list_networks(NETWORKS);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(ProxyError::Listen)?;
    let own = listener.local_addr().map_err(ProxyError::Listen)?;
    let mut proxy = Command::new(program);
    proxy.args(["--control-port", &own.to_string()]);
    proxy.args(arguments).stdin(Stdio::null());
    // What it has to say goes its own way: stdout is the connection.
    let said = io::stderr();
    proxy.stdout(said);
    let failed = |cause| ProxyError::Start {
        program: program.clone(),
        cause,
    };
    let mut proxy = proxy.spawn().map_err(failed)?;
    let down = Arc::new(Mutex::new(None));
    {
        let down = Arc::clone(&down);
        std::thread::spawn(move || join(&listener, own, &down));
    }
    let ended = proxy.wait().map_err(|cause| ProxyError::Wait {
        program: program.clone(),
        cause,
    })?;
    // What it said last is on its way still.
    let down = down.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(down) = down {
        let down: JoinHandle<()> = down;
        let _ = down.join();
    }
    let number = ended.code().or(ended.signal().map(|signal| 128 + signal));
    Ok(number.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The one connection, to and fro.
fn join(listener: &TcpListener, own: SocketAddr, down: &Mutex<Option<JoinHandle<()>>>) {
    let link = match from_ourselves(listener, own) {
        Ok(link) => link,
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "kumiko: whose connection it is cannot be told: {error}"
            );
            return;
        }
    };
    let Ok(back) = link.try_clone() else {
        return;
    };
    let pump = std::thread::spawn(move || pass(&link, io::stdout().lock()));
    *down.lock().unwrap_or_else(PoisonError::into_inner) = Some(pump);
    pass(io::stdin().lock(), &back);
    // The launcher is gone: so the proxy ends its ranks, and itself.
    let _ = back.shutdown(Shutdown::Write);
}

/// Of all who may connect to the loopback, one of our own account.
fn from_ourselves(listener: &TcpListener, own: SocketAddr) -> io::Result<TcpStream> {
    loop {
        let (link, peer) = listener.accept()?;
        let sockets = std::fs::read_to_string("/proc/net/tcp")?;
        let uid = std::fs::metadata("/proc/self")?.uid();
        if owner(&sockets, peer, own) == Some(uid) {
            link.set_nodelay(true)?;
            return Ok(link);
        }
        let _ = writeln!(io::stderr(), "kumiko: somebody else called at {own}");
    }
}

/// Whose a connected socket of the loopback is (proc_net(5), tcp). None: it is not listed.
fn owner(sockets: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let shown = |address: SocketAddr| match address.ip() {
        std::net::IpAddr::V4(ip) => {
            let ip = u32::from_ne_bytes(ip.octets());
            format!("{ip:08X}:{:04X}", address.port())
        }
        std::net::IpAddr::V6(_) => String::new(),
    };
    let (from, to) = (shown(from), shown(to));
    sockets.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_it = fields.next() == Some(&from) && fields.next() == Some(&to);
        is_it.then(|| fields.nth(4)?.parse().ok()).flatten()
    })
}

fn pass(mut from: impl Read, mut to: impl Write) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(count) => {
                let passed = to.write_all(&piece[..count]).and_then(|()| to.flush());
                if passed.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_the_loopback_has_the_owner_that_is_listed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = listener.local_addr().unwrap();
        let _ours = TcpStream::connect(own).unwrap();
        assert!(from_ourselves(&listener, own).is_ok());
        let listed = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                      1: 0100007F:1F90 0100007F:0016 01 00000000:00000000 00:00000000 00000000  1000        0 7 1\n";
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        assert_eq!(owner(listed, at(0x1f90), at(22)), Some(1000));
        assert_eq!(owner(listed, at(22), at(0x1f90)), None);
        assert_eq!(owner("", at(22), at(22)), None);
    }
}
