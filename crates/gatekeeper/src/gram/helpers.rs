//! Requests by which GT's own commands have a site print or remove the cached output of a job (spec/gram G28). They bring,
//! or look for, scripts that need GT's programs at the site; what they ask for is done without those. Pure.

use kumiko_job::rsl::Submission;

/// What `globus-job-get-output` stages as its executable.
const OUTPUT: &str = "/globus-job-get-output-helper";
/// What `globus-job-clean` starts.
const SHELL: &str = "/bin/globus-sh-exec";
/// Before each URL in what it has that do.
const CLEAN: &str = "globus-gass-cache -cleanup-url ";
const CACHE: &str = "x-gass-cache://";
/// What follows a contact in the key of an entry.
const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// A command of GT's, known by its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Helper {
    /// Prints an entry of the cache; its last lines only, where so many are asked for.
    Output { url: String, tail: Option<u64> },
    /// Removes entries of the cache.
    Clean { urls: Vec<String> },
    /// Prints what comes to an entry while it grows: that is not done.
    Follow,
}

/// None: a request as any other.
pub(super) fn recognise(submission: &Submission, location: &str) -> Option<Helper> {
    let arguments: Vec<&str> = submission.arguments.iter().map(String::as_str).collect();
    let staged = submission.executable.starts_with("https://");
    if staged && submission.executable.ends_with(OUTPUT) {
        let [_tag, contact, stream, tail, follow, ..] = arguments.as_slice() else {
            return None;
        };
        if *follow != "no" {
            return Some(Helper::Follow);
        }
        let tail = match *tail {
            "no" => None,
            lines => Some(lines.parse().ok()?),
        };
        STREAMS.contains(stream).then(|| Helper::Output {
            url: format!("{CACHE}{contact}{stream}"),
            tail,
        })
    } else if submission.executable == format!("{location}{SHELL}") {
        let ["-exec", script] = arguments.as_slice() else {
            return None;
        };
        let urls: Vec<String> = script
            .split(CLEAN)
            .skip(1)
            .filter_map(|rest| rest.split_whitespace().next())
            .map(str::to_owned)
            .collect();
        (!urls.is_empty()).then_some(Helper::Clean { urls })
    } else {
        None
    }
}

/// The contact of the job that an entry of the cache belongs to.
pub(super) fn contact(url: &str) -> Option<&str> {
    let key = url.strip_prefix(CACHE)?;
    STREAMS.iter().find_map(|stream| key.strip_suffix(stream))
}

/// The same request, in programs that every site has.
pub(super) fn instead(mut submission: Submission, helper: &Helper) -> Submission {
    let (executable, arguments, stdin) = match helper {
        Helper::Output { url, tail: None } => ("/bin/cat", vec![], Some(url.clone())),
        Helper::Output {
            url,
            tail: Some(lines),
        } => {
            let arguments = vec!["-n".to_owned(), lines.to_string()];
            ("/usr/bin/tail", arguments, Some(url.clone()))
        }
        // The command reads a 0 as success.
        Helper::Clean { .. } => ("/bin/echo", vec!["0".to_owned()], None),
        Helper::Follow => return submission,
    };
    submission.executable = executable.to_owned();
    submission.arguments = arguments;
    submission.stdin = stdin;
    submission
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use kumiko_job::rsl::{self, Request, Variables};

    /// As `crates/wire`'s vectors have them from the toolkit's own commands.
    fn asked(frame: &str) -> Submission {
        let path = format!(
            "{}/../../spec/gram/vectors/valid/{frame}",
            env!("CARGO_MANIFEST_DIR")
        );
        let bytes = std::fs::read(path).unwrap();
        let (request, _) = kumiko_wire::gram::decode_request(&bytes).unwrap().unwrap();
        let asked = kumiko_wire::gram::ToGatekeeper::decode(&request).unwrap();
        let kumiko_wire::gram::Wanted::Job(job) = asked.wanted else {
            panic!("no job");
        };
        let known = [("GLOBUS_LOCATION", "/usr"), ("GLOBUS_GRAM_JOB_CONTACT", "")];
        let variables: Variables = known
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        match rsl::request(&rsl::parse(&job.rsl).unwrap(), &variables).unwrap() {
            Request::Submit(submission) => *submission,
            Request::Restart(_) => panic!("a restart"),
        }
    }

    #[test]
    fn the_commands_of_the_toolkit_are_known_by_what_they_really_sent() {
        let job = "https://vm:23479/17370769579652225081/72057598265958814/";
        let url = format!("x-gass-cache://{job}stdout");
        let output = recognise(&asked("jobtools-02.request"), "/usr").unwrap();
        assert_eq!(
            output,
            Helper::Output {
                url: url.clone(),
                tail: None
            }
        );
        assert_eq!(contact(&url), Some(job));
        let cat = instead(asked("jobtools-02.request"), &output);
        assert_eq!(
            (cat.executable.as_str(), cat.stdin.as_deref()),
            ("/bin/cat", Some(url.as_str()))
        );
        let clean = recognise(&asked("jobtools-05.request"), "/usr").unwrap();
        let urls = vec![url, format!("x-gass-cache://{job}stderr")];
        assert_eq!(clean, Helper::Clean { urls });
        assert_eq!(recognise(&asked("jobtools-01.request"), "/usr"), None);
        assert_eq!(recognise(&asked("jobtools-05.request"), "/opt"), None);
    }
}
