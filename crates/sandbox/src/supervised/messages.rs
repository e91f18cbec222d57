//! What a guest sends with an address, or with data beside it, where addresses are held to rules (spec/policy P61): read
//! once, looked at, and then sent with the words that were looked at: by us, or by the guest from memory that it cannot
//! change. Not in it: what is sent over a connection, which was looked at when it was made.

use super::caller::Caller;
use super::serve::{Outcome, nr};
use super::sockets;
use kumiko_linux::supervise::{Call, Errno, calls, memory, sockets as kernel};
use kumiko_policy::reaches;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// struct msghdr, and with a count struct mmsghdr (sendmsg(2), sendmmsg(2)).
const HEADER_BYTES: usize = 56;
/// UIO_MAXIOV.
const MOST_PARTS: u64 = 1024;
/// Of data beside a message: a header and what comes with it fit into a thread's sealed words.
const MOST_CONTROL: usize = 2048;
/// Sent at once in a guest's place: a datagram is smaller; of a stream, the rest is for the guest to send.
const MOST_BYTES: usize = 4 << 20;
/// MSG_DONTWAIT, MSG_NOSIGNAL.
const DO_NOT_WAIT: i32 = 0x40;
const NO_SIGNAL: i32 = 0x4000;

/// A message as it was read.
#[derive(Debug)]
pub(super) struct Message {
    address: Vec<u8>,
    control: Vec<u8>,
    /// Pointer and count of struct iovec, of the guest; None: the one part that stands in the registers.
    parts: Option<(u64, u64)>,
    flags: i32,
    /// Where the count of bytes goes that were sent (sendmmsg).
    count_at: Option<u64>,
}

/// Reads the message of sendto(2), sendmsg(2) or sendmmsg(2): of more than one, the first. None: there is none.
pub(super) fn wanted(caller: &Caller<'_>) -> Result<Option<Message>, Errno> {
    let message = match caller.call.number {
        nr::SENDTO => Message {
            address: sockets::address(caller, caller.word(4), caller.int(5))?,
            control: Vec::new(),
            parts: None,
            flags: caller.int(3),
            count_at: None,
        },
        nr::SENDMSG => header(caller, caller.word(1), caller.int(2))?,
        _ if caller.int(2) == 0 => return Ok(None),
        _ => Message {
            count_at: Some(caller.word(1).wrapping_add(HEADER_BYTES as u64)),
            ..header(caller, caller.word(1), caller.int(3))?
        },
    };
    let asked = sockets::internet_sent_to(&message.address);
    if asked.is_some_and(|asked| !reaches(caller.view.reach(), asked).reached) {
        return Err(Errno::EACCES);
    }
    let mut beside = headers(&message.control)?.into_iter();
    if !beside.all(|(_, _, level, kind)| is_harmless(level, kind)) {
        return Err(Errno::EPERM);
    }
    Ok(Some(message))
}

fn header(caller: &Caller<'_>, at: u64, flags: i32) -> Result<Message, Errno> {
    let mut bytes = [0; HEADER_BYTES];
    memory::read(caller.tid, at, &mut bytes)?;
    let word = |index: usize| {
        let word = bytes.get(index * 8..index * 8 + 8);
        u64::from_ne_bytes(word.and_then(|word| word.try_into().ok()).unwrap_or([0; 8]))
    };
    let (name, parts, count, control, length) = (word(0), word(2), word(3), word(4), word(5));
    if count > MOST_PARTS {
        return Err(Errno::EMSGSIZE);
    }
    let mut beside = Vec::new();
    if control != 0 && length != 0 {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= MOST_CONTROL);
        beside.resize(length.ok_or(Errno::ENOBUFS)?, 0);
        memory::read(caller.tid, control, &mut beside)?;
    }
    Ok(Message {
        address: match name {
            0 => Vec::new(),
            _ => sockets::address(caller, name, word(1) as i32)?,
        },
        control: beside,
        parts: Some((parts, count)),
        flags,
        count_at: None,
    })
}

