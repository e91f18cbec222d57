//! `kumiko doctor`: what this machine can do for a site, and what is missing.

use crate::args::Format;
use crate::fail::Failure;
use crate::home::Home;
use crate::output::{self, Show};
use kumiko_linux::this_process;
use kumiko_policy::MechanismKind;
use kumiko_sandbox::Machine;
use serde::Serialize;

/// Open files that a site of some thousand live jobs needs.
const OPEN_FILES_WANTED: u64 = 10_000;

#[derive(Serialize)]
struct Finding {
    what: String,
    good: bool,
    found: String,
    /// What to try, where it is not good.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Show for Finding {
    fn human(&self) -> String {
        let mark = if self.good { "ok     " } else { "missing" };
        let mut text = format!("{mark}  {:<22} {}", self.what, self.found);
        if let Some(remedy) = &self.remedy {
            text.push_str(&format!("\n         try: {remedy}"));
        }
        text
    }
}

pub fn doctor(format: Format, home: &Home) -> Result<u8, Failure> {
    let mut findings = vec![Finding {
        what: "kernel".to_owned(),
        good: true,
        found: this_process::kernel_release(),
        remedy: None,
    }];
    findings.push(match Machine::probe().admits(MechanismKind::Namespace) {
        Ok(()) => Finding {
            what: "mechanism namespace".to_owned(),
            good: true,
            found: "this account may make user namespaces".to_owned(),
            remedy: None,
        },
        Err(obstacle) => Finding {
            what: "mechanism namespace".to_owned(),
            good: false,
            found: obstacle.why,
            remedy: Some(obstacle.remedy),
        },
    });
    let files = this_process::raise_open_files()?;
    findings.push(Finding {
        what: "open files".to_owned(),
        good: files >= OPEN_FILES_WANTED,
        found: format!("{files} at most"),
        remedy: (files < OPEN_FILES_WANTED)
            .then(|| format!("raise the hard limit (limits.conf: nofile {OPEN_FILES_WANTED})")),
    });
    let runner = std::env::current_exe()?.with_file_name("kumiko-run");
    let there = std::env::var_os("KUMIKO_RUN").is_some() || runner.is_file();
    findings.push(Finding {
        what: "runner".to_owned(),
        good: there,
        found: runner.display().to_string(),
        remedy: (!there).then(|| "install kumiko-run beside kumiko".to_owned()),
    });
    let certificate = home.host_certificate().exists();
    findings.push(Finding {
        what: "personal site".to_owned(),
        good: certificate,
        found: home.root().display().to_string(),
        remedy: (!certificate).then(|| "kumiko site start".to_owned()),
    });
    output::many(format, &findings)?;
    // A site that was never started is no fault of the machine.
    Ok(u8::from(
        findings
            .iter()
            .any(|f| !f.good && f.what != "personal site"),
    ))
}
