//! The rows of `bench batch` of a site's folders on a host that does not have them (spec/jobs/pilots.md, PL50), beside sshfs, which also
//! shows a folder of another machine by ssh, and the folder itself. A mount namespace in which the folder is hidden stands for the host.

use crate::bench::{Bench, program};
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::peers::found;
use crate::peers::ssh::Ssh;
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::stats::Unit;
use crate::wait;
use kumiko_ferry::files::Files;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const OURS: &str = "carried";
const SSHFS: &str = "sshfs";
const ITSELF: &str = "the folder itself";
const WITHIN: Duration = Duration::from_secs(120);
/// What is not in memory is read; on all sides of the way.
const FORGET: &str = "sync; echo 3 >/proc/sys/vm/drop_caches";

pub fn written(bench: &Bench) -> Row {
    let work = Work {
        before: ":",
        timed: "dd if=/dev/zero of=big bs=1M count=64 conv=fsync",
    };
    let title = "64 MiB are written on a host that shares no file system, and synced";
    row(bench, "carried_write", title, work)
}

pub fn read(bench: &Bench) -> Row {
    let work = Work {
        before: "head -c 64M /dev/urandom >big; sync",
        timed: "cat big >/dev/null",
    };
    row(bench, "carried_read", "64 MiB are read there", work)
}

pub fn again(bench: &Bench) -> Row {
    let work = Work {
        before: "test -e known || head -c 64M /dev/urandom >known; cp known big; sync",
        timed: "cat big >/dev/null",
    };
    let title = "a copy of 64 MiB that were read there is read";
    row(bench, "carried_again", title, work)
}

pub fn small(bench: &Bench) -> Row {
    let work = Work {
        before: ":",
        timed: "i=0; while [ $i -lt 300 ]; do echo x >f$i; read y <f$i; i=$((i+1)); done",
    };
    let title = "300 small files are made there, written and read";
    row(bench, "carried_small", title, work)
}

/// Lines of a shell.
#[derive(Clone, Copy)]
struct Work {
    /// At the site.
    before: &'static str,
    /// Where the folder is seen.
    timed: &'static str,
}

struct Place {
    folder: tempfile::TempDir,
    files: Files,
    ssh: Ssh,
}

impl Drop for Place {
    fn drop(&mut self) {
        // It is gone with the folder otherwise, only later.
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.seen_by_ssh())
            .status();
    }
}

impl Place {
    fn new() -> Result<Place, Failure> {
        found("sshfs", "sshfs")?;
        let folder = tempfile::tempdir().doing(|| "making a folder")?;
        let spool = folder.path().join("site/spool");
        fs::create_dir_all(spool.join("pilot-1")).doing(|| "making a folder")?;
        let ferry = program("KUMIKO_FERRY", "kumiko-ferry")?;
        let at = "127.0.0.1"
            .parse()
            .map_err(|error| Failure::said("an address", &error))?;
        let files = Files::open(&ferry, &spool, &at, vec![spool.clone()])
            .and_then(|files| files.tickets(&spool.join("pilot-1"), 1).map(|()| files))
            .map_err(|error| Failure::said("having files carried", &error))?;
        let place = Place {
            folder,
            files,
            ssh: Ssh::start()?,
        };
        fs::create_dir_all(place.seen_by_ssh()).doing(|| "making a folder")?;
        let mut mount = place.ssh.mounts(&place.here(), &place.seen_by_ssh());
        wait::output(&mut mount, WITHIN)?;
        Ok(place)
    }

    fn here(&self) -> PathBuf {
        self.folder.path().join("site/spool/pilot-1")
    }

    fn seen_by_ssh(&self) -> PathBuf {
        self.folder.path().join("ssh")
    }

    /// Seconds that the work took, in a folder as the host sees it.
    fn took(&self, seen: &Path, work: Work, on_host: bool) -> Result<f64, Failure> {
        let Work { before, timed } = work;
        let mut prepare = Command::new("/bin/sh");
        prepare.arg("-c").arg(format!("{before}; {FORGET}"));
        wait::output(prepare.current_dir(self.here()), WITHIN)?;
        let line = format!(
            "cd {} && {{ s=$(date +%s%N); {timed}; e=$(date +%s%N); echo $((e-s)) >took; }} >/dev/null 2>&1; rm -f big f[0-9]*",
            seen.display()
        );
        let line = ["/bin/sh".to_owned(), "-c".to_owned(), line];
        let mut command = match on_host {
            false => Command::new(&line[0]),
            true => Command::new("unshare"),
        };
        if on_host {
            let script = self
                .files
                .script(&self.here(), &line, None)
                .doing(|| "writing a script")?;
            let file = self.folder.path().join("script");
            fs::write(&file, script).doing(|| "writing a script")?;
            let hidden = r#"mount -t tmpfs none "$1" && exec sh "$2""#;
            let site = self.folder.path().join("site");
            command
                .args(["--mount", "sh", "-c", hidden, "host"])
                .arg(site)
                .arg(file)
                .env("KUMIKO_HOST_CACHE", self.folder.path().join("cache"));
        } else {
            command.args(&line[1..]);
        }
        wait::output(&mut command, WITHIN)?;
        let told = fs::read_to_string(self.here().join("took")).doing(|| "reading what it took")?;
        let took: f64 = told
            .trim()
            .parse()
            .map_err(|error| Failure::said("reading what it took", &error))?;
        Ok(took / 1e9)
    }
}

fn row(bench: &Bench, key: &'static str, title: &'static str, work: Work) -> Row {
    let goals = vec![Goal {
        text: "≤ sshfs's time",
        ours: OURS,
        reach: Reach::AtMostTimes {
            theirs: SSHFS,
            times: 1.0,
        },
    }];
    or_missing(Row::new(key, title, goals), |row| {
        let place = Place::new()?;
        let (here, by_ssh) = (place.here(), place.seen_by_ssh());
        let contenders = vec![
            Contender::new(OURS, Unit::Seconds, || place.took(&here, work, true)),
            Contender::new(SSHFS, Unit::Seconds, || place.took(&by_ssh, work, false)),
            Contender::new(ITSELF, Unit::Seconds, || place.took(&here, work, false)),
        ];
        rounds::take(row, bench.rounds(20), contenders);
        row.note("On loopback, both encrypted; only for root. sshfs with what it does by itself: its kernel keeps names and sizes for 20 s, ours asks each time.");
        Ok(())
    })
}
