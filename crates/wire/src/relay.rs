//! What a front tells an agent before it relays a connection to it (spec/monitor, M8): what the peer showed and
//! asked for, nothing that the front concluded from it. Not in it: sockets, certificates beyond their bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Of a whole preface without its length: twice what a stranger may send before it is known who it is.
pub const PREFACE_MOST_BYTES: usize = 128 * 1024;
/// Bytes of the length that a preface begins with.
pub const LENGTH_BYTES: usize = 4;
/// A chain of more is refused by TLS already.
pub const CERTIFICATES_MOST: usize = 32;

const FAMILY_V4: u8 = 4;
const FAMILY_V6: u8 = 6;

/// What a connection is for, as its ALPN says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Door {
    /// `kumiko/1`
    Session = 1,
    /// `http/1.1`
    Http1 = 2,
    /// `h2`
    Http2 = 3,
    /// No ALPN: GRAM as GT2 and GCT speak it.
    Gram = 4,
}

/// Of a connection whose TLS ends in the front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preface {
    pub door: Door,
    pub peer: SocketAddr,
    /// DER, the shown certificate first.
    pub chain: Vec<Bytes>,
}

/// Why a preface was refused; the front is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefaceError {
    #[error("a preface of {bytes} bytes is over {PREFACE_MOST_BYTES}")]
    TooLong { bytes: usize },
    #[error("a preface ends before its {what}")]
    Short { what: &'static str },
    #[error("a preface has {bytes} bytes too many")]
    Trailing { bytes: usize },
    #[error("there is no door {0}")]
    Door(u8),
    #[error("there is no family of addresses {0}")]
    Family(u8),
    #[error("a chain of {0} certificates: 1 to {CERTIFICATES_MOST} are taken")]
    Certificates(usize),
    #[error("a certificate of no bytes")]
    EmptyCertificate,
}

impl Preface {
    /// With its length before it. A chain too long for a preface is refused by whoever decodes it.
    pub fn encode(&self) -> BytesMut {
        let mut body = BytesMut::new();
        body.put_u8(self.door as u8);
        match self.peer.ip() {
            IpAddr::V4(ip) => {
                body.put_u8(FAMILY_V4);
                body.put_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                body.put_u8(FAMILY_V6);
                body.put_slice(&ip.octets());
            }
        }
        body.put_u16_le(self.peer.port());
        body.put_u8(u8::try_from(self.chain.len()).unwrap_or(u8::MAX));
        for certificate in &self.chain {
            body.put_u32_le(length(certificate.len()));
            body.put_slice(certificate);
        }
        let mut whole = BytesMut::with_capacity(LENGTH_BYTES + body.len());
        whole.put_u32_le(length(body.len()));
        whole.put_slice(&body);
        whole
    }

    /// How many bytes follow the length.
    pub fn length(prefix: [u8; LENGTH_BYTES]) -> Result<usize, PrefaceError> {
        let bytes = u32::from_le_bytes(prefix) as usize;
        match bytes > PREFACE_MOST_BYTES {
            true => Err(PrefaceError::TooLong { bytes }),
            false => Ok(bytes),
        }
    }

    /// Reads what follows the length.
    pub fn decode(mut body: Bytes) -> Result<Preface, PrefaceError> {
        if body.len() > PREFACE_MOST_BYTES {
            return Err(PrefaceError::TooLong { bytes: body.len() });
        }
        let door = match body.try_get_u8().map_err(short("door"))? {
            1 => Door::Session,
            2 => Door::Http1,
            3 => Door::Http2,
            4 => Door::Gram,
            other => return Err(PrefaceError::Door(other)),
        };
        let ip = match body.try_get_u8().map_err(short("address"))? {
            FAMILY_V4 => {
                let ip = body.try_get_u32().map_err(short("address"))?;
                IpAddr::V4(Ipv4Addr::from_bits(ip))
            }
            FAMILY_V6 => {
                let ip = body.try_get_u128().map_err(short("address"))?;
                IpAddr::V6(Ipv6Addr::from_bits(ip))
            }
            other => return Err(PrefaceError::Family(other)),
        };
        let port = body.try_get_u16_le().map_err(short("port"))?;
        let count = usize::from(body.try_get_u8().map_err(short("chain"))?);
        if count == 0 || count > CERTIFICATES_MOST {
            return Err(PrefaceError::Certificates(count));
        }
        let mut chain = Vec::with_capacity(count);
        for _ in 0..count {
            let bytes = body.try_get_u32_le().map_err(short("chain"))? as usize;
            if bytes == 0 {
                return Err(PrefaceError::EmptyCertificate);
            }
            if bytes > body.len() {
                return Err(PrefaceError::Short { what: "chain" });
            }
            chain.push(body.split_to(bytes));
        }
        match body.len() {
            0 => Ok(Preface {
                door,
                peer: SocketAddr::new(ip, port),
                chain,
            }),
            bytes => Err(PrefaceError::Trailing { bytes }),
        }
    }
}

fn short<E>(what: &'static str) -> impl FnOnce(E) -> PrefaceError {
    move |_| PrefaceError::Short { what }
}

/// A length beyond u32 is beyond every limit, and refused as such.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
