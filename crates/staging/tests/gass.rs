//! GASS against itself, against the Globus programs as Debian packages them, and against peers that stall and lie.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::{Grid, Serving, pattern, pieces};
use kumiko_job::url::Url;
use kumiko_staging::TransferError;
use kumiko_staging::gass::client::{Resume, Write};
use kumiko_staging::gass::{Doorway, Served};
use kumiko_testkit::{deadline, has_program, run, skip};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn fetch(grid: &Grid, url: &str, resume: Option<&Resume>) -> Result<Vec<u8>, TransferError> {
    let client = grid.client();
    let mut reading = client.get(&Url::parse(url).unwrap(), resume).await?;
    let mut all = Vec::new();
    while let Some(data) = deadline("the next bytes", reading.next()).await? {
        all.extend_from_slice(&data);
    }
    Ok(all)
}

async fn send(grid: &Grid, url: &str, how: Write, bytes: &[u8]) -> Result<u64, TransferError> {
    let client = grid.client();
    let url = Url::parse(url).unwrap();
    deadline("the answer", client.send(&url, how, pieces(bytes), |_| ())).await
}

#[tokio::test]
async fn files_come_and_go_whole() {
    let grid = Grid::new();
    let serving = Serving::start(&grid).await;
    for bytes in [pattern(0), pattern(17), pattern(3 << 20)] {
        let url = serving.url("/a%20file");
        assert_eq!(
            send(&grid, &url, Write::Put, &bytes).await.unwrap(),
            bytes.len() as u64
        );
        assert_eq!(std::fs::read(serving.dir().join("a file")).unwrap(), bytes);
        assert_eq!(fetch(&grid, &url, None).await.unwrap(), bytes);
    }
    let url = serving.url("/log");
    for part in ["one\n", "two\n"] {
        send(&grid, &url, Write::Append, part.as_bytes())
            .await
            .unwrap();
    }
    assert_eq!(fetch(&grid, &url, None).await.unwrap(), b"one\ntwo\n");
    send(&grid, &serving.base("/~/at%20home"), Write::Put, b"h")
        .await
        .unwrap();
    assert_eq!(std::fs::read(serving.dir().join("at home")).unwrap(), b"h");
    let names = std::fs::read_dir(serving.dir()).unwrap();
    assert_eq!(names.count(), 3, "no part stays");
}

#[tokio::test]
async fn a_file_that_was_cut_is_gone_on_with_unless_it_is_another_one() {
    let grid = Grid::new();
    let serving = Serving::start(&grid).await;
    let bytes = pattern(100_000);
    std::fs::write(serving.dir().join("f"), &bytes).unwrap();
    let url = Url::parse(&serving.url("/f")).unwrap();
    let client = grid.client();
    let validator = client.get(&url, None).await.unwrap().validator.unwrap();
    let resume = Resume {
        at: 60_000,
        validator,
    };
    let reading = client.get(&url, Some(&resume)).await.unwrap();
    assert_eq!((reading.begins_at, reading.length), (60_000, Some(100_000)));
    assert_eq!(
        fetch(&grid, url.as_str(), Some(&resume)).await.unwrap(),
        bytes[60_000..]
    );

    std::fs::write(serving.dir().join("f"), pattern(100_000)).unwrap();
    let reading = client.get(&url, Some(&resume)).await.unwrap();
    assert_eq!(reading.begins_at, 0, "it is another file now");
}

