//! `kumiko jojo CONF PROPS`: finds Java, Jojo's jar and jPoP's beside it, and becomes `java silf.jojo.Jojo`; `kumiko jojo watch`
//! shows what such a program does. Not in it: any of Jojo.

mod chart;
mod history;
mod report;
mod view;
mod watch;

use crate::args::Jojo;
use crate::fail::{Failure, MISUSE};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// java/jojo's baseline.
const FEATURE_LEAST: u32 = 17;

pub fn jojo(jojo: &Jojo) -> Result<u8, Failure> {
    if let [first, rest @ ..] = jojo.arguments.as_slice() {
        if first == "watch" {
            return watch::watch(jojo, rest);
        }
    }
    let mut command = java(jojo, &[])?;
    let cause = command.args(&jojo.arguments).exec();
    let program = command.get_program().to_string_lossy();
    Err(Failure::from_text(format!(
        "{program} cannot be run: {cause}"
    )))
}

/// `java [OPTIONS] -cp ... silf.jojo.Jojo`.
fn java(jojo: &Jojo, options: &[OsString]) -> Result<Command, Failure> {
    let java = find_java(jojo.java.as_deref())?;
    if let Some(feature) = feature_of(&java).filter(|f| *f < FEATURE_LEAST) {
        return Err(Failure::from_text(format!(
            "{} is Java {feature}; Jojo needs {FEATURE_LEAST} or newer: name one by --java or JAVA_HOME",
            java.display()
        )));
    }
    let jar = find_jar()?;
    let jpop = jar.with_file_name("jpop.jar");
    let mut class_path = jar.into_os_string();
    if jpop.is_file() {
        class_path.push(":");
        class_path.push(jpop);
    }
    class_path.push(":");
    class_path.push(jojo.class_path.clone().unwrap_or_else(|| ".".into()));
    let mut command = Command::new(java);
    command
        .args(options)
        .arg("-cp")
        .arg(class_path)
        .arg("silf.jojo.Jojo");
    Ok(command)
}

/// As named, else of JAVA_HOME, else the first in PATH.
fn find_java(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        return if path.is_file() {
            Ok(path.to_owned())
        } else {
            Err(Failure {
                status: MISUSE,
                message: format!("--java {}: there is no such file", path.display()),
            })
        };
    }
    let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    home.into_iter()
        .chain(std::env::split_paths(&path).map(|folder| folder.join("java")))
        .find(|java| java.is_file())
        .ok_or_else(|| {
            Failure::from_text(
                "there is no java in JAVA_HOME or PATH: install one (Debian: default-jre-headless), or name it by --java",
            )
        })
}

/// The feature version that a JDK's or JRE's own `release` file tells; asking the JVM would cost its start.
fn feature_of(java: &Path) -> Option<u32> {
    let java = std::fs::canonicalize(java).ok()?;
    let release = java.parent()?.parent()?.join("release");
    feature_in(&std::fs::read_to_string(release).ok()?)
}

fn feature_in(release: &str) -> Option<u32> {
    let version = release
        .lines()
        .find_map(|line| line.strip_prefix("JAVA_VERSION="))?
        .trim_matches('"');
    let mut numbers = version.split(['.', '-', '+', '_']);
    let first: u32 = numbers.next()?.parse().ok()?;
    // Up to 8 it was called 1.8.
    if first == 1 {
        numbers.next()?.parse().ok()
    } else {
        Some(first)
    }
}

/// KUMIKO_JOJO_JAR, else beside this program, else where packages put it.
fn find_jar() -> Result<PathBuf, Failure> {
    let named = std::env::var_os("KUMIKO_JOJO_JAR").map(PathBuf::from);
    let program = std::env::current_exe()?;
    let beside = program.with_file_name("jojo.jar");
    let shared = program
        .parent()
        .and_then(Path::parent)
        .map(|root| root.join("share/kumiko/jojo.jar"));
    let places: Vec<PathBuf> = match named {
        Some(named) => vec![named],
        None => [beside]
            .into_iter()
            .chain(shared)
            .chain([PathBuf::from("/usr/share/java/jojo.jar")])
            .collect(),
    };
    places.iter().find(|jar| jar.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<OsString> = places.into_iter().map(PathBuf::into_os_string).collect();
        Failure::from_text(format!(
            "jojo.jar is not in {}: build it (`./x build` puts it beside kumiko), or name it in KUMIKO_JOJO_JAR",
            looked.join(&OsString::from(", ")).to_string_lossy()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_file_tells_the_feature_version() {
        for (text, feature) in [
            (
                "IMPLEMENTOR=\"Debian\"\nJAVA_VERSION=\"17.0.15\"\n",
                Some(17),
            ),
            ("JAVA_VERSION=\"1.8.0_292\"\n", Some(8)),
            ("JAVA_VERSION=\"25\"\n", Some(25)),
            ("JAVA_VERSION=\"25-ea\"\n", Some(25)),
            ("JAVA_VERSION=\"\"\n", None),
            ("", None),
        ] {
            assert_eq!(feature_in(text), feature, "{text}");
        }
    }
}
