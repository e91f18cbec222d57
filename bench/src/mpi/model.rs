//! The model of a message, t₀ + m / r∞ (paper 004, figure 8 and table 3): what a message of no bytes takes, and what long ones
//! tend to. Fitted to messages of six sizes between two ranks, by shared memory and by TCP on one host, as a job and without a
//! site. Not here: hosts of their own (`hosts`).

use super::place::{BY_TCP, Library, Place, Ran, Run, Variables};
use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::info::curve::{Axis, Curve, Point, curves as plotted};
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::stats::{Summary, Unit};

/// Bytes and trips, as the program takes them and as numbers: each some hundredths of a second.
const SIZES: [(&str, &str, f64, f64); 6] = [
    ("8", "20000", 8.0, 20_000.0),
    ("512", "20000", 512.0, 20_000.0),
    ("8192", "5000", 8_192.0, 5_000.0),
    ("65536", "1000", 65_536.0, 1_000.0),
    ("524288", "200", 524_288.0, 200.0),
    ("4194304", "40", 4_194_304.0, 40.0),
];
/// By what messages go: words of Open MPI, and the names without a site and as a job.
const WAYS: [(Variables, [&str; 2]); 2] = [
    (&[], ["shared memory, alone", "shared memory, as a job"]),
    (BY_TCP, ["TCP on a host, alone", "TCP on a host, as a job"]),
];

/// Which of the two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    StartUp,
    Rate,
}

pub fn model(place: &Place, bench: &Bench, of: Of) -> Row {
    let (key, title, unit) = match of {
        Of::StartUp => ("t0", "t₀: a message of no bytes, fitted", Unit::Seconds),
        Of::Rate => ("rinf", "r∞: long messages, fitted", Unit::BytesPerSecond),
    };
    let goals = WAYS.map(|(_, [theirs, ours])| Goal {
        text: "within noise of bare: 1.05 ×",
        ours,
        reach: match of {
            Of::StartUp => Reach::AtMostTimes {
                theirs,
                times: 1.05,
            },
            Of::Rate => Reach::AtLeastTimes {
                theirs,
                times: 1.0 / 1.05,
            },
        },
    });
    or_missing(Row::new(key, title, goals.into()), |row| {
        let mut contenders = Vec::new();
        for (variables, names) in WAYS {
            for (name, as_job) in [(names[0], false), (names[1], true)] {
                contenders.push(Contender::new(name, unit, move || {
                    let (start_up_s, rate) = fit(&messages(place, bench, variables, as_job)?);
                    Ok(match of {
                        Of::StartUp => start_up_s,
                        Of::Rate => rate,
                    })
                }));
            }
        }
        rounds::take_long(row, bench.rounds(10), contenders);
        row.note("Open MPI; each sample is fitted to messages of 8 bytes to 4 MiB, each size as heavy as another.");
        Ok(())
    })
}

/// Bytes, and seconds one way.
fn messages(
    place: &Place,
    bench: &Bench,
    variables: &[(&str, &str)],
    as_job: bool,
) -> Result<Vec<(f64, f64)>, Failure> {
    let sized = |(bytes, trips, size, number): &(&str, &str, f64, f64)| -> Result<_, Failure> {
        let words = ["S", bytes, trips];
        let run = Run {
            library: Library::Openmpi,
            ranks: 2,
            program: "pingpong",
            words: &words,
            variables,
        };
        let ran = match as_job {
            true => bench.runtime.block_on(place.job(run, None))?,
            false => place.bare(run)?,
        };
        Ok((*size, ran.own_s()? / number / 2.0))
    };
    SIZES.iter().map(sized).collect()
}

const START_UP: [&str; 2] = ["t₀, alone", "t₀, as a job"];
const RATE: [&str; 2] = ["r∞, alone", "r∞, as a job"];

/// Of both numbers.
pub fn goals() -> Vec<Goal> {
    let text = "within noise of bare: 1.05 ×";
    vec![
        Goal {
            text,
            ours: START_UP[1],
            reach: Reach::AtMostTimes {
                theirs: START_UP[0],
                times: 1.05,
            },
        },
        Goal {
            text,
            ours: RATE[1],
            reach: Reach::AtLeastTimes {
                theirs: RATE[0],
                times: 1.0 / 1.05,
            },
        },
    ]
}

/// Bytes, and seconds one way; of each round.
type Rounds = Vec<Vec<(f64, f64)>>;

