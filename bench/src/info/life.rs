//! What hosts cost and how they end: a thousand that die at once, by loss of power or by a cut, and one at rest.

use super::hosts;
use super::rows::Setup;
use super::world::{Server, late, now_ms};
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::stats::Unit;
use kumiko_directory::Op;
use kumiko_directory::ask::{Ask, News, Query};
use kumiko_directory::delta::{self, kind};
use kumiko_directory::source::{Hello, Kind, Welcome};
use kumiko_info::{Answers, InfoClient};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const DYING: usize = 1000;
/// Registrations of one session; a session has at most 256 streams.
const OF_SESSION: usize = 50;
/// As info.toml has them by default.
const TTL_MS: u64 = 2_500;
const HEARTBEAT_MS: u64 = 800;
/// On the wire besides what TCP carries: Ethernet, IP and TCP with timestamps, and as much for the acknowledgement.
const HEADERS_BYTES: u64 = 2 * 66;

/// Sessions that speak for hosts until told to fall silent.
struct Alive {
    silent: watch::Sender<bool>,
    speaking: Vec<tokio::task::JoinHandle<(InfoClient, Vec<Answers>)>>,
}

impl Setup {
    pub fn dying(&self) -> Row {
        let goal = |ours| Goal {
            text: "≤ 3 s from the death of 1,000 hosts to their vanishing",
            ours,
            reach: Reach::P99AtMost { limit: 3.0 },
        };
        let names = ["power lost", "connections cut"];
        let mut row = Row::new("dying", "1,000 hosts die at once", names.map(goal).to_vec());
        let server = match self
            .world
            .serve("dying", "kind = \"index\"\nhost = false\n")
        {
            Ok(server) => server,
            Err(failure) => {
                row.lacks(None, &failure);
                return row;
            }
        };
        for (name, cut) in names.into_iter().zip([false, true]) {
            match self.runtime.block_on(self.die(&server, name, cut)) {
                Ok(samples) => row.series(name, Unit::Seconds).extend(samples),
                Err(failure) => row.lacks(Some(name), &failure),
            }
        }
        row.note(format!("{DYING} registrations (ttl 2.5 s, heartbeat 0.8 s), {OF_SESSION} a session, told of by a watch at the index. Power lost: connections stay and nothing is said any more."));
        row
    }

    async fn die(&self, server: &Server, run: &str, cut: bool) -> Result<Vec<f64>, Failure> {
        let said = |e| Failure::said("watching hosts die", &e);
        let watcher = self.world.client(server).await?;
        let mut watch = watcher
            .ask(&Ask::Watch(Query::default()))
            .await
            .map_err(said)?;
        let alive = self.live(server, run).await?;
        let begun = Instant::now();
        let mut there = BTreeSet::new();
        while there.len() < DYING {
            late(begun, "a thousand hosts arriving")?;
            if let Some(News::Entry(entry)) = watch.next::<News>().await.map_err(said)? {
                there.insert(entry.dn);
            }
        }
        // Through some heartbeats, so that they die in the middle of their lives.
        tokio::time::sleep(Duration::from_millis(2 * HEARTBEAT_MS)).await;
        let died = Instant::now();
        alive.silent.send_replace(true);
        let mut held = Vec::new();
        for one in alive.speaking {
            let one = one
                .await
                .map_err(|e| Failure::said("a host's session", &e))?;
            match cut {
                true => drop(one),
                false => held.push(one),
            }
        }
        let mut gone = Vec::new();
        while gone.len() < DYING {
            late(died, "a thousand hosts vanishing")?;
            if let Some(News::Gone { .. }) = watch.next::<News>().await.map_err(said)? {
                gone.push(died.elapsed().as_secs_f64());
            }
        }
        Ok(gone)
    }

    async fn live(&self, server: &Server, run: &str) -> Result<Alive, Failure> {
        let (silent, _) = watch::channel(false);
        let mut speaking = Vec::new();
        for session in 0..DYING / OF_SESSION {
            let client = self.world.client(server).await?;
            let mut streams = Vec::new();
            for n in 0..OF_SESSION {
                let number = session * OF_SESSION + n;
                streams.push(register(&client, &format!("{run} {number}"), number).await?);
            }
            let is_silent = silent.subscribe();
            speaking.push(tokio::spawn(speak(client, streams, is_silent)));
        }
        Ok(Alive { silent, speaking })
    }