/// Where each header of control data begins, its length, level and kind (cmsg(3)).
fn headers(control: &[u8]) -> Result<Vec<(usize, usize, i32, i32)>, Errno> {
    const HEADER: usize = 16;
    let mut found = Vec::new();
    let mut at = 0;
    while at + HEADER <= control.len() {
        let part = |offset: usize, count: usize| control.get(at + offset..at + offset + count);
        let half = |offset| {
            let half = part(offset, 4).and_then(|half| half.try_into().ok());
            i32::from_ne_bytes(half.unwrap_or_default())
        };
        let length = part(0, 8).and_then(|word| word.try_into().ok());
        let length = usize::try_from(u64::from_ne_bytes(length.unwrap_or_default()));
        let length = length.map_err(|_| Errno::EINVAL)?;
        if length < HEADER || length > control.len() - at {
            return Err(Errno::EINVAL);
        }
        found.push((at, length, half(8), half(12)));
        at = at.saturating_add(length.next_multiple_of(8));
    }
    Ok(found)
}

/// Nothing that leads a message elsewhere: what else there may be (options and routes of IP) is not known to be so.
fn is_harmless(level: i32, kind: i32) -> bool {
    const SOCKET: i32 = 1;
    const IP: i32 = 0;
    const IPV6: i32 = 41;
    const UDP: i32 = 17;
    match level {
        SOCKET | UDP => true,
        // IP_TOS, IP_TTL, IP_PKTINFO.
        IP => matches!(kind, 1 | 2 | 8),
        // Of old and new: PKTINFO, HOPLIMIT; DONTFRAG, TCLASS.
        IPV6 => matches!(kind, 2 | 8 | 50 | 52 | 62 | 67),
        _ => false,
    }
}

const SOCKET_LEVEL: i32 = 1;
/// SCM_RIGHTS, SCM_CREDENTIALS.
const RIGHTS: i32 = 1;
const CREDENTIALS: i32 = 2;

impl Message {
    /// Sends it in the guest's place.
    pub(super) fn sent(self, caller: &Caller<'_>) -> Result<Outcome, Errno> {
        let socket = calls::descriptor_of(caller.tid, caller.int(0))?;
        let stream = kernel::is_stream(socket.as_fd());
        let bytes = self.bytes(caller, stream)?;
        let (control, descriptors) = ours(caller.tid, &self.control)?;
        let waits = self.flags & DO_NOT_WAIT == 0 && kernel::is_blocking(socket.as_fd());
        let tid = caller.tid;
        let send = move || {
            let sent = kernel::send(socket.as_fd(), &bytes, self.flags, &self.address, &control);
            drop(descriptors);
            if stream && self.flags & NO_SIGNAL == 0 && sent == Err(Errno::EPIPE) {
                kernel::signal_broken_pipe(tid);
            }
            self.counted(tid, sent?).map(Outcome::Value)
        };
        if waits {
            return Ok(Outcome::Slow(Box::new(send)));
        }
        send()
    }

    fn counted(&self, tid: i32, sent: i64) -> Result<i64, Errno> {
        match self.count_at {
            None => Ok(sent),
            Some(at) => {
                memory::write(tid, at, &(sent as u32).to_ne_bytes())?;
                Ok(1)
            }
        }
    }

    fn bytes(&self, caller: &Caller<'_>, stream: bool) -> Result<Vec<u8>, Errno> {
        let mut parts = Vec::new();
        match self.parts {
            None => parts.push((caller.word(1), caller.word(2))),
            Some((at, count)) => {
                let mut words = vec![0; (count * 16) as usize]; // at most MOST_PARTS
                memory::read(caller.tid, at, &mut words)?;
                for pair in words.chunks_exact(16) {
                    let (begin, length) = pair.split_at(8);
                    let word = |word: &[u8]| word.try_into().map_or(0, u64::from_ne_bytes);
                    parts.push((word(begin), word(length)));
                }
            }
        }
        let mut bytes = Vec::new();
        for (at, length) in parts {
            let left = MOST_BYTES - bytes.len();
            let count = usize::try_from(length).map_err(|_| Errno::EINVAL)?;
            if count > left && !stream {
                return Err(Errno::EMSGSIZE);
            }
            let begin = bytes.len();
            bytes.resize(begin + count.min(left), 0);
            memory::read(caller.tid, at, bytes.get_mut(begin..).unwrap_or_default())?;
        }
        Ok(bytes)
    }

