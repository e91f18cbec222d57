//! A site of an account that is not root, on a host with CRIU, whose policy lets guests be dumped. What scenarios share.
#![allow(dead_code)] // each scenario uses a part

use crate::engines;
use kumiko_e2e::{Person, finish, has_program, kumiko, skip, told};
use kumiko_linux::is_root;
use kumiko_testkit::engine::Engine;
use std::process::Stdio;

pub struct Dumping {
    criu: &'static Engine,
    /// Of HTCondor, whose testbed runs jobs by such an account.
    is_condors: bool,
}

/// A person who has no site yet.
pub fn new(test: &str) -> Option<(Person, Dumping)> {
    of(Person::new(), false, test)
}

/// Whose site has a disk of its own, which can be filled.
pub fn on_a_small_disk(test: &str, options: &str) -> Option<(Person, Dumping)> {
    let mut person = Person::new();
    if !person.with_disk(options) {
        skip(test, "the right to mount a small tmpfs (root)");
        return None;
    }
    of(person, false, test)
}

pub fn on_condor(test: &str) -> Option<(Person, Dumping)> {
    of(engines::user("condor", test)?, true, test)
}

fn of(mut person: Person, is_condors: bool, test: &str) -> Option<(Person, Dumping)> {
    if !has_program("cc") {
        skip(test, "cc");
        return None;
    }
    let criu = Engine::shared("criu", test)?;
    let (_, mut path) = criu.environment().pop()?;
    let of_engine = person
        .variables
        .iter_mut()
        .find(|(name, _)| *name == "PATH");
    if let Some((_, own)) = of_engine {
        path.push(":");
        path.push(&own);
        *own = path;
    } else {
        person.variables.push(("PATH", path));
    }
    // Else a dump that takes long here has the next one wait for a hundred times as long.
    let often = ("KUMIKO_CHECKPOINT_FAILURES_S", "1".into());
    person.variables.push(often);
    let dumping = Dumping { criu, is_condors };
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
        if self.is_condors {
            person.ok(engines::start("condor"));
            return;
        }
        let words = ["site", "start", "--listen", listen];
        let mut command = match is_root() {
            false => person.kumiko(words),
            true => {
                let map = ["--user", "--map-user=5", "--map-group=60", "--"];
                let mut command = person.program("unshare", map);
                command.arg(kumiko()).args(words);
                command
            }
        };
        let started = finish(command.stdin(Stdio::null()));
        assert!(started.status.success(), "{}", told(&started));
    }
}
