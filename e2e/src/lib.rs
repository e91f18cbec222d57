//! Black-box scenarios.
