//! Figures 3, 4 and 6 of paper 000 on the mechanisms of today: time over the number of calls that are only trapped, over
//! the length of a path that is replaced, over the number of processes. The paper's machine was another: shapes compare.

use super::Options;
use super::way::{Guest, Place, Way};
use crate::fail::Failure;
use crate::goal::Row;
use crate::guard;
use crate::info::curve::{Axis, Curve, Point, curves};
use crate::stats::{Summary, Unit};

pub const PROCESSES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const LENGTHS: [usize; 6] = [30, 100, 300, 1_000, 2_000, 4_000];
const CALLS: [usize; 4] = [1_600, 4_000, 8_000, 16_000];

/// A guest of several processes: calls enough for each, time little enough for all.
pub fn of_processes(way: Way, processes: usize) -> Guest<'static> {
    Guest {
        pinned: false,
        processes,
        ..Guest::opening((way.calls() * 2).max(64 * 32))
    }
}

/// A path below the mapped folder that makes the whole this long.
pub fn by_length(place: &Place, way: Way, bytes: usize) -> Result<f64, Failure> {
    // The folder's own path is as long, give or take a few bytes, natively and mapped.
    const BEFORE: usize = "/mapped/00/of".len();
    const AFTER: usize = "file".len();
    let path = format!("of{}file", "/".repeat(bytes - BEFORE - AFTER));
    let guest = Guest {
        path: &path,
        ..Guest::opening(way.calls())
    };
    place.run(way, &guest).map(|told| told.median_s)
}

/// Medians of a few rounds, taken in turn; a way that fails is left out, as its row says why already.
fn drawn(
    ways: &[Way],
    xs: &[usize],
    rounds: usize,
    mut take: impl FnMut(Way, usize) -> Result<f64, Failure>,
) -> Vec<Curve> {
    let mut samples = vec![vec![Vec::new(); xs.len()]; ways.len()];
    for _ in 0..rounds {
        for (at, x) in xs.iter().enumerate() {
            for (way, of_way) in ways.iter().zip(&mut samples) {
                guard::go_on();
                if let Ok(value) = take(*way, *x) {
                    of_way[at].push(value);
                }
            }
        }
    }
    let points = |of_way: Vec<Vec<f64>>| -> Vec<Point> {
        let medians = of_way
            .iter()
            .zip(xs)
            .filter_map(|(samples, x)| Some((x, Summary::of(samples)?.median)));
        let point = |(x, y): (&usize, f64)| Point {
            x: *x as f64,
            y,
            computed: false,
        };
        medians.map(point).collect()
    };
    ways.iter()
        .zip(samples)
        .map(|(way, of_way)| Curve {
            name: way.name(),
            points: points(of_way),
        })
        .filter(|curve| !curve.points.is_empty())
        .collect()
}

fn seconds(label: &'static str) -> Axis {
    Axis {
        label,
        log: true,
        show: |value| Unit::Seconds.show(value),
    }
}

/// Figure 3: calls that are trapped and not changed.
pub fn trap(place: &Place, options: &Options) -> Row {
    let mut row = Row::new(
        "trap",
        "Paper 000, figure 3: opens and closes under each way, all of the time",
        Vec::new(),
    );
    let all = drawn(&Way::ALL, &CALLS, options.rounds(5), |way, calls| {
        let told = place.run(way, &Guest::opening(calls))?;
        Ok(told.wall_s * calls as f64)
    });
    for curve in &all {
        let last = curve.points.last();
        row.series(curve.name, Unit::Seconds)
            .extend(last.map(|point| point.y));
    }
    let (x, y) = (
        Axis::of("opens and closes", true),
        seconds("all of them take"),
    );
    row.pictures.push(curves(&x, &y, &all));
    row.note("The series are the last points of the figure: 16,000 opens and closes, on one core.");
    row.note(
        "The paper had its library fastest, then ptrace, then mod_janus, each below 20 × native.",
    );
    row
}

/// Figure 4.
pub fn lengths(row: &mut Row, place: &Place, options: &Options) {
    let all = drawn(&Way::ALL, &LENGTHS, options.rounds(5), |way, bytes| {
        by_length(place, way, bytes)
    });
    let (x, y) = (
        Axis::of("bytes of the path", false),
        seconds("open and close"),
    );
    row.pictures.push(curves(&x, &y, &all));
    row.note("Paper 000, figure 4: ptrace wrote a path word by word there (0.2 µs a byte here, were it done so today).");
}

/// Figure 6.
pub fn processes(row: &mut Row, place: &Place, options: &Options) {
    let all = drawn(
        &Way::ALL,
        &PROCESSES,
        options.rounds(5),
        |way, processes| Ok(place.run(way, &of_processes(way, processes))?.wall_s),
    );
    let (x, y) = (
        Axis::of("processes at once", true),
        seconds("a call and core"),
    );
    row.pictures.push(curves(&x, &y, &all));
    row.note("Paper 000, figure 6: there ptrace was worst with many processes, mod_janus best.");
}
