//! What guests on all hosts do alike (spec/jobs/mpi.md, N22, N23, N27): the file by which the first is found, whole messages on
//! a connection, the list of networks. Not here: who says what when.

use kumiko_wire::meeting::{Message, decode, encode};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

const READ_BYTES: usize = 16 * 1024;
/// A peer that takes nothing for so long is as one that is gone; what it is sent fits the kernel's buffers.
const SENT_WITHIN: Duration = Duration::from_secs(10);
/// How often is looked for the first host's file: it is nearly always there before anybody looks, and nothing tells of files
/// that another host has made.
const LOOK: Duration = Duration::from_millis(20);
const FIRST: &str = "first";
/// As the variable of that name has it, for what is launched in the place of ssh: an address with its port, and the secret.
pub const VARIABLE: &str = "KUMIKO_HOSTS";

/// Where the first host listens, and what shows that a caller is of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    pub port: u16,
    pub secret: String,
}

impl Door {
    pub fn publish(&self, meeting: &Path) -> io::Result<()> {
        std::fs::create_dir_all(meeting)?;
        let new = meeting.join("first.new");
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(true).write(true).mode(0o600);
        writeln!(options.open(&new)?, "{} {}", self.port, self.secret)?;
        std::fs::rename(new, meeting.join(FIRST))
    }

    /// Waits for it as long as it takes: the first may be held, and ends all of the job if it does not come up.
    pub fn find(meeting: &Path) -> io::Result<Door> {
        loop {
            match std::fs::read_to_string(meeting.join(FIRST)) {
                Ok(text) => return Door::read(&text).ok_or(ErrorKind::InvalidData.into()),
                Err(error) if error.kind() == ErrorKind::NotFound => std::thread::sleep(LOOK),
                Err(error) => return Err(error),
            }
        }
    }

    fn read(text: &str) -> Option<Door> {
        let (port, secret) = text.trim_end().split_once(' ')?;
        let port = port.parse().ok()?;
        let secret = secret.to_owned();
        Some(Door { port, secret })
    }
}

/// 128 bits that nobody guesses.
pub fn secret() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub fn send(mut to: &TcpStream, message: &Message) -> io::Result<()> {
    let mut bytes = Vec::new();
    encode(message, &mut bytes);
    to.set_write_timeout(Some(SENT_WITHIN))?;
    to.write_all(&bytes)
}

/// Waits for the next message, of which `incoming` may hold a part.
pub fn hear(from: &TcpStream, incoming: &mut Vec<u8>) -> io::Result<Message> {
    loop {
        if let Some(message) = taken(incoming)? {
            return Ok(message);
        }
        if !more(from, incoming)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The first message of what came, taken out.
pub fn taken(incoming: &mut Vec<u8>) -> io::Result<Option<Message>> {
    let decoded =
        decode(incoming).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    Ok(decoded.map(|(message, length)| {
        incoming.drain(..length);
        message
    }))
}

/// Takes what has come, or waits for some; false: there comes no more.
pub fn more(mut from: &TcpStream, incoming: &mut Vec<u8>) -> io::Result<bool> {
    let mut bytes = [0; READ_BYTES];
    loop {
        match from.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            count => {
                let count = count?;
                incoming.extend_from_slice(&bytes[..count]);
                return Ok(count > 0);
            }
        }
    }
}

/// MPICH's UCX uses the networks that it finds listed, as links, at a place that was made for that. Elsewhere it is the host's own.
pub fn list_networks(place: &str) {
    let networks = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    for (name, _) in networks.lines().filter_map(|line| line.split_once(':')) {
        let link = Path::new(place).join(name.trim());
        let _ = std::os::unix::fs::symlink(".", link); // listed already, or not to be
    }
}

#[cfg(test)]
mod tests {
    use super::Door;

    #[test]
    fn the_first_hosts_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let meeting = folder.path().join("of/it");
        let secret = super::secret().unwrap();
        let door = Door { port: 7, secret };
        door.publish(&meeting).unwrap();
        assert_eq!(Door::find(&meeting).unwrap(), door);
        std::fs::write(meeting.join("first"), "no port").unwrap();
        assert!(Door::find(&meeting).is_err());
    }
}
