//! The rule of arrows: xtask/rings.toml against what cargo knows of the crates, their lints and their sources.

use crate::fail::Failure;
use crate::shell::{self, Shell};
use crate::sources::Source;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// xtask/rings.toml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub ring: Vec<Ring>,
    pub beside: Vec<Beside>,
    meaning: Meaning,
    #[serde(rename = "unsafe")]
    unsafe_code: Unsafe,
    only: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    pub name: String,
    pub crates: Vec<String>,
}

/// An arrow within a ring.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    pub from: String,
    pub to: String,
    pub reason: String,
}

/// What binds ring 0 beyond the others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meaning {
    dependencies: BTreeSet<String>,
    absent: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unsafe {
    crates: BTreeSet<String>,
}

impl Table {
    pub fn read(shell: &Shell) -> Result<Self, Failure> {
        let path = shell.path("xtask/rings.toml");
        toml::from_str(&shell::read(&path)?).map_err(|cause| Failure::Toml { path, cause })
    }

    pub fn ring_of(&self, name: &str) -> Option<usize> {
        self.ring
            .iter()
            .position(|r| r.crates.iter().any(|c| c == name))
    }
}

/// One of our crates, as cargo sees it.
#[derive(Debug)]
pub struct Package {
    /// Its folder's name: `job` of `kumiko-job`.
    pub name: String,
    pub manifest: PathBuf,
    /// Our crates that it is built from.
    pub ours: BTreeSet<String>,
    /// Crates of others that it is built from.
    pub theirs: BTreeSet<String>,
    /// The same for its tests alone.
    pub theirs_in_tests: BTreeSet<String>,
    /// Its programs of tests, and what else of it has tests.
    pub tested: BTreeSet<Tested>,
}

/// What cargo makes a program of tests of, or several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tested {
    /// The library's own tests.
    Library,
    /// Its documentation's.
    Documents,
    Programs,
    /// A file or folder of `tests/`.
    File(String),
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: BTreeSet<String>,
    test: bool,
    doctest: bool,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// None: an ordinary one.
    kind: Option<String>,
    path: Option<PathBuf>,
}

