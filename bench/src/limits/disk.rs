//! The row of the disk: one guest at one rate, by each way to read and write.

use super::place::{Keeper, Place};
use super::{Options, near};
use crate::fail::{Failure, While};
use crate::goal::Row;
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::stats::Unit;
use std::fs::File;
use std::io::Write;

/// Far below what any disk does today, far above what a moment's work is.
const RATE: f64 = 20e6;
const LIMIT: &str = "disk=20MB/s";
/// Over 5 s after the first.
const GUEST_S: &str = "6";
/// Of the file that is read: more than is read within the time.
const FILE_BYTES: usize = 192 << 20;
const FILE: &str = "/job/read";

/// Mode of the guest, our series, the one without a limit.
const WAYS: [(&str, &str, &str); 5] = [
    ("wdirect", "direct write", "direct write, no limit"),
    ("rdirect", "direct read", "direct read, no limit"),
    ("rbuf", "read", "read, no limit"),
    ("rmmap", "mapped read", "mapped read, no limit"),
    ("wbuf", "write", "write, no limit"),
];

pub fn disk(place: &Place, options: &Options) -> Row {
    let goals = WAYS.map(|(_, name, _)| near("20 MB/s ± 10 % over 5 s", name, RATE, 0.1));
    let row = Row::new(
        "disk",
        "What a guest reads and writes under a limit",
        goals.into(),
    );
    or_missing(row, |row| {
        file(place)?;
        let mut contenders = Vec::new();
        for (mode, ours, native) in WAYS {
            let path = if mode.starts_with('r') {
                FILE
            } else {
                "/job/written"
            };
            for (name, keeper, limit) in [
                (ours, Keeper::Ours("namespace"), Some(LIMIT)),
                (native, Keeper::Native, None),
            ] {
                contenders.push(Contender::new(name, Unit::BytesPerSecond, move || {
                    let seconds = if limit.is_some() { GUEST_S } else { "2" };
                    Place::figure(&mut place.guest(keeper, limit, &["disk", mode, path, seconds]))
                }));
            }
        }
        rounds::take_long(row, options.rounds(3), contenders);
        row.note("Pieces of 1 MiB; what is read was dropped from memory first. A write into memory counts when it is made.");
        Ok(())
    })
}

fn file(place: &Place) -> Result<(), Failure> {
    let making = || "making a file to read";
    let path = place.folder().join("read");
    let mut file = File::create(&path).doing(making)?;
    let piece = vec![7; 1 << 20];
    for _ in 0..FILE_BYTES / piece.len() {
        file.write_all(&piece).doing(making)?;
    }
    // What is dirty cannot be dropped from memory.
    file.sync_all().doing(making)
}
