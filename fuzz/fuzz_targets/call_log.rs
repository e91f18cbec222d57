//! Logs of calls: what is read is written as the same, an illegal event changes nothing, and whatever a legal state is asked or
//! told, the events that follow are legal.
#![no_main]

use kumiko_call::decide::decide;
use kumiko_call::event::{End, Event, Record};
use kumiko_call::ledger::Ledger;
use kumiko_call::message::{FromClient, FromHost};
use kumiko_call::respond;

fn legal(ledger: &Ledger, events: impl IntoIterator<Item = Event>) {
    let mut ledger = ledger.clone();
    for event in events {
        let number = ledger.last_record + 1;
        if let Err(illegal) = ledger.apply(&Record { number, event }) {
            panic!("{illegal}");
        }
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut ledger = Ledger::default();
    // The state grows with the log, and each event copies its call's.
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let Ok(event) = Event::from_json(line) else {
            continue;
        };
        let again = Event::from_json(event.to_json().as_bytes());
        assert_eq!(again.ok().as_ref(), Some(&event));
        let before = ledger.clone();
        let number = ledger.last_record + 1;
        if ledger.apply(&Record { number, event }).is_err() {
            assert_eq!(ledger, before);
        }
    }
    for client in ledger.clients.values() {
        for known in client.calls.values() {
            let call = known.id;
            decide(known);
            let invocation = known.invocation.clone();
            for message in [
                FromClient::Invoke {
                    call,
                    first_open: u64::MAX,
                    invocation,
                },
                FromClient::Block { call, number: 0 },
                FromClient::Ask { call },
                FromClient::Fetch { call, number: 0 },
                FromClient::Acknowledge { call },
                FromClient::Cancel { call },
            ] {
                legal(
                    &ledger,
                    respond::to_client(&ledger, &client.subject, &message).events,
                );
            }
            for silent_ms in [respond::SUSPECT_MS, respond::LOST_MS] {
                legal(&ledger, respond::to_silence(known, silent_ms));
            }
            legal(&ledger, respond::to_absence(known, u64::MAX));
            if known
                .attempt()
                .is_none_or(|attempt| attempt.epoch < u32::MAX)
            {
                legal(&ledger, respond::placed(known, "h"));
            }
            for epoch in 0..4 {
                let attempt = known.attempt_id(epoch);
                for message in [
                    FromHost::Beat {
                        attempt,
                        recovery: None,
                    },
                    FromHost::Checkpoint {
                        attempt,
                        number: u64::MAX,
                    },
                    FromHost::Ended {
                        attempt,
                        end: End::Preempted,
                    },
                    FromHost::Ended {
                        attempt,
                        end: End::Finished { out_bytes: 1 },
                    },
                ] {
                    legal(&ledger, respond::to_host(&ledger, &message).events);
                }
            }
        }
    }
});
