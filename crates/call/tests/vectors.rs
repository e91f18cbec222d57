//! spec/rpc: logs that are legal, with the states that they lead to and what those ask for; and logs that are not.
//! `KUMIKO_WRITE_VECTORS=1` writes what is missing, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_call::decide::decide;
use kumiko_call::event::{Event, Record};
use kumiko_call::ledger::Ledger;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn vectors(folder: &str, told: impl Fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/rpc/vectors")
        .join(folder);
    let mut logs: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "log"))
        .collect();
    logs.sort();
    assert!(!logs.is_empty());
    for log in logs {
        let told = told(&std::fs::read_to_string(&log).unwrap());
        let beside = PathBuf::from(format!("{}.expected", log.display()));
        if !beside.exists() && std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
            std::fs::write(&beside, &told).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(told, expected, "{}", log.display());
    }
}

/// Replays, and tells of the stages on the way; the last line of an invalid log is the one that is wrong.
fn replay(log: &str, told: &mut String) -> Result<Ledger, String> {
    let mut ledger = Ledger::default();
    let lines: Vec<&str> = log.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let number = index as u64 + 1;
        let result = match Event::from_json(line.as_bytes()) {
            Err(error) => Err(error.to_string()),
            Ok(event) => {
                assert_eq!(
                    event.to_json(),
                    *line,
                    "the log has the one form of an event"
                );
                let before = ledger.clone();
                let result = ledger.apply(&Record {
                    number,
                    event: event.clone(),
                });
                assert!(
                    result.is_ok() || ledger == before,
                    "an illegal event changes nothing"
                );
                if let Event::Call { call, event } = event {
                    let known = ledger.calls().find(|known| known.id == call);
                    let stage = known.map(|known| &known.stage);
                    writeln!(told, "{number} {call} {}: {stage:?}", event.kind()).unwrap();
                }
                result.map_err(|illegal| illegal.to_string())
            }
        };
        if let Err(error) = result {
            assert_eq!(index + 1, lines.len(), "{error}");
            return Err(error);
        }
    }
    Ok(ledger)
}

#[test]
fn legal_logs_lead_to_the_states_that_stand_beside_them() {
    vectors("valid", |log| {
        let mut told = String::new();
        let ledger = replay(log, &mut told).unwrap();
        for (number, client) in &ledger.clients {
            writeln!(
                told,
                "client {number} {:?}, open from {}",
                client.subject, client.first_open
            )
            .unwrap();
        }
        for call in ledger.calls() {
            writeln!(told, "call {} asks for", call.id).unwrap();
            for action in decide(call) {
                writeln!(told, "  {action:?}").unwrap();
            }
        }
        writeln!(told, "clients so far: {}", ledger.last_client).unwrap();
        told
    });
}

#[test]
fn illegal_logs_are_refused_at_their_last_line() {
    vectors("invalid", |log| {
        replay(log, &mut String::new()).unwrap_err() + "\n"
    });
}

#[test]
fn a_gap_in_the_numbers_is_refused() {
    let event = Event::Registered {
        client: 1,
        subject: "/CN=a".to_owned(),
    };
    let illegal = Ledger::default().apply(&Record { number: 2, event });
    assert_eq!(illegal.unwrap_err().why, "numbers count without gaps");
}

#[test]
fn what_is_needed_of_a_legal_log_leads_to_the_same_state_as_all_of_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/rpc/vectors/valid");
    let mut gone = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "log") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let events = text
            .lines()
            .map(|line| Event::from_json(line.as_bytes()).unwrap());
        let records: Vec<Record> = (1..)
            .zip(events)
            .map(|(number, event)| Record { number, event })
            .collect();
        // Pruned after each of its records, and gone on with.
        let (mut whole, mut kept) = (Ledger::default(), Vec::new());
        for record in &records {
            whole.apply(record).unwrap();
            kept.push(record.clone());
            let needs = whole.needs();
            let before = kept.len();
            kept.retain(|one| needs.record(one));
            gone += before - kept.len();
            let mut again = Ledger::default();
            for one in &kept {
                again.replay(one).unwrap();
            }
            assert_eq!(again, whole, "{} after {}", path.display(), record.number);
        }
    }
    assert!(gone > 0, "some vector has what is forgotten");
}