#[tokio::test]
async fn nothing_leads_out_of_what_is_served_and_nothing_is_given_that_was_not_declared() {
    let grid = Grid::new();
    let serving = Serving::start(&grid).await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    symlink(outside.path().join("secret"), serving.dir().join("link")).unwrap();
    symlink(outside.path(), serving.dir().join("up")).unwrap();
    std::fs::create_dir(serving.dir().join("folder")).unwrap();
    assert!(
        run(Command::new("mkfifo").arg(serving.dir().join("pipe")))
            .status
            .success()
    );

    let below = |path: &str| serving.url(path);
    let rows = [
        (below("/link"), 403),
        (below("/up/secret"), 403),
        (below("/folder"), 403),
        (below("/pipe"), 403),
        (below("/%2e%2e/x"), 400),
        (serving.base("/etc/passwd"), 403),
        (serving.base("/dev/globus_gass_client_shutdown"), 403),
        (serving.base("/~root/x"), 403),
    ];
    for (url, status) in &rows {
        for how in [None, Some(Write::Put), Some(Write::Append)] {
            let refused = match how {
                None => fetch(&grid, url, None).await.unwrap_err(),
                Some(how) => send(&grid, url, how, b"x").await.unwrap_err(),
            };
            assert!(
                matches!(refused, TransferError::Denied { status: found, .. } if found == *status),
                "{how:?} {url}: {refused}"
            );
        }
    }
    let absent = fetch(&grid, &below("/none"), None).await.unwrap_err();
    assert_eq!(absent.code(), "transfer_no_such_file");
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"s");
}

#[tokio::test]
async fn a_stream_is_seen_while_its_request_lasts() {
    let grid = Grid::new();
    let mut serving = Serving::start(&grid).await;
    let (give, source) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
    let source = futures_util::stream::unfold(source, |mut source| async move {
        Some((Ok(source.recv().await?), source))
    });
    let (client, url) = (
        grid.client(),
        Url::parse(&serving.base("/dev/stdout")).unwrap(),
    );
    let sending = tokio::spawn(async move { client.send(&url, Write::Put, source, |_| ()).await });
    for line in ["one\n", "two\n"] {
        give.send(Bytes::from_static(line.as_bytes())).unwrap();
        deadline("the line", serving.stdout(line.as_bytes())).await;
    }
    drop(give);
    assert_eq!(deadline("the answer", sending).await.unwrap().unwrap(), 8);
}

