//! What carries between hosts and a site (spec/jobs/pilots.md): `kumiko-ferry PLACE PID BEGAN` on a host (PL42); `kumiko-ferry --carry OWN
//! ADDRESS COUNT FOLDER... PROGRAM ARGUMENT...` on one without the site's folders (PL51); `kumiko-ferry --files ROOT ADDRESS FOLDER...` on
//! the site's machine (PL50); `kumiko-ferry --version`, by which a host finds out that it runs there. Not here: what they do.

use kumiko_ferry::files::{carry, serve};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const MISUSE: u8 = 2;
const UNUSABLE: u8 = 4;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let read = |word: &OsString| word.to_str().map(str::to_owned);
    match &words[..] {
        [what, own, address, count, rest @ ..] if what == "--carry" => {
            let count = read(count).and_then(|count| count.parse::<usize>().ok());
            let folders = count.and_then(|count| rest.split_at_checked(count));
            let (Some(address), Some((folders, line))) = (read(address), folders) else {
                return usage();
            };
            told(carry::run(carry::Told {
                own: own.into(),
                address,
                folders: folders.iter().map(PathBuf::from).collect(),
                line: line.to_vec(),
            }))
        }
        [what, root, at, folders @ ..] if what == "--files" => {
            let Some(at) = read(at).and_then(|at| at.parse().ok()) else {
                return usage();
            };
            let folders = folders.iter().map(PathBuf::from).collect();
            told(serve::run(&PathBuf::from(root), &at, folders).map(|()| ExitCode::SUCCESS))
        }
        [what] if what == "--version" => {
            println!("kumiko-ferry {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        [place, pid, began] => {
            let pid = read(pid).and_then(|pid| pid.parse().ok());
            let (Some(pid), Some(began)) = (pid, read(began)) else {
                return usage();
            };
            told(beside(place.into(), pid, &began).map(|()| ExitCode::SUCCESS))
        }
        _ => usage(),
    }
}

fn beside(place: PathBuf, pid: i32, began: &str) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(kumiko_ferry::host::run(place, pid, began))
}

fn told<E: std::fmt::Display>(done: Result<ExitCode, E>) -> ExitCode {
    done.unwrap_or_else(|error| {
        eprintln!("kumiko-ferry: {error}");
        ExitCode::from(UNUSABLE)
    })
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: kumiko-ferry PLACE PID BEGAN   (what a site has hosts do starts it beside kumiko-run)"
    );
    ExitCode::from(MISUSE)
}