/// Two ranks pass each other messages, as jobs and without, in turn.
pub fn compare(
    row: &mut Row,
    rounds: usize,
    library: Library,
    ran: impl Fn(bool, Run<'_>) -> Result<Ran, Failure>,
) -> Result<(), Failure> {
    let measured = in_turn(rounds, library, &[], ran)?;
    for (of, rounds) in measured.iter().enumerate() {
        for round in rounds {
            let (start_up_s, rate) = fit(round);
            row.series(START_UP[of], Unit::Seconds).push(start_up_s);
            row.series(RATE[of], Unit::BytesPerSecond).push(rate);
        }
    }
    let [alone, job] = &measured;
    row.pictures
        .push(picture(&[("alone", alone), ("as a job", job)]));
    Ok(())
}

/// Of both, the one without a site first.
fn in_turn(
    rounds: usize,
    library: Library,
    variables: &[(&str, &str)],
    ran: impl Fn(bool, Run<'_>) -> Result<Ran, Failure>,
) -> Result<[Rounds; 2], Failure> {
    let mut all = [Rounds::new(), Rounds::new()];
    for round in 0..rounds {
        for of in [round % 2, 1 - round % 2] {
            let measured = SIZES.iter().map(|(bytes, trips, size, number)| {
                let run = Run {
                    library,
                    ranks: 2,
                    program: "pingpong",
                    words: &["S", bytes, trips],
                    variables,
                };
                Ok((*size, ran(of == 1, run)?.own_s()? / number / 2.0))
            });
            all[of].push(measured.collect::<Result<_, Failure>>()?);
        }
    }
    Ok(all)
}

/// The medians of all rounds by size.
fn medians(rounds: &Rounds) -> Vec<(f64, f64)> {
    let of = |at: usize| {
        let times: Vec<f64> = rounds.iter().map(|round| round[at].1).collect();
        Summary::of(&times).map(|summary| (SIZES[at].2, summary.median))
    };
    (0..SIZES.len()).filter_map(of).collect()
}

/// Measured, and hollow what the model has that is fitted to it.
fn picture(all: &[(&'static str, &Rounds)]) -> String {
    let drawn = |(name, rounds): &(&'static str, &Rounds)| {
        let measured = medians(rounds);
        let (start_up_s, rate) = fit(&measured);
        let point = |x, seconds: f64, computed| Point {
            x,
            y: 1e6 * seconds,
            computed,
        };
        let own = measured.iter().map(|(m, s)| point(*m, *s, false));
        let model = SIZES.map(|(_, _, m, _)| point(m, start_up_s + m / rate, true));
        let curve = |name, points| Curve { name, points };
        [
            curve(*name, own.collect()),
            curve("t₀ + m / r∞", model.into()),
        ]
    };
    let curves: Vec<Curve> = all.iter().flat_map(drawn).collect();
    plotted(
        &Axis::of("bytes", true),
        &Axis::of("µs one way", true),
        &curves,
    )
}

/// Paper 004's figure 8 as it is today, on one host.
pub fn figure(place: &Place, bench: &Bench) -> Row {
    let title = "Paper 004, figure 8: messages on a host by their size";
    or_missing(Row::new("figure8", title, Vec::new()), |row| {
        let mut all = Vec::new();
        for (variables, names) in WAYS {
            let ran = |as_job, run: Run<'_>| match as_job {
                true => bench.runtime.block_on(place.job(run, None)),
                false => place.bare(run),
            };
            let measured = in_turn(bench.rounds(5), Library::Openmpi, variables, ran)?;
            all.extend(names.into_iter().zip(measured));
        }
        for (name, rounds) in &all {
            let measured = medians(rounds);
            let (start_up_s, rate) = fit(&measured);
            let each = measured
                .iter()
                .map(|(bytes, s)| format!("{bytes} B {}", Unit::Seconds.show(*s)));
            row.note(format!(
                "{name}: t₀ {}, r∞ {}; {}.",
                Unit::Seconds.show(start_up_s),
                Unit::BytesPerSecond.show(rate),
                each.collect::<Vec<_>>().join(", ")
            ));
            let small = rounds.iter().filter_map(|round| Some(round.first()?.1));
            row.series(&format!("{name}, 8 bytes"), Unit::Seconds)
                .extend(small);
        }
        let named: Vec<(&'static str, &Rounds)> =
            all.iter().map(|(name, rounds)| (*name, rounds)).collect();
        row.pictures.push(picture(&named));
        row.note("Open MPI; between hosts and across sites: the rows hosts and sites. The paper, by MPICH: TCP on a host has 9 × the start-up time of shared memory, and a third of its rate.");
        Ok(())
    })
}

/// t₀ in seconds and r∞ in bytes a second, by least squares of relative errors.
pub fn fit(messages: &[(f64, f64)]) -> (f64, f64) {
    let sum = |of: fn(f64, f64) -> f64| -> f64 {
        let weighed = messages.iter().map(|(m, t)| of(*m, *t) / (t * t));
        weighed.sum()
    };
    let (w, m, t) = (sum(|_, _| 1.0), sum(|m, _| m), sum(|_, t| t));
    let (mm, mt) = (sum(|m, _| m * m), sum(|m, t| m * t));
    let slope = (w * mt - m * t) / (w * mm - m * m);
    ((t - slope * m) / w, 1.0 / slope)
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn what_follows_the_model_is_fitted_by_it() {
        let messages: Vec<(f64, f64)> = [8.0, 512.0, 8192.0, 65536.0, 4194304.0]
            .map(|m| (m, 2e-6 + m / 5e9))
            .into();
        let (start_up_s, rate) = fit(&messages);
        assert!((start_up_s / 2e-6 - 1.0).abs() < 1e-6, "{start_up_s}");
        assert!((rate / 5e9 - 1.0).abs() < 1e-6, "{rate}");
    }
}
