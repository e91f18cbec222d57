//! `kumiko demo`: a tour with timings, in a throw-away place. Each step is a command that anybody could type; it is run
//! as such, and the tour fails where one does not do what it shows.

mod grid;
mod routine;

use crate::fail::{Failure, While};
use crate::home::{Home, Running};
use crate::output::say;
use crate::site::Throwaway;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Paper 000, figure 2.
const FIGURE_2: &str = "type:\n1(ptrace)\nfile_path:\n/usr/lib /usr/lib 0\n/etc/passwd /etc/hosts 0\nio_limit:\ndisk 30\nnet 30\netc:\ntrace_fork 1\n";

/// pi by the midpoint rule; long enough to be a computation, short enough for a tour.
const PI_C: &str = r#"#include <stdio.h>
int main(void) {
    const long n = 20000000;
    double sum = 0;
    for (long i = 0; i < n; i++) {
        double x = (i + 0.5) / n;
        sum += 4 / (1 + x * x);
    }
    FILE *f = fopen("pi.txt", "w");
    if (!f) return 1;
    fprintf(f, "%.12f\n", sum / n);
    return fclose(f) != 0;
}
"#;

/// Counts its starts, waits for a file, and ends with 5.
const PATIENT: &str = "echo start >> starts; echo begun; until test -e go; do sleep 0.05; done; echo done after $(wc -l < starts) start; exit 5";

/// Longer than any wait of the tour takes on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(30);

struct Tour {
    place: Throwaway,
    step: u32,
}

pub fn demo() -> Result<u8, Failure> {
    let tour = Tour {
        place: Throwaway::new()?,
        step: 0,
    };
    let begun = Instant::now();
    tour.walk()?;
    say!(
        "\nThat was kumiko, in {:.1} s. Everything it made is removed.",
        begun.elapsed().as_secs_f64()
    )?;
    say!("Next: `kumiko site start`, and `kumiko --help`.")?;
    Ok(0)
}

impl Tour {
    fn walk(mut self) -> Result<(), Failure> {
        say!("A tour of kumiko. It plays in {}.", self.place.0.display())?;
        self.says("A site of your own: no root, no configuration; its authority and certificates are made now.")?;
        self.shows(
            &["site", "start", "--listen", "127.0.0.1:0"],
            "",
            0,
            "is up",
        )?;

        self.says("A program runs there, as you, inside the sandbox. Its output streams back.")?;
        self.shows(&["job", "run", "--", "uname", "-a"], "", 0, "Linux")?;
        self.says("Again: the certificates are checked and a fenced process started each time, and it is milliseconds.")?;
        self.shows(&["job", "run", "--", "true"], "", 0, "")?;

        self.says("A real computation: a folder is sent, a C program compiled and run there, the result comes back.")?;
        std::fs::create_dir(self.place.0.join("work"))?;
        std::fs::write(self.place.0.join("work/pi.c"), PI_C)?;
        self.shows(
            &[
                "job",
                "run",
                "--dir",
                "work",
                "--",
                "sh",
                "-c",
                "cc -O2 pi.c -o pi && ./pi",
            ],
            "",
            0,
            "",
        )?;
        let pi = std::fs::read_to_string(self.place.0.join("work/pi.txt"))
            .doing(|| "reading the result".to_owned())?;
        say!("$ cat work/pi.txt\n{}", pi.trim_end())?;
        if !pi.starts_with("3.14159265") {
            return Err(Failure::from_text(format!("pi came back as {pi}")));
        }

        self.says("As with ssh, both ways: stdin goes there, stdout comes back, the exit status is passed on.")?;
        self.shows(
            &["exec", "local", "--", "sh", "-c", "tr a-z A-Z; exit 3"],
            "thin pieces of wood\n",
            3,
            "THIN PIECES",
        )?;

        self.says("What the guest sees is policy. This is figure 2 of the paper that began it, as printed:")?;
        std::fs::write(self.place.0.join("figure2"), FIGURE_2)?;
        say!("$ cat figure2\n{}", FIGURE_2.trim_end())?;
        self.shows(
            &[
                "job",
                "run",
                "--policy",
                "figure2",
                "--mechanism",
                "namespace",
                "--",
                "head",
                "-n",
                "3",
                "/etc/passwd",
            ],
            "",
            0,
            "",
        )?;

        self.says("Now the site is killed while a job runs, and started again.")?;
        self.shows(&["job", "submit", "--", "sh", "-c", PATIENT], "", 0, "")?;
        let job = self.last_job()?;
        let directory = self.home()?.state().join("jobs").join(&job);
        self.until("the job has begun", || directory.join("starts").exists())?;
        self.kill_site()?;
        say!("$ touch go         # the job, without any site, goes on and ends")?;
        std::fs::write(directory.join("go"), "")?;
        self.shows(
            &["site", "start", "--listen", "127.0.0.1:0"],
            "",
            0,
            "is up",
        )?;
        self.shows(&["job", "wait", &job], "", 5, "")?;
        self.shows(&["job", "log", &job], "", 0, "done after 1 start")?;
        self.shows(&["job", "explain", &job], "", 0, "")?;
        self.routine()?;
        self.shows(&["site", "stop"], "", 0, "")?;
        self.grid()
    }

