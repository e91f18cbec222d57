//! The unmodified commands of the Globus Toolkit against a site for many accounts: GRAM through front and agent.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "many_accounts/place.rs"]
#[allow(dead_code)]
mod place;

use kumiko_e2e::{finish, has_program, skip, until};
use place::{Place, killed, succeeded};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A person with a login, who has the toolkit: root's commands would take the host's credential.
struct Login<'a> {
    place: &'a Place,
    name: &'a str,
}

impl Login<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.place.path(&format!("homes/{}/{name}", self.name))
    }

    fn begin<'a>(place: &'a Place, name: &'a str) -> Login<'a> {
        let login = Login { place, name };
        for ending in ["pem", "key"] {
            let file = login.file(&format!("user.{ending}"));
            std::fs::copy(place.path(&format!("{name}.{ending}")), &file).unwrap();
            chown(&file, Some(place.uid(name)), Some(place.uid(name))).unwrap();
        }
        let (certificate, key) = (login.file("user.pem"), login.file("user.key"));
        let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        login.says(
            "grid-proxy-init",
            &["-q", "-cert", certificate, "-key", key],
        );
        login
    }

    fn tool(&self, name: &str, words: &[&str]) -> Command {
        let ids = self.place.uid(self.name).to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &ids, "--regid", &ids, "--clear-groups", name]);
        command.args(words).current_dir(self.file("")).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command.env("HOME", self.file("")).env("LANG", "C.UTF-8");
        // The listeners of the commands: a name that every machine resolves.
        command.env("GLOBUS_HOSTNAME", "localhost");
        command.env("X509_CERT_DIR", self.place.home().join("certificates"));
        command.env("X509_USER_PROXY", self.file("proxy"));
        command.stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn says(&self, name: &str, words: &[&str]) -> String {
        succeeded(&finish(&mut self.tool(name, words)))
    }
}

#[test]
fn globus_commands_run_each_person_as_their_own_account() {
    let test = "globus_commands_run_each_person_as_their_own_account";
    for program in ["globus-job-run", "grid-proxy-init", "setpriv"] {
        if !has_program(program) {
            return skip(test, program);
        }
    }
    let Some(place) = Place::with_keys(test, &["alice", "bob"], "idle_s = 1", &["--rsa"]) else {
        return;
    };
    let site = place.site();
    let (alice, bob) = (Login::begin(&place, "alice"), Login::begin(&place, "bob"));
    alice.says("globusrun", &["-a", "-r", &site]);
    for login in [&alice, &bob] {
        let said = login.says("globus-job-run", &[&site, "/usr/bin/id", "-u"]);
        assert_eq!(said.trim(), place.uid(login.name).to_string());
    }
    let contact = alice.says("globus-job-submit", &[&site, "/bin/sh", "-c", "sleep 600"]);
    let contact = contact.trim();
    until("it is active", || {
        alice.says("globus-job-status", &[contact]).trim() == "ACTIVE"
    });
    // An agent with a job stays, and one that was killed comes back with its job's contact.
    until("bob's agent has gone", || place.agent("bob").is_none());
    killed(place.agent("alice").unwrap());
    until("it is there again", || {
        let output = finish(&mut alice.tool("globus-job-status", &[contact]));
        output.stdout == b"ACTIVE\n"
    });
    let of_another = finish(&mut bob.tool("globus-job-status", &[contact]));
    assert_ne!(of_another.stdout, b"ACTIVE\n");
    alice.says("globus-job-cancel", &["-f", contact]);
    until("it has ended", || {
        let output = finish(&mut alice.tool("globus-job-status", &[contact]));
        output.stdout != b"ACTIVE\n"
    });
}