    pub fn rest(&self) -> Row {
        let mut row = Row::new(
            "rest",
            "Network of a host at rest",
            vec![Goal {
                text: "≤ 2 kB/s",
                ours: "on the wire",
                reach: Reach::AtMost { limit: 2e3 },
            }],
        );
        match self.resting() {
            Ok(samples) => {
                for (carried, wire) in samples {
                    row.series("carried by TCP", Unit::BytesPerSecond)
                        .push(carried);
                    row.series("on the wire", Unit::BytesPerSecond).push(wire);
                }
            }
            Err(failure) => row.lacks(None, &failure),
        }
        row.note("A real leaf with its host provider (a reading a second, changes told beyond their step), registered with defaults, through a relay that counts both ways; on the wire: and 132 bytes of headers for each segment with its acknowledgement. The machine measures meanwhile, and is not wholly at rest itself.");
        row
    }

    fn resting(&self) -> Result<Vec<(f64, f64)>, Failure> {
        const WINDOW: Duration = Duration::from_secs(3);
        let above = self
            .world
            .serve("above", "kind = \"index\"\nhost = false\n")?;
        let passed = Arc::new(Passed::default());
        let relay = self.runtime.block_on(relay(above.port, passed.clone()))?;
        let settings = format!("[[register]]\naddress = \"localhost:{relay}\"\n");
        let _leaf = self.world.serve("resting", &settings)?;
        std::thread::sleep(WINDOW);
        let windows = self.options.rounds(6);
        Ok((0..windows)
            .map(|_| {
                let before = (passed.bytes.load(Relaxed), passed.segments.load(Relaxed));
                let begun = Instant::now();
                std::thread::sleep(WINDOW);
                let seconds = begun.elapsed().as_secs_f64();
                let bytes = passed.bytes.load(Relaxed) - before.0;
                let segments = passed.segments.load(Relaxed) - before.1;
                let wire = bytes + segments * HEADERS_BYTES;
                (bytes as f64 / seconds, wire as f64 / seconds)
            })
            .collect())
    }
}

async fn register(client: &InfoClient, name: &str, number: usize) -> Result<Answers, Failure> {
    let said = |e| Failure::said("registering a host", &e);
    let hello = Hello {
        name: name.to_owned(),
        kind: Kind::Leaf,
        id: name.to_owned(),
        epoch: 1,
        ttl_ms: TTL_MS,
        heartbeat_ms: HEARTBEAT_MS,
        below: BTreeSet::new(),
        now_ms: now_ms(),
        first: 1,
        last: 0,
    };
    let mut stream = client.ask(&Ask::Register(hello)).await.map_err(said)?;
    stream.next::<Welcome>().await.map_err(said)?;
    let ops = delta::write_ops(1, &[Op::Put(hosts::host(number))]);
    stream.tell(kind::OPS, ops.into()).await.map_err(said)?;
    Ok(stream)
}

/// Heartbeats for all streams; gives back what it holds when told to be silent, or when it is not heard any more.
async fn speak(
    client: InfoClient,
    mut streams: Vec<Answers>,
    mut silent: watch::Receiver<bool>,
) -> (InfoClient, Vec<Answers>) {
    let mut beats = tokio::time::interval(Duration::from_millis(HEARTBEAT_MS));
    loop {
        tokio::select! {
            _ = beats.tick() => {}
            _ = silent.wait_for(|silent| *silent) => return (client, streams),
        }
        let mut bytes = Vec::new();
        delta::write_number(&mut bytes, now_ms());
        delta::write_number(&mut bytes, 1);
        for stream in &mut streams {
            if stream
                .tell(kind::HEARTBEAT, bytes.clone().into())
                .await
                .is_err()
            {
                return (client, streams);
            }
        }
    }
}

#[derive(Default)]
struct Passed {
    bytes: AtomicU64,
    segments: AtomicU64,
}

/// A port of this host that leads to another, and counts.
async fn relay(to: u16, passed: Arc<Passed>) -> Result<u16, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .doing(|| "starting a relay")?;
    let port = listener.local_addr().doing(|| "starting a relay")?.port();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else {
                continue;
            };
            let (near_in, near_out) = near.into_split();
            let (far_in, far_out) = far.into_split();
            tokio::spawn(pass(near_in, far_out, passed.clone()));
            tokio::spawn(pass(far_in, near_out, passed.clone()));
        }
    });
    Ok(port)
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    passed: Arc<Passed>,
) {
    let mut bytes = vec![0; 64 << 10];
    // A link that ends ends both ways; whoever speaks over it notices.
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        passed.bytes.fetch_add(count as u64, Relaxed);
        passed.segments.fetch_add(1, Relaxed);
        if to
            .write_all(bytes.get(..count).unwrap_or_default())
            .await
            .is_err()
        {
            return;
        }
    }
}
