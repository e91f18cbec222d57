//! spec/checkpoint: files that are read, and files that are refused, with the reason.
//! `KUMIKO_WRITE_VECTORS=1` writes what is missing, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_checkpoint::{BadCheckpoint, Block, Head, State, sum};
use std::path::Path;

const FOLDER: &str = "../../spec/checkpoint/vectors";

fn vector(kind: &str, name: &str, ours: &[u8]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(FOLDER)
        .join(kind)
        .join(name);
    if !path.exists() && std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, ours).unwrap();
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn read(bytes: &[u8]) -> Result<Head, BadCheckpoint> {
    let mut from = bytes;
    let head = Head::read(&mut from)?;
    head.blocks(from, |_, _| Ok(()))?;
    Ok(head)
}

fn state(name: &str, bytes: u64) -> State {
    let name = name.to_owned();
    State { name, bytes }
}

fn block(state: usize, offset: u64, data: &[u8]) -> Block {
    Block {
        state,
        offset,
        bytes: data.len() as u64,
        sum: sum(data),
    }
}

fn whole() -> (Head, Vec<u8>) {
    let head = Head {
        number: 7,
        base: None,
        points: 70,
        states: vec![state("x", 16), state("nothing", 0), state("i", 8)],
        blocks: vec![block(0, 0, &[1; 16]), block(2, 0, &[2; 8])],
    };
    let data = [&[1; 16][..], &[2; 8]].concat();
    (head, data)
}

fn part() -> (Head, Vec<u8>) {
    let head = Head {
        number: 8,
        base: Some(7),
        points: 80,
        blocks: vec![
            block(0, 4, &[3; 2]),
            block(0, 6, &[4; 1]),
            block(2, 0, &[5; 8]),
        ],
        ..whole().0
    };
    let data = [&[3; 2][..], &[4], &[5; 8]].concat();
    (head, data)
}

fn file(head: &Head, data: &[u8]) -> Vec<u8> {
    [&head.to_bytes(), data].concat()
}

#[test]
fn wholes_and_parts_are_read_as_they_were_written() {
    for (name, (head, data)) in [("7.whole", whole()), ("8.part", part())] {
        let bytes = vector("valid", name, &file(&head, &data));
        assert_eq!(read(&bytes).unwrap(), head, "{name}");
        assert_eq!(file(&head, &data), bytes, "{name}");
    }
}

#[test]
fn what_is_no_checkpoint_is_refused_with_the_reason() {
    let check = |name: &str, ours: Vec<u8>, expected: &str| {
        let bytes = vector("invalid", name, &ours);
        assert_eq!(read(&bytes).unwrap_err().to_string(), expected, "{name}");
    };
    let with = |change: &dyn Fn(&mut Head)| {
        let (mut head, data) = whole();
        change(&mut head);
        file(&head, &data)
    };
    let bytes = |change: &dyn Fn(&mut Vec<u8>)| {
        let (head, data) = whole();
        let mut bytes = file(&head, &data);
        change(&mut bytes);
        bytes
    };
    check("empty", Vec::new(), "it breaks off");
    let foreign = bytes(&|bytes| bytes[7] = b'2');
    check("foreign", foreign, "it is no checkpoint of this version");
    let torn = bytes(&|bytes| bytes.truncate(bytes.len() - 1));
    check("torn-data", torn, "it breaks off");
    let torn = bytes(&|bytes| bytes.truncate(50));
    check("torn-head", torn, "it breaks off");
    let behind = bytes(&|bytes| bytes.push(0));
    check("behind", behind, "something stands behind its end");
    let flipped = bytes(&|bytes| bytes[24] ^= 1);
    check("flipped-head", flipped, "its head was changed");
    let flipped = bytes(&|bytes| *bytes.last_mut().unwrap() ^= 0x80);
    check("flipped-data", flipped, "block 1 was changed");
    let number = "its number or its base is wrong";
    check("number-0", with(&|head| head.number = 0), number);
    check("base-itself", with(&|head| head.base = Some(7)), number);
    let many = bytes(&|bytes| bytes[35] = 1);
    check(
        "many-states",
        many,
        "it has 16777219 states, at most 1024 may be",
    );
    let many = bytes(&|bytes| bytes[39] = 1);
    check(
        "many-blocks",
        many,
        "it has 16777218 blocks, at most 1048576 may be",
    );
    let name = "the name of state 1 is empty, too long, no text, or there twice";
    check(
        "name-empty",
        with(&|head| head.states[1].name.clear()),
        name,
    );
    let twice = with(&|head| head.states[1].name = "x".to_owned());
    check("name-twice", twice, name);
    let long = with(&|head| head.states[1].name = "n".repeat(256));
    check("name-long", long, name);
    let too_big = with(&|head| head.states[1].bytes = u64::MAX);
    check(
        "states-big",
        too_big,
        "its states have more bytes than can be",
    );
    let place = "block 1 is not where one can be";
    check(
        "block-beyond",
        with(&|head| head.blocks[1].offset = 1),
        place,
    );
    let beyond = with(&|head| head.blocks[1].offset = u64::MAX);
    check("block-wraps", beyond, place);
    check("block-empty", with(&|head| head.blocks[1].bytes = 0), place);
    check(
        "block-of-none",
        with(&|head| head.blocks[1].state = 3),
        place,
    );
    let again = with(&|head| head.blocks[1] = head.blocks[0]);
    check("block-again", again, place);
    let missing = with(&|head| head.blocks.truncate(1));
    check("not-whole", missing, "it says that it is whole, and is not");
}
