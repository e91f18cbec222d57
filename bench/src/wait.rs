//! Commands with a deadline, and their time.

use crate::fail::{Failure, While};
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// No single sample of any contender takes so long on a machine that is of use.
pub const SAMPLE_WITHIN: Duration = Duration::from_secs(120);

/// Fork, exec, run and wait; stdin and stdout are /dev/null.
///
/// # Errors
/// It could not be started, or did not end with 0.
pub fn timed(command: &mut Command) -> Result<Duration, Failure> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = command
        .spawn()
        .doing(|| format!("starting {}", line(command)))?;
    let ended = child
        .wait()
        .doing(|| format!("waiting for {}", line(command)))?;
    let took = begun.elapsed();
    if ended.success() {
        return Ok(took);
    }
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // What cannot be read is not told.
        let _ = stderr.read_to_string(&mut said);
    }
    Err(ended_with(command, &ended.to_string(), &said))
}

/// Runs to the end and gives what it said.
///
/// # Errors
/// It could not be started, did not end within the deadline, or not with 0.
pub fn output(command: &mut Command, within: Duration) -> Result<Output, Failure> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let said = line(command);
    let child = command.spawn().doing(|| format!("starting {said}"))?;
    let id = child.id();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let output = match told.recv_timeout(within) {
        Ok(output) => output.doing(|| format!("waiting for {said}"))?,
        Err(_) => {
            // By its number: the thread above holds the child, so that it is not reaped and the number is still its own.
            let _ = Command::new("kill")
                .args(["-KILL", &id.to_string()])
                .status();
            return Err(Failure::Deadline {
                what: format!("the end of {said}"),
                within,
            });
        }
    };
    if output.status.success() {
        return Ok(output);
    }
    Err(ended_with(
        command,
        &output.status.to_string(),
        &String::from_utf8_lossy(&output.stderr),
    ))
}

fn ended_with(command: &Command, status: &str, said: &str) -> Failure {
    let said = said.trim();
    let said = if said.is_empty() {
        String::new()
    } else {
        format!(": {said}")
    };
    Failure::Ended {
        command: line(command),
        status: status.to_owned(),
        said,
    }
}

/// A command as it would be typed.
pub fn line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|w| w.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_says_what_it_said() {
        let failed = timed(Command::new("sh").args(["-c", "echo wrong >&2; exit 3"]))
            .unwrap_err()
            .to_string();
        assert!(failed.contains("exit status: 3: wrong"), "{failed}");
        assert!(timed(&mut Command::new("/nonexistent/program")).is_err());
    }

    #[test]
    fn a_command_that_hangs_is_killed_at_the_deadline() {
        let hung = output(Command::new("sleep").arg("1000"), Duration::from_millis(50));
        assert!(matches!(hung, Err(Failure::Deadline { .. })));
    }
}
