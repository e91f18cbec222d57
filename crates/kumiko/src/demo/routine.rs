//! The step of the tour in which a routine's process and its site are killed, and its caller notices nothing but the time.

use super::Tour;
use crate::fail::{Failure, While};
use crate::output::say;
use crate::rpc::library;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Ships with the examples of routines.
const STEPS_IDL: &str = include_str!("../../../../examples/rpc/steps.idl");
/// Half a minute, if nothing happens.
const CALL: [&str; 5] = ["rpc", "call", "steps/walk", "3000", "10000"];
/// Half-way, and again.
const KILL_PROCESS_AFTER: Duration = Duration::from_secs(15);
const KILL_SITE_AFTER: Duration = Duration::from_secs(20);

impl Tour {
    pub(super) fn routine(&mut self) -> Result<(), Failure> {
        self.says("A routine of 30 s is called. Its process is killed after 15 s, the site after 20 s; there is one result.")?;
        if let Err(missing) = library::find() {
            say!("Left out here: {missing}")?;
            return Ok(());
        }
        std::fs::write(self.place.0.join("steps.idl"), STEPS_IDL)
            .doing(|| "writing steps.idl".to_owned())?;
        self.shows(
            &["rpc", "gen", "--checkpoint", "steps.idl"],
            "",
            0,
            "steps.walk",
        )?;
        self.shows(&["rpc", "register", "steps.walk"], "", 0, "steps/walk")?;
        self.shows(&["rpc", "list"], "", 0, "[checkpoint]")?;
        say!("$ kumiko {} &", CALL.join(" "))?;
        let begun = Instant::now();
        let call = self.command(&CALL)?.spawn()?;
        let mut process = None;
        self.until("the routine computes", || {
            process = find(&self.place.0);
            process.is_some()
        })?;
        let site = self.running()?;
        let notes = self.home()?.root().join("rpc/calls");
        let mut id = None;
        self.until("the call is noted", || {
            id = noted(&notes);
            id.is_some()
        })?;
        rest(begun, KILL_PROCESS_AFTER);
        if let Some(process) = process {
            kill(process, "the routine's process")?;
        }
        rest(begun, KILL_SITE_AFTER);
        self.kill_site()?;
        self.shows(
            &["site", "start", "--listen", &site.address],
            "",
            0,
            "is up",
        )?;
        let output = call.wait_with_output()?;
        let took = begun.elapsed();
        say!("The call has ended:")?;
        std::io::stdout().write_all(&output.stdout)?;
        std::io::stdout().write_all(&output.stderr)?;
        say!("  -- {:.1} s since it was called", took.as_secs_f64())?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || !said.contains("pi = 3.14159265") {
            return Err(Failure::from_text("the routine's result is not pi"));
        }
        let id = id.unwrap_or_default();
        say!("What happened is recorded:")?;
        self.shows(&["rpc", "show", &id], "", 0, "from checkpoint")
    }
}

/// The one call that was begun here, as its note is named: SITE@CALL.
fn noted(notes: &Path) -> Option<String> {
    let name = std::fs::read_dir(notes).ok()?.flatten().next()?.file_name();
    let (_, call) = name.to_str()?.rsplit_once('@')?;
    // What is being written has another name.
    call.chars()
        .all(|c| c == '-' || c.is_ascii_digit())
        .then(|| call.to_owned())
}

fn rest(begun: Instant, until: Duration) {
    while let Some(left) = until.checked_sub(begun.elapsed()) {
        std::thread::park_timeout(left.max(Duration::from_millis(1)));
    }
}

/// The process of a routine whose folder lies in the place of the tour.
fn find(place: &Path) -> Option<i32> {
    let mine = place.file_name()?.as_bytes();
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.file_name().to_str()?.parse().ok()?)))
        .find(|(path, _): &(_, i32)| {
            let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
            let mounts = std::fs::read(path.join("mountinfo")).unwrap_or_default();
            line.starts_with(b"/job/routine\0")
                && mounts.windows(mine.len()).any(|window| window == mine)
        })
        .map(|(_, pid)| pid)
}

pub(super) fn kill(pid: i32, what: &str) -> Result<(), Failure> {
    say!("$ kill -9 {pid}   # {what}")?;
    let process = kumiko_linux::process::pidfd(pid)?;
    kumiko_linux::process::signal(process.as_fd(), 9)?;
    Ok(())
}
