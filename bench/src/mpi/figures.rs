//! Figure 7 and table 3 of paper 000 on the mechanisms of today: MG of four ranks by the limit of its network, and all
//! seven kernels without one. Messages go by TCP. The paper's ranks had a host and a limit each; ours have one host, and
//! one limit for the whole job: four times as much. Shapes compare.

use super::place::{BY_TCP, Library, Place, Run};
use crate::bench::Bench;
use crate::goal::Row;
use crate::guard;
use crate::info::curve::{Axis, Curve, Point, curves};
use crate::rounds::{self, Contender};
use crate::stats::{Summary, Unit, pairs};
use kumiko_policy::NetworkLimiter;

/// Of a rank: those of the paper, and two beyond.
const LIMITS_KBYTE_S: [u32; 8] = [1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 30_000, 100_000];
const RANKS: u32 = 4;
const LAST: &str = "at 100 MB/s a rank";

const MECHANISMS: [&str; 4] = ["namespace", "ptrace", "notify", "library"];

/// Who stands by the ranks' calls, and who keeps the limit.
const WAYS: [(&str, &str, NetworkLimiter); 5] = [
    ("namespace", "namespace", NetworkLimiter::Outside),
    ("ptrace", "ptrace", NetworkLimiter::Outside),
    ("notify", "notify", NetworkLimiter::Outside),
    ("library, deadlines", "library", NetworkLimiter::Deadline),
    (
        "library, the paper's formula",
        "library",
        NetworkLimiter::Paper,
    ),
];

pub fn limited(place: &Place, bench: &Bench) -> Row {
    let mut row = Row::new(
        "figure7",
        "Paper 000, figure 7: MG of four ranks, by the limit that was set",
        Vec::new(),
    );
    let run = Run {
        library: Library::Openmpi,
        ranks: RANKS,
        program: "mg",
        words: &["W"],
        variables: BY_TCP,
    };
    let rounds = bench.rounds(3);
    for _ in 0..rounds {
        match place.bare(run).and_then(|ran| ran.own_s()) {
            Ok(seconds) => row
                .series("no limit, no sandbox", Unit::Seconds)
                .push(seconds),
            Err(failure) => row.lacks(Some("no limit, no sandbox"), &failure),
        }
    }
    let mut all = Vec::new();
    for (name, mechanism, limiter) in WAYS {
        let mut points = Vec::new();
        for limit in LIMITS_KBYTE_S {
            let policy = format!(
                "complete = false\nlimiter = \"{}\"\n[limits]\nnetwork_kbyte_s = {}\n",
                limiter.name(),
                RANKS * limit
            );
            let mut samples = Vec::new();
            for _ in 0..rounds {
                guard::go_on();
                let ran = place.fenced(run, &bench.kumiko, mechanism, &policy);
                match ran.and_then(|ran| ran.own_s()) {
                    Ok(seconds) => samples.push(seconds),
                    Err(failure) => row.lacks(Some(name), &failure),
                }
            }
            points.extend(Summary::of(&samples).map(|summary| Point {
                x: limit.into(),
                y: summary.median,
                computed: false,
            }));
        }
        let told = points.iter().map(|p| format!("{} kB/s {:.2} s", p.x, p.y));
        row.note(format!("{name}: {}.", told.collect::<Vec<_>>().join(", ")));
        if let Some(last) = points.last() {
            row.series(&format!("{name}, {LAST}"), Unit::Seconds)
                .push(last.y);
        }
        all.push(Curve { name, points });
    }
    let axis = |label| Axis::of(label, true);
    let (x, y) = (axis("limit of a rank, kB/s"), axis("MG, seconds"));
    row.pictures.push(curves(&x, &y, &all));
    row.note("examples/mpi/mg.c, class W, by Open MPI over TCP of the loopback: 28 MB in all.");
    row.note("The paper: with DyninstAPI as without a sandbox from 6,000 KB/s on, slower with ptrace and mod_janus at any limit.");
    row
}

const BARE: &str = "no sandbox";

/// Each kernel, and what the paper has of it: Mflops without a sandbox, and by ptrace, mod_janus and DyninstAPI.
const KERNELS: [(&str, &str); 7] = [
    ("bt", "539; 532, 537, 539"),
    ("cg", "119; 114, 120, 119"),
    ("ep", "26.5; 26.4, 26.4, 26.4"),
    ("is", "4.33; 4.03, 4.13, 4.11"),
    ("lu", "810; 649, 811, 809"),
    ("mg", "252; 226, 252, 251"),
    ("sp", "297; 293, 297, 297"),
];

pub fn kernels(place: &Place, bench: &Bench) -> Row {
    let mut row = Row::new(
        "table3",
        "Paper 000, table 3: speed of seven kernels of four ranks, × that without a sandbox",
        Vec::new(),
    );
    for (program, paper) in KERNELS {
        let run = Run {
            library: Library::Openmpi,
            ranks: RANKS,
            program,
            words: &["W"],
            variables: BY_TCP,
        };
        let mut contenders = vec![Contender::new(BARE, Unit::Seconds, || {
            place.bare(run)?.own_s()
        })];
        for name in MECHANISMS {
            contenders.push(Contender::new(name, Unit::Seconds, move || {
                let policy = "complete = false\n";
                place.fenced(run, &bench.kumiko, name, policy)?.own_s()
            }));
        }
        let mut took = Row::new("took", "", Vec::new());
        rounds::take_long(&mut took, bench.rounds(8), contenders);
        let bare = took.series(BARE, Unit::Seconds).clone();
        let kernel = program.to_uppercase();
        let mut told = vec![kernel.clone()];
        for name in MECHANISMS {
            let speeds = pairs(&bare, took.series(name, Unit::Seconds), |bare, ours| {
                bare / ours
            });
            told.extend(Summary::of(&speeds).map(|speed| format!("{name} {:.2}", speed.median)));
            row.series(&format!("{kernel}, {name}"), Unit::Plain)
                .extend(speeds);
        }
        row.note(format!(
            "{} (the paper's Mflops: {paper}).",
            told.join(", ")
        ));
        row.missing.extend(took.missing);
    }
    row.note("Class W, by Open MPI over TCP of the loopback; ranks take turns on fewer processors than there are ranks.");
    row.note("The paper's: without; by ptrace, mod_janus, DyninstAPI.");
    row
}
