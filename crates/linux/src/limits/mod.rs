//! What limits of a whole job are kept with, from outside of it and without any right: which processes there are
//! ([`tasks`]), what they use ([`usage`]), the pace of their sockets ([`pacing`]), bounds of each of them ([`bounds`]),
//! and, where this account may make one, a control group that counts them ([`group`]).
//! [`shared`] is memory that a job keeps a rate by itself with. Not here: what is allowed (kumiko-policy), when to do what about it (kumiko-sandbox).

pub mod bounds;
pub mod group;
pub mod pacing;
pub mod shared;
pub mod tasks;
pub mod usage;
