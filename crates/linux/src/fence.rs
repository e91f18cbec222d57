//! What a process gives up for good before it meets strangers: Landlock (landlock(7)), where the kernel has it.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, path_beneath_rules,
};
use std::path::PathBuf;

/// How much of it this kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    Whole,
    /// An older kernel: some kinds of access are not kept from the process.
    Part,
    /// A kernel without Landlock.
    None,
}

/// From now on this thread and those that it makes can read files beneath `readable` and open no others, make, change
/// and run none, and neither listen on TCP ports nor connect to any. What is open stays open. To be called before there
/// are other threads, which would stay as they are. A path that is not there is left out.
///
/// # Errors
/// The kernel has Landlock and refuses.
pub fn read_only(readable: &[PathBuf]) -> Result<Fence, RulesetError> {
    // What the newest kernel that was tried knows; an older one does what it can.
    let (files, ports) = (ABI::V5, ABI::V4);
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let status: RestrictionStatus = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(files))?
        .handle_access(AccessNet::from_all(ports))?
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Fence::Whole,
        RulesetStatus::PartiallyEnforced => Fence::Part,
        RulesetStatus::NotEnforced => Fence::None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn behind_the_fence_there_is_nothing_to_open_run_or_connect_to() {
        // A thread of its own, as it cannot be undone.
        let fenced = std::thread::spawn(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let fence = read_only(&["/etc/ssl".into(), "/no/such/place".into()]).unwrap();
            if fence != Fence::Whole {
                let test = "behind_the_fence_there_is_nothing_to_open_run_or_connect_to";
                eprintln!("SKIP {test}: missing Landlock with network rules");
                return;
            }
            std::fs::read_dir("/etc/ssl").unwrap();
            let denied = |result: std::io::Result<()>, what: &str| {
                let error = result.expect_err(what);
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}: {error}");
            };
            denied(std::fs::read("/etc/passwd").map(drop), "a file");
            denied(std::fs::read_dir("/").map(drop), "a folder");
            denied(
                std::fs::write("/tmp/kumiko-fence", "").map(drop),
                "a new file",
            );
            denied(
                std::process::Command::new("/bin/true").status().map(drop),
                "a program",
            );
            denied(
                std::net::TcpStream::connect(address).map(drop),
                "a connection",
            );
            denied(
                std::net::TcpListener::bind("127.0.0.1:0").map(drop),
                "a port",
            );
        });
        fenced.join().unwrap();
    }
}
