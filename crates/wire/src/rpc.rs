//! The conversation of GridRPC on one stream of a session (spec/rpc P50 to P57): messages to bytes and back. What they mean is
//! `kumiko-call`'s. Not here: the frames that carry them, and what stands in the arguments.

use bytes::{BufMut, Bytes, BytesMut};
use kumiko_call::event::{Failure, Invocation, Recorded};
use kumiko_call::id::CallId;
use kumiko_call::message::{FromClient, Status};
use kumiko_job::contract::Refusal;

/// Kinds of messages (P51, P52).
pub mod kind {
    pub const REGISTER: u8 = 0x40;
    pub const SIGNATURE: u8 = 0x41;
    pub const INVOKE: u8 = 0x42;
    pub const BLOCK: u8 = 0x43;
    pub const ASK: u8 = 0x44;
    pub const FETCH: u8 = 0x45;
    pub const ACKNOWLEDGE: u8 = 0x46;
    pub const CANCEL: u8 = 0x47;
    pub const RECORD: u8 = 0x48;
    pub const SAID: u8 = 0x49;
    pub const MIGRATE: u8 = 0x4a;
    pub const REGISTERED: u8 = 0x60;
    pub const ROUTINE: u8 = 0x61;
    pub const STATUS: u8 = 0x62;
    pub const PART: u8 = 0x63;
    pub const REFUSED: u8 = 0x64;
    pub const RECORDED: u8 = 0x65;
    pub const ASKS: u8 = 0x66;
}

/// How much of a client's calls outlives what (P50).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The site's process: nothing is written that need not be.
    None,
    /// The record outlives the machine, arguments and results the site.
    Record,
    /// All of it outlives the machine.
    Full,
    /// The same of what takes a second or more, or is large; the rest is as with `None` (P15).
    #[default]
    Auto,
}

impl Durability {
    pub const ALL: [Durability; 4] = [
        Durability::None,
        Durability::Record,
        Durability::Full,
        Durability::Auto,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Record => "record",
            Durability::Full => "full",
            Durability::Auto => "auto",
        }
    }

    fn byte(self) -> u8 {
        match self {
            Durability::None => 0,
            Durability::Record => 1,
            Durability::Full => 2,
            Durability::Auto => 3,
        }
    }
}

/// From a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToSite {
    Register {
        durability: Durability,
    },
    /// What a routine takes and gives; the empty name: what all do.
    Signature {
        routine: String,
    },
    /// What is recorded of a call.
    Record {
        call: CallId,
    },
    /// What the caller's function gives back; the answer to [`FromSite::Asks`].
    Said {
        call: CallId,
        epoch: u32,
        number: u64,
        data: Bytes,
    },
    /// Of a call; `data` is the block's.
    Call {
        message: FromClient,
        data: Bytes,
    },
}

/// From a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromSite {
    Registered {
        client: u64,
    },
    /// A signature as text (spec/idl I30), and, where all were asked for, whether its processes may be dumped (P85). After all of them one that is empty.
    Routine {
        dumped: bool,
        signature: String,
    },
    Status {
        call: CallId,
        status: Status,
    },
    Part {
        call: CallId,
        number: u64,
        data: Bytes,
    },
    Refused {
        call: Option<CallId>,
        refusal: Refusal,
    },
    /// The routine wants its caller's function, which is the formal of this number, to do its work.
    Asks {
        call: CallId,
        epoch: u32,
        number: u64,
        formal: u64,
        data: Bytes,
    },
    /// One event of the call. After all of them one that is none.
    Recorded {
        call: CallId,
        one: Option<Recorded>,
    },
}

