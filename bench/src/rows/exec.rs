//! A command at the site, from a cold client process: TCP, mutual TLS, session, sandbox, exit status; beside ssh.

use super::{or_missing, seconds_of};
use crate::bench::Bench;
use crate::goal::{Goal, Reach, Row};
use crate::peers::ssh::Ssh;
use crate::rounds::{self, Contender};
use crate::site::Site;
use crate::stats::Unit;
use std::process::Command;

pub const KEY: &str = "exec";
const OURS: &str = "kumiko exec";
const SSH: &str = "ssh";

pub fn measure(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "≤ 1/5 of ssh localhost true",
        ours: OURS,
        reach: Reach::AtMostTimes {
            theirs: SSH,
            times: 0.2,
        },
    }];
    or_missing(
        Row::new(KEY, "kumiko exec /bin/true, cold, mutual TLS", goals),
        |row| {
            let site = Site::start(bench)?;
            let mut contenders = vec![
                Contender::new(OURS, Unit::Seconds, || {
                    seconds_of(&mut site.command(&["exec", "local", "--", "/bin/true"]))
                }),
                Contender::new("fork+exec", Unit::Seconds, || {
                    seconds_of(&mut Command::new("/bin/true"))
                }),
            ];
            match Ssh::start() {
                Ok(ssh) => contenders.push(Contender::new(SSH, Unit::Seconds, move || {
                    seconds_of(&mut ssh.command("true"))
                })),
                Err(failure) => row.lacks(Some(SSH), &failure),
            }
            rounds::take(row, bench.rounds(60), contenders);
            row.note(
            "ssh: own sshd on the loopback, ed25519 keys, no PAM, nothing of the user's configuration; it runs the \
             account's login shell, which is part of it.",
        );
            Ok(())
        },
    )
}
