//! `./x test java`: what is below java/, built by javac and run by its own runner, once on each JVM that counts.
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

/// Runs the tests on the JVM in `PATH`, then on the newest one of [`PLACE`], if that is another.
pub fn parts(shell: &Shell) -> Result<Vec<Part>, Failure> {
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
    let mut parts = vec![compiled, run(shell, "java", PathBuf::from("java"))?];
    if let Some((feature, program)) = newest() {
        parts.push(run(shell, &format!("java {feature}"), program)?);
    }
    Ok(parts)
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
        name.ends_with("Test.class")
            .then(|| name.trim_end_matches(".class").replace('/', "."))
    });
    Ok(names.collect())
}

fn run(shell: &Shell, name: &str, java: PathBuf) -> Result<Part, Failure> {
    let begun = Instant::now();
    let mut part = Part::new(name);
    let mut command = shell.command(java);
    command
        .args([
            "-ea",
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

/// The newest JVM of [`PLACE`] and its feature version, if it is newer than the one in `PATH`.
fn newest() -> Option<(u32, PathBuf)> {
    let usual = std::env::split_paths(&std::env::var_os("PATH")?)
        .find_map(|folder| folder.join("java").canonicalize().ok())
        .and_then(|java| feature(java.parent()?.parent()?));
    let homes = std::fs::read_dir(PLACE).ok()?.flatten();
    homes
        .filter_map(|home| {
            let java = home.path().join("bin/java");
            Some((feature(&home.path())?, java.is_file().then_some(java)?))
        })
        .max()
        .filter(|(feature, _)| Some(*feature) > usual)
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
