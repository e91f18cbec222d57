//! The one command line that is understood here: `sandbox run [OPTION...] -- COMMAND...`. All that is written otherwise,
//! asks for help or is wrong is left to kumiko-grid, which understands the same and more. Pure.

use crate::sandbox::Run;
use kumiko_policy::{Limited, parse_limit};
use std::ffi::{OsStr, OsString};

/// `words`: without the program's own name. None: not for here.
pub fn sandbox_run(words: impl IntoIterator<Item = OsString>) -> Option<Run> {
    let mut words = words.into_iter();
    if words.next()? != "sandbox" || words.next()? != "run" {
        return None;
    }
    let mut run = Run::default();
    let mut net = None;
    loop {
        let word = words.next()?.into_string().ok()?;
        let (option, with) = match word.split_once('=') {
            Some((option, value)) => (option, Some(OsString::from(value))),
            None if word == "--" => break,
            None => (word.as_str(), None),
        };
        let mut value = || with.clone().or_else(|| words.next()).filter(is_value);
        match option {
            "--dir" if run.directory.is_none() => run.directory = Some(value()?.into()),
            "--site-policy" if run.said.site_policy.is_none() => {
                run.said.site_policy = Some(value()?.into());
            }
            "--policy" => run.said.policies.push(value()?.into()),
            "--limit" => run.said.limits.push(parse_limit(&text(value()?)?).ok()?),
            "--net" if net.is_none() => net = Some(Limited::Network.amount(&text(value()?)?).ok()?),
            "--mechanism" if run.mechanism.is_none() => run.mechanism = Some(text(value()?)?),
            "--env" => run.environment.push(text(value()?)?),
            _ => return None,
        }
    }
    // Last, as the other has it.
    let net = net.map(|rate| (Limited::Network, rate));
    run.said.limits.extend(net);
    run.command = words.map(text).collect::<Option<_>>()?;
    (!run.command.is_empty()).then_some(run)
}

/// What begins with a dash may be meant as an option.
fn is_value(word: &OsString) -> bool {
    let word: &OsStr = word;
    !word.is_empty() && !word.as_encoded_bytes().starts_with(b"-")
}

fn text(word: OsString) -> Option<String> {
    word.into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Said;

    #[test]
    fn what_is_not_plainly_a_run_is_left_to_the_other() {
        let rows = [
            "",
            "sandbox",
            "sandbox run",
            "sandbox run --",
            "sandbox run true",
            "sandbox run --help -- true",
            "sandbox run --dir -- true",
            "sandbox run --dir= -- true",
            "sandbox run --dir /a --dir /b -- true",
            "sandbox run --limit net -- true",
            "sandbox run --net fast -- true",
            "sandbox run --output json -- true",
            "sandbox check -- true",
            "--output json sandbox run -- true",
            "job run -- true",
        ];
        for row in rows {
            let run = sandbox_run(row.split_whitespace().map(OsString::from));
            assert_eq!(run, None, "{row}");
        }
    }

    #[test]
    fn options_come_before_the_dashes_and_the_command_after() {
        let line = "sandbox run --dir /d --mechanism=namespace --policy p --env A=b=c --env D -- sh --dir x";
        let expected = Run {
            said: Said {
                policies: vec!["p".into()],
                ..Said::default()
            },
            mechanism: Some("namespace".into()),
            directory: Some("/d".into()),
            environment: vec!["A=b=c".into(), "D".into()],
            command: ["sh", "--dir", "x"].map(String::from).to_vec(),
        };
        let run = sandbox_run(line.split_whitespace().map(OsString::from));
        assert_eq!(run, Some(expected));
    }
}
