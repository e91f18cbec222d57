//! A batch system of shell scripts that outlive the site: what an attempt did is on disk, and its lock says whether it lives.
#![allow(dead_code)]

use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, Outcome};
use kumiko_job::contract::{AttemptSink, BatchError, BatchSystem};
use kumiko_job::id::AttemptId;
use kumiko_manager::Sink;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Holds the lock `alive` as long as it lives. `../guest.$1` counts how often the guest of a job began. Its `pid` is told
/// once it minds TERM, and `cancelled` looked for after that: whoever cancels it is heard by one of the two.
const RUNNER: &str = r#"
[ -e fenced ] && exit
mkdir begun || exit
end() { echo "$1" > status.new; mv status.new status; }
trap 'end cancelled; kill $! 2>/dev/null; exit' TERM
echo $$ > pid
trap '' PIPE
echo x >> "../guest.$1"
echo began 2>/dev/null
exec >/dev/null 2>&1
echo output > stdout
[ -e cancelled ] && { end cancelled; exit; }
[ "$2" = forever ] && { sleep 1000 & wait; }
end done
"#;

/// Waits for the lock, and says what is left; what never began is fenced.
const ADOPTER: &str = r#"
if [ -e status ]; then cat status
elif [ -e begun ]; then echo lost
else : > fenced; echo unbegun
fi
"#;

pub struct Paper {
    pub root: PathBuf,
    pub sink: Arc<Sink>,
}

fn outcome(word: &str) -> Outcome {
    match word.trim() {
        "done" => Outcome::Exited { status: 0 },
        "cancelled" => Outcome::Cancelled,
        "unbegun" => Outcome::not_begun("no trace".into()),
        other => Outcome::Lost {
            message: other.into(),
        },
    }
}

fn started() -> AttemptReport {
    AttemptReport::Started {
        pid: 1,
        mechanism: "paper".into(),
        not_enforced: Vec::new(),
        why: Vec::new(),
    }
}

fn what_is_left(spool: &Path) -> Outcome {
    let output = Command::new("flock")
        .args(["alive", "sh", "-c", ADOPTER])
        .current_dir(spool)
        .output()
        .unwrap();
    outcome(&String::from_utf8_lossy(&output.stdout))
}

impl BatchSystem for Paper {
    fn name(&self) -> &'static str {
        "paper"
    }

    fn admits(
        &self,
        _description: &kumiko_job::description::JobDescription,
    ) -> Result<(), kumiko_job::contract::Refusal> {
        Ok(())
    }

    async fn start(&self, spec: AttemptSpec) -> Result<(), BatchError> {
        let spool = self.spool(spec.id);
        std::fs::create_dir_all(&spool).unwrap();
        let mut child = Command::new("flock")
            .args(["-n", "-F", "alive", "sh", "-c", RUNNER, "runner"])
            .args([spec.id.job.to_string(), spec.executable])
            .current_dir(&spool)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let sink = Arc::clone(&self.sink);
        std::thread::spawn(move || {
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap())
                .read_line(&mut line)
                .unwrap();
            if line == "began\n" {
                sink.report(spec.id, started());
            }
            child.wait().unwrap();
            sink.report(spec.id, AttemptReport::Ended(what_is_left(&spool)));
        });
        Ok(())
    }

    async fn adopt(&self, id: AttemptId) {
        let spool = self.spool(id);
        std::fs::create_dir_all(&spool).unwrap();
        let sink = Arc::clone(&self.sink);
        std::thread::spawn(move || {
            if spool.join("begun").exists() {
                sink.report(id, started());
            }
            sink.report(id, AttemptReport::Ended(what_is_left(&spool)));
        });
    }

    async fn command(&self, id: AttemptId, command: AttemptCommand) {
        if let AttemptCommand::Cancel { .. } = command {
            std::fs::write(self.spool(id).join("cancelled"), "").unwrap();
            if let Ok(pid) = std::fs::read_to_string(self.spool(id).join("pid")) {
                let _ = Command::new("kill")
                    .arg(pid.trim())
                    .stderr(Stdio::null())
                    .status();
            }
        }
    }

    fn spool(&self, id: AttemptId) -> PathBuf {
        self.root.join(id.to_string())
    }

    async fn forget(&self, id: AttemptId) {
        let _ = std::fs::remove_dir_all(self.spool(id));
    }
}
