//! What the run was measured on; without it a figure means nothing. Not here: any judgement of it.

use serde::Serialize;
use std::fs;
use std::process::Command;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    pub processor: String,
    pub processors: usize,
    pub memory: String,
    pub kernel: String,
    pub system: String,
    /// Runnable tasks over the last minute, before the run: what else was going on.
    pub load_before: String,
    pub load_after: String,
    /// The peers' own words.
    pub peers: Vec<String>,
    pub run: String,
}

impl Machine {
    pub fn here() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str, separator: char| {
            text.lines()
                .filter_map(|l| l.split_once(separator))
                .find(|(key, _)| key.trim() == name)
                .map_or_else(
                    || "unknown".to_owned(),
                    |(_, value)| value.trim().trim_matches('"').to_owned(),
                )
        };
        Machine {
            processor: field(&read("/proc/cpuinfo"), "model name", ':'),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory: field(&read("/proc/meminfo"), "MemTotal", ':'),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: field(&read("/etc/os-release"), "PRETTY_NAME", '='),
            load_before: load(),
            peers: [
                ("ssh", "-V"),
                ("openssl", "version"),
                ("bwrap", "--version"),
            ]
            .into_iter()
            .filter_map(|(program, flag)| first_line(program, flag))
            .collect(),
            ..Machine::default()
        }
    }

    pub fn ended(&mut self) {
        self.load_after = load();
    }

    pub fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            (
                "processor",
                format!("{} × {}", self.processors, self.processor),
            ),
            ("memory", self.memory.clone()),
            ("kernel", self.kernel.clone()),
            ("system", self.system.clone()),
            (
                "load of the last minute, before and after",
                format!("{}, {}", self.load_before, self.load_after),
            ),
            ("peers", self.peers.join(", ")),
            ("run", self.run.clone()),
        ]
    }
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// ssh says its version on stderr.
fn first_line(program: &str, flag: &str) -> Option<String> {
    let said = Command::new(program).arg(flag).output().ok()?;
    let text = if said.stdout.is_empty() {
        said.stderr
    } else {
        said.stdout
    };
    String::from_utf8_lossy(&text)
        .lines()
        .next()
        .map(str::to_owned)
}
