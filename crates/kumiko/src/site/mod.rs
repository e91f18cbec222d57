//! `kumiko site ...`: start and look after a site, a personal one or one for many accounts.

mod calls;
mod capacity;
mod control;
mod demo;
mod drained;
mod edited;
mod effective;
mod fetch;
mod gram;
mod gridftp;
mod landing;
mod make;
pub mod many;
mod organisations;
pub mod pilots;
mod serve;
pub mod settings;
mod staging;
pub mod told;

pub use calls::registry;
pub use control::{site, which};
pub use demo::Throwaway;
pub use make::make;
pub use serve::{end_asked, is_served};
