//! Event log, actions, recovery.