    /// The call that the guest is to make, `put` having its words put where it cannot change them; and where the count
    /// goes that it returns.
    pub(super) fn instead(
        &self,
        caller: &Caller<'_>,
        address: u64,
        put: impl FnOnce(&[u8]) -> Result<u64, Errno>,
    ) -> Result<(Call, Option<u64>), Errno> {
        let Some((parts, count)) = self.parts else {
            let mut call = caller.call;
            let at = put(&self.address)?;
            call.arguments[4] = at;
            call.arguments[5] = self.address.len() as u64;
            return Ok((call, None));
        };
        let name = address + HEADER_BYTES as u64;
        let beside = (name + self.address.len() as u64).next_multiple_of(8);
        let given = |at: u64, bytes: &[u8]| if bytes.is_empty() { 0 } else { at };
        let words = [
            given(name, &self.address),
            self.address.len() as u64,
            parts,
            count,
            given(beside, &self.control),
            self.control.len() as u64,
            0,
        ];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        bytes.extend(&self.address);
        bytes.resize((beside - address) as usize, 0);
        bytes.extend(&self.control);
        let at = put(&bytes)?;
        let flags = self.flags as u32 as u64;
        let arguments = [caller.word(0), at, flags, 0, 0, 0];
        let number = nr::SENDMSG;
        Ok((Call { number, arguments }, self.count_at))
    }
}

/// Control data with descriptors of this process in the place of the guest's.
fn ours(tid: i32, control: &[u8]) -> Result<(Vec<u8>, Vec<OwnedFd>), Errno> {
    let (mut bytes, mut kept) = (control.to_vec(), Vec::new());
    for (at, length, level, kind) in headers(control)? {
        if level == SOCKET_LEVEL && kind == CREDENTIALS {
            return Err(Errno::EPERM); // another process's are not ours to give
        }
        if level != SOCKET_LEVEL || kind != RIGHTS {
            continue;
        }
        let numbers = bytes.get_mut(at + 16..at + length).unwrap_or_default();
        for number in numbers.chunks_exact_mut(4) {
            let theirs = i32::from_ne_bytes((&*number).try_into().unwrap_or([0xff; 4]));
            let fd = calls::descriptor_of(tid, theirs)?;
            number.copy_from_slice(&fd.as_raw_fd().to_ne_bytes());
            kept.push(fd);
        }
    }
    Ok((bytes, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(parts: &[(u64, i32, i32, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (length, level, kind, data) in parts {
            bytes.extend(length.to_ne_bytes());
            bytes.extend(level.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*data);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }

    #[test]
    fn headers_of_control_data_are_found_as_the_kernel_finds_them() {
        let two = control(&[(20, 1, 1, &[3, 0, 0, 0]), (17, 0, 2, &[64])]);
        assert_eq!(headers(&two), Ok(vec![(0, 20, 1, 1), (24, 17, 0, 2)]));
        assert_eq!(headers(&[]), Ok(vec![]));
        assert_eq!(headers(&[0; 15]), Ok(vec![]));
        for length in [0, 15, 25, u64::MAX] {
            assert_eq!(
                headers(&control(&[(length, 1, 1, &[0; 8])])),
                Err(Errno::EINVAL)
            );
        }
    }

    #[test]
    fn routes_and_options_are_not_sent_along() {
        for (level, kind, harmless) in [
            (1, RIGHTS, true),
            (17, 103, true), // UDP_SEGMENT
            (0, 8, true),
            (0, 7, false), // IP_RETOPTS
            (41, 50, true),
            (41, 57, false), // IPV6_RTHDR
            (41, 5, false),
            (6, 1, false),
        ] {
            assert_eq!(is_harmless(level, kind), harmless, "{level} {kind}");
        }
    }
}
