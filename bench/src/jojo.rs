//! `bench jojo`: what Jojo's rows must reach. A program in Java (bench/jojo) measures each of them and prints its samples, a
//! line each; here they are read and judged. Not here: the measuring, the report (`report`).

use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::guard;
use crate::info::curve::{self, Axis, Curve, Point};
use crate::machine::Machine;
use crate::report::{self, Report};
use crate::stats::Unit;
use clap::Args;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance in some minutes.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(ROWS.map(|row| row.key)))]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/jojo].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

struct Asked {
    key: &'static str,
    title: &'static str,
    goals: &'static [Goal],
}

const fn goal(text: &'static str, ours: &'static str, reach: Reach) -> Goal {
    Goal { text, ours, reach }
}

const ROWS: [Asked; 11] = [
    Asked {
        key: "ready",
        title: "A node is ready, by one ssh",
        goals: &[goal(
            "≤ `ssh true` + 350 ms",
            "node ready",
            Reach::AtMostMore {
                theirs: "ssh true",
                by: 0.35,
            },
        )],
    },
    Asked {
        key: "ready-far",
        title: "A node is ready, 300 ms away",
        goals: &[goal(
            "≤ 1.2 × `ssh true` + 1 s",
            "node ready",
            Reach::AtMostTimesMore {
                theirs: "ssh true",
                times: 1.2,
                by: 1.0,
            },
        )],
    },
    Asked {
        key: "classes",
        title: "200 classes, 300 ms away, cold",
        goals: &[
            goal(
                "chain ≤ 1.0 s",
                "200 classes, chain",
                Reach::AtMost { limit: 1.0 },
            ),
            goal(
                "tree ≤ 1.0 s",
                "200 classes, tree",
                Reach::AtMost { limit: 1.0 },
            ),
        ],
    },
    Asked {
        key: "calls",
        title: "A call",
        goals: &[
            goal(
                "over ssh ≤ 80 µs",
                "call over ssh",
                Reach::AtMost { limit: 80e-6 },
            ),
            goal(
                "over 3 hops ≤ 250 µs",
                "call over ssh, 3 hops",
                Reach::AtMost { limit: 250e-6 },
            ),
        ],
    },
    Asked {
        key: "rates",
        title: "Calls and messages a second",
        goals: &[
            goal(
                "pipelined calls ≥ 150 k/s",
                "pipelined calls over ssh",
                Reach::AtLeast { limit: 150e3 },
            ),
            goal(
                "one-way messages ≥ 500 k/s",
                "one-way messages over ssh",
                Reach::AtLeast { limit: 500e3 },
            ),
        ],
    },
    Asked {
        key: "arrays",
        title: "double[1M], over and over",
        goals: &[
            goal(
                "over ssh ≥ 0.8 × raw frames",
                "arrays over ssh",
                Reach::AtLeastTimes {
                    theirs: "raw frames over ssh",
                    times: 0.8,
                },
            ),
            goal(
                "over a pipe ≥ 0.9 × raw frames: the multiplexer",
                "arrays over a pipe",
                Reach::AtLeastTimes {
                    theirs: "raw frames over a pipe",
                    times: 0.9,
                },
            ),
        ],
    },
    Asked {
        key: "beside-bulk",
        title: "A small call while arrays pass",
        goals: &[goal(
            "p99 ≤ 5 ms",
            "small call beside bulk",
            Reach::P99AtMost { limit: 5e-3 },
        )],
    },
    Asked {
        key: "farm",
        title: "The paper's master and workers (its figure 16)",
        goals: &[
            goal(
                "3 layers, 16 workers: ≥ 95 % of ideal (5.0 s)",
                "3 layers, 16 workers",
                Reach::AtMost { limit: 5.0 / 0.95 },
            ),
            goal(
                "2 layers with credit, 16 workers: ≥ 80 % of its bandwidth's floor",
                "2 layers with credit, 16 workers",
                Reach::AtMostTimes {
                    theirs: "floor of the bandwidth",
                    times: 1.25,
                },
            ),
        ],
    },
    Asked {
        key: "many",
        title: "100 nodes of this machine, 3 levels",
        goals: &[
            goal(
                "ready ≤ 20 s",
                "100 nodes ready",
                Reach::AtMost { limit: 20.0 },
            ),
            goal(
                "each ≤ 60 MB",
                "memory of a node",
                Reach::P99AtMost { limit: 60e6 },
            ),
        ],
    },
    Asked {
        key: "kills",
        title: "A client is killed",
        goals: &[goal(
            "no JVM of its tree 5 s later",
            "the longest",
            Reach::AtMost { limit: 5.0 },
        )],
    },
    Asked {
        key: "sizes",
        title: "What is sent before a node is one",
        goals: &[
            goal(
                "first stage ≤ 16 KiB",
                "first stage",
                Reach::AtMost { limit: 16384.0 },
            ),
            goal(
                "core ≤ 250 kB",
                "core, as it is sent",
                Reach::AtMost { limit: 250e3 },
            ),
        ],
    },
];

