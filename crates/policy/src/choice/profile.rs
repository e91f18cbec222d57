//! What a program does that mechanisms charge for (spec/policy, P81). Pure.

use crate::types::MechanismKind;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a profile comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// Nothing is known of the program: a small one is assumed.
    #[default]
    Nothing,
    /// Its file was looked at; numbers are those of a small program.
    Looked,
    /// An earlier run was counted.
    Past,
    /// It was run to be counted (`kumiko sandbox profile`).
    Counted,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Known::Nothing => "nothing is known of the program",
            Known::Looked => "its file was looked at",
            Known::Past => "an earlier run was counted",
            Known::Counted => "it was run to be counted",
        })
    }
}

/// The work of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub known: Known,
    /// Files opened to be read.
    pub opens: u64,
    /// Files looked at by name: stat, access, readlink.
    pub looks: u64,
    /// Other calls that name things.
    pub answers: u64,
    /// All other calls, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u64>,
    /// Processes made (threads are none), besides the first.
    pub processes: u64,
    /// Programs executed, besides the first.
    pub execs: u64,
    /// How many processes there were when a call was made, on the average of all calls.
    pub at_once: u64,
    /// Calls go through a C library that was mapped as such: under `library` they can be answered in the guest.
    pub by_library: bool,
    /// Of the run that was counted, under this mechanism.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under: Option<MechanismKind>,
    /// Of that run, from the start to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_us: Option<u64>,
    /// Of that run, of all processes in user mode: a mechanism takes next to nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_us: Option<u64>,
}

impl Default for Profile {
    /// No work at all, by a C library.
    fn default() -> Profile {
        Profile {
            known: Known::Nothing,
            opens: 0,
            looks: 0,
            answers: 0,
            passed: None,
            processes: 0,
            execs: 0,
            at_once: 1,
            by_library: true,
            under: None,
            wall_us: None,
            user_us: None,
        }
    }
}

impl Profile {
    /// Of a program of which no run is known: a few libraries, a few files.
    pub fn assumed(known: Known, by_library: bool) -> Profile {
        Profile {
            known,
            opens: 40,
            looks: 40,
            answers: 10,
            by_library,
            ..Profile::default()
        }
    }

    /// Calls that name things.
    pub fn named(&self) -> u64 {
        let all = [self.opens, self.looks, self.answers];
        all.into_iter().fold(0, u64::saturating_add)
    }
}
