//! Results on stdout, in the form asked for; everything else goes to stderr.

use crate::args::Format;
use serde::Serialize;
use std::io::{self, Write};

/// As `println!`, for a program that does not panic when its disk is full: the failure is a value.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        writeln!(std::io::stdout(), $($text)*)
    }};
}
pub(crate) use say;

/// A result that can be shown to people; its JSON form is its serialisation.
pub trait Show: Serialize {
    fn human(&self) -> String;
}

/// Prints one result.
pub fn one<T: Show>(format: Format, result: &T) -> io::Result<()> {
    many_inner(format, std::slice::from_ref(result), false)
}

/// Prints a list: a JSON array, a JSON document a line, or a line each for people.
pub fn many<T: Show>(format: Format, results: &[T]) -> io::Result<()> {
    many_inner(format, results, true)
}

fn many_inner<T: Show>(format: Format, results: &[T], list: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match format {
        Format::Human => results
            .iter()
            .try_for_each(|r| writeln!(out, "{}", r.human().trim_end())),
        Format::Lines => results
            .iter()
            .try_for_each(|r| writeln!(out, "{}", serde_json::to_string(r)?)),
        Format::Json if list => writeln!(out, "{}", serde_json::to_string_pretty(results)?),
        Format::Json => results
            .iter()
            .try_for_each(|r| writeln!(out, "{}", serde_json::to_string_pretty(r)?)),
    }?;
    out.flush()
}

/// Aligns columns for people; the last column is not padded.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, width) in cells.zip(&widths) {
            text.push_str(&format!("{cell:<width$}  "));
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut header.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}