/// A figure of paper 003: which curves of the measuring program it has.
struct Figure {
    row: &'static str,
    x: Axis,
    y: Axis,
    curves: &'static [&'static str],
}

fn figures() -> [Figure; 3] {
    let bytes = || Axis {
        label: "bytes of a message",
        log: true,
        show: |v| Unit::Bytes.show(v),
    };
    let rate = || Axis {
        label: "bytes a second",
        log: true,
        show: |v| Unit::BytesPerSecond.show(v),
    };
    [
        // Figures 11 and 13: what is left of a near link, and what each part costs.
        Figure {
            row: "arrays",
            x: bytes(),
            y: rate(),
            curves: &[
                "frames over a pipe",
                "Jojo over a pipe",
                "frames over ssh",
                "Jojo over ssh",
            ],
        },
        // Figure 12: a far one.
        Figure {
            row: "arrays",
            x: bytes(),
            y: rate(),
            curves: &["frames over ssh, far", "Jojo over ssh, far"],
        },
        // Figure 16.
        Figure {
            row: "farm",
            x: Axis {
                label: "workers",
                log: true,
                show: |v| format!("{v:.0}"),
            },
            y: Axis {
                label: "10,000 jobs of 8 ms",
                log: true,
                show: |v| Unit::Seconds.show(v),
            },
            curves: &["2 layers", "2 layers with credit", "3 layers", "ideal"],
        },
    ]
}

/// One of a curve's points, as the measuring program said it.
#[derive(Debug, PartialEq)]
struct Said {
    curve: String,
    x: f64,
    y: f64,
}

fn pictures(row: &str, points: &[Said]) -> Vec<String> {
    let curve = |name: &&'static str| Curve {
        name,
        points: points
            .iter()
            .filter(|point| point.curve == *name)
            .map(|point| Point {
                x: point.x,
                y: point.y,
                computed: *name == "ideal",
            })
            .collect(),
    };
    figures()
        .iter()
        .filter(|figure| figure.row == row)
        .map(|figure| {
            let all: Vec<Curve> = figure.curves.iter().map(curve).collect();
            curve::curves(&figure.x, &figure.y, &all)
        })
        .filter(|picture| !picture.is_empty())
        .collect()
}

/// Measures, and writes the report down; where its page is.
pub fn run(options: &Options) -> Result<PathBuf, Failure> {
    let folder = options.out.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from("target/bench/jojo"));
    let report = measured(options)?;
    report::write(&report, &folder)?;
    eprint!("{}", report::table(&report));
    Ok(folder.join("report.html"))
}

/// Measures every row that was asked for.
fn measured(options: &Options) -> Result<Report, Failure> {
    let begun = Instant::now();
    let mut machine = Machine::here();
    let class_path = build()?;
    let mut rows = Vec::new();
    for asked in &ROWS {
        if !options.only.is_empty() && !options.only.iter().any(|k| k == asked.key) {
            continue;
        }
        eprintln!("bench: {} ...", asked.key);
        let mut row = Row::new(asked.key, asked.title, asked.goals.to_vec());
        if let Err(failure) = measure(&mut row, &class_path, options.quick) {
            row.lacks(None, &failure);
        }
        guard::go_on();
        for missing in &row.missing {
            eprintln!("bench: {}: {missing}", asked.key);
        }
        rows.push(row);
    }
    machine.ended();
    let pace = if options.quick { "quick" } else { "full" };
    machine.run = format!("{pace}, {} s", begun.elapsed().as_secs());
    Ok(Report {
        title: "Speed of Jojo",
        machine,
        rows,
    })
}

/// java/build and the measuring program; its class path. Absolute: nodes begin elsewhere.
fn build() -> Result<String, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = std::fs::canonicalize(&root).doing(|| "finding the repository")?;
    let java = root.join("target/java");
    let classes = root.join("target/bench/jojo/classes");
    must(&mut Command::new(root.join("java/build")))?;
    let base = format!(
        "{}:{}",
        java.join("jojo.jar").display(),
        java.join("testkit.jar").display()
    );
    let sources = root.join("bench/jojo/silf/jojo/bench");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&sources)
        .doing(|| format!("reading {}", sources.display()))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    std::fs::create_dir_all(&classes).doing(|| format!("making {}", classes.display()))?;
    must(
        Command::new("javac")
            .args(["-proc:none", "--release", "17", "-cp", &base, "-d"])
            .arg(&classes)
            .args(files),
    )?;
    Ok(format!("{base}:{}", classes.display()))
}

