//! A site whose jobs HTCondor runs: a real one, of testbeds/condor.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)] // what other scenarios use of it
mod engines;

engines::on! { "condor":
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

/// The first host's processors are a kept slot then, of which a small job would take all.
#[test]
fn small_jobs_behind_a_large_one_run_at_the_same_time() {
    let test = "small_jobs_behind_a_large_one_run_at_the_same_time";
    let Some(person) = engines::person("condor", test) else {
        return;
    };
    for _ in 0..2 {
        person.ok(["job", "run", "--cpus", "32", "--", "true"]);
    }
    let jobs: Vec<String> = (0..4)
        .map(|_| {
            let job = person.ok(["job", "submit", "--", "sh", "-c", engines::COUNTED]);
            job.trim().to_owned()
        })
        .collect();
    kumiko_e2e::until("all of them run", || {
        let begun = |job: &String| engines::directory(&person, job).join("starts").exists();
        jobs.iter().all(begun)
    });
    for job in &jobs {
        std::fs::write(engines::directory(&person, job).join("go"), "").unwrap();
        let waited = person.run(["job", "wait", job]);
        assert_eq!(
            waited.status.code(),
            Some(5),
            "{}",
            kumiko_e2e::told(&waited)
        );
    }
}

#[test]
#[ignore = "some minutes: `./x test --all`"]
fn a_thousand_waiting_jobs_outlive_a_site_that_is_killed() {
    let test = "a_thousand_waiting_jobs_outlive_a_site_that_is_killed";
    engines::a_thousand_waiting_jobs_outlive_a_site_that_is_killed("condor", test);
}

#[test]
fn pilots_take_short_jobs_at_once_and_outlive_the_site() {
    let test = "pilots_take_short_jobs_at_once_and_outlive_the_site";
    engines::pilots_take_short_jobs_at_once_and_outlive_the_site("condor", test);
}
