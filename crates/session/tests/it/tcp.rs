//! What a user of streams may rely on while the connection holds, and what a hostile peer meets.

use crate::support::{To, echo, site, within};
use bytes::Bytes;
use kumiko_session::{Message, Options, Served, Session, SessionError, State, Stats, Stream};
use kumiko_wire::frame::{self, Frame, PART_BYTES, goodbye};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn pattern(length: usize, seed: u8) -> Bytes {
    (0..length)
        .map(|index| (index % 251) as u8 ^ seed)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_any_length_come_back_whole_and_in_order() {
    let site = site(Options::default(), "/CN=a", echo).await;
    let session = Session::connect(To(site.address), Options::default())
        .await
        .unwrap();
    let stream = session.open(Bytes::from_static(b"echo")).await.unwrap();
    let (mut sender, mut receiver) = stream.split();
    let lengths = [
        0,
        1,
        4095,
        4096,
        PART_BYTES - 1,
        PART_BYTES,
        PART_BYTES + 1,
        3 * PART_BYTES,
        5_000_000,
        7,
    ];
    let sending = tokio::spawn(async move {
        for (index, length) in lengths.into_iter().enumerate() {
            sender
                .send(index as u8, pattern(length, index as u8))
                .await
                .unwrap();
        }
        sender.finish().await.unwrap();
    });
    for (index, length) in lengths.into_iter().enumerate() {
        let message = within("an echo", receiver.recv()).await.unwrap().unwrap();
        assert_eq!(
            message,
            Message {
                kind: index as u8,
                data: pattern(length, index as u8)
            }
        );
    }
    assert_eq!(within("the end", receiver.recv()).await.unwrap(), None);
    sending.await.unwrap();
    drop(receiver);
    within("close", session.close()).await;
    assert_eq!(*session.state().borrow(), State::Closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_half_closed_goes_on_in_the_other_direction() {
    let site = site(Options::default(), "/CN=a", |request, stream: Stream| {
        let (mut sender, mut receiver) = stream.split();
        tokio::spawn(async move {
            assert_eq!(receiver.recv().await.unwrap(), None);
            for _ in 0..1000 {
                sender.send(9, request.clone()).await.unwrap();
            }
            sender.finish().await.unwrap();
        });
    })
    .await;
    let session = Session::connect(To(site.address), Options::default())
        .await
        .unwrap();
    let (sender, mut receiver) = session.open(pattern(100_000, 3)).await.unwrap().split();
    sender.finish().await.unwrap();
    let mut count = 0;
    while let Some(message) = within("a message", receiver.recv()).await.unwrap() {
        assert_eq!(message.data, pattern(100_000, 3));
        count += 1;
    }
    assert_eq!(count, 1000);
}

#[tokio::test]
async fn resets_and_stops_carry_their_codes() {
    let site = site(Options::default(), "/CN=a", |request, stream: Stream| {
        let (mut sender, receiver) = stream.split();
        tokio::spawn(async move {
            match request.as_ref() {
                b"reset" => {
                    sender.send(1, Bytes::from_static(b"before")).await.unwrap();
                    sender.reset(42);
                    let mut receiver = receiver;
                    let _ = receiver.recv().await;
                }
                b"stop" => {
                    receiver.stop(43);
                    sender
                        .send(1, Bytes::from_static(b"still sending"))
                        .await
                        .unwrap();
                    sender.finish().await.unwrap();
                }
                _ => drop((sender, receiver)),
            }
        });
    })
    .await;
    let session = Session::connect(To(site.address), Options::default())
        .await
        .unwrap();

    let mut stream = session.open(Bytes::from_static(b"reset")).await.unwrap();
    // What was queued and not yet written when the stream was given up may be dropped; its end may not.
    let error = loop {
        match within("the reset", stream.recv()).await {
            Ok(Some(message)) => assert_eq!(message.data, "before"),
            Ok(None) => panic!("a stream that was given up is not finished"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SessionError::Reset { code: 42 }), "{error}");

    let (mut sender, mut receiver) = session
        .open(Bytes::from_static(b"stop"))
        .await
        .unwrap()
        .split();
    let error = within("the stop", sender.stopped()).await;
    assert!(
        matches!(error, SessionError::Stopped { code: 43 }),
        "{error}"
    );
    let error = sender.send(0, Bytes::new()).await.unwrap_err();
    assert!(
        matches!(error, SessionError::Stopped { code: 43 }),
        "{error}"
    );
    assert_eq!(
        within("the message", receiver.recv())
            .await
            .unwrap()
            .unwrap()
            .data,
        "still sending"
    );
    assert_eq!(within("the end", receiver.recv()).await.unwrap(), None);

    let mut stream = session.open(Bytes::from_static(b"drop")).await.unwrap();
    let error = within("the drop", stream.recv()).await.unwrap_err();
    assert!(matches!(error, SessionError::Reset { code: 0 }), "{error}");
}

#[tokio::test]
async fn streams_above_the_limit_are_refused_and_the_others_go_on() {
    let few = Options {
        max_streams: 2,
        ..Options::default()
    };
    let site = site(few, "/CN=a", echo).await;
    let session = Session::connect(To(site.address), Options::default())
        .await
        .unwrap();
    // Before WELCOME the client does not know of the server's limit.
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(session.open(Bytes::new()).await.unwrap());
    }
    let error = within("the refusal", streams[4].recv()).await.unwrap_err();
    assert!(
        matches!(
            error,
            SessionError::Reset {
                code: frame::reset::TOO_MANY_STREAMS
            }
        ),
        "{error}"
    );
    let error = session.open(Bytes::new()).await.unwrap_err();
    assert!(
        matches!(error, SessionError::TooManyStreams { limit: 2 }),
        "{error}"
    );
    streams[1].send(1, Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(
        within("the echo", streams[1].recv())
            .await
            .unwrap()
            .unwrap()
            .data,
        "x"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_holds_its_sender_back_and_nobody_else() {
    let site = site(Options::default(), "/CN=a", |request, stream: Stream| {
        if request.as_ref() != b"flood" {
            return echo(request, stream);
        }
        let (mut sender, _receiver) = stream.split();
        tokio::spawn(async move {
            let _receiver = _receiver;
            while sender.send(0, Bytes::from(vec![0; 10_000])).await.is_ok() {}
        });
    })
    .await;
    let session = Session::connect(To(site.address), Options::default())
        .await
        .unwrap();
    let mut floods = Vec::new();
    for _ in 0..20 {
        floods.push(session.open(Bytes::from_static(b"flood")).await.unwrap());
    }
    let mut ping = session.open(Bytes::from_static(b"echo")).await.unwrap();
    for flood in &mut floods {
        within("a first message", flood.recv())
            .await
            .unwrap()
            .unwrap();
    }
    for round in 0..100u8 {
        ping.send(round, Bytes::from_static(b"ping")).await.unwrap();
        assert_eq!(
            within("a ping", ping.recv()).await.unwrap().unwrap().kind,
            round
        );
    }
    // Twenty unread streams of one initial window each, and what is not acknowledged.
    let held = site.server.stats().held_bytes;
    assert!(held < 2 << 20, "{held} bytes are held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_message_overtakes_bulk() {
    let site = site(Options::default(), "/CN=a", |request, stream: Stream| {
        if request.as_ref() == b"echo" {
            return echo(request, stream);
        }
        let (mut sender, receiver) = stream.split();
        tokio::spawn(async move {
            let data = Bytes::from(vec![7; PART_BYTES]);
            while sender.send(0, data.clone()).await.is_ok() {}
            drop(receiver);
        });
    })
    .await;
    let session = Session::connect(To(site.address), Options::default())
        .await
        .unwrap();
    let mut bulk = session.open(Bytes::from_static(b"bulk")).await.unwrap();
    let reading = tokio::spawn(async move {
        let mut bytes = 0;
        while let Ok(Some(message)) = bulk.recv().await {
            bytes += message.data.len();
        }
        bytes
    });
    let mut ping = session.open(Bytes::from_static(b"echo")).await.unwrap();
    let mut times = Vec::new();
    let began = Instant::now();
    for _ in 0..1000 {
        let sent = Instant::now();
        ping.send(0, Bytes::from_static(b"ping")).await.unwrap();
        within("a ping", ping.recv()).await.unwrap().unwrap();
        times.push(sent.elapsed());
    }
    let took = began.elapsed();
    session.close().await;
    let bytes = reading.await.unwrap();
    times.sort();
    let (median, p99) = (times[500], times[990]);
    eprintln!(
        "median {median:?}, p99 {p99:?} beside {:.0} MB/s",
        bytes as f64 / took.as_secs_f64() / 1e6
    );
    assert!(bytes > 10 << 20, "the bulk stream moved {bytes} bytes only");
    // Generous, for a busy machine; the measure is in bench.
    assert!(p99 < Duration::from_millis(100), "{p99:?}");
}

#[tokio::test]
async fn a_server_of_another_version_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut io, _) = listener.accept().await.unwrap();
        let mut out = bytes::BytesMut::new();
        Frame::Goodbye {
            code: goodbye::VERSION,
            text: "version 2 is spoken here".into(),
        }
        .encode(&mut out);
        io.write_all(&out).await.unwrap();
        let _ = io.read_to_end(&mut Vec::new()).await;
    });
    let session = Session::connect(To(address), Options::default())
        .await
        .unwrap();
    let mut stream = session.open(Bytes::new()).await.unwrap();
    let error = within("the refusal", stream.recv()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server refuses the session: version 2 is spoken here"
    );
}

#[tokio::test]
async fn a_server_that_hangs_up_or_says_nothing_is_an_error_of_the_first_stream() {
    for hang_up in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (io, _) = listener.accept().await.unwrap();
            if !hang_up {
                std::future::pending::<()>().await;
            }
            drop(io);
        });
        let options = Options {
            hello_within: Duration::from_millis(100),
            ..Options::default()
        };
        let session = Session::connect(To(address), options).await.unwrap();
        let mut stream = session.open(Bytes::new()).await.unwrap();
        let error = within("the error", stream.recv()).await.unwrap_err();
        assert!(matches!(error, SessionError::Connect(_)), "{error}");
    }
}

