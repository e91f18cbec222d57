//! Calls of routines at a site for many accounts: each is computed by its caller's agent, as its account.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
#[path = "many_accounts/place.rs"]
mod place;

use kumiko_e2e::{alive, collect, finish, has_program, kill, skip, told, until};
use place::{Place, succeeded};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Stdio};

const PEOPLE: [&str; 2] = ["alice", "bob"];

const WHO: &str = r#"Module who;
Globals { #include <unistd.h> }
Define account(IN long wait_ms, OUT int *uid)
"The account that it runs as, after a while."
{
    usleep((unsigned)wait_ms * 1000);
    *uid = (int)getuid();
}
"#;

/// A site that offers it, registered by its operator.
fn site(test: &str) -> Option<Place> {
    if !has_program("cc") {
        skip(test, "cc");
        return None;
    }
    let place = Place::new(test, &PEOPLE, "")?;
    let (idl, folder) = (place.path("who.idl"), place.path("made"));
    std::fs::write(&idl, WHO).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let paths = [idl, folder.clone()].map(|path| path.display().to_string());
    place.ok(["rpc", "gen", &paths[0], "--into", &paths[1]]);
    let program = folder.join("who.account").display().to_string();
    // Whatever a careful operator's umask is.
    let words = ["rpc", "register", &program];
    let mut register = place.operator(words);
    let line = format!("umask 077; exec \"$0\" {}", words.join(" "));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &line]).arg(register.get_program());
    shell.env_clear().envs(
        register
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    assert_eq!(succeeded(&finish(&mut shell)), "who/account\n");
    // And once more by itself.
    assert_eq!(succeeded(&finish(&mut register)), "who/account\n");
    Some(place)
}

fn uid_told(place: &Place, said: &str) -> bool {
    said.contains(&place.uid("alice").to_string())
}

/// Records of alice's calls that say so.
fn started(place: &Place) -> i64 {
    let log = place.state("alice").join("rpc/calls.db");
    // Only its agent makes the file: one that this process made would be root's.
    let only_look = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let Ok(log) = rusqlite::Connection::open_with_flags(log, only_look) else {
        return 0;
    };
    let words = "SELECT count(*) FROM records WHERE body LIKE '%\"started\"%'";
    log.query_row(words, [], |row| row.get(0)).unwrap_or(0)
}

/// A call of alice's that lasts, once its routine runs; and the agent that has it.
fn lasting(place: &Place) -> (Child, u32) {
    let before = started(place);
    let mut call = place.person("alice", ["rpc", "call", "who/account", "3000"]);
    let call = call.stdout(Stdio::piped()).stderr(Stdio::piped());
    let call = call.spawn().unwrap();
    until("its routine runs", || started(place) > before);
    (call, place.agent("alice").unwrap())
}

#[test]
fn each_is_computed_as_its_callers_account() {
    let Some(place) = site("each_is_computed_as_its_callers_account") else {
        return;
    };
    for name in PEOPLE {
        let list = place.says(name, ["rpc", "list"]);
        assert!(list.contains("who/account"), "{list}");
        let said = place.says(name, ["rpc", "call", "who/account", "0"]);
        assert!(said.contains(&place.uid(name).to_string()), "{said}");
        let kept = std::fs::metadata(place.state(name).join("rpc/calls.db")).unwrap();
        assert_eq!(kept.uid(), place.uid(name));
    }
    // What is offered is the operator's to say.
    let program = place.path("made/who.account").display().to_string();
    let registry = place.home().join("state/rpc");
    let try_it = format!("cp {program} {}/programs/mine", registry.display());
    assert!(!place.shell_as(place.uid("alice"), &try_it).status.success());
    // Nobody has another's calls.
    let open = place.run("bob", ["rpc", "show", "1-1"]);
    assert!(!uid_told(&place, &told(&open)), "{}", told(&open));
}

#[test]
fn a_call_outlives_its_agent_and_its_site() {
    let Some(place) = site("a_call_outlives_its_agent_and_its_site") else {
        return;
    };
    let (call, agent) = lasting(&place);
    kill(agent, "KILL");
    until("its agent is gone", || !alive(agent));
    let ended = collect(call);
    assert!(
        ended.status.success() && uid_told(&place, &told(&ended)),
        "{}",
        told(&ended)
    );
    let (call, agent) = lasting(&place);
    kill(place.monitor(), "KILL");
    until("its agent is gone", || !alive(agent));
    place.start();
    let ended = collect(call);
    assert!(
        ended.status.success() && uid_told(&place, &told(&ended)),
        "{}",
        told(&ended)
    );
}

#[test]
fn a_log_that_its_agent_cannot_write_is_told_and_once_away_all_goes_on() {
    let test = "a_log_that_its_agent_cannot_write_is_told_and_once_away_all_goes_on";
    let Some(place) = site(test) else {
        return;
    };
    // Root's, where it should be hers.
    let kept = place.state("alice");
    let log = kept.join("rpc/calls.db");
    std::fs::create_dir_all(kept.join("rpc")).unwrap();
    for folder in [&kept, &kept.join("rpc")] {
        std::os::unix::fs::chown(folder, Some(place.uid("alice")), None).unwrap();
    }
    std::fs::write(&log, "").unwrap();
    let call = ["rpc", "call", "who/account", "0"];
    let failed = place.run("alice", call);
    assert!(!failed.status.success(), "{}", told(&failed));
    let hint = "the peer closed the connection; the site's log says why";
    assert!(told(&failed).contains(hint), "{}", told(&failed));
    let why = std::fs::read_to_string(place.home().join("agents/alice.log")).unwrap();
    assert!(why.contains(&log.display().to_string()), "{why}");
    assert!(
        place
            .says("bob", call)
            .contains(&place.uid("bob").to_string())
    );
    std::fs::remove_file(&log).unwrap();
    // Until it is started once more, callers are told that it fails.
    until("her agent serves again", || {
        let called = place.run("alice", call);
        called.status.success() && uid_told(&place, &told(&called))
    });
}
