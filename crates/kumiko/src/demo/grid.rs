//! The last step of the tour: a grid of three levels on this machine. One index above two others, three hosts below
//! those; six processes that find each other over mutual TLS, and one question.

use super::Tour;
use crate::fail::{Failure, While};
use crate::output::say;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// One `kumiko info serve`, killed when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tour {
    pub(super) fn grid(&mut self) -> Result<(), Failure> {
        self.says("A grid: three hosts tell two sites' indexes how they stand, these tell one above; nothing is ever polled.")?;
        let index = "kind = \"index\"\nhost = false\n";
        let below = |above: &Server| format!("[[register]]\naddress = \"{}\"\n", above.address);
        let top = self.serve("grid", index)?;
        let west = self.serve("west", &format!("{index}{}", below(&top)))?;
        let east = self.serve("east", &format!("{index}{}", below(&top)))?;
        let mut hosts = Vec::new();
        for (name, site) in [("oak", &west), ("pine", &west), ("cedar", &east)] {
            hosts.push(self.serve(name, &format!("host_name = \"{name}\"\n{}", below(site)))?);
        }
        let ask = ["info", "query", "--server", &top.address];
        let arrived = || {
            let told = self.run(&[&ask[..], &["--output", "lines"]].concat(), "");
            told.is_ok_and(|t| t.stdout.iter().filter(|b| **b == b'\n').count() == hosts.len())
        };
        self.until("all hosts are known at the top", arrived)?;
        let expression = "cpus >= 1 and mem_free > 10MB and not stale_since";
        let query = [expression, "--rank", "cpu_free desc, host"];
        self.shows(&[&ask[..], &query].concat(), "", 0, "cedar")
    }

    fn serve(&self, name: &str, settings: &str) -> Result<Server, Failure> {
        let path = self.place.0.join(format!("{name}.toml"));
        let state = self.place.0.join(format!("info-{name}"));
        std::fs::write(&path, format!("name = \"{name}\"\n{settings}"))
            .doing(|| format!("writing {}", path.display()))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["info", "serve", "--listen", "127.0.0.1:0", "--config"]);
        command.arg(&path).arg("--state").arg(state);
        let mut child = command
            .env("KUMIKO_HOME", self.home()?.root())
            .env("KUMIKO_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .doing(|| "starting an info server".to_owned())?;
        let out = child.stdout.take();
        let mut server = Server {
            child,
            address: String::new(),
        };
        let mut said = String::new();
        if let Some(out) = out {
            BufReader::new(out).read_line(&mut said)?;
        }
        let port = said
            .split_once("127.0.0.1:")
            .and_then(|(_, rest)| rest.split_once(','));
        let (port, _) = port.ok_or_else(|| {
            Failure::from_text(format!("the info server {name} did not start: {said}"))
        })?;
        server.address = format!("localhost:{port}");
        say!(
            "$ kumiko info serve --config {name}.toml &   # {}",
            server.address
        )?;
        Ok(server)
    }
}
