//! `./x test java`: what is below java/, built by javac and run by its own runner, once on each JVM that counts, at the same time.
//!
//! Not in it: how it is compiled (java/build), what a test is (`silf.jojo.testkit.Run`, which prints as cargo does).

use crate::build::{self, Profile, Told};
use crate::fail::Failure;
use crate::shell::{self, Shell};
use crate::sources;
use crate::tally::Part;
use std::path::PathBuf;
use std::time::Instant;

/// Where Debian and others put JVMs.
const PLACE: &str = "/usr/lib/jvm";

/// The oldest Java that Jojo runs on: its tests run there, wherever it is to be had.
const BASELINE: u32 = 17;

/// Runs the tests on the oldest JVM that Jojo takes, of the one in `PATH` and those of [`PLACE`], then on the newest.
/// `all`: with all that takes long.
pub fn parts(shell: &Shell, all: bool) -> Result<Vec<Part>, Failure> {
    let begun = Instant::now();
    let mut compiled = Part::new("java: compiled");
    let built = shell::ok(&mut shell.command("java/build"));
    compiled.took = begun.elapsed();
    match built {
        Ok(()) => {}
        Err(Failure::Failed { program }) => {
            compiled.failed.push(program);
            return Ok(vec![compiled]);
        }
        Err(other) => return Err(other),
    }
    let mut parts = vec![compiled];
    let jvms = jvms();
    if jvms.first().is_none_or(|(feature, _)| *feature != BASELINE) {
        // As a test would say it: the run's end lists it.
        let skip = format!("SKIP java: missing Java {BASELINE}");
        eprintln!("{skip}");
        parts[0].line(&skip);
    }
    // These tests mostly wait: beside one another they take little longer than one.
    std::thread::scope(|scope| {
        let runs = ends(jvms).into_iter().map(|(feature, program)| {
            scope.spawn(move || run(shell, &format!("java {feature}"), program, all))
        });
        for run in runs.collect::<Vec<_>>() {
            parts.push(
                run.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            );
        }
        Ok(parts)
    })
}

/// Builds the jars and puts them beside `kumiko`: `KUMIKO_JOJO_JAR`, and the other beside it. Nothing where there is no JDK: all else does without.
pub fn jar(shell: &Shell, profile: Profile) -> Result<Told, Failure> {
    let there = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|f| f.join("javac").is_file()));
    if !there {
        return Ok(Told::new());
    }
    shell::ok(&mut shell.command("java/build"))?;
    let bin = profile.bin(shell);
    for jar in ["jpop.jar", "jojo.jar"] {
        build::replace(&shell.path("target/java").join(jar), &bin.join(jar))?;
    }
    Ok(vec![("KUMIKO_JOJO_JAR", bin.join("jojo.jar"))])
}

/// All classes named `...Test` below the tests' folder, as the runner takes them.
fn classes(shell: &Shell) -> Result<Vec<String>, Failure> {
    let folder = shell.path("target/java/tests");
    let files = sources::files_below(&folder)?;
    let names = files.iter().filter_map(|file| {
        let name = file.strip_prefix(&folder).ok()?.to_str()?;
        (name.ends_with("Test.class") && !name.contains('$'))
            .then(|| name.trim_end_matches(".class").replace('/', "."))
    });
    Ok(names.collect())
}

fn run(shell: &Shell, name: &str, java: PathBuf, all: bool) -> Result<Part, Failure> {
    let begun = Instant::now();
    let mut part = Part::new(name);
    let mut command = shell.command(java);
    if !all {
        // A third of the processors' time is the second compiler's, which gains nothing back in these minutes. Nodes have both.
        command.arg("-XX:TieredStopAtLevel=1");
    }
    command
        .args([
            "-ea",
            &format!("-Dtestkit.all={all}"),
            "-cp",
            "target/java/jojo.jar:target/java/jpop.jar:target/java/testkit.jar:target/java/tests",
            "silf.jojo.testkit.Run",
        ])
        .args(classes(shell)?);
    let log = shell
        .path("target/x")
        .join(format!("{}.log", name.replace(' ', "-")));
    let mut shown = false;
    let well = shell::watch(&mut command, &log, |line| {
        part.line(line);
        shown = line.ends_with(" ... FAILED") || shown && !line.starts_with("test ");
        if shown || line.starts_with("test result") {
            eprintln!("{line}");
        }
    })?;
    if !well && part.well() {
        part.failed.push(format!("{name} (see {})", log.display()));
    }
    part.took = begun.elapsed();
    Ok(part)
}

/// JVMs that Jojo runs on, from old to new, each feature version once: the one in `PATH`, and those of [`PLACE`].
fn jvms() -> Vec<(u32, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = std::env::split_paths(&path)
        .find_map(|folder| folder.join("java").canonicalize().ok())
        .and_then(|java| Some(java.parent()?.parent()?.to_path_buf()));
    let others = std::fs::read_dir(PLACE).into_iter().flatten().flatten();
    let homes = usual.into_iter().chain(others.map(|home| home.path()));
    let mut jvms: Vec<(u32, PathBuf)> = homes
        .filter_map(|home| {
            let java = home.join("bin/java");
            Some((feature(&home)?, java.is_file().then_some(java)?))
        })
        .filter(|(feature, _)| *feature >= BASELINE)
        .collect();
    jvms.sort_by_key(|(feature, _)| *feature);
    jvms.dedup_by_key(|(feature, _)| *feature);
    jvms
}

/// The first and the last, which may be one.
fn ends(mut jvms: Vec<(u32, PathBuf)>) -> Vec<(u32, PathBuf)> {
    if jvms.len() > 2 {
        jvms.drain(1..jvms.len() - 1);
    }
    jvms
}

/// What the file `release` of a JVM's home says.
fn feature(home: &std::path::Path) -> Option<u32> {
    let text = std::fs::read_to_string(home.join("release")).ok()?;
    let version = text.lines().find_map(|l| l.strip_prefix("JAVA_VERSION="))?;
    version
        .trim_matches('"')
        .split(['.', '-', '+'])
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_and_the_newest_are_run_and_each_once() {
        let of = |features: &[u32]| -> Vec<u32> {
            let jvms = features.iter().map(|f| (*f, PathBuf::new())).collect();
            ends(jvms).into_iter().map(|(feature, _)| feature).collect()
        };
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[21]), [21]);
        assert_eq!(of(&[17, 25]), [17, 25]);
        assert_eq!(of(&[17, 21, 24, 25]), [17, 25]);
    }
}