fn must(command: &mut Command) -> Result<(), Failure> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let status = command.status().doing(|| format!("running {shown}"))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Ended {
        command: shown,
        status: status.to_string(),
        said: String::new(),
    })
}

fn measure(row: &mut Row, class_path: &str, quick: bool) -> Result<(), Failure> {
    let mut command = Command::new("java");
    command
        .args(["-cp", class_path, "silf.jojo.bench.Main", row.key])
        .args(quick.then_some("quick"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let starting = guard::starting();
    let mut child = command.spawn().doing(|| "starting java")?;
    let said = child.stdout.take();
    let _ended = guard::process(child);
    drop(starting);
    let mut points = Vec::new();
    for line in
        BufReader::new(said.ok_or_else(|| Failure::unexpected("java without a stdout"))?).lines()
    {
        take(row, &mut points, &line.doing(|| "reading samples")?)?;
    }
    row.pictures = pictures(row.key, &points);
    if row.series.is_empty() && row.missing.is_empty() {
        return Err(Failure::unexpected("the measuring program said nothing"));
    }
    Ok(())
}

/// One line of the measuring program; what nodes print besides is passed over.
fn take(row: &mut Row, points: &mut Vec<Said>, line: &str) -> Result<(), Failure> {
    let number = |text: &str| -> Result<f64, Failure> {
        text.parse()
            .map_err(|e| Failure::said(&format!("reading {line:?}"), &e))
    };
    let words: Vec<&str> = line.split('\t').collect();
    match words.as_slice() {
        ["sample", series, unit, value] => {
            let unit = match *unit {
                "seconds" => Unit::Seconds,
                "bytes" => Unit::Bytes,
                "bytes_per_second" => Unit::BytesPerSecond,
                "per_second" => Unit::PerSecond,
                _ => return Err(Failure::unexpected(format!("unknown unit in {line:?}"))),
            };
            row.series(series, unit).push(number(value)?);
        }
        ["point", curve, x, y] => points.push(Said {
            curve: (*curve).to_owned(),
            x: number(x)?,
            y: number(y)?,
        }),
        ["note", text] => row.note(*text),
        ["missing", series, why] => row.lacks(None, &format!("{series}: {why}")),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_measuring_program_become_series_and_notes() {
        let mut row = Row::new("calls", "", Vec::new());
        let mut points = Vec::new();
        for line in [
            "sample\tcall over ssh\tseconds\t0.000080",
            "sample\tcall over ssh\tseconds\t0.000090",
            "sample\tmessages\tper_second\t500000",
            "note\ta word",
            "point\t2 layers\t16\t200.5",
            "missing\tmitogen\tnot installed",
            "[far] something that a node says",
        ] {
            take(&mut row, &mut points, line).unwrap();
        }
        assert_eq!(row.series[0].samples, [80e-6, 90e-6]);
        assert_eq!(row.series.len(), 2);
        assert_eq!((row.notes.len(), row.missing.len()), (1, 1));
        assert_eq!(points.len(), 1);
        for wrong in [
            "sample\ta\tfurlongs\t1",
            "sample\ta\tseconds\tsoon",
            "point\ta\t1\tfar",
        ] {
            assert!(take(&mut row, &mut points, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn points_become_the_pictures_of_their_row() {
        let points: Vec<Said> = [
            ("2 layers", 1.0, 385.0),
            ("2 layers", 16.0, 193.0),
            ("ideal", 16.0, 5.0),
        ]
        .map(|(curve, x, y)| Said {
            curve: curve.to_owned(),
            x,
            y,
        })
        .into();
        let drawn = pictures("farm", &points);
        assert_eq!(drawn.len(), 1);
        assert!(
            drawn[0].contains("2 layers") && drawn[0].contains("workers"),
            "{}",
            drawn[0]
        );
        assert!(pictures("calls", &points).is_empty());
        assert!(pictures("arrays", &points).is_empty());
        assert!(
            figures()
                .iter()
                .all(|figure| ROWS.iter().any(|row| row.key == figure.row))
        );
    }

    #[test]
    fn every_row_has_goals_and_a_key_of_its_own() {
        for (at, row) in ROWS.iter().enumerate() {
            assert!(!row.goals.is_empty(), "{}", row.key);
            assert!(ROWS.iter().skip(at + 1).all(|other| other.key != row.key));
        }
    }
}
