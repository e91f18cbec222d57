//! The machine's own site for many accounts: in the places of a daemon, with the system's accounts, as its init starts it.
//! All in a mount namespace of its own, so that the machine keeps none of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::adversity::text;
use kumiko_e2e::{finish, has_program, kumiko, skip, told};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Accounts with numbers that nobody has, in a /etc that is laid over the machine's.
const PLACES: &str = r#"
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$PLACE/over"
mkdir "$PLACE/over/up" "$PLACE/over/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$PLACE/over/up,workdir=$PLACE/over/work" /etc || { echo no overlay; exit 0; }
for folder in /var/lib /var/log /run; do mount -t tmpfs tmpfs $folder; done
echo 'kumiko:x:600500000:600500000:front:/:/usr/sbin/nologin' >> /etc/passwd
echo 'alice:x:600500001:600500001:Alice:/:/bin/sh' >> /etc/passwd
echo 'kumiko:x:600500000:' >> /etc/group
echo 'alice:x:600500001:' >> /etc/group
echo 'people:x:600500002:alice' >> /etc/group
rm -rf /etc/kumiko
cd /
trap '{
    kumiko job cancel all --grace 0
    kumiko site stop
    kumiko site stop --personal
} >/dev/null 2>&1' EXIT
subject="/O=kumiko/OU=site@$(uname -n)/CN=Alice"
enrol() {
    kumiko identity request --subject "$subject" --key "$PLACE/alice.key" --out "$PLACE/alice.request"
    kumiko identity issue --ca /etc/kumiko/ca --out "$PLACE/alice.pem" "$PLACE/alice.request"
    kumiko site map "$subject" alice
    address=$(sed 's/.*"address":"\([^"]*\)".*/\1/' /run/kumiko/site.json)
    export KUMIKO_SITE="localhost:${address##*:}" X509_CERT_DIR=/etc/kumiko/certificates
    export X509_USER_CERT="$PLACE/alice.pem" X509_USER_KEY="$PLACE/alice.key"
}
agent() { sed -n 's/.*INFO.*its agent is started account=alice pid=\([0-9]*\).*/\1/p' /var/log/kumiko/site.log | tail -n 1; }
"#;

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new(test: &str) -> Option<Machine> {
        let folder = tempfile::Builder::new()
            .prefix("kumiko-machine-")
            .tempdir()
            .unwrap();
        if std::fs::metadata(folder.path()).unwrap().uid() != 0 {
            skip(test, "root");
            return None;
        }
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["bin", "over", "root"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["kumiko", "kumiko-grid", "kumiko-run"] {
            let built = kumiko().with_file_name(name);
            // What cargo itself leaves is one program.
            if name != "kumiko-grid" || built.exists() {
                std::fs::copy(built, folder.path().join("bin").join(name)).unwrap();
            }
        }
        Some(Machine { folder })
    }

    /// What a script says there, of which the last line is `all of it`; None, said: it cannot run here.
    #[track_caller]
    fn says(&self, test: &str, script: &str) -> Option<String> {
        let place = self.folder.path();
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "sh",
            "-c",
            &format!("{PLACES}\n{script}\necho all of it\n"),
        ]);
        command.env_clear().current_dir("/").stdin(Stdio::null());
        let bin = place.join("bin").display().to_string();
        command.env("PATH", format!("{bin}:/usr/sbin:/usr/bin:/sbin:/bin"));
        command.env("PLACE", place).env("HOME", place.join("root"));
        command.env("KUMIKO", place.join("bin/kumiko"));
        command.env("REPOSITORY", repository());
        let output = finish(&mut command);
        let said = text(&output.stdout);
        if said == "no overlay\n" {
            skip(test, "overlay mounts");
            return None;
        }
        assert_eq!(said.lines().last(), Some("all of it"), "{}", told(&output));
        Some(said)
    }
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

#[test]
fn roots_site_is_personal_until_the_machine_has_one_and_then_in_the_usual_places() {
    let test = "roots_site_is_personal_until_the_machine_has_one_and_then_in_the_usual_places";
    let Some(machine) = Machine::new(test) else {
        return;
    };
    let said = machine.says(
        test,
        r#"
kumiko site start --listen 127.0.0.1:0 >&2
test ! -e /etc/kumiko
test "$(kumiko job run -- id -u)" = 0
kumiko site start --many --listen 127.0.0.1:0 >&2
enrol
test "$(kumiko job run -- id -u)" = 600500001
grep -x 'Groups:.*600500002.*' /proc/$(agent)/status >&2
test "$(stat -c %U:%a /etc/kumiko/hostkey.pem)" = kumiko:600
test "$(stat -c %U:%a /var/lib/kumiko/accounts/alice)" = alice:700
test "$(stat -c %U:%a /etc/kumiko/ca/private)" = root:700
kumiko site status | grep 'agents.*alice' >&2
! kumiko site map '/CN=Mallory' root
! kumiko site map '/CN=Mallory' daemon
unset KUMIKO_SITE
kumiko site --personal status | grep "$HOME" >&2
kumiko site stop --personal >&2
kumiko site stop
! kumiko site status >&2
"#,
    );
    if let Some(said) = said {
        assert!(said.contains("the site is down"), "{said}");
    }
}

/// The init script, and under the rights that the systemd unit leaves to root.
#[test]
fn the_init_script_and_the_units_rights_are_enough() {
    let test = "the_init_script_and_the_units_rights_are_enough";
    if !has_program("setpriv") {
        return skip(test, "setpriv");
    }
    let Some(machine) = Machine::new(test) else {
        return;
    };
    let unit =
        std::fs::read_to_string(repository().join("packaging/systemd/kumiko.service")).unwrap();
    let set = unit
        .lines()
        .find_map(|l| l.strip_prefix("CapabilityBoundingSet="))
        .unwrap();
    let rights: Vec<String> = set
        .split(' ')
        .map(|c| c.strip_prefix("CAP_").unwrap().to_lowercase())
        .collect();
    assert!(
        !rights.iter().any(|r| r == "sys_admin" || r == "sys_ptrace"),
        "{set}"
    );
    let bounding = format!("-all,+{}", rights.join(",+"));
    machine.says(
        test,
        &format!(
            r#"
export KUMIKO_LISTEN=127.0.0.1:0
init() {{ setpriv --bounding-set {bounding} --inh-caps -all --no-new-privs "$REPOSITORY/packaging/init/kumiko" "$@"; }}
status=0; init status || status=$?; test $status = 3
init start >&2
enrol
test "$(kumiko job run -- id -u)" = 600500001
job=$(kumiko job submit -- sh -c 'echo begun; sleep 600')
until kumiko job log --follow=no $job | grep -q begun; do :; done
before=$KUMIKO_SITE
export KUMIKO_LISTEN=127.0.0.1:${{before##*:}}
init restart >&2
kumiko job list | grep -q active
test "$(kumiko job run -- id -u)" = 600500001
kumiko job cancel --grace 0 $job
init status >&2
init stop >&2
init stop
"#
        ),
    );
}
