//! A program's memory before and after its death, by real files and the kernel's own word on what was written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumikockpt::{BadState, Every, FAILURES, Library, Own};
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

const BYTES: usize = 300_001;

fn begin(path: &Path) -> Library<Own> {
    // SAFETY: what the tests name lives as long as the library, and one thread writes to it.
    let memory = unsafe { Own::new() };
    let mut library = Library::begin(path, FAILURES, memory).unwrap();
    library.every(Every::Fixed(Duration::ZERO));
    library
}

fn range(of: &mut [u8]) -> Range<usize> {
    let range = of.as_mut_ptr_range();
    range.start as usize..range.end as usize
}

/// The same numbers each time (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % most
    }
}

#[test]
fn a_program_that_dies_again_and_again_finds_what_it_had_at_its_last_safe_point() {
    let folder = tempfile::tempdir().unwrap();
    let mut chance = Chance(7);
    let (mut expected, mut points) = ((vec![0u8; BYTES], vec![0u8; 100]), 0);
    for life in 0..6 {
        let (mut big, mut small) = (vec![0u8; BYTES], vec![0u8; 100]);
        let mut library = begin(folder.path());
        library.state("big", range(&mut big)).unwrap();
        library.state("small", range(&mut small)).unwrap();
        let resumed = library.resume().unwrap();
        assert_eq!(resumed, points, "life {life}");
        assert!((&big, &small) == (&expected.0, &expected.1), "life {life}");
        // The first one is that which was resumed at.
        if points > 0 {
            library.point().unwrap();
        }
        for _ in 0..chance.below(40) {
            for _ in 0..chance.below(5) {
                let (at, value) = (chance.below(BYTES - 10), chance.below(256));
                big[at..at + chance.below(9)].fill(u8::try_from(value).unwrap());
            }
            small[chance.below(100)] += 1;
            library.point().unwrap();
            points += 1;
            expected = (big.clone(), small.clone());
        }
        if points > 0 && !library.watches() {
            eprintln!("SKIP pages that were written: missing write protection by userfaultfd");
        }
        // Written, and never safe.
        big[0] = 255;
        library.end();
        let lying = std::fs::read_dir(folder.path()).unwrap().count();
        assert!(lying <= 2 * (17 + 1) + 1, "{lying} files");
        let bytes: u64 = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|one| one.unwrap().metadata().unwrap().len())
            .sum();
        assert!(bytes < 8 * BYTES as u64, "{bytes} bytes");
    }
    assert!(points > 50, "{points}");
}

/// As it is after so many steps, each of which writes to ten places, or to each page.
fn step(memory: &mut [u8], number: u64, all: bool) {
    let mut chance = Chance(number + 1);
    for _ in 0..10 {
        memory[chance.below(BIG_BYTES)] = u8::try_from(number % 251).unwrap();
    }
    if all {
        for page in memory.chunks_mut(4096) {
            page[0] = page[0].wrapping_add(1);
        }
    }
}

const BIG_BYTES: usize = 16 << 20;

#[test]
fn a_whole_is_of_one_safe_point_though_the_program_writes_to_its_memory_while_that_is_written() {
    for all in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (mut expected, mut expected_steps) = (vec![0u8; BIG_BYTES], 0);
        for life in 0..3 {
            let mut memory = vec![0u8; BIG_BYTES + 1];
            // Its ends share their pages with other things.
            let memory = &mut memory[1..];
            let mut steps = [0u8; 8];
            let mut library = begin(folder.path());
            library.every(Every::Fixed(Duration::from_millis(1)));
            library.state("memory", range(memory)).unwrap();
            library.state("steps", range(&mut steps)).unwrap();
            let before = library.resume().unwrap();
            let first = u64::from_le_bytes(steps);
            assert!((life > 0) == (first > 0), "{life} {first}");
            while expected_steps < first {
                step(&mut expected, expected_steps, all);
                expected_steps += 1;
            }
            assert!(
                memory == &expected[..],
                "all {all}, life {life}: not as after {first} steps"
            );
            let whole = || {
                let entries = std::fs::read_dir(folder.path()).unwrap();
                let names = entries.map(|one| one.unwrap().file_name().into_string().unwrap());
                let number = |name: String| name.strip_suffix(".whole")?.parse::<u64>().ok();
                names.filter_map(number).max() > Some(before)
            };
            let mut after = 0;
            while after < 5 {
                let number = u64::from_le_bytes(steps);
                assert!(
                    number < first + 10_000,
                    "all {all}, life {life}: no whole is made"
                );
                step(memory, number, all);
                steps = (number + 1).to_le_bytes();
                library.point().unwrap();
                std::thread::sleep(Duration::from_millis(1));
                after += u32::from(whole());
            }
            library.end();
        }
    }
}

#[test]
fn what_cannot_be_named_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut memory = vec![0u8; 100];
    let mut library = begin(folder.path());
    let Range { start, end } = range(&mut memory);
    library.state("a", start..end).unwrap();
    let mut check = |name: &str, range, expected| {
        assert_eq!(library.state(name, range), Err(expected), "{name}");
    };
    check("a", end..end, BadState::Name);
    check("", end..end, BadState::Name);
    check(&"n".repeat(256), end..end, BadState::Name);
    check("b", start + 99..end + 1, BadState::Overlap);
    library.point().unwrap();
    assert_eq!(library.state("b", end..end), Err(BadState::Late));
}

