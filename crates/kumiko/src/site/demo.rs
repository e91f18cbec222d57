//! `site start --demo`: a site in the foreground, in a place that goes with it, which offers some routines.

use super::control::{explain_start, listen_address};
use super::make::make;
use super::registry;
use super::serve::serve;
use crate::args::{Format, SiteStart};
use crate::fail::{Failure, While};
use crate::home::Home;
use crate::job::view::now_ms;
use crate::output::{self, say};
use kumiko_rpc::make::Source;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Command;

/// Of the examples of routines.
const EXAMPLES: [(&str, &str); 3] = [
    (
        "linpack.c",
        include_str!("../../../../examples/rpc/linpack.c"),
    ),
    (
        "linpack.idl",
        include_str!("../../../../examples/rpc/linpack.idl"),
    ),
    ("pi.idl", include_str!("../../../../examples/rpc/pi.idl")),
];

pub async fn site(start: SiteStart, format: Format) -> Result<u8, Failure> {
    let place = Throwaway::new()?;
    let home = Home::find(Some(&place.0))?;
    make(&home, &start.host_names)?;
    let offered = offer(&home);
    let listen = start
        .listen
        .as_deref()
        .map(listen_address)
        .transpose()?
        .unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
    serve(&home, Some(listen), &start, |running| {
        if format == Format::Human {
            explain_start(&home, running, true)?;
            match &offered {
                Ok(names) => say!(
                    "routines, made of {}/examples: {names}",
                    home.root().display()
                )?,
                Err(error) => say!("no routines, which a C compiler (cc) makes: {error}")?,
            }
            say!(
                "in another terminal: export KUMIKO_HOME={}",
                home.root().display()
            )?;
            say!("Ctrl-C ends it and removes everything")?;
        } else {
            output::one(format, running)?;
        }
        Ok(())
    })
    .await?;
    Ok(0)
}

/// What `kumiko rpc gen` and `register` do; says what there is now.
fn offer(home: &Home) -> Result<String, Failure> {
    let folder = home.root().join("examples");
    DirBuilder::new().mode(0o700).create(&folder)?;
    for (name, text) in EXAMPLES {
        std::fs::write(folder.join(name), text)?;
    }
    let mut compile = Command::new("cc");
    let compiled = compile
        .args(["-O2", "-c", "linpack.c"])
        .current_dir(&folder)
        .output()?;
    if !compiled.status.success() {
        let said = String::from_utf8_lossy(&compiled.stderr);
        return Err(Failure::from_text(said.trim_end()));
    }
    let registry = registry(home)?;
    let mut names = Vec::new();
    for idl in ["linpack.idl", "pi.idl"] {
        for program in Source::read(&folder.join(idl))?.make(&folder, None)? {
            let signature = registry.register(&program)?.signature;
            names.push(format!("{}/{}", signature.module, signature.name));
        }
    }
    Ok(names.join(" "))
}

/// A private folder that is removed when dropped.
pub struct Throwaway(pub PathBuf);

impl Throwaway {
    pub fn new() -> Result<Throwaway, Failure> {
        let path = std::env::temp_dir().join(format!("kumiko-{}-{}", std::process::id(), now_ms()));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .doing(|| format!("making {}", path.display()))?;
        Ok(Throwaway(path))
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