/// Runs each `.client` file of a vectors folder as a whole connection; returns how it ended at the site, and the code
/// of the goodbye that the server sent.
async fn run_vectors(
    folder: &str,
) -> BTreeMap<String, (Result<Served, SessionError>, Option<u32>)> {
    let quiet = |_: Bytes, stream: Stream| {
        tokio::spawn(async move {
            let (mut sender, _receiver) = stream.split();
            sender.stopped().await;
            std::future::pending::<()>().await;
        });
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/session/vectors")
        .join(folder);
    let mut ends = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path
            .extension()
            .is_none_or(|extension| extension != "client")
        {
            continue;
        }
        let mut site = site(Options::default(), "/CN=a", quiet).await;
        let mut io = TcpStream::connect(site.address).await.unwrap();
        io.write_all(&std::fs::read(path).unwrap()).await.unwrap();
        io.shutdown().await.unwrap();
        let end = within(&name, site.ends.recv()).await.unwrap();
        let mut answer = bytes::BytesMut::new();
        while io.read_buf(&mut answer).await.is_ok_and(|count| count > 0) {}
        let mut goodbye = None;
        while let Some(frame) = frame::decode(&mut answer).unwrap() {
            if let Frame::Goodbye { code, .. } = frame {
                goodbye = Some(code);
            }
        }
        if end.is_err() {
            assert_eq!(site.server.stats(), Stats::default(), "{name}");
        }
        ends.insert(name, (end, goodbye));
    }
    ends
}

