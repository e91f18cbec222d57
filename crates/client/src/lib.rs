//! The user's side of a gatekeeper: connect, submit, watch, attach.
