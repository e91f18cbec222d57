//! Which mechanism carries out a policy at the least cost (spec/policy, P80 to P87): what each of them costs on a machine
//! ([`Calibration`]), what a program does ([`Profile`]), what stands in a mechanism's way ([`Hindrance`]), and the table
//! that follows ([`table`]), of which the first row is the pick. The 2003 paper's table 4, recomputed for each machine.
//!
//! Not in it: measuring, counting, files (kumiko-sandbox).

mod costs;
mod profile;
mod table;
mod text;

pub use costs::{CROWD, Calibration, Costs};
pub use profile::{Known, Profile};
pub use table::{Answer, Candidate, Hindrance, Requirement, Row, table};
pub use text::{MAX_MEASURED_BYTES, MeasuredError};