#[tokio::test]
async fn a_hostile_peer_is_refused_by_name_and_the_server_goes_on() {
    let violation = |word| (word, goodbye::VIOLATION);
    let rows = BTreeMap::from([
        ("http", violation("frame type 71 is not known")),
        ("version-9", ("speaks version 9", goodbye::VERSION)),
        ("no-hello", violation("the frame OPEN came before HELLO")),
        (
            "session-of-nobody",
            ("no such session", goodbye::UNKNOWN_SESSION),
        ),
        (
            "two-hellos",
            violation("the frame HELLO came in a session that stands"),
        ),
        (
            "welcome-to-server",
            violation("the frame WELCOME came without HELLO"),
        ),
        ("giant-length", violation("4294967295 bytes long")),
        (
            "stream-never-opened",
            violation("DATA came for stream 7, which was never opened"),
        ),
        (
            "credit-for-no-stream",
            violation("CREDIT came for stream 7, which was never opened"),
        ),
        (
            "stream-twice",
            violation("stream 3 is opened after stream 3"),
        ),
        (
            "stream-backwards",
            violation("stream 2 is opened after stream 3"),
        ),
        (
            "frame-twice",
            violation("frame number 1 came where 2 was due"),
        ),
        (
            "frame-missing",
            violation("frame number 3 came where 2 was due"),
        ),
        (
            "over-credit",
            violation("90192 bytes came on stream 1, and 65664 were allowed"),
        ),
        (
            "over-credit-by-empty-messages",
            violation("65728 bytes came on stream 1, and 65664 were allowed"),
        ),
        (
            "data-after-finish",
            violation("DATA came on stream 1 after its end"),
        ),
        (
            "finish-twice",
            violation("FINISH came on stream 1 after its end"),
        ),
        (
            "reset-after-finish",
            violation("RESET came on stream 1 after its end"),
        ),
        (
            "ack-of-nothing",
            violation("frame 5 is acknowledged, and 0 were sent"),
        ),
    ]);
    let ends = run_vectors("invalid").await;
    assert!(
        rows.keys().copied().eq(ends.keys().map(String::as_str)),
        "{:?}",
        ends.keys()
    );
    for (name, (word, code)) in rows {
        let (end, goodbye) = &ends[name];
        let error = end.as_ref().expect_err(name).to_string();
        assert!(error.contains(word), "{name}: {error}");
        assert_eq!(*goodbye, Some(code), "{name}");
    }
}

#[tokio::test]
async fn a_client_that_says_what_it_may_is_served() {
    let rows = BTreeMap::from([
        ("half-a-frame", Served::Detached),
        ("late-frames", Served::Detached),
        ("one-stream", Served::Closed),
    ]);
    let ends = run_vectors("valid").await;
    assert!(
        rows.keys().copied().eq(ends.keys().map(String::as_str)),
        "{:?}",
        ends.keys()
    );
    for (name, served) in rows {
        assert_eq!(ends[name].0.as_ref().expect(name), &served, "{name}");
    }
}
