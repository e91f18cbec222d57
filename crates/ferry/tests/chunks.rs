//! Big files that a host has read are on its own disk (spec/jobs/pilots.md, PL57).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod site;

use site::{Site, Wire, told};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

const MIB: usize = 1 << 20;
/// Not whole chunks, and not whole pages.
const SIZE: usize = 8 * MIB + 4321;

/// No two chunks of it are alike.
fn content(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..=SIZE / 8).flat_map(|_| next()).take(SIZE).collect()
}

fn digest(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

/// What a host says that runs `line` with the jobs' folder as its own, and how many bytes that took on the way.
fn run(site: &Site, line: &str) -> (String, u64) {
    let wire = Wire::to(site.address());
    let line = format!("cd {}; {line}", site.path("jobs").display());
    let output = site.begin_by(&wire.address, &line).wait_with_output();
    let output = output.unwrap();
    assert!(output.status.success(), "{line}: {}", told(&output));
    let bytes = wire.bytes.load(Ordering::Relaxed);
    (String::from_utf8(output.stdout).unwrap(), bytes)
}

#[test]
fn what_a_host_has_read_travels_no_more_whatever_its_name() {
    let Some(site) = Site::new("what_a_host_has_read_travels_no_more_whatever_its_name") else {
        return;
    };
    let jobs = site.path("jobs");
    fs::write(jobs.join("in"), content(1)).unwrap();
    let sum = digest(&jobs.join("in"));
    let (said, first) = run(&site, "sha256sum <in");
    assert_eq!(said, format!("{sum}  -\n"));
    assert!(first > SIZE as u64, "{first}");
    // Another job has a copy of its own.
    fs::copy(jobs.join("in"), jobs.join("copy")).unwrap();
    let (said, again) = run(&site, "sha256sum <copy");
    assert_eq!(said, format!("{sum}  -\n"));
    assert!(again < 2 * MIB as u64, "{again}");
    // One of which a part differs: that part travels.
    let other = fs::OpenOptions::new().write(true).open(jobs.join("copy"));
    other
        .unwrap()
        .write_all_at(b"other", 5 * MIB as u64)
        .unwrap();
    let (said, part) = run(&site, "sha256sum <copy");
    assert_eq!(said, format!("{}  -\n", digest(&jobs.join("copy"))));
    assert!(part < 4 * MIB as u64, "{part}");
    // What was harmed is not taken, and comes again.
    for entry in fs::read_dir(site.cache()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    let (said, harmed) = run(&site, "sha256sum <in");
    assert_eq!(said, format!("{sum}  -\n"));
    assert!(harmed > SIZE as u64, "{harmed}");
    let (said, mended) = run(&site, "sha256sum <in");
    assert_eq!(said, format!("{sum}  -\n"));
    assert!(mended < 2 * MIB as u64, "{mended}");
}

#[test]
fn what_a_host_writes_it_reads_though_it_keeps_what_was_there() {
    let Some(site) = Site::new("what_a_host_writes_it_reads_though_it_keeps_what_was_there") else {
        return;
    };
    let jobs = site.path("jobs");
    fs::write(jobs.join("in"), content(2)).unwrap();
    run(&site, "cat in >/dev/null");
    // Open while it is written to, ahead of what was read, and then cut and made longer.
    let line = "exec 3<in; head -c 3500000 <&3 >/dev/null; \
                printf new | dd of=in bs=1M seek=4 conv=notrunc status=none; \
                cat <&3 | tail -c +694305 | head -c 3; echo; \
                truncate -s 6000000 in; truncate -s 8000000 in; exec 4<in; sha256sum <&4";
    let (said, _) = run(&site, line);
    let after = format!("new\n{}  -\n", digest(&jobs.join("in")));
    assert_eq!(said, after);
}

#[test]
fn two_that_read_at_once_and_one_that_jumps_about_have_what_the_site_has() {
    let Some(site) =
        Site::new("two_that_read_at_once_and_one_that_jumps_about_have_what_the_site_has")
    else {
        return;
    };
    let jobs = site.path("jobs");
    for (name, seed) in [("a", 3), ("b", 4), ("c", 5)] {
        fs::write(jobs.join(name), content(seed)).unwrap();
    }
    let jumps = "for at in 7 0 4 4 8 3 6; do dd if=c bs=1000003 skip=$at count=1 status=none; done | sha256sum";
    let at_the_site = Command::new("sh")
        .args(["-c", jumps])
        .current_dir(&jobs)
        .output()
        .unwrap();
    let line =
        format!("sha256sum <a >sum-a & sha256sum <b >sum-b & {jumps}; wait; cat sum-a sum-b");
    let expected = format!(
        "{}{}  -\n{}  -\n",
        String::from_utf8(at_the_site.stdout).unwrap(),
        digest(&jobs.join("a")),
        digest(&jobs.join("b"))
    );
    for _ in 0..3 {
        assert_eq!(run(&site, &line).0, expected);
    }
}

#[test]
fn a_host_whose_disk_is_full_reads_from_the_site_and_keeps_what_there_is_room_for() {
    let test = "a_host_whose_disk_is_full_reads_from_the_site_and_keeps_what_there_is_room_for";
    let Some(site) = Site::new(test) else {
        return;
    };
    let jobs = site.path("jobs");
    fs::write(jobs.join("in"), content(6)).unwrap();
    let expected = format!("{}  -\n", digest(&jobs.join("in")));
    fs::create_dir(site.cache()).unwrap();
    let mount = |line: &[&str]| {
        let mut mount = Command::new(line[0]);
        let mounted = mount.args(&line[1..]).arg(site.cache()).status();
        assert!(mounted.unwrap().success(), "{line:?}");
    };
    mount(&["mount", "-t", "tmpfs", "-o", "size=5m,mode=0700", "none"]);
    let said = [0, 1].map(|_| run(&site, "sha256sum <in").0);
    let kept: Vec<u64> = fs::read_dir(site.cache())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .collect();
    mount(&["umount"]);
    assert_eq!(said, [expected.clone(), expected]);
    // No part of one is left.
    let is_whole = |bytes: &u64| [MIB, SIZE % MIB].contains(&(*bytes as usize));
    assert!(!kept.is_empty() && kept.iter().all(is_whole), "{kept:?}");
}
