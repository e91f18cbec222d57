//! Messages between processes of one machine that may carry a descriptor: SOCK_SEQPACKET pairs with SCM_RIGHTS
//! (unix(7)). Nothing waits: a full or empty socket is `WouldBlock`, and whoever has it polls.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// One end of a pair.
#[derive(Debug)]
pub struct Packets(OwnedFd);

/// What came.
#[derive(Debug)]
pub enum Packet {
    /// This many bytes of the buffer, and the descriptor that came with them.
    Message(usize, Option<OwnedFd>),
    /// The other end is closed (or sent a message of no bytes, which looks the same).
    End,
}

impl Packets {
    /// Two ends, of which each hears what the other sends.
    pub fn pair() -> io::Result<(Packets, Packets)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Packets(one), Packets(other)))
    }

    /// Takes over a descriptor that another process has given.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Packets> {
        let kind = rustix::net::sockopt::socket_type(&fd)?;
        if kind != SocketType::SEQPACKET {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a socket of messages",
            ));
        }
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Packets(fd))
    }

    /// Sends one message, with a descriptor or without.
    pub fn send(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.map(|fd| [fd]);
        if let Some(descriptors) = &descriptors {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags)? {
            sent if sent == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()), // SEQPACKET sends all or nothing
        }
    }

    /// Takes the next message. One longer than `buffer`, or with more than one descriptor, is `InvalidData`.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Packet> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        self.take(buffer, &mut control)
    }

    /// As [`Packets::receive`] from one who is not believed: what comes with a message is not even opened here.
    pub fn receive_bytes(&self, buffer: &mut [u8]) -> io::Result<Packet> {
        self.take(buffer, &mut RecvAncillaryBuffer::default())
    }

    fn take(&self, buffer: &mut [u8], control: &mut RecvAncillaryBuffer<'_>) -> io::Result<Packet> {
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], control, flags)?;
        let mut descriptor = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                // Those beyond the first are closed as they are dropped.
                descriptor = descriptors.into_iter().next();
            }
        }
        if got
            .flags
            .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message is longer than any, or carries what none does",
            ));
        }
        match got.bytes {
            0 => Ok(Packet::End),
            bytes => Ok(Packet::Message(bytes, descriptor)),
        }
    }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Packets {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl From<Packets> for OwnedFd {
    fn from(packets: Packets) -> OwnedFd {
        packets.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_message_carries_a_descriptor() {
        let (ours, theirs) = Packets::pair().unwrap();
        let (mut one, other) = UnixStream::pair().unwrap();
        ours.send(b"take this", Some(other.as_fd())).unwrap();
        ours.send(b"and this", None).unwrap();
        drop(other);
        let mut buffer = [0; 16];
        let Packet::Message(9, Some(descriptor)) = theirs.receive(&mut buffer).unwrap() else {
            panic!("no descriptor came");
        };
        assert_eq!(&buffer[..9], b"take this");
        let mut other = UnixStream::from(descriptor);
        other.write_all(b"hello").unwrap();
        let mut heard = [0; 5];
        one.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        assert!(matches!(
            theirs.receive(&mut buffer),
            Ok(Packet::Message(8, None))
        ));
        let error = theirs.receive(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(ours);
        assert!(matches!(theirs.receive(&mut buffer), Ok(Packet::End)));
    }

    #[test]
    fn what_is_too_long_or_carries_too_much_is_refused_and_the_next_is_heard() {
        let (ours, theirs) = Packets::pair().unwrap();
        let mut buffer = [0; 8];
        ours.send(&[7; 9], None).unwrap();
        ours.send(b"x", Some(ours.as_fd())).unwrap();
        ours.send(b"good", None).unwrap();
        for _ in 0..2 {
            let error = theirs.receive_bytes(&mut buffer).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        assert!(matches!(
            theirs.receive_bytes(&mut buffer),
            Ok(Packet::Message(4, None))
        ));
    }

    #[test]
    fn only_a_socket_of_messages_is_taken_over() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(Packets::from_fd(one.into()).is_err());
    }
}