/// Why a message was refused. The peer is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    #[error("a message of kind {kind:#04x} is unknown here")]
    Kind { kind: u8 },
    #[error("a message of kind {kind:#04x} ends before its {field}")]
    Short { kind: u8, field: &'static str },
    #[error("a message of kind {kind:#04x} has {extra} bytes after its last field")]
    Extra { kind: u8, extra: usize },
    #[error("the {field} of a message of kind {kind:#04x} is out of range")]
    Value { kind: u8, field: &'static str },
}

/// A message in two pieces, so that a block is not copied to stand behind its header.
pub type Pieces = (u8, [Bytes; 2]);

fn head(fields: &[u64]) -> BytesMut {
    let mut out = BytesMut::with_capacity(fields.len() * 8 + 64);
    fields.iter().for_each(|field| out.put_u64_le(*field));
    out
}

fn one(kind: u8, out: BytesMut) -> Pieces {
    (kind, [out.freeze(), Bytes::new()])
}

impl ToSite {
    pub fn encode(self) -> Pieces {
        let of = |kind, call: CallId, more: &[u64]| {
            let mut out = head(&[call.client, call.sequence]);
            more.iter().for_each(|field| out.put_u64_le(*field));
            (kind, out)
        };
        let (message, data) = match self {
            ToSite::Register { durability } => {
                let byte = Bytes::copy_from_slice(&[durability.byte()]);
                return (kind::REGISTER, [byte, Bytes::new()]);
            }
            ToSite::Signature { routine } => {
                return (kind::SIGNATURE, [Bytes::from(routine), Bytes::new()]);
            }
            ToSite::Said {
                call,
                epoch,
                number,
                data,
            } => {
                let (kind, mut out) = of(kind::SAID, call, &[]);
                out.put_u32_le(epoch);
                out.put_u64_le(number);
                return (kind, [out.freeze(), data]);
            }
            ToSite::Record { call } => {
                let (kind, out) = of(kind::RECORD, call, &[]);
                return one(kind, out);
            }
            ToSite::Call { message, data } => (message, data),
        };
        let (kind, out) = match message {
            // A number is asked for by `ToSite::Register`, which also says how durable calls are.
            FromClient::Register { .. } => (kind::REGISTER, BytesMut::from(&[2u8][..])),
            FromClient::Invoke {
                call,
                first_open,
                invocation,
            } => {
                let fields = [
                    first_open,
                    invocation.in_bytes,
                    invocation.block_bytes,
                    invocation.keep_ms,
                ];
                let (kind, mut out) = of(kind::INVOKE, call, &fields);
                out.put_slice(invocation.routine.as_bytes());
                (kind, out)
            }
            FromClient::Block { call, number } => {
                let (kind, out) = of(kind::BLOCK, call, &[number]);
                return (kind, [out.freeze(), data]);
            }
            FromClient::Ask { call } => of(kind::ASK, call, &[]),
            FromClient::Fetch { call, number } => of(kind::FETCH, call, &[number]),
            FromClient::Acknowledge { call } => of(kind::ACKNOWLEDGE, call, &[]),
            FromClient::Cancel { call } => of(kind::CANCEL, call, &[]),
            FromClient::Migrate { call, epoch, to } => {
                let (kind, mut out) = of(kind::MIGRATE, call, &[]);
                out.put_u32_le(epoch);
                out.extend_from_slice(to.unwrap_or_default().as_bytes());
                (kind, out)
            }
        };
        one(kind, out)
    }

    /// # Errors
    /// The bytes are no message of a client.
    pub fn decode(kind: u8, data: Bytes) -> Result<ToSite, RpcError> {
        let mut input = Input { kind, data };
        let message = match kind {
            kind::REGISTER => {
                let durability = match input.byte("durability")? {
                    0 => Durability::None,
                    1 => Durability::Record,
                    2 => Durability::Full,
                    3 => Durability::Auto,
                    _ => return Err(input.value("durability")),
                };
                input.end()?;
                return Ok(ToSite::Register { durability });
            }
            kind::SIGNATURE => {
                let routine = input.text("routine")?;
                return Ok(ToSite::Signature { routine });
            }
            kind::SAID => {
                return Ok(ToSite::Said {
                    call: input.call()?,
                    epoch: u32::from_le_bytes(input.take("epoch")?),
                    number: input.number("number")?,
                    data: input.data,
                });
            }
            kind::RECORD => {
                let call = input.call()?;
                input.end()?;
                return Ok(ToSite::Record { call });
            }
            kind::INVOKE => FromClient::Invoke {
                call: input.call()?,
                first_open: input.number("first open call")?,
                invocation: Invocation {
                    in_bytes: input.number("length of arguments")?,
                    block_bytes: input.number("length of a block")?,
                    keep_ms: input.number("time to keep")?,
                    routine: input.text("routine")?,
                },
            },
            kind::BLOCK => {
                let message = FromClient::Block {
                    call: input.call()?,
                    number: input.number("number")?,
                };
                let data = input.data;
                return Ok(ToSite::Call { message, data });
            }
            kind::FETCH => FromClient::Fetch {
                call: input.call()?,
                number: input.number("number")?,
            },
            kind::ASK => FromClient::Ask {
                call: input.call()?,
            },
            kind::ACKNOWLEDGE => FromClient::Acknowledge {
                call: input.call()?,
            },
            kind::CANCEL => FromClient::Cancel {
                call: input.call()?,
            },
            kind::MIGRATE => FromClient::Migrate {
                call: input.call()?,
                epoch: u32::from_le_bytes(input.take("epoch")?),
                to: Some(input.text("host")?).filter(|host| !host.is_empty()),
            },
            kind => return Err(RpcError::Kind { kind }),
        };
        input.end()?;
        let data = Bytes::new();
        Ok(ToSite::Call { message, data })
    }
}

const WANTS: u8 = 0;
const WAITING: u8 = 1;
const COMPUTING: u8 = 2;
const RESULT: u8 = 3;
const FAILED: u8 = 4;
const OVER: u8 = 5;

impl FromSite {
    /// Which call it is about.
    pub fn call(&self) -> Option<CallId> {
        match self {
            FromSite::Registered { .. } | FromSite::Routine { .. } => None,
            FromSite::Refused { call, .. } => *call,
            FromSite::Status { call, .. }
            | FromSite::Part { call, .. }
            | FromSite::Asks { call, .. }
            | FromSite::Recorded { call, .. } => Some(*call),
        }
    }

    pub fn encode(self) -> Pieces {
        match self {
            FromSite::Registered { client } => one(kind::REGISTERED, head(&[client])),
            FromSite::Routine { dumped, signature } => {
                let flag = Bytes::copy_from_slice(&[u8::from(dumped)]);
                (kind::ROUTINE, [flag, Bytes::from(signature)])
            }
            FromSite::Status { call, status } => {
                let mut out = head(&[call.client, call.sequence]);
                put_status(&mut out, &status);
                one(kind::STATUS, out)
            }
            FromSite::Part { call, number, data } => {
                let out = head(&[call.client, call.sequence, number]);
                (kind::PART, [out.freeze(), data])
            }
            FromSite::Refused { call, refusal } => {
                let call = call.unwrap_or(NO_CALL);
                let mut out = head(&[call.client, call.sequence]);
                out.put_slice(&crate::api::json(&refusal));
                one(kind::REFUSED, out)
            }
            FromSite::Asks {
                call,
                epoch,
                number,
                formal,
                data,
            } => {
                let mut out = head(&[call.client, call.sequence]);
                out.put_u32_le(epoch);
                out.put_u64_le(number);
                out.put_u64_le(formal);
                (kind::ASKS, [out.freeze(), data])
            }
            FromSite::Recorded { call, one: event } => {
                let mut out = head(&[call.client, call.sequence]);
                if let Some(event) = &event {
                    out.put_slice(&crate::api::json(event));
                }
                one(kind::RECORDED, out)
            }
        }
    }

    /// # Errors
    /// The bytes are no message of a site.
    pub fn decode(kind: u8, data: Bytes) -> Result<FromSite, RpcError> {
        let mut input = Input { kind, data };
        match kind {
            kind::REGISTERED => {
                let client = input.number("client")?;
                input.end()?;
                Ok(FromSite::Registered { client })
            }
            kind::ROUTINE => Ok(FromSite::Routine {
                dumped: input.flag("mark of dumps")?,
                signature: input.text("signature")?,
            }),
            kind::STATUS => Ok(FromSite::Status {
                call: input.call()?,
                status: input.status()?,
            }),
            kind::PART => Ok(FromSite::Part {
                call: input.call()?,
                number: input.number("number")?,
                data: input.data,
            }),
            kind::REFUSED => {
                let call = input.call()?;
                let refusal = crate::api::reply(&input.data);
                Ok(FromSite::Refused {
                    call: (call != NO_CALL).then_some(call),
                    refusal: refusal.map_err(|_| input.value("refusal"))?,
                })
            }
            kind::ASKS => Ok(FromSite::Asks {
                call: input.call()?,
                epoch: u32::from_le_bytes(input.take("epoch")?),
                number: input.number("number")?,
                formal: input.number("formal")?,
                data: input.data,
            }),
            kind::RECORDED => {
                let call = input.call()?;
                let one = match input.data.is_empty() {
                    true => None,
                    false => {
                        let told = crate::api::reply(&input.data);
                        Some(told.map_err(|_| input.value("event"))?)
                    }
                };
                Ok(FromSite::Recorded { call, one })
            }
            kind => Err(RpcError::Kind { kind }),
        }
    }
}

/// Numbers count from 1: this is none.
const NO_CALL: CallId = CallId {
    client: 0,
    sequence: 0,
};

fn put_status(out: &mut BytesMut, status: &Status) {
    match status {
        Status::Wants { block } => {
            out.put_u8(WANTS);
            out.put_u64_le(*block);
        }
        Status::Waiting => out.put_u8(WAITING),
        Status::Computing {
            epoch,
            started,
            suspect,
        } => {
            out.put_u8(COMPUTING);
            out.put_u32_le(*epoch);
            out.put_u8(u8::from(*started));
            out.put_u8(u8::from(*suspect));
        }
        Status::Result { blocks, out_bytes } => {
            out.put_u8(RESULT);
            out.put_u64_le(*blocks);
            out.put_u64_le(*out_bytes);
        }
        Status::Failed(failure) => {
            out.put_u8(FAILED);
            out.put_slice(&crate::api::json(failure));
        }
        Status::Over { expired } => {
            out.put_u8(OVER);
            out.put_u8(u8::from(*expired));
        }
    }
}

/// What is left of a message.
struct Input {
    kind: u8,
    data: Bytes,
}

impl Input {
    fn value(&self, field: &'static str) -> RpcError {
        let kind = self.kind;
        RpcError::Value { kind, field }
    }

    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RpcError> {
        let short = RpcError::Short {
            kind: self.kind,
            field,
        };
        if self.data.len() < N {
            return Err(short);
        }
        let taken = self.data.split_to(N);
        taken.as_ref().try_into().map_err(|_| short)
    }

    fn byte(&mut self, field: &'static str) -> Result<u8, RpcError> {
        self.take::<1>(field).map(|[byte]| byte)
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, RpcError> {
        match self.byte(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.value(field)),
        }
    }

    fn number(&mut self, field: &'static str) -> Result<u64, RpcError> {
        self.take(field).map(u64::from_le_bytes)
    }

    fn call(&mut self) -> Result<CallId, RpcError> {
        Ok(CallId {
            client: self.number("client")?,
            sequence: self.number("count")?,
        })
    }

    fn text(&mut self, field: &'static str) -> Result<String, RpcError> {
        let bytes = std::mem::take(&mut self.data);
        String::from_utf8(bytes.to_vec()).map_err(|_| self.value(field))
    }

    fn end(&self) -> Result<(), RpcError> {
        match self.data.len() {
            0 => Ok(()),
            extra => Err(RpcError::Extra {
                kind: self.kind,
                extra,
            }),
        }
    }

    fn status(&mut self) -> Result<Status, RpcError> {
        let status = match self.byte("state")? {
            WANTS => Status::Wants {
                block: self.number("block")?,
            },
            WAITING => Status::Waiting,
            COMPUTING => Status::Computing {
                epoch: u32::from_le_bytes(self.take("epoch")?),
                started: self.flag("start")?,
                suspect: self.flag("doubt")?,
            },
            RESULT => Status::Result {
                blocks: self.number("blocks")?,
                out_bytes: self.number("length")?,
            },
            FAILED => {
                let data = std::mem::take(&mut self.data);
                let failure: Result<Failure, _> = crate::api::reply(&data);
                Status::Failed(failure.map_err(|_| self.value("failure"))?)
            }
            OVER => Status::Over {
                expired: self.flag("expiry")?,
            },
            _ => return Err(self.value("state")),
        };
        self.end()?;
        Ok(status)
    }
}
