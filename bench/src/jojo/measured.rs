//! Rows that a program in Java measures: it is built, run for each row, and prints its samples, a line each; here they are read,
//! judged and written down. Not here: which rows, what they must reach.

use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::guard;
use crate::info::curve::{self, Axis, Curve, Point};
use crate::report::Report;
use crate::rows::or_missing;
use crate::run::Run;
use crate::stats::Unit;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A measuring program, and what is asked of it.
pub struct Bench<'a> {
    /// Of the folder of its sources below bench/, in folders by package, and of its report's below target/bench.
    pub name: &'static str,
    pub title: &'static str,
    /// The class that is run.
    pub main: &'static str,
    /// Below target/java.
    pub class_path: &'a [&'static str],
    pub rows: &'a [Asked],
    pub figures: &'a [Figure],
}

/// A row as it is asked for.
pub struct Asked {
    pub key: &'static str,
    pub title: &'static str,
    pub goals: &'static [Goal],
}

pub const fn goal(text: &'static str, ours: &'static str, reach: Reach) -> Goal {
    Goal { text, ours, reach }
}

/// A picture of curves: which curves of the measuring program it has.
pub struct Figure {
    pub row: &'static str,
    pub x: Axis,
    pub y: Axis,
    pub curves: &'static [&'static str],
}

/// One of a curve's points, as the measuring program said it.
#[derive(Debug, PartialEq)]
struct Said {
    curve: String,
    x: f64,
    y: f64,
}

fn pictures(figures: &[Figure], row: &str, points: &[Said]) -> Vec<String> {
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
    figures
        .iter()
        .filter(|figure| figure.row == row)
        .map(|figure| {
            let all: Vec<Curve> = figure.curves.iter().map(curve).collect();
            curve::curves(&figure.x, &figure.y, &all)
        })
        .filter(|picture| !picture.is_empty())
        .collect()
}

/// Measures every row that was asked for; `only`: their keys, none for all.
pub fn run(bench: &Bench, quick: bool, only: &[String]) -> Result<Report, Failure> {
    let mut run = Run::begin(quick, only);
    let class_path = build(bench)?;
    for asked in bench.rows {
        run.row(asked.key, || {
            let row = Row::new(asked.key, asked.title, asked.goals.to_vec());
            or_missing(row, |row| measure(bench, row, &class_path, quick))
        });
    }
    Ok(run.report(bench.title, &[]))
}

/// java/build and the measuring program; its class path. Absolute: nodes begin elsewhere.
fn build(bench: &Bench) -> Result<String, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = std::fs::canonicalize(&root).doing(|| "finding the repository")?;
    let java = root.join("target/java");
    let classes = root.join("target/bench").join(bench.name).join("classes");
    must(&mut Command::new(root.join("java/build")))?;
    let base: Vec<String> = bench
        .class_path
        .iter()
        .map(|part| java.join(part).display().to_string())
        .collect();
    let base = base.join(":");
    let mut files = sources(&root.join("bench").join(bench.name))?;
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

/// All Java files below a folder: what looks into the core is in the core's package.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).doing(|| format!("reading {}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|e| e == "java") {
            files.push(path);
        }
    }
    Ok(files)
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

fn measure(bench: &Bench, row: &mut Row, class_path: &str, quick: bool) -> Result<(), Failure> {
    let mut command = Command::new("java");
    command
        .args(["-cp", class_path, bench.main, row.key])
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
    row.pictures = pictures(bench.figures, row.key, &points);
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
                "plain" => Unit::Plain,
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
pub mod tests {
    use super::*;

    /// Every row has goals and a key of its own, every figure a row.
    pub fn are_whole(rows: &[Asked], figures: &[Figure]) {
        for (at, row) in rows.iter().enumerate() {
            assert!(!row.goals.is_empty(), "{}", row.key);
            assert!(rows.iter().skip(at + 1).all(|other| other.key != row.key));
        }
        for figure in figures {
            assert!(
                rows.iter().any(|row| row.key == figure.row),
                "{}",
                figure.row
            );
        }
    }

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
        let axis = |label| Axis {
            label,
            log: true,
            show: |v| format!("{v:.0}"),
        };
        let figures = [
            Figure {
                row: "farm",
                x: axis("workers"),
                y: axis("time"),
                curves: &["2 layers", "ideal"],
            },
            Figure {
                row: "arrays",
                x: axis("bytes"),
                y: axis("rate"),
                curves: &["frames"],
            },
        ];
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
        let drawn = pictures(&figures, "farm", &points);
        assert_eq!(drawn.len(), 1);
        assert!(
            drawn[0].contains("2 layers") && drawn[0].contains("workers"),
            "{}",
            drawn[0]
        );
        assert!(pictures(&figures, "calls", &points).is_empty());
        assert!(pictures(&figures, "arrays", &points).is_empty());
    }
}
