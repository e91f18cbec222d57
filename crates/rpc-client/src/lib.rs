//! The caller's end of GridRPC (ring 2, spec/rpc P40 to P57): arguments are put together as a routine's signature says, sent in
//! blocks, and the one result is fetched, over whatever happens to link and site in between.
//!
//! Not here: sessions (kumiko-client), files and printing (the command), the interfaces for C (capi) and Python (python).

mod answer;
mod arguments;
mod calls;
mod carrier;
mod contact;
mod conversation;
mod elsewhere;
mod error;
mod failing;
mod functions;
mod names;
mod notes;
mod spare;
mod stages;
mod staging;
mod streams;
mod taken;
mod told;

pub use answer::{Answer, Scratch};
pub use arguments::{
    Argument, Arguments, Carried, Content, Lender, heads, pack, pick, place_back, plan, unpack,
};
pub use calls::{Calls, Offered, Settings};
pub use carrier::Carrier;
pub use contact::{Contact, ContactError, durability, home};
pub use error::RpcError;
pub use failing::Failing;
pub use functions::Question;
pub use notes::{Note, NoteError, Notes, call_id};
pub use stages::{Moved, Stage, Stages, Took};
pub use staging::{Place, Recipient, Target, Texts, texts};
pub use told::{Told, told};
