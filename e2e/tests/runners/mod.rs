//! Pilots and runners of one person, found among all processes, to be killed or stopped.

use kumiko_e2e::Person;

/// Processes of kumiko-run of this person's, with their parents, but for what the engine starts around them.
fn runners(person: &Person) -> Vec<(u32, u32)> {
    let home = person.home.path().to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split('\0');
        let program = words.next().unwrap_or_default();
        if !program.ends_with("kumiko-run") || !line.contains(home) {
            continue;
        }
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the name in brackets: the state, and the parent (proc_pid_stat(5)).
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1));
        found.extend(parent.and_then(|parent| Some((pid, parent.parse().ok()?))));
    }
    found
}

/// Those that are pilots, and those beside guests: in a pilot a runner is a copy of its process.
pub fn pilots_and_runners(person: &Person) -> (Vec<u32>, Vec<u32>) {
    let all = runners(person);
    let is_pilot = |pid: u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(7).any(|word| word == b"--pilot") && {
            let parent = all
                .iter()
                .find(|(one, _)| *one == pid)
                .map(|(_, parent)| *parent);
            !all.iter().any(|(one, _)| Some(*one) == parent)
        }
    };
    all.iter()
        .map(|(pid, _)| *pid)
        .partition(|pid| is_pilot(*pid))
}
