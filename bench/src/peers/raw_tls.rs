//! Raw TLS 1.3 between two processes: `openssl s_server -WWW` and `openssl s_time` (openssl-s_server(1),
//! openssl-s_time(1)), with the certificate of the site that is measured beside it.

use crate::fail::{Failure, While};
use crate::guard::{self, Guard};
use crate::peers::{found, free_port};
use crate::wait;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const UP_WITHIN: Duration = Duration::from_secs(10);
/// What TLS 1.3 of OpenSSL agrees on by itself, and so what a site speaks.
const SUITE: &str = "TLS_AES_256_GCM_SHA384";

/// Ended and removed when dropped.
#[derive(Debug)]
pub struct RawTls {
    _server: Guard,
    _folder: TempDir,
    port: u16,
    bytes: u64,
}

impl RawTls {
    /// `home`: of a site, whose host certificate and key serve.
    ///
    /// # Errors
    /// openssl is not installed, or its server does not come up.
    pub fn start(home: &Path, bytes: u64) -> Result<RawTls, Failure> {
        let _permit = guard::starting();
        let openssl = found("openssl", "openssl")?;
        let folder = tempfile::tempdir().doing(|| "making a folder for openssl")?;
        // Written, not sparse: a hole would be read faster than any file.
        let path = folder.path().join("data");
        let mut file = File::create(&path).doing(|| "making a file to send")?;
        let block = vec![0; 1 << 20];
        for _ in 0..bytes / block.len() as u64 {
            file.write_all(&block)
                .doing(|| format!("writing {}", path.display()))?;
        }
        let port = free_port()?;
        let mut child = Command::new(openssl)
            .args([
                "s_server",
                "-accept",
                &format!("127.0.0.1:{port}"),
                "-WWW",
                "-tls1_3",
            ])
            .args(["-ciphersuites", SUITE, "-cert"])
            .arg(home.join("hostcert.pem"))
            .arg("-key")
            .arg(home.join("hostkey.pem"))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .doing(|| "starting openssl s_server")?;
        let stdout = child.stdout.take();
        let server = guard::process(child);
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            // Read to the end, so that the server never waits for us.
            for line in stdout
                .into_iter()
                .flat_map(|s| BufReader::new(s).lines().map_while(Result::ok))
            {
                if line.starts_with("ACCEPT") {
                    let _ = tell.send(());
                }
            }
        });
        told.recv_timeout(UP_WITHIN)
            .map_err(|_| Failure::Deadline {
                what: "openssl s_server coming up".to_owned(),
                within: UP_WITHIN,
            })?;
        Ok(RawTls {
            _server: server,
            _folder: folder,
            port,
            bytes,
        })
    }

    /// Bytes a second of one run of s_time.
    pub fn rate(&self) -> Result<f64, Failure> {
        let mut client = Command::new("openssl");
        client.args([
            "s_time",
            "-connect",
            &format!("127.0.0.1:{}", self.port),
            "-new",
            "-time",
            "1",
        ]);
        client.args(["-www", "/data", "-ciphersuites", SUITE]);
        let begun = Instant::now();
        let output = wait::output(&mut client, wait::SAMPLE_WITHIN)?;
        let took = begun.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stdout);
        let (connections, each) = counted(&said).ok_or_else(|| {
            Failure::unexpected(format!(
                "openssl s_time said something else than usual: {said}"
            ))
        })?;
        if each < self.bytes {
            return Err(Failure::unexpected(format!(
                "openssl s_time has read {each} bytes of {}",
                self.bytes
            )));
        }
        Ok((connections * each) as f64 / took)
    }
}

/// The last line of s_time: "3 connections in 2 real seconds, 1073741824 bytes read per connection".
fn counted(said: &str) -> Option<(u64, u64)> {
    let line = said
        .lines()
        .rev()
        .find(|l| l.contains("bytes read per connection"))?;
    let mut numbers = line.split_whitespace().filter_map(|w| w.parse().ok());
    let connections = numbers.next()?;
    Some((connections, numbers.nth(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_s_time_says_is_understood() {
        let said = "2 connections in 0.92s; 2.17 connections/user sec, bytes read 1073741824\n\
                    2 connections in 2 real seconds, 536870912 bytes read per connection\n";
        assert_eq!(counted(said), Some((2, 536_870_912)));
        assert_eq!(counted("nothing"), None);
    }
}
