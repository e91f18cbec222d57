//! Folders of checkpoints: whichever file is torn or flipped, what is resumed from is a checkpoint that was made, and the newest that is
//! sound.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_checkpoint::{Block, Head, Kept, Name, State, apply, sum};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io;

type Files = BTreeMap<Name, Vec<u8>>;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn put(files: &mut Files, number: u64, base: Option<u64>, ranges: &[(u64, u64)], memory: &[u8]) {
    let mut blocks: Vec<Block> = ranges
        .iter()
        .flat_map(|(from, to)| Block::cut(0, *from..*to))
        .collect();
    let mut data = Vec::new();
    for block in &mut blocks {
        let from = usize::try_from(block.offset).unwrap();
        let bytes = &memory[from..from + usize::try_from(block.bytes).unwrap()];
        block.sum = sum(bytes);
        data.extend(bytes);
    }
    let head = Head {
        number,
        base,
        points: number,
        states: vec![State {
            name: "m".to_owned(),
            bytes: memory.len() as u64,
        }],
        blocks,
    };
    let file = Name {
        number,
        whole: base.is_none(),
    };
    files.insert(file, [head.to_bytes(), data].concat());
}

fn open(files: &Files, name: Name) -> io::Result<&[u8]> {
    let file = files.get(&name).map(Vec::as_slice);
    file.ok_or(io::ErrorKind::NotFound.into())
}

fn scan(files: &Files) -> Kept {
    Kept::scan(files.keys().copied(), |name| open(files, name))
}

/// The number and the memory that a start would find.
fn found(files: &Files) -> Option<(u64, Vec<u8>)> {
    let kept = scan(files);
    for number in kept.numbers() {
        for chain in kept.chains(number) {
            let mut memory = Vec::new();
            let told = apply(
                &chain,
                |name| open(files, name),
                |head, block, bytes| {
                    memory.resize(usize::try_from(head.states[0].bytes).unwrap(), 0);
                    let from = usize::try_from(block.offset).unwrap();
                    memory[from..from + bytes.len()].copy_from_slice(bytes);
                    Ok(())
                },
            );
            if let Ok(head) = told {
                return Some((head.number, memory));
            }
        }
    }
    None
}

#[test]
fn names_have_one_form() {
    for text in ["7.whole", "8.part", "18446744073709551615.part"] {
        assert_eq!(name(text).to_string(), text);
    }
    for text in [
        "", "7", "0.whole", "07.whole", "+7.part", "7.new", "7.part ", "-1.part", "new",
    ] {
        assert_eq!(Name::parse(text), None, "{text}");
    }
}

#[test]
fn a_part_without_its_base_is_no_checkpoint() {
    let memory = [0; 8];
    let mut files = Files::new();
    put(&mut files, 2, Some(1), &[(0, 4)], &memory);
    put(&mut files, 5, None, &[(0, 8)], &memory);
    put(&mut files, 7, Some(6), &[(0, 4)], &memory);
    assert_eq!(scan(&files).numbers(), [5]);
}

#[test]
fn what_is_made_one_leaves_the_way_by_its_parts() {
    let memory = [0; 8];
    let mut files = Files::new();
    put(&mut files, 1, None, &[(0, 8)], &memory);
    put(&mut files, 2, Some(1), &[(0, 4)], &memory);
    put(&mut files, 3, Some(2), &[(0, 4)], &memory);
    put(&mut files, 3, None, &[(0, 8)], &memory);
    put(&mut files, 4, Some(3), &[(0, 4)], &memory);
    let kept = scan(&files);
    let names = |texts: &[&str]| texts.iter().map(|text| name(text)).collect::<Vec<_>>();
    let short = names(&["3.whole", "4.part"]);
    let long = names(&["1.whole", "2.part", "3.part", "4.part"]);
    assert_eq!(kept.chains(4), [short, long]);
    assert_eq!(kept.parts(), (1, 4));
    assert_eq!(kept.may_go(), []);
    put(&mut files, 4, None, &[(0, 8)], &memory);
    let gone = names(&["1.whole", "2.part", "3.part"]);
    assert_eq!(scan(&files).may_go(), gone);
}

proptest! {
    #[test]
    fn whatever_happens_to_the_newest_files_a_sound_state_is_found(
        steps in prop::collection::vec((any::<bool>(), 0u64..64, 1u64..64), 1..20),
        harm in prop::collection::vec((0usize..3, any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let mut files = Files::new();
        let mut memory = vec![0u8; 64];
        let mut made = BTreeMap::new();
        for (number, (whole, from, bytes)) in (1u64..).zip(&steps) {
            let to = (from + bytes).min(64);
            for at in *from..to {
                memory[usize::try_from(at).unwrap()] = u8::try_from(number).unwrap();
            }
            match *whole || number == 1 {
                true => put(&mut files, number, None, &[(0, 64)], &memory),
                false => put(&mut files, number, Some(number - 1), &[(*from, to)], &memory),
            }
            made.insert(number, memory.clone());
            for name in scan(&files).may_go() {
                files.remove(&name);
            }
        }
        let last = steps.len() as u64;
        prop_assert_eq!(found(&files), Some((last, memory)));
        // Of the two generations, the newest files come to harm.
        let wholes: Vec<Name> = files.keys().filter(|name| name.whole).copied().collect();
        let newest: Vec<Name> = files.keys().rev().take(3).copied().collect();
        for (which, at, bit) in &harm {
            let Some(name) = newest.get(*which) else { continue };
            let Some(bytes) = files.get_mut(name) else { continue };
            let at = at.index(bytes.len());
            match bit {
                0 => bytes.truncate(at),
                bit => bytes[at] ^= bit,
            }
        }
        match found(&files) {
            Some((number, memory)) => prop_assert_eq!(Some(&memory), made.get(&number)),
            // Then a whole was among what was harmed.
            None => prop_assert!(wholes.iter().all(|whole| newest.contains(whole))),
        }
    }
}
