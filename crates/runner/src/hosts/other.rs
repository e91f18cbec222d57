//! On another host of an MPI program than the first (spec/jobs/mpi.md, N23), as a guest: it runs what the launcher has it run.
//! And what the launcher calls for that on the first host, in the place of ssh.

use super::NETWORKS;
use super::meeting::{self, Door, VARIABLE};
use kumiko_linux::tcp;
use kumiko_wire::meeting::Message;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// The first host listens before it says where; a network that is busy takes a while.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// As much of what a command wrote goes with its failure: its last lines say why.
const SAID_BYTES: u64 = 16 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum OtherError {
    #[error("usage: MEETING NUMBER OWN FIRST")]
    Misuse,
    #[error("cannot find where the first host of this job listens: {0}")]
    NotFound(io::Error),
    #[error("the first host of this job, {first}, cannot be told what it has to be: {cause}")]
    First { first: SocketAddr, cause: io::Error },
    #[error("the first host of this job has said what it never says")]
    Unexpected,
    #[error("cannot run what the launcher asks for: {0}")]
    Command(io::Error),
    #[error("usage: [OPTION] ADDRESS COMMAND..., by the launcher of a job of several hosts")]
    LaunchMisuse,
}

/// The status of the command, which its caller has been told.
pub fn run(words: &[String]) -> Result<u8, OtherError> {
    let [place, number, own, first] = words else {
        return Err(OtherError::Misuse);
    };
    let number: u32 = number.parse().map_err(|_| OtherError::Misuse)?;
    let own: IpAddr = own.parse().map_err(|_| OtherError::Misuse)?;
    let first: IpAddr = first.parse().map_err(|_| OtherError::Misuse)?;
    meeting::list_networks(NETWORKS);
    let place = Path::new(place);
    let Door { port, secret } = Door::find(place).map_err(OtherError::NotFound)?;
    let at = SocketAddr::from((first, port));
    let lost = |cause| OtherError::First { first: at, cause };
    let here = Message::Here {
        secret,
        number,
        own,
        first,
    };
    let stream = call(at, &here).map_err(lost)?;
    let Message::Run { command } = meeting::hear(&stream, &mut Vec::new()).map_err(lost)? else {
        return Err(OtherError::Unexpected);
    };
    let log = place.join(format!("{number}.log"));
    let (status, said) = shell(command, &log).map_err(OtherError::Command)?;
    meeting::send(&stream, &Message::Ended { status, said }).map_err(lost)?;
    Ok(status)
}

/// In the place of ssh: it ends when the command has, by its status, which MPICH's launcher from 4.2 on and Open MPI's 5 go by.
pub fn launch(words: &[OsString]) -> Result<u8, OtherError> {
    let is_option = |word: &&OsString| word.as_bytes().starts_with(b"-");
    let options = words.iter().take_while(is_option).count();
    let Some(([address], command)) = words
        .get(options..)
        .and_then(|rest| rest.split_at_checked(1))
    else {
        return Err(OtherError::LaunchMisuse);
    };
    let parsed = || {
        let address: IpAddr = address.to_str()?.parse().ok()?;
        let hosts = std::env::var(VARIABLE).ok()?;
        let (at, secret) = hosts.split_once(' ')?;
        Some((address, at.parse().ok()?, secret.to_owned()))
    };
    let (address, at, secret) = parsed().ok_or(OtherError::LaunchMisuse)?;
    // As ssh has it: one command for a shell.
    let command = command.join(OsStr::new(" ")).into_vec();
    let asked = Message::Launch {
        secret,
        address,
        command,
    };
    let answered = call(at, &asked).and_then(|hub| meeting::hear(&hub, &mut Vec::new()));
    match answered.map_err(|cause| OtherError::First { first: at, cause })? {
        Message::Ended { status, said } => {
            if !said.is_empty() {
                let said = String::from_utf8_lossy(&said);
                let _ = writeln!(io::stderr(), "kumiko: {said}");
            }
            Ok(status)
        }
        _ => Err(OtherError::Unexpected),
    }
}

fn call(at: SocketAddr, message: &Message) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&at, CONNECT_WITHIN)?;
    tcp::tune(&stream)?;
    meeting::send(&stream, message)?;
    Ok(stream)
}

/// Its status as a shell tells it, and the end of what it wrote if that is not 0.
fn shell(command: Vec<u8>, log: &Path) -> io::Result<(u8, Vec<u8>)> {
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(true).read(true).write(true);
    let mut log = options.mode(0o600).open(log)?;
    let (out, err) = (log.try_clone()?, log.try_clone()?);
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(OsString::from_vec(command));
    let status = shell
        .stdout(Stdio::from(out))
        .stderr(Stdio::from(err))
        .status()?;
    let status = code(status);
    let said = match status {
        0 => Vec::new(),
        _ => end_of(&mut log)?,
    };
    Ok((status, said))
}

fn code(status: ExitStatus) -> u8 {
    let number = status.code().or(status.signal().map(|signal| 128 + signal));
    number
        .and_then(|number| u8::try_from(number).ok())
        .unwrap_or(1)
}

fn end_of(log: &mut File) -> io::Result<Vec<u8>> {
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(SAID_BYTES)))?;
    let mut said = Vec::new();
    log.take(SAID_BYTES).read_to_end(&mut said)?;
    Ok(said)
}
