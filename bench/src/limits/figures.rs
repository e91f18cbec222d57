//! Figure 5 of paper 000 on the mechanisms of today: what is sent over the limit that was set, by the kernel's pacing, by
//! the two limiters of our library in the guest, and by the paper's own limiter (its section 4.2) in each of its three ways.
//! The paper's machine was another: shapes compare.

use super::net::{MBIT, sent};
use super::place::{Beside, Keeper, Place};
use super::receiver::Receiver;
use super::{Options, place};
use crate::fail::Failure;
use crate::goal::Row;
use crate::guard;
use crate::info::curve::{Axis, Curve, Point, curves};
use crate::stats::{Summary, Unit};
use kumiko_policy::NetworkLimiter;
use std::process::Command;
use std::time::Duration;

/// Mbit/s.
const LIMITS: [u32; 6] = [10, 100, 250, 1_000, 5_000, 20_000];
const LAST: &str = "at a limit of 20 Gbit/s";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Pacing,
    /// Ours, in the guest.
    Inside(NetworkLimiter),
    /// The paper's limiter, told by its first word.
    Paper(&'static str),
}

const WAYS: [(&str, Way); 6] = [
    ("pacing by the kernel", Way::Pacing),
    ("library, deadlines", Way::Inside(NetworkLimiter::Deadline)),
    (
        "library, the paper's formula",
        Way::Inside(NetworkLimiter::Paper),
    ),
    ("the paper's, ptrace", Way::Paper("ptrace")),
    ("the paper's, notify", Way::Paper("notify")),
    ("the paper's, library", Way::Paper(place::INSIDE)),
];

pub fn rates(place: &Place, options: &Options) -> Row {
    let mut row = Row::new(
        "figure5",
        "Paper 000, figure 5: what is sent, by the limit that was set",
        Vec::new(),
    );
    let rounds = options.rounds(3);
    let mut all = Vec::new();
    for (name, way) in WAYS {
        let mut points = Vec::new();
        for limit in LIMITS {
            let mut samples = Vec::new();
            for _ in 0..rounds {
                guard::go_on();
                match one(place, way, limit) {
                    Ok(rate) => samples.push(rate / MBIT),
                    Err(failure) => row.lacks(Some(name), &failure),
                }
            }
            points.extend(Summary::of(&samples).map(|summary| Point {
                x: limit.into(),
                y: summary.median,
                computed: false,
            }));
        }
        let off: Vec<String> = points
            .iter()
            .map(|p| format!("{} Mbit/s {:+.1} %", p.x, 100.0 * (p.y / p.x - 1.0)))
            .collect();
        row.note(format!("{name}: {}.", off.join(", ")));
        if let Some(last) = points.last() {
            let series = format!("{name}, {LAST}");
            row.series(&series, Unit::BytesPerSecond)
                .push(last.y * MBIT);
        }
        all.push(Curve { name, points });
    }
    match sent(place, Keeper::Native, None, ("1", "1")) {
        Ok(rate) => row.series("no limit", Unit::BytesPerSecond).push(rate),
        Err(failure) => row.lacks(Some("no limit"), &failure),
    }
    let axis = |label| Axis::of(label, true);
    let (x, y) = (axis("limit, Mbit/s"), axis("sent, Mbit/s"));
    row.pictures.push(curves(&x, &y, &all));
    row.note("Writes of 16 KiB over the loopback; the paper's limiter with a window of 100 ms, which the paper does not tell.");
    row.note("The paper came to 250 Mbit/s with ptrace and 230 with mod_janus, where 3,620 went without a limit.");
    row
}

fn one(place: &Place, way: Way, limit_mbit: u32) -> Result<f64, Failure> {
    const FROM: Duration = Duration::from_secs(1);
    const TO: Duration = Duration::from_secs(3);
    let receiver = Receiver::open(false)?;
    let port = receiver.port.to_string();
    let words = ["send", port.as_str(), "4", "1", "1"];
    let bytes = format!("{:.0}", f64::from(limit_mbit) * MBIT);
    let limit = format!("net={limit_mbit}Mbit/s");
    let plain = place.guest(Keeper::Native, None, &words);
    let command = match way {
        Way::Pacing => place.guest(Keeper::Ours("namespace"), Some(&limit), &words),
        Way::Inside(limiter) => place.guest(Keeper::Inside(limiter), Some(&limit), &words),
        Way::Paper(place::INSIDE) => {
            let mut command = plain;
            let library = place.folder().join(place::INSIDE);
            command.env("LD_PRELOAD", library).env("PAPER_RATE", bytes);
            command
        }
        Way::Paper(by) => {
            let mut command = Command::new(place.folder().join("paper"));
            command.args([by, &bytes]);
            command.arg(plain.get_program()).args(plain.get_args());
            command
        }
    };
    let _guest = Beside::start(command)?;
    receiver.rate(FROM, TO)
}
