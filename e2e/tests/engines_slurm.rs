//! A site whose jobs Slurm runs: a real one, of testbeds/slurm.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)] // what other scenarios use of it
mod engines;

use kumiko_e2e::globus::GlobusUser;
use kumiko_e2e::{told, until};

engines::on! { "slurm":
    a_program_runs_and_its_output_and_exit_status_come_back
    flags_and_standard_input_reach_the_job
    ranks_of_mpi_run_in_one_slot
    a_running_job_is_cancelled_with_term_and_then_kill
    what_waits_at_the_engine_says_so_and_is_cancelled_at_once
    a_job_survives_kill_9_of_the_site_and_ends_while_it_is_down
    jobs_that_the_engine_holds_while_the_site_is_killed_run_once
    a_file_that_is_named_by_its_sum_travels_once
    what_the_engine_cannot_do_is_refused
}

#[test]
fn a_site_does_not_start_where_its_engine_has_no_commands() {
    let mut person = kumiko_e2e::Person::new();
    let bin = kumiko_e2e::kumiko().parent().unwrap().to_owned();
    person.variables.push(("PATH", bin.into_os_string()));
    let line = [
        "site",
        "start",
        "--listen",
        "127.0.0.1:0",
        "--batch",
        "slurm",
    ];
    let refused = person.run(line);
    assert_ne!(refused.status.code(), Some(0));
    let said = kumiko_e2e::told(&refused);
    assert!(said.contains("sbatch is not in the site's PATH"), "{said}");
}

#[test]
fn globusrun_names_the_queue_that_slurm_runs_the_job_in() {
    let test = "globusrun_names_the_queue_that_slurm_runs_the_job_in";
    let user = engines::user("slurm", test)
        .and_then(|person| GlobusUser::of(person, &engines::start("slurm"), test));
    let Some(user) = user else {
        return;
    };
    let rsl = "&(executable=/bin/sh)(arguments=-c \"until test -e go; do sleep 0.02; done\")(queue=urgent)(name=queued)";
    let submitted = user.globusrun(&["-b"], rsl);
    assert!(submitted.status.success(), "{}", told(&submitted));
    let contact = GlobusUser::contact(&submitted);
    until("Slurm has it in that queue", || {
        let queues = engines::said(&user.person, "squeue", &["--noheader", "-o", "%P"]);
        queues.lines().any(|queue| queue == "urgent")
    });
    user.ok("globus-job-cancel", ["-f", &contact]);
    // By Slurm, once it is asked; and by the site, before.
    for (asked, number) in [("(queue=no-such-queue)", 17), ("(host_count=2)", 35)] {
        let refused = user.globusrun(&["-s"], &format!("&(executable=/bin/true){asked}"));
        let said = told(&refused);
        assert_eq!(refused.status.code(), Some(number), "{asked}: {said}");
    }
}

#[test]
#[ignore = "some minutes: `./x test --all`"]
fn a_thousand_waiting_jobs_outlive_a_site_that_is_killed() {
    let test = "a_thousand_waiting_jobs_outlive_a_site_that_is_killed";
    engines::a_thousand_waiting_jobs_outlive_a_site_that_is_killed("slurm", test);
}

#[test]
fn pilots_take_short_jobs_at_once_and_outlive_the_site() {
    let test = "pilots_take_short_jobs_at_once_and_outlive_the_site";
    engines::pilots_take_short_jobs_at_once_and_outlive_the_site("slurm", test);
}
