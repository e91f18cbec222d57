//! `kumiko front`: the process that meets strangers, as an account that owns nothing but the host's key. Started by the
//! monitor, with the line to it as standard input and the listening socket as standard output.

use crate::fail::{Failure, While};
use crate::home::Home;
use crate::site::many::service;
use crate::site::serve::end_asked;
use crate::site::settings::Settings;
use kumiko_gatekeeper::{Config, Front, Service};
use kumiko_linux::detach;
use kumiko_linux::fence::{self, Fence};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// What the system's libraries read while they begin, and where a process sees who it is.
const OF_SYSTEM: [&str; 4] = ["/usr", "/lib", "/etc/ssl", "/proc/self"];

/// What the monitor has given.
pub struct Given {
    monitor: OwnedFd,
    listener: TcpListener,
}

impl Given {
    /// Takes it over, and gives up all else for good: from here on this process can open its site's public files and
    /// the host's key, and no other. With one thread: the others are to be made behind the fence.
    pub fn take(home: &Home) -> Result<Given, Failure> {
        detach::guard()?;
        let given = Given {
            monitor: detach::take_stdin()?,
            listener: TcpListener::from(detach::take_stdout()?),
        };
        let own = [
            home.root().to_path_buf(),
            home.certificates(),
            home.host_certificate(),
            home.host_key(),
        ];
        let mut readable: Vec<PathBuf> = OF_SYSTEM.iter().map(PathBuf::from).collect();
        for path in own {
            // A link leads to where it is renewed, by a new file of the same name.
            let real = std::fs::canonicalize(&path).unwrap_or(path);
            readable.extend(real.parent().filter(|_| !real.is_dir()).map(PathBuf::from));
            readable.push(real);
        }
        match fence::read_only(&readable).doing(|| "giving up access to files".to_owned())? {
            Fence::Whole => {}
            fence => tracing::warn!(
                ?fence,
                "this kernel's Landlock is old or off: the front's account alone holds it"
            ),
        }
        Ok(given)
    }
}

pub async fn front(given: Given, home: &Home) -> Result<u8, Failure> {
    let Given { monitor, listener } = given;
    let settings = Settings::load(home)?;
    let Service {
        name,
        accept_limited,
        limits,
        stock,
        gram,
    } = service(&settings, None, None); // stocks are the agents', and GRAM is theirs to speak
    let config = Config {
        listen: listener
            .local_addr()
            .doing(|| "looking at what the monitor gave".to_owned())?,
        name,
        host_certificate: home.host_certificate(),
        host_key: home.host_key(),
        trust: home.certificates(),
        mapfile: None, // the monitor's to read
        only_account: None,
        accept_limited,
        limits,
        stock,
        gram,
    };
    let front = Front::relaying(config, listener, monitor).await?;
    front.ready().await?;
    let monitor_gone = front.monitor_gone();
    let end = async {
        tokio::select! {
            () = end_asked() => {}
            () = monitor_gone => tracing::error!("the monitor is gone: the front ends"),
        }
    };
    front.run(end).await;
    Ok(0)
}
