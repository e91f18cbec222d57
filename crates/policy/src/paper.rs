//! The notation of the 2003 paper, figure 2 (P2, P3).

use crate::error::{PolicyError, Problem};
use crate::types::Policy;

pub fn parse_paper(text: &str, source: &str) -> Result<Policy, PolicyError> {
    let _ = text;
    Err(PolicyError {
        source_name: source.to_owned(),
        line: 1,
        column: 1,
        problem: Problem::KindMissing,
    })
}
