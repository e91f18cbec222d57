//! How Slurm spells a list of hosts, and a time (squeue(1), scontrol(1) "hostlist"). Pure.

/// Hosts of one job: it has no more than ranks (spec/jobs J1).
const HOSTS_MOST: usize = 1024;

/// The hosts of a list such as `n[1-3,07],m`; None: it is none.
pub fn hosts(list: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let mut inside = false;
        let end = rest.find(|c| {
            inside = (inside || c == '[') && c != ']';
            c == ',' && !inside
        });
        let (word, more) = match end {
            Some(end) => (rest.get(..end)?, rest.get(end + 1..)?),
            None => (rest, ""),
        };
        spell(word, &mut all)?;
        rest = more;
    }
    Some(all)
}

/// Adds the hosts of a word with brackets in it, or without.
fn spell(word: &str, all: &mut Vec<String>) -> Option<()> {
    let Some((before, rest)) = word.split_once('[') else {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let well = !word.is_empty() && word.chars().all(plain) && all.len() < HOSTS_MOST;
        all.push(well.then(|| word.to_owned())?);
        return Some(());
    };
    let (ranges, after) = rest.split_once(']')?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if to.checked_sub(from)? >= HOSTS_MOST {
            return None;
        }
        for number in from..=to {
            spell(
                &format!("{before}{number:0width$}{after}", width = first.len()),
                all,
            )?;
        }
    }
    Some(())
}

/// `[days-][[hours:]minutes:]seconds`; None: there is no limit, or none that is known.
pub fn time_ms(text: &str) -> Option<u64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds: u64 = 0;
    for part in clock.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    let days: u64 = days.parse().ok()?;
    days.checked_mul(86_400)?
        .checked_add(seconds)?
        .checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_hosts_is_all_of_them_or_none() {
        let rows = [
            ("", Some(vec![])),
            ("n1", Some(vec!["n1"])),
            ("n[1-3,07],m", Some(vec!["n1", "n2", "n3", "n07", "m"])),
            ("n[08-10]-ib", Some(vec!["n08-ib", "n09-ib", "n10-ib"])),
            ("r[1-2]n[1-2]", Some(vec!["r1n1", "r1n2", "r2n1", "r2n2"])),
            ("n[1", None),
            ("n[2-1]", None),
            ("n[a]", None),
            ("n[0-99999999999]", None),
            ("n[1-1000]x[1-1000]", None),
            ("n1,,n2", None),
            ("n 1", None),
        ];
        for (list, expected) in rows {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect());
            assert_eq!(hosts(list), expected, "{list:?}");
        }
    }

    #[test]
    fn a_time_is_read_or_not_known() {
        for (text, expected) in [
            ("0:07", Some(7_000)),
            ("2:58", Some(178_000)),
            ("1:00:00", Some(3_600_000)),
            ("364-23:59:58", Some(31_535_998_000)),
            ("UNLIMITED", None),
            ("INVALID", None),
            ("", None),
            ("99999999999999999999-0:00", None),
        ] {
            assert_eq!(time_ms(text), expected, "{text:?}");
        }
    }
}
