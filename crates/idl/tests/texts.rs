//! spec/idl I42: arrays of texts, unpacked as a routine's program does it (`texts/harness.c`, with what finds a byte that is read or written beyond
//! its memory). What is no array of texts ends that program with 70, whatever bytes it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_idl::pack_texts;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const REFUSED: &str = "status 70 signal 0";

struct Harness {
    _folder: tempfile::TempDir,
    program: PathBuf,
}

impl Harness {
    fn new() -> Harness {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("harness");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let compiled = Command::new("cc")
            .args([
                "-g",
                "-O1",
                "-fsanitize=address,undefined",
                "-fno-sanitize-recover=all",
            ])
            .arg("-I")
            .arg(here.join("src/stub"))
            .arg("-o")
            .arg(&program)
            .arg(here.join("tests/texts/harness.c"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{said}");
        Harness {
            _folder: folder,
            program,
        }
    }

    /// A line for each case: so many texts in these bytes.
    fn unpack(&self, cases: &[(u64, Vec<u8>)]) -> Vec<String> {
        let mut input = Vec::new();
        for (count, bytes) in cases {
            for number in [*count, bytes.len() as u64, 0] {
                input.extend(number.to_le_bytes());
            }
            input.extend(bytes);
        }
        let mut command = Command::new(&self.program);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        let writing = std::thread::spawn(move || to.write_all(&input));
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap().unwrap();
        assert!(output.status.success(), "{:?}", output.status);
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), cases.len());
        lines
    }
}

fn packed(texts: &[Option<&str>]) -> (u64, Vec<u8>) {
    (texts.len() as u64, pack_texts(texts).unwrap())
}

#[test]
fn texts_come_out_as_they_were_packed_and_what_is_cut_or_goes_beyond_its_end_is_refused() {
    let harness = Harness::new();
    let texts = [Some("one"), None, Some(""), Some("three")];
    let (count, whole) = packed(&texts);
    let mut cases = vec![
        (count, whole.clone()),
        packed(&[None]),
        packed(&[Some("")]),
        // More of them than there are lengths.
        (5, whole.clone()),
        (u64::MAX / 64, whole.clone()),
    ];
    let good = 3;
    // Cut behind each byte.
    cases.extend((0..whole.len()).map(|end| (count, whole[..end].to_vec())));
    // A length that leads elsewhere, by a little and by much.
    for at in [0, 16, 24] {
        for length in [1, 2, 7, 64, u64::MAX / 2, u64::MAX - 1] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&length.to_le_bytes());
            cases.push((count, bytes));
        }
    }
    let lines = harness.unpack(&cases);
    assert_eq!(lines[..good], ["one;-;;three;", "-;", ";"]);
    for (case, line) in cases.iter().zip(&lines).skip(good) {
        assert_eq!(line, REFUSED, "{case:?}");
    }
}

#[test]
fn whatever_the_bytes_are_nothing_beyond_them_is_touched() {
    let harness = Harness::new();
    let text = proptest::option::weighted(0.8, "[a-z]{0,6}");
    let case = proptest::collection::vec(text, 1..6).prop_flat_map(|texts| {
        let texts: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
        let (count, bytes) = packed(&texts);
        let changes = proptest::collection::vec((0..bytes.len(), any::<u8>()), 0..4);
        (Just(count), Just(bytes), changes)
    });
    let mut runner = TestRunner::new(Config::default());
    let mut cases = Vec::new();
    for _ in 0..500 {
        let (count, mut bytes, changes) = case.new_tree(&mut runner).unwrap().current();
        for (at, byte) in changes {
            // A line is a case.
            bytes[at] = if byte == b'\n' { 0 } else { byte };
        }
        cases.push((count, bytes));
    }
    let lines = harness.unpack(&cases);
    let refused = lines.iter().filter(|line| *line == REFUSED).count();
    for (case, line) in cases.iter().zip(&lines) {
        assert!(line == REFUSED || line.ends_with(';'), "{case:?}: {line}");
    }
    assert!(refused > 50 && refused < 450, "{refused} are refused");
}
