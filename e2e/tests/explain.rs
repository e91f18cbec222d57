//! `kumiko sandbox explain` for a static program, a loop of calls, a job of MPI and a script that nobody trusts, on this
//! machine and as on ones that lack a mechanism (spec/policy, P81, P85 to P88): by the defaults, which are the same everywhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::adversity::text;
use kumiko_e2e::{Person, has_program, skip, told};
use serde_json::Value;
use std::process::Command;

const TEST: &str = "each_program_gets_the_cheapest_mechanism_that_its_policy_admits";

/// Which mechanisms this machine admits.
fn admitted(person: &Person) -> Vec<String> {
    let all: Value =
        serde_json::from_str(&person.ok(["--output", "json", "sandbox", "probe"])).unwrap();
    let all = all["mechanisms"].as_array().unwrap().iter();
    let admitted = all.filter(|one| one["admitted"] == true);
    admitted
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_program_gets_the_cheapest_mechanism_that_its_policy_admits() {
    let person = Person::new();
    let here = admitted(&person);
    if here.len() < 4 {
        return skip(TEST, "a mechanism");
    }
    let fence = person.file("fence.toml", "complete = false\n");
    let fence = fence.to_str().unwrap();
    // It opens a file 3,000 times; what it does is known once it was looked at.
    let storm = "i=0; while [ $i -lt 3000 ]; do true </etc/passwd; i=$((i+1)); done";
    let storm = ["sh", "-c", storm];
    person.ok(["sandbox", "profile", "--"].into_iter().chain(storm));
    let code = person.file("still.c", "int main(void) { return 0; }\n");
    let program = code.with_extension("");
    let compiled = Command::new("gcc")
        .args(["-static", "-o"])
        .args([&program, &code])
        .status();
    let still = compiled.is_ok_and(|status| status.success());
    if !still {
        skip(TEST, "gcc");
    }
    let script = person.file("script.sh", "#!/bin/sh\nexec true\n");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mpi = has_program("mpiexec");
    if !mpi {
        skip(TEST, "mpiexec");
    }
    let directory = program.parent().unwrap().to_str().unwrap().to_owned();
    let (program, script) = (["./still"], ["./script.sh"]);
    let ranks = ["mpiexec", "-n", "2", "true"];
    // Program; does a fence do; what is not there; what is taken.
    type Rows<'a> = [(&'a [&'a str], bool, &'a [&'a str], &'a str); 11];
    let rows: Rows<'_> = [
        (&program, true, &[], "namespace"),
        (&storm, true, &[], "namespace"),
        (&ranks, true, &[], "namespace"),
        (&script, false, &[], "namespace"),
        // A library has nothing to answer in a program without a loader.
        (&program, true, &["namespace"], "notify"),
        (&storm, true, &["namespace"], "library"),
        (&storm, false, &["namespace"], "notify"),
        (&ranks, true, &["namespace"], "library"),
        (&script, false, &["namespace"], "notify"),
        (&script, false, &["namespace", "notify"], "ptrace"),
        (&storm, true, &["namespace", "library"], "notify"),
    ];
    for (command, fence_does, without, expected) in rows {
        if (command == program && !still) || (command == ranks && !mpi) {
            continue;
        }
        let mut words = vec!["--output", "json", "sandbox", "explain"];
        if fence_does {
            words.extend(["--site-policy", fence]);
        }
        for name in without {
            words.extend(["--without", name]);
        }
        words.extend(["--dir", &directory, "--"]);
        words.extend(command);
        let output = person.run(&words);
        let said: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        let about = || format!("{words:?}\n{}", told(&output));
        assert_eq!(said["mechanism"], expected, "{}", about());
        // With numbers: of those that nothing stands in the way of, it is the cheapest.
        let all = said["rows"].as_array().unwrap();
        assert_eq!(all.len(), 4, "{}", about());
        let open = all
            .iter()
            .filter(|row| row["hindrances"].as_array().unwrap().is_empty());
        let costs = open.map(|row| {
            (
                row["overhead_us"].as_u64().unwrap(),
                row["mechanism"].clone(),
            )
        });
        let (least, cheapest) = costs.min_by_key(|(us, _)| *us).unwrap();
        assert!(least > 0 && cheapest == expected, "{}", about());
        for name in without {
            let left_out = all.iter().find(|row| row["mechanism"] == *name).unwrap();
            assert_eq!(
                left_out["hindrances"][0]["requirement"],
                "machine",
                "{}",
                about()
            );
        }
    }
}
