//! Expressions and orders: whatever people type, the answer is a filter that can be printed, or a place in the text.
#![no_main]

use kumiko_directory::{Filter, expr};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match expr::parse(text) {
        Ok(expression) => assert!(
            Filter::parse(&expression.filter.to_string()).is_ok(),
            "{text:?}"
        ),
        Err(error) => assert!(error.column <= text.chars().count() + 1),
    }
    let _ = expr::parse_rank(text);
});