/// The workspace's packages, sorted by name.
pub fn packages(shell: &Shell) -> Result<Vec<Package>, Failure> {
    let said =
        shell::text_of(&mut shell.cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Metadata = serde_json::from_str(&said).map_err(|cause| Failure::Answer {
        program: "cargo metadata".into(),
        cause: cause.to_string(),
    })?;
    let mut packages: Vec<Package> = metadata.packages.into_iter().map(package).collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

fn package(found: MetadataPackage) -> Package {
    let mut package = Package {
        name: folder_name(&found.name),
        manifest: found.manifest_path,
        ours: BTreeSet::new(),
        theirs: BTreeSet::new(),
        theirs_in_tests: BTreeSet::new(),
        tested: found.targets.into_iter().flat_map(tested).collect(),
    };
    for dependency in found.dependencies {
        match (
            dependency.path.is_some(),
            dependency.kind.as_deref() == Some("dev"),
        ) {
            (true, false) => package.ours.insert(folder_name(&dependency.name)),
            (true, true) => false,
            (false, false) => package.theirs.insert(dependency.name),
            (false, true) => package.theirs_in_tests.insert(dependency.name),
        };
    }
    package
}

fn tested(target: Target) -> Vec<Tested> {
    let kind = target.kind.first().map_or("", String::as_str);
    let own = match kind {
        "test" => Tested::File(target.name),
        "bin" => Tested::Programs,
        "bench" | "custom-build" | "example" => return Vec::new(),
        _ => Tested::Library,
    };
    let documents = target.doctest.then_some(Tested::Documents);
    target
        .test
        .then_some(own)
        .into_iter()
        .chain(documents)
        .collect()
}

fn folder_name(package: &str) -> String {
    package
        .strip_prefix("kumiko-")
        .unwrap_or(package)
        .to_owned()
}

/// What breaks the rule of arrows.
pub fn check(table: &Table, packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    let known: BTreeSet<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    for name in table.ring.iter().flat_map(|r| &r.crates) {
        if !known.contains(name.as_str()) {
            findings.push(format!("xtask/rings.toml: there is no crate {name}"));
        }
    }
    for beside in table.beside.iter().filter(|b| b.reason.trim().is_empty()) {
        findings.push(format!(
            "xtask/rings.toml: {} beside {} without a reason",
            beside.from, beside.to
        ));
    }
    for package in packages {
        let Some(ring) = table.ring_of(&package.name) else {
            findings.push(format!(
                "{}: stands in no ring of xtask/rings.toml",
                package.manifest.display()
            ));
            continue;
        };
        for other in &package.ours {
            let beside = table
                .beside
                .iter()
                .any(|b| b.from == package.name && b.to == *other);
            let below = table.ring_of(other).is_some_and(|r| r < ring);
            if !below && !beside {
                findings.push(format!(
                    "{}: {} may not depend on {other}: arrows point to lower rings (xtask/rings.toml)",
                    package.manifest.display(),
                    package.name
                ));
            }
        }
        if ring == 0 {
            for other in package.theirs.difference(&table.meaning.dependencies) {
                findings.push(format!(
                    "{}: ring 0 does not use {other} ([meaning] in xtask/rings.toml)",
                    package.manifest.display()
                ));
            }
        }
        for other in package.theirs.union(&package.theirs_in_tests) {
            if table
                .only
                .get(other)
                .is_some_and(|who| !who.contains(&package.name))
            {
                findings.push(format!(
                    "{}: {other} is not {}'s to name ([only] in xtask/rings.toml)",
                    package.manifest.display(),
                    package.name
                ));
            }
        }
    }
    findings
}

/// What ring 0 must not even name, and who allows itself unsafe code.
pub fn check_sources(table: &Table, sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        if table.ring_of(source.package()) == Some(0) {
            for (number, line) in source.program_lines() {
                for absent in table
                    .meaning
                    .absent
                    .iter()
                    .filter(|a| line.contains(a.as_str()))
                {
                    findings.push(format!(
                        "{}:{number}: ring 0 does not know {absent}",
                        source.path.display()
                    ));
                }
            }
        }
        if !table.unsafe_code.crates.contains(source.package()) {
            for (index, line) in source.text.lines().enumerate() {
                if line.trim_start().starts_with("#") && line.contains("(unsafe_code") {
                    findings.push(format!(
                        "{}:{}: unsafe is not allowed here",
                        source.path.display(),
                        index + 1
                    ));
                }
            }
        }
    }
    findings
}

/// Every crate lives by the workspace's lints; one that needs unsafe repeats them all but that.
pub fn check_lints(
    shell: &Shell,
    table: &Table,
    packages: &[Package],
) -> Result<Vec<String>, Failure> {
    let read = |path: PathBuf| -> Result<toml::Table, Failure> {
        shell::read(&path)?
            .parse()
            .map_err(|cause| Failure::Toml { path, cause })
    };
    let root = read(shell.path("Cargo.toml"))?;
    let workspace = root.get("workspace").and_then(|w| w.get("lints"));
    let mut findings = Vec::new();
    for package in packages {
        let manifest = read(package.manifest.clone())?;
        let lints = manifest.get("lints");
        let inherits = lints
            .and_then(|l| l.get("workspace"))
            .and_then(toml::Value::as_bool)
            == Some(true);
        let may_differ = table.unsafe_code.crates.contains(&package.name);
        if inherits {
            continue;
        }
        for tool in ["rust", "clippy"] {
            let wanted = workspace
                .and_then(|w| w.get(tool))
                .and_then(toml::Value::as_table);
            for (lint, level) in wanted.into_iter().flatten() {
                let excused = may_differ && lint == "unsafe_code";
                let same = lints.and_then(|l| l.get(tool)).and_then(|t| t.get(lint)) == Some(level);
                if !same && !excused {
                    findings.push(format!(
                        "{}: [lints] lacks {tool}.{lint} = {level}",
                        package.manifest.display()
                    ));
                }
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        beside = [{ from = "runner", to = "sandbox", reason = "its one user" }]
        [[ring]]
        name = "meaning"
        crates = ["job"]
        [[ring]]
        name = "services"
        crates = ["runner", "sandbox", "manager"]
        [meaning]
        dependencies = ["serde"]
        absent = ["std::fs"]
        [unsafe]
        crates = ["linux"]
        [only]
        libc = ["linux"]
    "#;

    fn findings(name: &str, ours: &[&str], theirs: &[&str]) -> usize {
        let table: Table = toml::from_str(TABLE).unwrap();
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let package = |name: &str, ours: &[&str], theirs: &[&str]| Package {
            name: name.into(),
            manifest: PathBuf::new(),
            ours: set(ours),
            theirs: set(theirs),
            theirs_in_tests: BTreeSet::new(),
            tested: BTreeSet::new(),
        };
        let mut packages = vec![package(name, ours, theirs)];
        for other in ["job", "runner", "sandbox", "manager"]
            .into_iter()
            .filter(|o| *o != name)
        {
            packages.push(package(other, &[], &[]));
        }
        check(&table, &packages).len()
    }

    #[test]
    fn arrows_point_down_or_where_the_table_says() {
        for (name, ours, theirs, wrong) in [
            ("manager", &["job"][..], &[][..], 0),
            ("runner", &["sandbox", "job"], &[], 0),
            ("sandbox", &["runner"], &[], 1),
            ("manager", &["runner"], &[], 1),
            ("job", &["manager"], &[], 1),
            ("job", &[], &["serde"], 0),
            ("job", &[], &["tokio"], 1),
            ("manager", &[], &["libc"], 1),
            ("stranger", &[], &[], 1),
        ] {
            assert_eq!(
                findings(name, ours, theirs),
                wrong,
                "{name} {ours:?} {theirs:?}"
            );
        }
    }

    #[test]
    fn ring_0_does_not_name_the_machine_outside_tests() {
        let table: Table = toml::from_str(TABLE).unwrap();
        for (text, wrong) in [
            ("use std::fs;", 1),
            ("// std::fs", 0),
            ("#[cfg(test)]\nuse std::fs;", 0),
        ] {
            let source = Source {
                path: "crates/job/src/a.rs".into(),
                text: text.into(),
            };
            assert_eq!(check_sources(&table, &[source]).len(), wrong, "{text}");
        }
    }

    #[test]
    fn nobody_else_may_allow_unsafe() {
        let table: Table = toml::from_str(TABLE).unwrap();
        for (path, wrong) in [("crates/job/src/a.rs", 1), ("crates/linux/src/a.rs", 0)] {
            let source = Source {
                path: path.into(),
                text: "#![allow(unsafe_code)]".into(),
            };
            assert_eq!(check_sources(&table, &[source]).len(), wrong, "{path}");
        }
    }
}
