//! The information service (spec/info).
