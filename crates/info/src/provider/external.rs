//! Programs that print LDIF or JSON (spec/info, P4 to P7): started on a schedule, inside the sandbox unless the operator
//! says otherwise, killed with all they started when their time is over.

use crate::config;
use crate::time::{millis, parse_generalized};
use kumiko_directory::ldif::{self, OUTPUT_MOST_BYTES};
use kumiko_directory::provider::{Provider, ReadError, Reading};
use kumiko_directory::{Dn, Entry};
use std::ffi::OsString;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// Of what it says on stderr.
const SAID_MOST_BYTES: u64 = 1000;
/// signal(7).
const SIGKILL: i32 = 9;

pub(crate) struct External {
    settings: config::External,
    suffix: Dn,
    sandbox: Vec<OsString>,
}

impl External {
    pub fn new(settings: config::External, suffix: Dn, sandbox: &[OsString]) -> External {
        let sandbox = if settings.sandbox { sandbox } else { &[] };
        External {
            settings,
            suffix,
            sandbox: sandbox.to_vec(),
        }
    }

    async fn run(&self) -> Result<Vec<Entry>, ReadError> {
        let own = self.settings.command.iter().map(OsString::from);
        let mut line = self.sandbox.iter().cloned().chain(own);
        let program = line.next().unwrap_or_default();
        let io = |what: &str| {
            let what = format!("{what} {}", program.to_string_lossy());
            move |cause| ReadError::Io { what, cause }
        };
        let mut child = Command::new(&program)
            .args(line)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .map_err(io("starting"))?;
        let group = Group(child.id());
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (output, said) = tokio::join!(
            gather(out, OUTPUT_MOST_BYTES as u64 + 1),
            gather(err, SAID_MOST_BYTES)
        );
        let (output, said) = (output.map_err(io("reading"))?, said.unwrap_or_default());
        if output.len() > OUTPUT_MOST_BYTES {
            let limit = OUTPUT_MOST_BYTES;
            return Err(ReadError::TooLong { limit });
        }
        let status = child.wait().await.map_err(io("waiting for"))?;
        drop(group);
        if !status.success() {
            return Err(ReadError::Failed {
                status: status.to_string(),
                said: String::from_utf8_lossy(&said).trim().to_owned(),
            });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = millis(now.unwrap_or_default());
        let entries = ldif::parse(&String::from_utf8_lossy(&output))?;
        let placed = entries.into_iter().map(|mut entry| {
            // MDS providers print whole names; ours may print them relative.
            let relative = entry.dn.relative_to(&self.suffix);
            entry.dn = relative.unwrap_or(entry.dn);
            ldif::stamp(entry, now_ms, self.settings.holds_ms, parse_generalized)
        });
        Ok(placed.filter(|e| !e.dn.is_root()).collect())
    }
}

/// Kills what is left of a provider and of all that it started.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.and_then(|g| i32::try_from(g).ok()) {
            // It may have ended by itself, all of it.
            let _ = kumiko_linux::process::signal_group(group, SIGKILL);
        }
    }
}

async fn gather(from: Option<impl AsyncRead + Unpin>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(most).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

impl Provider for External {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn every(&self) -> Duration {
        Duration::from_millis(self.settings.every_ms)
    }

    fn limit(&self) -> Duration {
        Duration::from_millis(self.settings.limit_ms)
    }

    fn read(&mut self) -> Reading<'_> {
        Box::pin(self.run())
    }
}
