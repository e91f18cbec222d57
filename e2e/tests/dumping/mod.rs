//! A site of an account that is not root, on a host with CRIU, whose policy lets guests be dumped. What scenarios share.
#![allow(dead_code)] // each scenario uses a part

use crate::engines;
use kumiko_e2e::{Person, finish, has_program, kumiko, skip, told};
use kumiko_linux::is_root;
use kumiko_testkit::engine::Engine;
use std::process::Stdio;

/// One that each machine has.
const ACCOUNT: &str = "games";

pub struct Dumping {
    criu: &'static Engine,
    on: On,
}

enum On {
    Fork,
    /// Whose testbed runs jobs by such an account, whoever has the site.
    Condor,
    Slurm(#[expect(dead_code, reason = "it ends with this")] Engine),
}

/// A person who has no site yet.
pub fn new(test: &str) -> Option<(Person, Dumping)> {
    of(Person::new(), On::Fork, test)
}

/// Whose site has a disk of its own, which can be filled.
pub fn on_a_small_disk(test: &str, options: &str) -> Option<(Person, Dumping)> {
    let mut person = Person::new();
    if !person.with_disk(options) {
        skip(test, "the right to mount a small tmpfs (root)");
        return None;
    }
    of(person, On::Fork, test)
}

pub fn on_condor(test: &str) -> Option<(Person, Dumping)> {
    of(engines::user("condor", test)?, On::Condor, test)
}

/// Site and engine are one account's, which is no root.
pub fn on_slurm(test: &str) -> Option<(Person, Dumping)> {
    let engine = Engine::own("slurm", &[("SLURM_ACCOUNT", ACCOUNT)], test)?;
    of(engines::user_of(&engine), On::Slurm(engine), test)
}

fn of(mut person: Person, on: On, test: &str) -> Option<(Person, Dumping)> {
    if !has_program("cc") {
        skip(test, "cc");
        return None;
    }
    let criu = Engine::shared("criu", test)?;
    let mut path = criu.directory.path().join("bin").into_os_string();
    path.push(":");
    let of_engine = person
        .variables
        .iter_mut()
        .find(|(name, _)| *name == "PATH");
    if let Some((_, own)) = of_engine {
        path.push(&own);
        *own = path;
    } else {
        path.push(std::env::var_os("PATH").unwrap_or_default());
        person.variables.push(("PATH", path));
    }
    // Else a dump that takes long here has the next one wait for a hundred times as long.
    let often = ("KUMIKO_CHECKPOINT_FAILURES_S", "1".into());
    person.variables.push(often);
    let dumping = Dumping { criu, on };
    dumping.policy(&person, "dump = true");
    Some((person, dumping))
}

impl Dumping {
    /// CRIU is executed by the loader and the libraries of the guest's view.
    pub fn policy(&self, person: &Person, says: &str) {
        let link = self.criu.directory.path().join("bin/criu");
        let program = std::fs::canonicalize(link).unwrap();
        let tree = program.ancestors().nth(3).unwrap().display();
        let text = format!("network = \"none\"\n{says}\n[paths]\n\"{tree}\" = \"read\"\n");
        person.file("kumiko/policy.toml", &text);
    }

    pub fn start(&self, person: &Person) {
        self.start_at(person, "127.0.0.1:0");
    }

    /// Root is another account in a user namespace.
    pub fn start_at(&self, person: &Person, listen: &str) {
        let mut words = vec!["site", "start", "--listen", listen];
        match &self.on {
            On::Fork => {}
            On::Condor => words.extend(["--batch", "condor"]),
            On::Slurm(_) => words.extend(["--batch", "slurm"]),
        }
        let mut command = match is_root() && !matches!(self.on, On::Condor) {
            false => person.kumiko(words),
            true => {
                let [user, group] = ["-u", "-g"].map(|which| {
                    let id = finish(&mut person.program("id", [which, ACCOUNT]));
                    String::from_utf8(id.stdout).unwrap().trim().to_owned()
                });
                let map = [format!("--map-user={user}"), format!("--map-group={group}")];
                let mut command = person.program("unshare", ["--user"]);
                command.args(map).arg("--");
                command.arg(kumiko()).args(words);
                command
            }
        };
        let started = finish(command.stdin(Stdio::null()));
        assert!(started.status.success(), "{}", told(&started));
    }
}
