//! What is said to whom, and which events that makes (spec/rpc, "Conversation" and "Time"), in rows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_call::call::Call;
use kumiko_call::decide::{Action, decide};
use kumiko_call::event::{CallEvent, End, Event, Failure, Invocation, Record};
use kumiko_call::id::{AttemptId, CallId};
use kumiko_call::ledger::Ledger;
use kumiko_call::message::{FromClient, FromHost, Refusal, Status, ToClient, ToHost};
use kumiko_call::respond::{
    self, BLOCK_MOST_BYTES, KEEP_MOST_MS, LEASE_MS, LOST_MS, MOST_CALLS, MOST_FRUITLESS,
    SHORT_LEASE_MS, SUSPECT_MS,
};

const ALICE: &str = "/CN=Alice";
const ID: CallId = CallId {
    client: 1,
    sequence: 1,
};

fn invocation(in_bytes: u64) -> Invocation {
    Invocation {
        routine: "linpack/dgesv".to_owned(),
        in_bytes,
        block_bytes: 8,
        keep_ms: 1000,
    }
}

fn invoke(sequence: u64, first_open: u64, invocation: Invocation) -> FromClient {
    FromClient::Invoke {
        call: CallId {
            client: 1,
            sequence,
        },
        first_open,
        invocation,
    }
}

#[derive(Default)]
struct Server(Ledger);

impl Server {
    fn with_client() -> Server {
        let mut server = Server::default();
        let said = server.hears(&FromClient::Register { passing: false });
        assert_eq!(said, ToClient::Registered { client: 1 });
        server
    }

    /// With a call whose arguments are here, placed on host "a".
    fn computing() -> Server {
        let mut server = Server::with_client();
        server.hears(&invoke(1, 1, invocation(0)));
        server.place();
        server
    }

    fn record(&mut self, events: &[Event]) {
        for event in events {
            let number = self.0.last_record + 1;
            let event = event.clone();
            self.0.apply(&Record { number, event }).unwrap();
        }
    }

    fn hears(&mut self, message: &FromClient) -> ToClient {
        let answer = respond::to_client(&self.0, ALICE, message);
        self.record(&answer.events);
        answer.say
    }

    fn hears_host(&mut self, message: &FromHost) -> (usize, ToHost) {
        let answer = respond::to_host(&self.0, message);
        self.record(&answer.events);
        (answer.events.len(), answer.say)
    }

    fn call(&self) -> &Call {
        self.0.calls().next().unwrap()
    }

    fn place(&mut self) {
        let event = respond::placed(self.call(), "a").unwrap();
        self.record(&[event]);
    }

    fn status(&mut self) -> Status {
        match self.hears(&FromClient::Ask { call: ID }) {
            ToClient::Status { status, .. } => status,
            other => panic!("{other:?}"),
        }
    }
}

const fn attempt(epoch: u32) -> AttemptId {
    AttemptId { call: ID, epoch }
}

fn ends(epoch: u32, end: End) -> FromHost {
    FromHost::Ended {
        attempt: attempt(epoch),
        end,
    }
}

fn crash(point: u64) -> End {
    End::Crashed {
        cause: "SIGFPE".to_owned(),
        point,
    }
}

