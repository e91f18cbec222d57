//! What a user of streams may rely on when the connection does not hold (S9, S10).

use crate::support::{Proxy, To, echo, site, within};
use bytes::Bytes;
use kumiko_session::{LostReason, Options, Served, Session, SessionError, State, Stats, Stream};
use kumiko_wire::frame::{self, Frame, Hello, goodbye};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn short(resume_within_ms: u64) -> Options {
    Options {
        resume_within: Duration::from_millis(resume_within_ms),
        ..Options::default()
    }
}

/// Sends its numbers through an echo, in the given sizes, and checks that they come back once and in order.
async fn numbers_come_back(stream: Stream, count: u64, size: usize) {
    let (mut sender, mut receiver) = stream.split();
    let sending = tokio::spawn(async move {
        for number in 0..count {
            let mut data = number.to_le_bytes().to_vec();
            data.resize(size, number as u8);
            sender.send(1, data.into()).await.unwrap();
        }
        sender.finish().await.unwrap();
    });
    for number in 0..count {
        let message = within("a number", receiver.recv()).await.unwrap().unwrap();
        assert_eq!(message.data[..8], number.to_le_bytes());
        assert_eq!(message.data.len(), size);
    }
    assert_eq!(within("the end", receiver.recv()).await.unwrap(), None);
    sending.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_again_and_again_in_the_middle_of_frames_loses_and_repeats_nothing() {
    let site = site(Options::default(), "/CN=a", echo).await;
    let proxy = Proxy::to(site.address).await;
    // A prime, so that cuts fall anywhere: in headers, payloads, acknowledgements.
    proxy.cut_after.store(1_300_021, SeqCst);
    let session = Session::connect(To(proxy.address), Options::default())
        .await
        .unwrap();
    let mut checks = Vec::new();
    for (count, size) in [(20_000, 8), (300, 40_000), (2_000, 1_000), (3, 3_000_000)] {
        let stream = session.open(Bytes::new()).await.unwrap();
        checks.push(tokio::spawn(numbers_come_back(stream, count, size)));
    }
    for check in checks {
        within("a check", check).await.unwrap();
    }
    assert!(
        proxy.connections.load(SeqCst) > 10,
        "the connection was cut"
    );
    within("close", session.close()).await;
}

#[tokio::test]
async fn a_session_whose_server_is_back_within_the_time_goes_on() {
    let mut site = site(Options::default(), "/CN=a", echo).await;
    let proxy = Proxy::to(site.address).await;
    let session = Session::connect(To(proxy.address), Options::default())
        .await
        .unwrap();
    let mut state = session.state();
    within(
        "the welcome",
        state.wait_for(|state| *state == State::Connected),
    )
    .await
    .unwrap();
    let mut stream = session.open(Bytes::new()).await.unwrap();
    proxy.refuse.store(true, SeqCst);
    proxy.cut();
    within(
        "the cut",
        state.wait_for(|state| *state == State::Reconnecting),
    )
    .await
    .unwrap();
    assert!(matches!(
        within("the end", site.ends.recv()).await.unwrap(),
        Ok(Served::Detached)
    ));
    stream
        .send(1, Bytes::from_static(b"while away"))
        .await
        .unwrap();
    proxy.refuse.store(false, SeqCst);
    assert_eq!(
        within("the echo", stream.recv())
            .await
            .unwrap()
            .unwrap()
            .data,
        "while away"
    );
    assert_eq!(*state.borrow(), State::Connected);
}

#[tokio::test]
async fn a_session_that_cannot_be_resumed_in_time_is_lost_on_both_sides_and_says_so() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut site = site(short(200), "/CN=a", move |_, mut stream: Stream| {
        let tell = tell.clone();
        tokio::spawn(async move { tell.send(stream.recv().await.unwrap_err()).unwrap() });
    })
    .await;
    let proxy = Proxy::to(site.address).await;
    let session = Session::connect(To(proxy.address), Options::default())
        .await
        .unwrap();
    let mut state = session.state();
    within(
        "the welcome",
        state.wait_for(|state| *state == State::Connected),
    )
    .await
    .unwrap();
    let mut stream = session.open(Bytes::new()).await.unwrap();
    stream.send(1, Bytes::new()).await.unwrap();
    proxy.refuse.store(true, SeqCst);
    proxy.cut();
    let error = within("the loss", async {
        loop {
            if let Err(error) = stream.recv().await {
                return error;
            }
        }
    })
    .await;
    assert!(
        matches!(error, SessionError::Lost(LostReason::NotReached { .. })),
        "{error}"
    );
    assert!(matches!(
        within("the end", site.ends.recv()).await.unwrap(),
        Ok(Served::Detached)
    ));
    let _ = told.try_recv();
    within("state", state.wait_for(|state| *state == State::Lost))
        .await
        .unwrap();
    assert!(session.open(Bytes::new()).await.is_err());
    while site.server.stats() != Stats::default() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_restarted_server_has_forgotten_the_session_and_says_so() {
    let first = site(Options::default(), "/CN=a", echo).await;
    let second = site(Options::default(), "/CN=a", echo).await;
    let proxy = Proxy::to(first.address).await;
    let session = Session::connect(To(proxy.address), Options::default())
        .await
        .unwrap();
    let mut stream = session.open(Bytes::new()).await.unwrap();
    stream.send(1, Bytes::new()).await.unwrap();
    within("the echo", stream.recv()).await.unwrap().unwrap();
    *proxy.target.lock().unwrap() = second.address;
    proxy.cut();
    let error = within("the loss", stream.recv()).await.unwrap_err();
    assert!(
        matches!(error, SessionError::Lost(LostReason::Forgotten)),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_goes_down_says_goodbye() {
    let mut site = site(Options::default(), "/CN=a", echo).await;
    let session = Session::connect(To(site.address), Options::default())
        .await
        .unwrap();
    let mut stream = session.open(Bytes::new()).await.unwrap();
    stream.send(1, Bytes::new()).await.unwrap();
    within("the echo", stream.recv()).await.unwrap().unwrap();
    within("shutdown", site.server.shutdown()).await;
    let error = within("the goodbye", stream.recv()).await.unwrap_err();
    assert!(
        matches!(error, SessionError::Lost(LostReason::GoingDown)),
        "{error}"
    );
    assert!(matches!(
        within("the end", site.ends.recv()).await.unwrap(),
        Ok(Served::Closed)
    ));
    let refused = Session::connect(To(site.address), Options::default())
        .await
        .unwrap();
    let error = refused
        .open(Bytes::new())
        .await
        .unwrap()
        .recv()
        .await
        .unwrap_err();
    assert!(
        matches!(error, SessionError::Lost(LostReason::GoingDown)),
        "{error}"
    );
}

#[tokio::test]
async fn a_peer_that_went_silent_is_given_up_and_the_session_resumed_beside_it() {
    let keepalive = Options {
        keepalive: Duration::from_millis(100),
        ..Options::default()
    };
    let mut site = site(keepalive.clone(), "/CN=a", echo).await;
    let proxy = Proxy::to(site.address).await;
    let session = Session::connect(To(proxy.address), keepalive)
        .await
        .unwrap();
    let mut stream = session.open(Bytes::new()).await.unwrap();
    stream.send(1, Bytes::from_static(b"one")).await.unwrap();
    within("the echo", stream.recv()).await.unwrap().unwrap();
    proxy.mute.store(true, SeqCst);
    stream
        .send(1, Bytes::from_static(b"into the void"))
        .await
        .unwrap();
    let mut state = session.state();
    within(
        "the silence",
        state.wait_for(|state| *state == State::Reconnecting),
    )
    .await
    .unwrap();
    proxy.mute.store(false, SeqCst);
    assert_eq!(
        within("the echo", stream.recv())
            .await
            .unwrap()
            .unwrap()
            .data,
        "into the void"
    );
    let end = within("the end", site.ends.recv()).await.unwrap();
    assert!(
        matches!(end, Ok(Served::Detached | Served::Superseded)),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_quiet_session_stays_up_by_its_keep_alive() {
    let keepalive = Options {
        keepalive: Duration::from_millis(250),
        ..Options::default()
    };
    let site = site(keepalive.clone(), "/CN=a", echo).await;
    let proxy = Proxy::to(site.address).await;
    let session = Session::connect(To(proxy.address), keepalive)
        .await
        .unwrap();
    let mut stream = session.open(Bytes::new()).await.unwrap();
    // The handshake is some 230 bytes, question and answer are 48: it is asked some times.
    let asked = async {
        while proxy.passed_bytes.load(SeqCst) < 400 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = within("the keep-alive", asked) => {}
        nothing = stream.recv() => panic!("{nothing:?} came of nothing"),
    }
    assert_eq!(proxy.connections.load(SeqCst), 1);
}

/// Shows a HELLO and returns what the server answers first.
async fn greet(address: std::net::SocketAddr, hello: Hello) -> (TcpStream, Frame) {
    let mut io = TcpStream::connect(address).await.unwrap();
    let mut bytes = bytes::BytesMut::new();
    Frame::Hello(hello).encode(&mut bytes);
    io.write_all(&bytes).await.unwrap();
    bytes.clear();
    loop {
        if let Some(frame) = frame::decode(&mut bytes).unwrap() {
            return (io, frame);
        }
        assert!(within("an answer", io.read_buf(&mut bytes)).await.unwrap() > 0);
    }
}

fn refusal(frame: &Frame) -> u32 {
    match frame {
        Frame::Goodbye { code, .. } => *code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_its_owner_with_its_token_can_resume_a_session() {
    use std::sync::atomic::AtomicBool;
    static STRANGER: AtomicBool = AtomicBool::new(false);
    let server = kumiko_session::Server::new(Options::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (io, _) = listener.accept().await.unwrap();
            let owner = if STRANGER.load(SeqCst) {
                "/CN=stranger"
            } else {
                "/CN=owner"
            };
            let server = server.clone();
            tokio::spawn(async move { server.serve(io, owner, echo).await });
        }
    });
    let new = Hello {
        session: [1; 16],
        token: [2; 16],
        resume: None,
    };
    let (_io, answer) = greet(address, new.clone()).await;
    assert!(matches!(answer, Frame::Welcome(_)), "{answer:?}");

    let wrong_token = Hello {
        token: [3; 16],
        resume: Some(0),
        ..new.clone()
    };
    assert_eq!(
        refusal(&greet(address, wrong_token).await.1),
        goodbye::UNKNOWN_SESSION
    );
    let resume = Hello {
        resume: Some(0),
        ..new.clone()
    };
    STRANGER.store(true, SeqCst);
    assert_eq!(
        refusal(&greet(address, resume.clone()).await.1),
        goodbye::UNKNOWN_SESSION
    );
    STRANGER.store(false, SeqCst);
    // The first connection still stands: the newer one takes its place.
    let (_io, answer) = greet(address, resume).await;
    assert!(matches!(answer, Frame::Welcome(_)), "{answer:?}");
    assert_eq!(
        refusal(&greet(address, new.clone()).await.1),
        goodbye::VIOLATION
    );
    let beyond = Hello {
        resume: Some(99),
        ..new
    };
    assert_eq!(refusal(&greet(address, beyond).await.1), goodbye::VIOLATION);
}

#[tokio::test]
async fn sessions_of_one_owner_and_detached_ones_are_bounded() {
    let options = Options {
        max_sessions_per_owner: 3,
        max_detached: 1,
        ..Options::default()
    };
    let mut site = site(options, "/CN=a", echo).await;
    let hello = |name: u8| Hello {
        session: [name; 16],
        token: [name; 16],
        resume: None,
    };
    let mut connections = Vec::new();
    for name in 0..3 {
        let (io, answer) = greet(site.address, hello(name)).await;
        assert!(matches!(answer, Frame::Welcome(_)), "{answer:?}");
        connections.push(io);
    }
    assert_eq!(
        refusal(&greet(site.address, hello(9)).await.1),
        goodbye::TOO_MANY_SESSIONS
    );
    assert!(
        within("the refusal", site.ends.recv())
            .await
            .unwrap()
            .is_err()
    );
    for io in connections.drain(..2) {
        drop(io);
        assert!(matches!(
            within("a cut", site.ends.recv()).await.unwrap(),
            Ok(Served::Detached)
        ));
    }
    let stats = site.server.stats();
    assert_eq!((stats.attached, stats.detached), (1, 1));
    // The older of the two was given up for the younger.
    let resume = |name| Hello {
        resume: Some(0),
        ..hello(name)
    };
    assert_eq!(
        refusal(&greet(site.address, resume(0)).await.1),
        goodbye::UNKNOWN_SESSION
    );
    assert!(matches!(
        greet(site.address, resume(1)).await.1,
        Frame::Welcome(_)
    ));
}

#[tokio::test]
async fn a_new_session_goes_before_a_detached_one_of_the_same_owner() {
    let options = Options {
        max_sessions_per_owner: 1,
        ..Options::default()
    };
    let mut site = site(options, "/CN=a", echo).await;
    let hello = |name: u8, resume| Hello {
        session: [name; 16],
        token: [name; 16],
        resume,
    };
    let (io, answer) = greet(site.address, hello(1, None)).await;
    assert!(matches!(answer, Frame::Welcome(_)), "{answer:?}");
    drop(io);
    let cut = within("a cut", site.ends.recv()).await.unwrap();
    assert!(matches!(cut, Ok(Served::Detached)), "{cut:?}");
    let (_io, answer) = greet(site.address, hello(2, None)).await;
    assert!(matches!(answer, Frame::Welcome(_)), "{answer:?}");
    assert_eq!(
        refusal(&greet(site.address, hello(1, Some(0))).await.1),
        goodbye::UNKNOWN_SESSION
    );
}

#[tokio::test]
async fn whoever_drops_the_serving_of_a_connection_cuts_it_and_the_session_waits() {
    let server = kumiko_session::Server::new(Options::default());
    let hello = Hello {
        session: [1; 16],
        token: [2; 16],
        resume: None,
    };
    let mut bytes = bytes::BytesMut::new();
    Frame::Hello(hello.clone()).encode(&mut bytes);
    let (mut near, far) = tokio::io::duplex(1000);
    near.write_all(&bytes).await.unwrap();
    {
        let serving = server.serve(far, "/CN=a", echo);
        tokio::select! {
            _ = serving => panic!("the connection stands"),
            answer = near.read_u8() => assert_eq!(answer.unwrap(), 2, "WELCOME"),
        }
    }
    let stats = server.stats();
    assert_eq!((stats.attached, stats.detached), (0, 1));
    bytes.clear();
    Frame::Hello(Hello {
        resume: Some(0),
        ..hello
    })
    .encode(&mut bytes);
    Frame::Goodbye {
        code: goodbye::DONE,
        text: String::new(),
    }
    .encode(&mut bytes);
    let (mut near, far) = tokio::io::duplex(1000);
    near.write_all(&bytes).await.unwrap();
    near.shutdown().await.unwrap();
    assert!(matches!(
        within("the end", server.serve(far, "/CN=a", echo)).await,
        Ok(Served::Closed)
    ));
    assert_eq!(server.stats(), Stats::default());
}