    fn says(&mut self, text: &str) -> std::io::Result<()> {
        self.step += 1;
        say!("\n{}. {text}", self.step)
    }

    /// Runs a command of ours and shows it with what it says and how long it took.
    fn shows(
        &self,
        args: &[&str],
        input: &str,
        status: i32,
        contains: &str,
    ) -> Result<(), Failure> {
        let shown: Vec<String> = args.iter().map(|a| quoted(a)).collect();
        let shown = shown.join(" ");
        match input {
            "" => say!("$ kumiko {shown}")?,
            _ => say!("$ echo {} | kumiko {shown}", input.trim_end())?,
        }
        let begun = Instant::now();
        let output = self.run(args, input)?;
        let took = begun.elapsed();
        std::io::stdout().write_all(&output.stdout)?;
        std::io::stdout().write_all(&output.stderr)?;
        say!(
            "  -- {:.1} ms, exit status {}",
            took.as_secs_f64() * 1e3,
            output.status.code().unwrap_or(-1)
        )?;
        if output.status.code() != Some(status)
            || !String::from_utf8_lossy(&output.stdout).contains(contains)
        {
            return Err(Failure::from_text(format!(
                "`kumiko {shown}` should have ended with {status} and said \"{contains}\""
            )));
        }
        Ok(())
    }

    fn running(&self) -> Result<Running, Failure> {
        let running = self.home()?.read_running()?;
        running.ok_or_else(|| Failure::from_text("run/site.json is missing"))
    }

    /// As a crash would.
    fn kill_site(&self) -> Result<(), Failure> {
        let pid = i32::try_from(self.running()?.pid)
            .map_err(|_| Failure::from_text("run/site.json names no process"))?;
        routine::kill(pid, "the site")?;
        let gone = || {
            !Path::new("/proc")
                .join(pid.to_string())
                .join("exe")
                .exists()
        };
        self.until("the site is gone", gone)
    }

    fn command(&self, args: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(args)
            .current_dir(&self.place.0)
            .env("KUMIKO_HOME", self.home()?.root())
            .env("XDG_CONFIG_HOME", &self.place.0)
            .env_remove("KUMIKO_SITE")
            .env_remove("KUMIKO_OUTPUT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }

    fn run(&self, args: &[&str], input: &str) -> Result<Output, Failure> {
        let mut child = self.command(args)?.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        Ok(child.wait_with_output()?)
    }

    fn last_job(&self) -> Result<String, Failure> {
        let output = self.run(&["--output", "lines", "job", "show", "last"], "")?;
        let view: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        Ok(view["id"].to_string())
    }

    fn home(&self) -> Result<Home, Failure> {
        Home::find(Some(&self.place.0.join("home")))
    }

    fn until(&self, what: &str, mut so: impl FnMut() -> bool) -> Result<(), Failure> {
        let begun = Instant::now();
        while !so() {
            if begun.elapsed() > DEADLINE {
                return Err(Failure::from_text(format!(
                    "not within {} s: {what}",
                    DEADLINE.as_secs()
                )));
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Tour {
    fn drop(&mut self) {
        let _ = self.run(&["job", "cancel", "all", "--grace", "0"], "");
        let _ = self.run(&["site", "stop"], "");
    }
}

/// As one would type it in a shell.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}