#[tokio::test]
async fn a_megabyte_of_header_is_refused_and_others_are_served() {
    let grid = Grid::new();
    let serving = Serving::start(&grid).await;
    std::fs::write(serving.dir().join("f"), "abc").unwrap();
    let doorway = Doorway::new(Some(grid.ca.proxy(&grid.ca.user("Alice"))), grid.ca.trust());
    let url = Url::parse(&serving.url("/f")).unwrap();
    let mut link = doorway.open(&url, Duration::from_secs(60)).await.unwrap();
    let long = [b"GET /f HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 1 << 20]].concat();
    // It may be closed before all is sent, and the answer lost with what was under way.
    let _ = deadline("the end", link.write_all(&long)).await;
    let mut answer = Vec::new();
    let _ = deadline("the end", link.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer);
    assert_ne!(answer.split(' ').nth(1), Some("200"), "{answer}");
    assert_eq!(fetch(&grid, url.as_str(), None).await.unwrap(), b"abc");
}

#[tokio::test]
async fn only_the_owner_and_whom_he_named_are_served() {
    let grid = Grid::new();
    let serving = Serving::start(&grid).await;
    std::fs::write(serving.dir().join("f"), "x").unwrap();
    let url = Url::parse(&serving.url("/f")).unwrap();
    let stranger = grid.client_of("Mallory");
    let refused = stranger.get(&url, None).await.unwrap_err();
    assert!(
        matches!(
            refused,
            TransferError::Untrusted { .. } | TransferError::Cut { .. }
        ),
        "{refused}"
    );
    grid.client_of("Bob")
        .get(&url, None)
        .await
        .expect_err("Bob expects himself or the host");
    let nobody = grid.client_without().get(&url, None).await.unwrap_err();
    assert_eq!(nobody.code(), "transfer_no_credential");
}

#[tokio::test]
async fn a_client_that_may_ends_the_server() {
    let grid = Grid::new();
    let serving = Serving::start_with(&grid, |rights| rights.shutdown = true).await;
    let url = serving.base("/dev/globus_gass_client_shutdown");
    send(&grid, &url, Write::Put, b"").await.unwrap();
    assert_eq!(deadline("its end", serving.ended()).await, Served::ByClient);
}

/// Runs globus-url-copy as Alice.
fn url_copy(grid: &Grid, from: &str, to: &str) -> std::process::Output {
    run(grid.program("globus-url-copy").args([from, to]))
}

#[tokio::test(flavor = "multi_thread")]
async fn globus_url_copy_gets_and_puts_here() {
    let name = "globus_url_copy_gets_and_puts_here";
    if !has_program("globus-url-copy") {
        return skip(name, "globus-url-copy (package globus-gass-copy-progs)");
    }
    let grid = Grid::for_globus();
    let mut serving = Serving::start(&grid).await;
    let local = grid.dir().join("local");
    for bytes in [pattern(0), pattern(17), pattern(3 << 20)] {
        std::fs::write(&local, &bytes).unwrap();
        let (url, file) = (serving.url("/there"), format!("file://{}", local.display()));
        let out = tokio::task::block_in_place(|| url_copy(&grid, &file, &url));
        assert!(out.status.success(), "{out:?}");
        assert_eq!(std::fs::read(serving.dir().join("there")).unwrap(), bytes);
        std::fs::remove_file(&local).unwrap();
        let out = tokio::task::block_in_place(|| url_copy(&grid, &url, &file));
        assert!(out.status.success(), "{out:?}");
        assert_eq!(std::fs::read(&local).unwrap(), bytes);
    }
    std::fs::write(&local, "to stdout").unwrap();
    let file = format!("file://{}", local.display());
    let out = tokio::task::block_in_place(|| url_copy(&grid, &file, &serving.base("/dev/stdout")));
    assert!(out.status.success(), "{out:?}");
    deadline("its output", serving.stdout(b"to stdout")).await;
    for denied in [serving.base("/etc/x"), serving.url("/none/x")] {
        let out = tokio::task::block_in_place(|| url_copy(&grid, &file, &denied));
        assert!(!out.status.success(), "{denied}: {out:?}");
    }
    let out = tokio::task::block_in_place(|| url_copy(&grid, &serving.url("/none"), &file));
    assert!(!out.status.success(), "{out:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn we_get_put_and_append_at_globus_gass_server() {
    let name = "we_get_put_and_append_at_globus_gass_server";
    if !has_program("globus-gass-server") {
        return skip(
            name,
            "globus-gass-server (package globus-gass-server-ez-progs)",
        );
    }
    let grid = Grid::for_globus();
    let mut server = grid.gass_server(&["-r", "-w", "-o", "-e", "-l"]);
    let base = server.line_with("https://").trim().to_owned();
    let place = grid.dir().join("f");
    let url = format!("{base}{}", place.display());
    for bytes in [pattern(0), pattern(17), pattern(3 << 20)] {
        send(&grid, &url, Write::Put, &bytes).await.unwrap();
        assert_eq!(std::fs::read(&place).unwrap(), bytes);
        assert_eq!(fetch(&grid, &url, None).await.unwrap(), bytes);
    }
    send(&grid, &url, Write::Put, b"one\n").await.unwrap();
    send(&grid, &url, Write::Append, b"two\n").await.unwrap();
    assert_eq!(std::fs::read(&place).unwrap(), b"one\ntwo\n");
    send(
        &grid,
        &format!("{base}/dev/stdout"),
        Write::Put,
        b"hello there\n",
    )
    .await
    .unwrap();
    server.line_with("hello there");
    let absent = fetch(&grid, &format!("{url}-none"), None)
        .await
        .unwrap_err();
    assert_eq!(absent.code(), "transfer_no_such_file", "{absent}");

    let mut closed = grid.gass_server(&["-r"]);
    let base = closed.line_with("https://").trim().to_owned();
    let (url, bytes) = (format!("{base}{}", place.display()), pattern(1 << 20));
    let denied = send(&grid, &url, Write::Put, &bytes).await.unwrap_err();
    assert!(
        ["transfer_denied", "transfer_no_such_file", "transfer_cut"].contains(&denied.code()),
        "{denied}"
    );
}
