//! OpenLDAP's slapd with the mdb backend and the same entries, indexed as its operators do: equality on names and
//! classes. In the clear on loopback, without a journal flush (`dbnosync`): in its favour.

use super::{found, free_port};
use crate::fail::{Failure, While};
use crate::guard::{self, Guard};
use crate::wait;
use kumiko_directory::schema::{self, Syntax};
use std::fmt::Write;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const UP_WITHIN: Duration = Duration::from_secs(20);
const FILL_WITHIN: Duration = Duration::from_secs(120);
/// Who may write.
pub const ROOT: (&str, &str) = ("cn=root,o=grid", "secret");

#[derive(Debug)]
pub struct Slapd {
    _daemon: Guard,
    _folder: TempDir,
    pub port: u16,
    pub pid: u32,
}

impl Slapd {
    /// With these entries.
    pub fn start(ldif: &str) -> Result<Slapd, Failure> {
        let daemon = found("slapd", "slapd")?;
        let loader = found("slapadd", "slapd")?;
        let folder = tempfile::Builder::new()
            .prefix("kumiko-bench-slapd-")
            .tempdir()
            .doing(|| "making a place for slapd")?;
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("data")).doing(|| "making a place for slapd")?;
        fs::write(path("slapd.conf"), configuration(folder.path()))
            .doing(|| "writing slapd.conf")?;
        fs::write(path("all.ldif"), ldif).doing(|| "writing the entries for slapd")?;
        let mut fill = Command::new(loader);
        fill.arg("-q")
            .arg("-f")
            .arg(path("slapd.conf"))
            .arg("-l")
            .arg(path("all.ldif"));
        wait::output(&mut fill, FILL_WITHIN)?;
        let port = free_port()?;
        let child = Command::new(daemon)
            .args(["-d", "0", "-h", &format!("ldap://127.0.0.1:{port}/"), "-f"])
            .arg(path("slapd.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .doing(|| "starting slapd")?;
        let pid = child.id();
        let guard = guard::process(child);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > UP_WITHIN {
                return Err(Failure::Deadline {
                    what: "slapd coming up".to_owned(),
                    within: UP_WITHIN,
                });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Slapd {
            _daemon: guard,
            _folder: folder,
            port,
            pid,
        })
    }
}

fn configuration(folder: &Path) -> String {
    let mut out =
        "include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n"
            .to_owned();
    let place = folder.display();
    for attribute in schema::ATTRIBUTES {
        // Those of core.schema are there.
        if ["objectClass", "o", "cn", "description"].contains(&attribute.name) {
            continue;
        }
        let rules = match attribute.syntax {
            Syntax::Number => {
                "EQUALITY integerMatch ORDERING integerOrderingMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27"
            }
            _ => {
                "EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch ORDERING caseIgnoreOrderingMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15"
            }
        };
        let _ = writeln!(
            out,
            "attributetype ( {} NAME '{}' {rules} )",
            attribute.oid, attribute.name
        );
    }
    for class in schema::CLASSES {
        if ["top", "organization"].contains(&class.name) {
            continue;
        }
        let kind = if class.structural {
            "STRUCTURAL"
        } else {
            "AUXILIARY"
        };
        let may = class.attributes.join(" $ ");
        // Hosts here bear what their parts bear.
        let _ = writeln!(
            out,
            "objectclass ( {} NAME '{}' SUP top {kind} MAY ( {may} ) )",
            class.oid, class.name
        );
    }
    let all: Vec<&str> = schema::ATTRIBUTES
        .iter()
        .map(|a| a.name)
        .filter(|n| n.starts_with("Mds") || n.starts_with("kumiko"))
        .collect();
    let _ = writeln!(
        out,
        "objectclass ( 1.3.6.1.4.1.99999.1 NAME 'benchHost' SUP top AUXILIARY MAY ( {} ) )",
        all.join(" $ ")
    );
    let _ = write!(
        out,
        "pidfile {place}/pid\nargsfile {place}/args\nsizelimit unlimited\nloglevel 0\nthreads 4\n\
         database mdb\nsuffix \"o=grid\"\nrootdn \"{}\"\nrootpw {}\ndirectory {place}/data\nmaxsize 1073741824\n\
         dbnosync\nindex objectClass eq\nindex Mds-Host-hn eq,sub\nindex Mds-Vo-name eq\n",
        ROOT.0, ROOT.1
    );
    out
}
