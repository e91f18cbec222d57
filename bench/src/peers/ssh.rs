//! An sshd of the invoking user on a free port of the loopback, with keys made for the run (OpenSSH's sshd_config(5),
//! ssh_config(5)). No configuration of the user or the machine is read.

use crate::fail::{Failure, While};
use crate::guard::{self, Guard};
use crate::peers::{found, free_port};
use crate::wait;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// Key generation and start take milliseconds.
const UP_WITHIN: Duration = Duration::from_secs(10);
const CIPHER: &str = "aes128-gcm@openssh.com";
/// Where a root sshd locks up its unprivileged half; Debian's start script makes it.
const PRIVSEP: &str = "/run/sshd";

/// Ended and removed when dropped.
#[derive(Debug)]
pub struct Ssh {
    _daemon: Guard,
    folder: TempDir,
    port: u16,
}

impl Ssh {
    /// # Errors
    /// OpenSSH is not installed, or its daemon does not come up.
    pub fn start() -> Result<Ssh, Failure> {
        let _permit = guard::starting();
        let daemon = found("sshd", "openssh-server")?;
        found("ssh", "openssh-client")?;
        let keygen = found("ssh-keygen", "openssh-client")?;
        let folder = tempfile::tempdir().doing(|| "making a folder for sshd")?;
        for key in ["host", "user"] {
            let mut make = Command::new(&keygen);
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.path().join(key));
            wait::output(&mut make, UP_WITHIN)?;
        }
        let port = free_port()?;
        let known = |name: &str| folder.path().join(name);
        fs::copy(known("user.pub"), known("authorized")).doing(|| "authorising the user's key")?;
        let host_key = fs::read_to_string(known("host.pub")).doing(|| "reading the host's key")?;
        fs::write(
            known("known_hosts"),
            format!("[127.0.0.1]:{port} {host_key}"),
        )
        .doing(|| "writing known_hosts")?;
        fs::write(known("sshd_config"), configuration(folder.path(), port))
            .doing(|| "writing sshd_config")?;
        if Path::new("/proc/self")
            .metadata()
            .is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
        {
            fs::create_dir_all(PRIVSEP).doing(|| format!("making {PRIVSEP}"))?;
        }
        let mut child = Command::new(daemon)
            .args(["-D", "-e", "-f"])
            .arg(known("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .doing(|| "starting sshd")?;
        let stderr = child.stderr.take();
        let daemon = guard::process(child);
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut said = String::new();
            // Read to the end, so that the daemon never waits for us.
            for line in stderr
                .into_iter()
                .flat_map(|s| BufReader::new(s).lines().map_while(Result::ok))
            {
                if line.starts_with("Server listening") {
                    let _ = tell.send(Ok(()));
                }
                said = line;
            }
            let _ = tell.send(Err(said));
        });
        match told.recv_timeout(UP_WITHIN) {
            Ok(Ok(())) => Ok(Ssh {
                _daemon: daemon,
                folder,
                port,
            }),
            Ok(Err(said)) => Err(Failure::unexpected(format!("sshd did not come up: {said}"))),
            Err(_) => Err(Failure::Deadline {
                what: "sshd coming up".to_owned(),
                within: UP_WITHIN,
            }),
        }
    }

    /// `ssh 127.0.0.1 COMMAND` with the keys of this run. AES-GCM, as fast as ssh goes on this machine's processor.
    pub fn command(&self, remote: &str) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.args(["-F", "/dev/null", "-T", "-c", CIPHER, "-p"])
            .arg(self.port.to_string());
        for option in self.options() {
            ssh.args(["-o", &option]);
        }
        ssh.args(["127.0.0.1", remote]);
        ssh
    }

    /// What has a folder seen at another place, by sshfs; until it is unmounted there, or this is dropped.
    pub fn mounts(&self, folder: &Path, at: &Path) -> Command {
        let mut sshfs = Command::new("sshfs");
        sshfs.arg(format!("127.0.0.1:{}", folder.display())).arg(at);
        sshfs.args(["-F", "/dev/null", "-p", &self.port.to_string()]);
        sshfs.args(["-o", &format!("Ciphers={CIPHER}")]);
        for option in self.options() {
            sshfs.args(["-o", &option]);
        }
        sshfs
    }

    fn options(&self) -> [String; 5] {
        let file = |option: &str, name: &str| {
            format!("{option}={}", self.folder.path().join(name).display())
        };
        [
            "BatchMode=yes".to_owned(),
            "IdentitiesOnly=yes".to_owned(),
            "LogLevel=ERROR".to_owned(),
            file("UserKnownHostsFile", "known_hosts"),
            file("IdentityFile", "user"),
        ]
    }
}

fn configuration(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "Subsystem sftp internal-sftp\nListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n\
         PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nUseDNS no\nPrintMotd no\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_through_an_own_sshd() {
        let ssh = match Ssh::start() {
            Ok(ssh) => ssh,
            Err(missing @ Failure::NoPeer { .. }) => {
                eprintln!("SKIP a_command_runs_through_an_own_sshd: missing {missing}");
                return;
            }
            Err(other) => panic!("{other}"),
        };
        let said = wait::output(&mut ssh.command("echo hello"), UP_WITHIN).unwrap();
        assert_eq!(said.stdout, b"hello\n");
    }
}