#[test]
fn blocks_are_taken_in_order_and_those_said_again_are_answered_with_the_next() {
    let mut server = Server::with_client();
    server.hears(&invoke(1, 1, invocation(20)));
    let rows = [
        (1, Status::Wants { block: 0 }),
        (0, Status::Wants { block: 1 }),
        (0, Status::Wants { block: 1 }),
        (2, Status::Wants { block: 1 }),
        (1, Status::Wants { block: 2 }),
        (2, Status::Waiting),
        (2, Status::Waiting),
        (0, Status::Waiting),
    ];
    for (number, expected) in rows {
        let status = match server.hears(&FromClient::Block { call: ID, number }) {
            ToClient::Status { status, .. } => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(status, expected, "block {number}");
    }
}

#[test]
fn an_invocation_said_again_is_the_same_call_and_with_other_words_is_refused() {
    let mut server = Server::with_client();
    let first = server.hears(&invoke(1, 1, invocation(20)));
    let records = server.0.last_record;
    assert_eq!(server.hears(&invoke(1, 1, invocation(20))), first);
    assert_eq!(server.0.last_record, records);
    let refused = server.hears(&invoke(1, 1, invocation(21)));
    let refusal = Refusal::OtherWords { call: ID };
    assert_eq!(
        refused,
        ToClient::Refused {
            call: Some(ID),
            refusal
        }
    );
}

#[test]
fn what_comes_after_a_call_is_over_runs_nothing_again() {
    let mut server = Server::computing();
    server.hears_host(&ends(1, End::Finished { out_bytes: 0 }));
    server.hears(&FromClient::Acknowledge { call: ID });
    assert_eq!(server.status(), Status::Over { expired: false });
    // Remembered until the client says with a later call that it will not ask again, and forgotten after that.
    server.hears(&invoke(2, 2, invocation(0)));
    assert_eq!(server.0.calls().count(), 1);
    let late = server.hears(&invoke(1, 1, invocation(0)));
    let status = Status::Over { expired: false };
    assert_eq!(late, ToClient::Status { call: ID, status });
    assert_eq!(server.0.calls().count(), 1);
}

#[test]
fn no_more_is_released_than_is_over() {
    let mut server = Server::computing();
    server.hears(&invoke(2, 2, invocation(0)));
    assert_eq!(server.0.calls().count(), 2);
}

#[test]
fn what_cannot_be_invoked_is_refused() {
    let long = || Invocation {
        routine: "r".repeat(512),
        ..invocation(0)
    };
    let rows = [
        long(),
        Invocation {
            routine: String::new(),
            ..invocation(0)
        },
        Invocation {
            block_bytes: 0,
            ..invocation(0)
        },
        Invocation {
            block_bytes: BLOCK_MOST_BYTES + 1,
            ..invocation(0)
        },
        Invocation {
            keep_ms: 0,
            ..invocation(0)
        },
        Invocation {
            keep_ms: KEEP_MOST_MS + 1,
            ..invocation(0)
        },
    ];
    for row in rows {
        let said = Server::with_client().hears(&invoke(1, 1, row.clone()));
        let refused = matches!(
            said,
            ToClient::Refused {
                refusal: Refusal::BadInvocation { .. },
                ..
            }
        );
        assert!(refused, "{row:?}: {said:?}");
    }
}

#[test]
fn a_client_that_never_releases_is_bounded() {
    let mut server = Server::with_client();
    let most = MOST_CALLS as u64;
    for sequence in 1..=most {
        server.hears(&invoke(sequence, 1, invocation(8)));
    }
    let said = server.hears(&invoke(most + 1, 1, invocation(8)));
    let ToClient::Refused { refusal, .. } = said else {
        panic!("{said:?}")
    };
    assert!(refusal.is_passing());
    server.hears(&FromClient::Cancel { call: ID });
    server.hears(&FromClient::Acknowledge { call: ID });
    let said = server.hears(&invoke(most + 1, 2, invocation(8)));
    assert!(matches!(said, ToClient::Status { .. }), "{said:?}");
}

#[test]
fn another_subject_learns_nothing() {
    let server = Server::computing();
    for message in [
        FromClient::Ask { call: ID },
        FromClient::Cancel { call: ID },
        invoke(9, 1, invocation(0)),
    ] {
        let answer = respond::to_client(&server.0, "/CN=Mallory", &message);
        let refused = matches!(
            answer.say,
            ToClient::Refused {
                refusal: Refusal::Foreign,
                ..
            }
        );
        assert!(refused && answer.events.is_empty(), "{message:?}");
    }
}

#[test]
fn an_older_attempt_is_fenced_and_nothing_of_it_counts() {
    let mut server = Server::computing();
    let beat = |epoch| FromHost::Beat {
        attempt: attempt(epoch),
        recovery: None,
    };
    assert_eq!(server.hears_host(&beat(1)).0, 1);
    let lost = respond::to_silence(server.call(), LOST_MS).unwrap();
    server.record(&[lost]);
    server.place();
    let fence = ToHost::Fence {
        attempt: attempt(1),
    };
    for message in [
        beat(1),
        FromHost::Checkpoint {
            attempt: attempt(1),
            number: 7,
        },
        ends(1, End::Finished { out_bytes: 8 }),
    ] {
        assert_eq!(
            server.hears_host(&message),
            (0, fence.clone()),
            "{message:?}"
        );
    }
    server.hears_host(&ends(2, End::Finished { out_bytes: 16 }));
    let (blocks, out_bytes) = (2, 16);
    assert_eq!(server.status(), Status::Result { blocks, out_bytes });
    assert_eq!(server.hears_host(&beat(1)), (0, fence));
    // What the winner said before may come late; its result stays.
    let noted = ToHost::Noted {
        attempt: attempt(2),
        ended: true,
    };
    assert_eq!(server.hears_host(&beat(2)), (0, noted));
}

#[test]
fn a_crash_at_the_same_point_for_the_same_cause_is_told_and_not_tried_again() {
    let rows: [(&[End], bool); 4] = [
        (&[crash(3), crash(3)], true),
        (&[crash(3), crash(4), crash(3)], true),
        (&[crash(3), crash(4)], false),
        (
            &[
                crash(3),
                End::Crashed {
                    cause: "exit 1".to_owned(),
                    point: 3,
                },
            ],
            false,
        ),
    ];
    for (ends_so, told) in rows {
        let mut server = Server::computing();
        for (index, end) in ends_so.iter().enumerate() {
            if index > 0 {
                server.place();
            }
            server.hears_host(&ends(index as u32 + 1, end.clone()));
        }
        let failed = matches!(server.status(), Status::Failed(Failure::Crashes { .. }));
        assert_eq!(failed, told, "{ends_so:?}");
    }
}

#[test]
fn an_error_of_the_routines_own_is_told_and_not_tried_again() {
    let (error, told) = ("ValueError".to_owned(), "no root".to_owned());
    let mut server = Server::computing();
    let end = End::Raised {
        error: error.clone(),
        told: told.clone(),
    };
    server.hears_host(&ends(1, end));
    let failure = Failure::Raised { error, told };
    assert_eq!(server.status(), Status::Failed(failure));
}

#[test]
fn attempts_that_come_no_further_are_counted_and_those_moved_away_are_not() {
    let killed = || End::Killed {
        cause: "SIGKILL".to_owned(),
    };
    let mut server = Server::computing();
    let mut epoch = 1;
    let mut next = |server: &mut Server, end: End| {
        server.hears_host(&ends(epoch, end));
        epoch += 1;
        if respond::placed(server.call(), "a").is_some() {
            server.place();
        }
        epoch
    };
    for _ in 0..3 * MOST_FRUITLESS {
        next(&mut server, End::Preempted);
    }
    for _ in 1..MOST_FRUITLESS {
        next(&mut server, killed());
    }
    // One checkpoint, and the count begins anew.
    let living = server.call().attempt().unwrap().epoch;
    server.hears_host(&FromHost::Checkpoint {
        attempt: attempt(living),
        number: 1,
    });
    for _ in 1..MOST_FRUITLESS {
        next(&mut server, killed());
    }
    assert!(matches!(server.status(), Status::Computing { .. }));
    next(&mut server, killed());
    let (attempts, last) = (MOST_FRUITLESS, "killed".to_owned());
    let failure = Failure::Fruitless { attempts, last };
    assert_eq!(server.status(), Status::Failed(failure));
}

#[test]
fn silence_makes_a_host_suspect_then_lost_and_a_word_makes_it_trusted() {
    let mut server = Server::computing();
    assert_eq!(respond::to_silence(server.call(), SUSPECT_MS - 1), None);
    let suspected = respond::to_silence(server.call(), SUSPECT_MS).unwrap();
    server.record(&[suspected]);
    assert_eq!(respond::to_silence(server.call(), LOST_MS - 1), None);
    assert!(matches!(
        server.status(),
        Status::Computing { suspect: true, .. }
    ));
    server.hears_host(&FromHost::Beat {
        attempt: attempt(1),
        recovery: None,
    });
    assert!(matches!(
        server.status(),
        Status::Computing { suspect: false, .. }
    ));
    assert_eq!(respond::to_sign(server.call(), 1), None);
    let suspected = respond::to_silence(server.call(), SUSPECT_MS).unwrap();
    server.record(&[suspected]);
    assert_eq!(respond::to_sign(server.call(), 2), None);
    let sign = respond::to_sign(server.call(), 1).unwrap();
    server.record(&[sign]);
    assert!(matches!(
        server.status(),
        Status::Computing { suspect: false, .. }
    ));
    assert_eq!(respond::to_loss(server.call(), 2, &[]), []);
    let lost = respond::to_loss(server.call(), 1, &[2, 3]);
    server.record(&lost);
    let call = server.call();
    assert_eq!(call.lost_host.as_deref(), Some("a"));
    let checkpoints = call.checkpoints.iter();
    let checkpoints: Vec<_> = checkpoints.map(|one| (one.epoch, one.number)).collect();
    assert_eq!(checkpoints, [(1, 2), (1, 3)]);
}

#[test]
fn a_call_that_migrates_goes_on_at_its_newest_checkpoint_and_is_moved_once() {
    let migrate = |epoch| FromClient::Migrate {
        call: ID,
        epoch,
        to: None,
    };
    let mut server = Server::computing();
    server.hears_host(&FromHost::Checkpoint {
        attempt: attempt(1),
        number: 4,
    });
    server.hears(&migrate(2));
    assert!(!server.call().attempt().unwrap().leaving);
    server.hears(&migrate(1));
    assert!(server.call().attempt().unwrap().leaving);
    let leave = |call: &Call| {
        let leaves = |one: &Action| matches!(one, Action::Leave { .. });
        decide(call).iter().filter(|one| leaves(one)).count()
    };
    assert_eq!(leave(server.call()), 1);
    let before = server.call().clone();
    server.hears(&migrate(1));
    assert_eq!(*server.call(), before);
    server.hears_host(&ends(1, End::Preempted));
    assert_eq!(
        (server.status(), server.call().fruitless),
        (Status::Waiting, 0)
    );
    let planned = respond::placed(server.call(), "b").unwrap();
    server.record(&[planned]);
    // What comes late of the attempt before moves nobody.
    server.hears(&migrate(1));
    let living = server.call().attempt().unwrap();
    assert_eq!((living.epoch, living.leaving), (2, false));
    assert_eq!(living.checkpoint.map(|one| one.number), Some(4));
    // Who does not want it any more has it moved nowhere.
    server.hears(&FromClient::Cancel { call: ID });
    server.hears(&migrate(2));
    assert!(!server.call().attempt().unwrap().leaving);
}

#[test]
fn where_a_call_migrates_to_is_wanted_of_its_next_attempt_alone() {
    let mut server = Server::computing();
    let migrate = |epoch, to: Option<&str>| FromClient::Migrate {
        call: ID,
        epoch,
        to: to.map(str::to_owned),
    };
    let next = |server: &mut Server, epoch| {
        server.hears_host(&ends(epoch, End::Preempted));
        let planned = respond::placed(server.call(), "b").unwrap();
        server.record(&[planned]);
        server.call().attempt().unwrap().wanted_on.clone()
    };
    server.hears(&migrate(1, Some("n2")));
    assert_eq!(server.call().wanted_on.as_deref(), Some("n2"));
    assert_eq!(next(&mut server, 1).as_deref(), Some("n2"));
    // Whatever ends that one, the next may be anywhere.
    assert_eq!(next(&mut server, 2), None);
    server.hears(&migrate(3, None));
    assert_eq!(next(&mut server, 3), None);
}

#[test]
fn a_cancel_of_a_computing_call_waits_for_the_attempt_and_a_result_that_was_first_stands() {
    let cancel = FromClient::Cancel { call: ID };
    let mut server = Server::computing();
    server.hears(&cancel);
    server.hears(&cancel);
    server.hears_host(&ends(1, End::Cancelled));
    assert_eq!(server.status(), Status::Failed(Failure::Cancelled));
    let mut server = Server::computing();
    server.hears(&cancel);
    server.hears_host(&ends(1, End::Finished { out_bytes: 0 }));
    assert!(matches!(server.status(), Status::Result { .. }));
    server.hears(&cancel);
    assert!(matches!(server.status(), Status::Result { .. }));
}

#[test]
fn outcomes_and_halves_expire_and_living_calls_do_not() {
    let mut server = Server::computing();
    assert_eq!(respond::to_absence(server.call(), u64::MAX), None);
    server.hears_host(&ends(1, End::Finished { out_bytes: 0 }));
    assert_eq!(respond::to_absence(server.call(), 999), None);
    let expired = respond::to_absence(server.call(), 1000).unwrap();
    let event = CallEvent::Expired;
    assert_eq!(expired, Event::Call { call: ID, event });
    server.record(&[expired]);
    assert_eq!(server.status(), Status::Over { expired: true });
    let mut server = Server::with_client();
    server.hears(&invoke(1, 1, invocation(8)));
    assert!(respond::to_absence(server.call(), 1000).is_some());
}

#[test]
fn a_client_leaves_when_nothing_of_it_is_left_and_its_number_is_never_given_again() {
    let mut server = Server::computing();
    let lease =
        |server: &Server, silent_ms| respond::to_lease(1, &server.0.clients[&1], silent_ms, 1_000);
    assert_eq!(lease(&server, u64::MAX), None);
    server.hears_host(&ends(1, End::Finished { out_bytes: 0 }));
    server.hears(&FromClient::Acknowledge { call: ID });
    assert_eq!(lease(&server, LEASE_MS - 1), None);
    // Where there are many it is shorter.
    let client = &server.0.clients[&1];
    let short = |silent_ms| respond::to_lease(1, client, silent_ms, 1_001);
    assert_eq!(short(SHORT_LEASE_MS - 1), None);
    assert!(short(SHORT_LEASE_MS).is_some());
    let left = lease(&server, LEASE_MS).unwrap();
    server.record(&[left]);
    let refusal = Refusal::NoClient { client: 1 };
    let call = Some(ID);
    assert_eq!(
        server.hears(&invoke(1, 1, invocation(0))),
        ToClient::Refused { call, refusal }
    );
    let said = server.hears(&FromClient::Register { passing: false });
    assert_eq!(said, ToClient::Registered { client: 2 });
}
