//! `kumiko job serve`: a GASS server of one's own, for jobs to fetch files from and send them to (as globus-gass-server).

use crate::connect;
use crate::fail::{Failure, While};
use crate::home::Home;
use crate::output::say;
use clap::Args;
use kumiko_linux::this_process;
use kumiko_staging::gass::{Rights, Root, Server, Sink};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Mutex, watch};

#[derive(Debug, Args)]
pub struct Serve {
    /// The directory that is given, with all below it; links are not followed.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// It may be written to as well.
    #[arg(long)]
    write: bool,
    /// Address and port; port 0 is any that is free.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:0")]
    listen: SocketAddr,
    /// The name that others reach this machine by [default: localhost for a loopback address, else the host's].
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

pub async fn serve(given: Serve, home: &Home) -> Result<u8, Failure> {
    let dir = std::path::absolute(&given.dir)
        .and_then(|dir| dir.canonicalize())
        .doing(|| format!("finding {}", given.dir.display()))?;
    let (credential, trust) = connect::own_identity(home)?;
    let sink = |to: tokio::io::Stdout| -> Sink { Arc::new(Mutex::new(to)) };
    let errors: Sink = Arc::new(Mutex::new(tokio::io::stderr()));
    let rights = Rights {
        roots: vec![root(&dir, given.write)?],
        home: Some(dir.clone()),
        stdout: Some(sink(tokio::io::stdout())),
        stderr: Some(errors),
        ..Rights::default()
    };
    let server = Server::bind(given.listen, &credential, &trust, rights).await?;
    let address = server.address()?;
    let host = match given.host {
        Some(host) => host,
        None if address.ip().is_loopback() => "localhost".to_owned(),
        None => this_process::host_name(),
    };
    say!("https://{host}:{}", address.port())?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        crate::site::end_asked().await;
        // Nobody hears it only when the server has ended.
        let _ = stop.send(true);
        std::future::pending::<()>().await;
    });
    server.run(stopped).await;
    Ok(0)
}

fn root(dir: &Path, write: bool) -> Result<Root, Failure> {
    Root::open(dir.to_owned(), true, write).doing(|| format!("opening {}", dir.display()))
}
