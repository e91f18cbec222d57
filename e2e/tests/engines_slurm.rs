//! A site whose jobs Slurm runs: a real one, of testbeds/slurm.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod engines;

engines::on! { "slurm":
    a_program_runs_and_its_output_and_exit_status_come_back
    flags_and_standard_input_reach_the_job
    a_running_job_is_cancelled_with_term_and_then_kill
    what_waits_at_the_engine_says_so_and_is_cancelled_at_once
    a_job_survives_kill_9_of_the_site_and_ends_while_it_is_down
    jobs_that_the_engine_holds_while_the_site_is_killed_run_once
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