#[test]
fn checkpoints_of_another_program_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut memory = vec![7u8; 100];
    let mut library = begin(folder.path());
    library.state("a", range(&mut memory)).unwrap();
    library.point().unwrap();
    library.end();
    let mut other = vec![0u8; 101];
    let mut library = begin(folder.path());
    library.state("a", range(&mut other)).unwrap();
    assert_eq!(library.resume().unwrap(), 0);
    other[0] = 1;
    library.point().unwrap();
    assert_eq!(other.iter().map(|one| u64::from(*one)).sum::<u64>(), 1);
}

/// Both ways, made if need be, empty if the program begins: as `fopen(path, "w+")` opens.
const NEW: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

/// One life of a program that tells each step in a file: which step it begins at. What stands behind the last checkpoint is to go.
fn tell_steps(folder: &Path, path: &Path, steps: u64) -> (u64, Library<Own>, File) {
    let mut library = begin(folder);
    let mut file = library.open("trace", path, NEW).unwrap();
    let resumed = library.resume().unwrap();
    for step in resumed.saturating_sub(1)..resumed.saturating_sub(1) + steps {
        library.point().unwrap();
        writeln!(file, "step {step}").unwrap();
    }
    (resumed, library, file)
}

fn lines(steps: u64) -> String {
    (0..steps).map(|step| format!("step {step}\n")).collect()
}

#[test]
fn a_file_goes_on_as_it_was_at_the_checkpoint_also_where_it_has_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let (ckpt, first) = (folder.path().join("ckpt"), folder.path().join("first"));
    // What lay there before the program began is not its own.
    std::fs::write(&first, "older").unwrap();
    let (resumed, ..) = tell_steps(&ckpt, &first, 5);
    assert_eq!(resumed, 0);
    assert_eq!(std::fs::read_to_string(&first).unwrap(), lines(5));
    // The checkpoint is of before the fifth line.
    let (resumed, _, mut zombie) = tell_steps(&ckpt, &first, 3);
    assert_eq!(resumed, 5);
    assert_eq!(std::fs::read_to_string(&first).unwrap(), lines(7));
    let second = folder.path().join("second");
    let (resumed, library, file) = tell_steps(&ckpt, &second, 2);
    assert_eq!(resumed, 7);
    // Who was before writes to its own.
    zombie.write_all(b"late").unwrap();
    assert_eq!(std::fs::read_to_string(&second).unwrap(), lines(8));
    drop((library, file));
    std::fs::remove_file(&second).unwrap();
    let (resumed, ..) = tell_steps(&ckpt, &first, 2);
    assert_eq!(resumed, 8);
    assert_eq!(std::fs::read_to_string(&first).unwrap(), lines(9));
}

#[test]
fn a_file_is_read_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (ckpt, path) = (folder.path().join("ckpt"), folder.path().join("in"));
    std::fs::write(&path, "abcdef").unwrap();
    for flags in [libc::O_RDONLY, libc::O_RDWR] {
        for expected in b"abc" {
            let mut library = begin(&ckpt.join(flags.to_string()));
            let mut file = library.open("in", &path, flags).unwrap();
            library.resume().unwrap();
            // The first one is that which was resumed at.
            library.point().unwrap();
            let mut got = [0];
            file.read_exact(&mut got).unwrap();
            assert_eq!(got, [*expected], "{flags}");
            library.point().unwrap();
        }
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "abcdef");
}

#[test]
fn what_says_that_a_file_was_longer_than_it_is_is_no_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let (ckpt, path) = (folder.path().join("ckpt"), folder.path().join("trace"));
    let (_, library, file) = tell_steps(&ckpt, &path, 9);
    drop(library);
    // Of nine lines seven are left, and a half: eight was the last one's.
    file.set_len(7 * 7 + 3).unwrap();
    let (resumed, ..) = tell_steps(&ckpt, &path, 1);
    assert_eq!(resumed, 8);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), lines(8));
    std::fs::write(&path, "").unwrap();
    let (resumed, ..) = tell_steps(&ckpt, &path, 1);
    assert_eq!(resumed, 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), lines(1));
}

#[test]
fn files_that_cannot_be_named_or_set_back_are_refused_and_are_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, "kept").unwrap();
    let mut library = begin(&folder.path().join("ckpt"));
    for name in ["", "a/b", &"n".repeat(201)] {
        let refused = library.open(name, &path, NEW).unwrap_err();
        assert_eq!(refused.to_string(), BadState::Name.to_string(), "{name}");
    }
    let missing = library
        .open("trace", &folder.path().join("none/x"), NEW)
        .unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let refused = library
        .open("trace", Path::new("/dev/null"), libc::O_RDWR)
        .unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    library.open("trace", &path, NEW).unwrap();
    assert!(library.open("trace", &path, NEW).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    library.point().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    assert!(library.open("late", &path, NEW).is_err());
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_made_up_for_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ckpt");
    let mut memory = vec![0u8; BYTES];
    let mut library = begin(&path);
    library.state("a", range(&mut memory)).unwrap();
    library.point().unwrap();
    memory[1000] = 1;
    // A folder where the new file is to be.
    std::fs::create_dir_all(path.join("new/inside")).unwrap();
    library.point().unwrap();
    assert!(!path.join("2.part").exists() && !path.join("2.whole").exists());
    std::fs::remove_dir_all(path.join("new")).unwrap();
    memory[200_000] = 2;
    library.point().unwrap();
    library.end();
    let mut again = vec![0u8; BYTES];
    let mut library = begin(&path);
    library.state("a", range(&mut again)).unwrap();
    assert_eq!(library.resume().unwrap(), 2);
    assert!(again == memory);
}
