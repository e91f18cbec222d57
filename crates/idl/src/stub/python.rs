//! Routines in Python (spec/idl I58): the text of the program that makes their programs. Not here: who runs it.

use std::fmt::Write;

const GENERATOR: &str = include_str!("python/gen.py");
/// What goes into each program beside the routine's own file.
const SOURCES: [(&str, &str); 2] = [
    // What the package calls so declares routines too, where there is no site.
    (
        "kumiko.py",
        include_str!("../../../../bindings/python/kumiko/_routine.py"),
    ),
    ("kumiko_serve.py", include_str!("python/kumiko_serve.py")),
];

/// For `python -`, which reads it from its standard input. Its arguments: the file, and the folder of the programs or nothing; it prints JSON, of each routine its `signature`
/// in IDL and, if it was made, its `program`.
pub fn python_generator() -> String {
    let mut out = "SOURCES = {".to_owned();
    for (name, text) in SOURCES {
        // Writing to a String cannot fail.
        let _ = write!(out, "{}: {}, ", literal(name), literal(text));
    }
    out.push_str("}\n");
    out.push_str(GENERATOR);
    out
}

fn literal(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
