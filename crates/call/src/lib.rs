//! Meaning of GridRPC calls (ring 0, spec/rpc): a call lives from its invocation until its caller has its one result, through
//! the death of everything in between. No I/O, no clock, no runtime: times come in as arguments, effects go out as values.
//!
//! An [`event::Event`] is a fact; [`ledger::Ledger::apply`] makes the next state of it; [`decide::decide`] says what a state asks to
//! be done; [`respond`] says which events follow from what a client, a host or the clock says. Recovery is replay.
//! [`client`] is the other end of the conversation. Not here: bytes on the wire, arguments, choice of servers and hosts.

pub mod call;
pub mod client;
pub mod decide;
pub mod event;
pub mod held;
pub mod id;
pub mod ledger;
pub mod message;
pub mod needs;
pub mod respond;
