//! The BatchSystem contract's implementations.
