//! `kumiko-ferry PLACE PID BEGAN` (spec/jobs/pilots.md, PL42): the program on a host. Not here: what it does.

use std::path::PathBuf;
use std::process::ExitCode;

const MISUSE: u8 = 2;
const UNUSABLE: u8 = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let read = |word: &std::ffi::OsString| word.to_str().map(str::to_owned);
    let [place, pid, began] = &words[..] else {
        return usage();
    };
    let pid = read(pid).and_then(|pid| pid.parse().ok());
    let (Some(pid), Some(began)) = (pid, read(began)) else {
        return usage();
    };
    match kumiko_ferry::host::run(PathBuf::from(place), pid, &began).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kumiko-ferry: cannot wait for process {pid} to end: {error}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: kumiko-ferry PLACE PID BEGAN   (what a site has hosts do starts it beside kumiko-run)"
    );
    ExitCode::from(MISUSE)
}
