//! Selectors of jobs: `7`, `3-5`, `last`, `all`. Pure.

use crate::fail::Failure;
use kumiko_job::id::JobId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    Range(u64, u64),
    Last,
    All,
}

impl Selector {
    pub fn parse(text: &str) -> Result<Selector, Failure> {
        let wrong = || {
            Failure::misuse(format!(
                "\"{text}\" selects no job: write 7, 3-5, last or all"
            ))
        };
        let number = |t: &str| t.parse::<u64>().map_err(|_| wrong());
        match text {
            "last" => Ok(Selector::Last),
            "all" => Ok(Selector::All),
            _ => match text.split_once('-') {
                Some((from, to)) => {
                    let (from, to) = (number(from)?, number(to)?);
                    if from <= to {
                        Ok(Selector::Range(from, to))
                    } else {
                        Err(wrong())
                    }
                }
                None => number(text).map(|n| Selector::Range(n, n)),
            },
        }
    }
}

/// The jobs meant, each once, ascending. A single number is taken as it is: the site says if there is none such.
pub fn pick(selectors: &[Selector], known: &[JobId]) -> Vec<JobId> {
    let mut picked: Vec<JobId> = Vec::new();
    for selector in selectors {
        match *selector {
            Selector::Range(from, to) if from == to => picked.push(JobId(from)),
            Selector::Range(from, to) => {
                picked.extend(known.iter().filter(|id| (from..=to).contains(&id.0)))
            }
            Selector::Last => picked.extend(known.iter().max()),
            Selector::All => picked.extend(known),
        }
    }
    picked.sort_unstable();
    picked.dedup();
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_pick_each_job_once() {
        let check = |texts: &[&str], expected: Option<&[u64]>| {
            let known = [1, 3, 4, 5, 9].map(JobId);
            let selectors: Result<Vec<_>, _> = texts.iter().map(|t| Selector::parse(t)).collect();
            let got = selectors
                .ok()
                .map(|s| pick(&s, &known).iter().map(|id| id.0).collect::<Vec<_>>());
            assert_eq!(got.as_deref(), expected, "{texts:?}");
        };
        check(&["7"], Some(&[7]));
        check(&["3-5"], Some(&[3, 4, 5]));
        check(&["2-4", "3"], Some(&[3, 4]));
        check(&["last"], Some(&[9]));
        check(&["all"], Some(&[1, 3, 4, 5, 9]));
        check(&["5-3"], None);
        check(&["x"], None);
        check(&[""], None);
        check(&["-1"], None);
    }
}
