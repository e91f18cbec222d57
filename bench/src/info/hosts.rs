//! The hosts of the measurements: twenty attributes each, as MDS has them, the same for both servers.

use kumiko_directory::{Attribute, Dn, Entry, Op, Stamp};
use std::fmt::Write;

/// As the index under measurement is called; slapd takes the same suffix.
pub const BASE: &str = "Mds-Vo-name=bench, o=grid";
/// Not indexed in slapd, since nobody asked for it beforehand.
pub const RANGE: &str = "Mds-Memory-Ram-Total-freeMB";
pub const CHANGING: &str = "Mds-Cpu-Total-Free-1minX100";

pub fn name(number: usize) -> String {
    format!("host{number:07}.site{}.example", number % 97)
}

pub fn relative(number: usize) -> Dn {
    Dn::default().child("Mds-Host-hn", &name(number))
}

/// 20 attributes, one of them with three values.
pub fn host(number: usize) -> Entry {
    let n = number as u64;
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let cpus = [2, 4, 8, 16, 32, 64, 128][(mixed % 7) as usize];
    let memory = cpus * 4096;
    let free = mixed % memory;
    Entry::new(relative(number))
        .with("objectClass", ["Mds", "MdsHost", "MdsCpuTotal"])
        .with("Mds-Host-hn", [name(number)])
        .with("Mds-Computer-isa", ["x86_64"])
        .with("Mds-Computer-platform", ["x86_64"])
        .with("Mds-Os-name", ["Linux"])
        .with("Mds-Os-release", [format!("6.1.{}", mixed % 30)])
        .with("Mds-Os-version", ["Debian GNU/Linux 12 (bookworm)"])
        .with(
            "Mds-Cpu-vendor",
            [if n % 3 == 0 {
                "AuthenticAMD"
            } else {
                "GenuineIntel"
            }],
        )
        .with(
            "Mds-Cpu-model",
            [format!("Model {} processor at some GHz", mixed % 40)],
        )
        .with("Mds-Cpu-version", [format!("6.{}.7", mixed % 90)])
        .with("Mds-Cpu-speedMHz", [2000 + mixed % 20 * 100])
        .with("Mds-Cpu-Total-count", [cpus])
        .with(CHANGING, [mixed % (cpus * 100)])
        .with("Mds-Cpu-Total-Free-5minX100", [mixed % (cpus * 90)])
        .with("Mds-Cpu-Total-Free-15minX100", [mixed % (cpus * 80)])
        .with("Mds-Memory-Ram-Total-sizeMB", [memory])
        .with(RANGE, [free])
        .with("Mds-Fs-Total-sizeMB", [1_000_000 + mixed % 1000])
        .with("Mds-Fs-Total-freeMB", [mixed % 1_000_000])
        .with(
            "Mds-Net-addr",
            [format!(
                "10.{}.{}.{}",
                (n >> 16) & 255,
                (n >> 8) & 255,
                n & 255
            )],
        )
        .stamped(Stamp {
            measured_ms: 1_700_000_000_000 + n,
            holds_ms: 0,
        })
}

/// A change as a leaf tells it.
pub fn change(number: usize, value: u64, measured_ms: u64) -> Op {
    Op::Set {
        dn: relative(number),
        attribute: Attribute {
            name: CHANGING.to_owned(),
            values: vec![value.to_string()],
            stamp: Stamp {
                measured_ms,
                holds_ms: 0,
            },
        },
    }
}

/// For slapadd: the levels above, then the hosts.
pub fn ldif(count: usize) -> String {
    let mut out = "dn: o=grid\nobjectClass: top\nobjectClass: organization\no: grid\n\n\
        dn: Mds-Vo-name=bench,o=grid\nobjectClass: MdsVo\nMds-Vo-name: bench\n\n"
        .to_owned();
    for number in 0..count {
        let entry = host(number);
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "dn: {},Mds-Vo-name=bench,o=grid\nobjectClass: benchHost",
            entry.dn
        );
        for attribute in &entry.attributes {
            for value in &attribute.values {
                let _ = writeln!(out, "{}: {value}", attribute.name);
            }
        }
        out.push('\n');
    }
    out
}
