//! The strata: programs from pure computing to storms of calls and of processes, machines that lack one thing or another,
//! and policies that ask for one thing or another. Each leaves other mechanisms over, or makes others cheap.

use std::path::Path;

/// A guest: `load` of bench/choice, compiled into the job's own directory, or what most machines have.
pub struct Program {
    pub name: &'static str,
    pub command: &'static [&'static str],
}

impl Program {
    pub fn is_here(&self) -> bool {
        let program = self.command.first().copied().unwrap_or_default();
        program.starts_with("/job/") || Path::new(program).exists()
    }
}

const fn program(name: &'static str, command: &'static [&'static str]) -> Program {
    Program { name, command }
}

pub const PROGRAMS: [Program; 12] = [
    program("computes", &["/job/load", "compute", "60"]),
    program("opens", &["/job/load", "open", "6000"]),
    program("looks", &["/job/load", "look", "6000"]),
    program("makes and removes", &["/job/load", "make", "2500"]),
    program("opens a little", &["/job/load", "open", "300"]),
    program("opens, static", &["/job/load-static", "open", "6000"]),
    program("forks", &["/job/load", "fork", "200"]),
    program("executes", &["/job/load", "exec", "40"]),
    program("16 open at once", &["/job/load", "16open", "6400"]),
    program("starts threads", &["/job/load", "thread", "1500"]),
    program(
        "a script of many programs",
        &[
            "/bin/sh",
            "-c",
            "for i in 1 2 3 4 5 6 7 8 9 10; do for j in 1 2 3; do ls / >/dev/null; done; done",
        ],
    ),
    program(
        "python's imports",
        &[
            "/usr/bin/python3",
            "-c",
            "import json, unittest, email, http.client, xml.dom.minidom, asyncio",
        ],
    ),
];

/// A machine as far as the choice sees it.
pub struct Host {
    pub name: &'static str,
    /// Mechanisms that it does not admit.
    pub without: &'static [&'static str],
    /// Those that are tried on it.
    pub policies: &'static [&'static str],
}

pub const HOSTS: [Host; 3] = [
    Host {
        name: "all",
        without: &[],
        policies: &["wall", "addresses", "addresses, a fence"],
    },
    Host {
        name: "no user namespaces",
        without: &["namespace"],
        policies: &["wall", "fence", "fence, a rate"],
    },
    Host {
        name: "no notify, no user namespaces",
        without: &["namespace", "notify"],
        policies: &["fence"],
    },
];

pub struct PolicyText {
    pub name: &'static str,
    pub text: &'static str,
}

const ADDRESSES: &str = "network = { access = 'host', allow = ['192.0.2.0/24:443'] }\n";

pub const POLICIES: [PolicyText; 5] = [
    PolicyText {
        name: "wall",
        text: "complete = true\n",
    },
    PolicyText {
        name: "fence",
        text: "complete = false\n",
    },
    PolicyText {
        name: "fence, a rate",
        text: "complete = false\n[limits]\nnetwork_kbyte_s = 1000\n",
    },
    PolicyText {
        name: "addresses",
        text: ADDRESSES,
    },
    PolicyText {
        name: "addresses, a fence",
        text: "complete = false\nnetwork = { access = 'host', allow = ['192.0.2.0/24:443'] }\n",
    },
];
