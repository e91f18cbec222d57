//! The library that goes into guests of the mechanism `library`, seen from the supervisor: what of it the filter lets
//! through ([`made_inside`]), what it is given ([`Given`]), how it arrives in a program ([`Arrivals`]). Its code is
//! kumiko-preload's; a call that it does not answer is answered as under `notify` (supervised/). spec/policy P21.

mod arrivals;
mod contents;

pub(crate) use arrivals::{Arrivals, forget};
pub(crate) use contents::Given;

use kumiko_linux::cell::Filter;
use kumiko_preload::{head, layout};

/// What the library asks the kernel in a guest's place, from the one instruction that it has for it. None of it changes
/// a file: it opens by structures alone that lie in its sealed pages.
const INSIDE: [&str; 5] = ["newfstatat", "statx", "faccessat2", "readlinkat", "getcwd"];

pub(crate) fn made_inside(filter: Filter, number: impl Fn(&str) -> i64) -> Filter {
    const HOW: u32 = 2;
    let gate = head(layout::HEAD_GATE);
    let hows = head(layout::HEAD_HOWS)..head(layout::HEAD_HOWS_END);
    let filter = filter.made_at(number("openat2"), gate, Some((HOW, hows)));
    INSIDE.into_iter().fold(filter, |filter, name| {
        filter.made_at(number(name), gate, None)
    })
}
