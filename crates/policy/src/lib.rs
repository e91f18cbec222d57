//! Sandbox policy (ring 0): what a guest may see and use, apart from how its system calls are reached. spec/policy.

use serde::{Deserialize, Serialize};

/// A policy, parsed and checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {}
