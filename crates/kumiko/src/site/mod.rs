//! `kumiko site ...`: start and look after a personal site.

mod control;
mod effective;
mod make;
mod serve;
mod settings;

pub use control::{Throwaway, site};
