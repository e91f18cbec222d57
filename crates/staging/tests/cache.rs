//! The cache of an account: counts, content that comes once, crashes in between, several at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_staging::cache::{Cache, CacheError, NO_TAG};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const URL: &str = "https://home.example.org/x";

fn cache(root: &Path) -> Cache {
    Cache::new(root.join("cache"))
}

fn keep(cache: &Cache, url: &str, content: &[u8]) {
    let mut part = cache.part(url).unwrap();
    part.file.write_all(content).unwrap();
    cache.keep(url, part).unwrap();
}

fn content(cache: &Cache, url: &str) -> Result<String, CacheError> {
    let mut text = String::new();
    cache.open(url)?.read_to_string(&mut text).unwrap();
    Ok(text)
}

fn tags(cache: &Cache) -> Vec<(String, u64)> {
    let listed = cache.list().unwrap();
    listed.into_iter().flat_map(|one| one.tags).collect()
}

fn pair(tag: &str, count: u64) -> (String, u64) {
    (tag.to_owned(), count)
}

#[test]
fn content_stays_as_long_as_a_tag_refers_to_it() {
    let root = tempfile::tempdir().unwrap();
    let cache = cache(root.path());
    assert!(!cache.add(URL, "a").unwrap(), "there is no content yet");
    keep(&cache, URL, b"x");
    assert!(cache.add(URL, "a").unwrap());
    assert!(cache.add(URL, NO_TAG).unwrap());
    assert!(cache.hold(URL, "b").unwrap());
    assert!(cache.hold(URL, "b").unwrap(), "held twice is held once");
    assert_eq!(tags(&cache), [pair("", 1), pair("a", 2), pair("b", 1)]);

    cache.delete(URL, "a").unwrap();
    cache.delete(URL, NO_TAG).unwrap();
    cache.delete(URL, "unknown").unwrap();
    assert_eq!(tags(&cache), [pair("a", 1), pair("b", 1)]);
    cache.cleanup_tag(URL, "b").unwrap();
    assert_eq!(content(&cache, URL).unwrap(), "x");
    cache.delete(URL, "a").unwrap();
    assert!(matches!(
        content(&cache, URL),
        Err(CacheError::NoEntry { .. })
    ));
    assert!(cache.list().unwrap().is_empty());
    cache.delete(URL, "a").unwrap();
}

#[test]
fn a_tag_or_a_url_is_cleaned_up_everywhere() {
    let root = tempfile::tempdir().unwrap();
    let cache = cache(root.path());
    for url in ["u:1", "u:2", "u:3"] {
        cache.add(url, "a").unwrap();
        keep(&cache, url, url.as_bytes());
    }
    cache.add("u:2", "b").unwrap();
    cache.cleanup_tag_everywhere("a").unwrap();
    let urls: Vec<_> = cache
        .list()
        .unwrap()
        .into_iter()
        .map(|one| one.url)
        .collect();
    assert_eq!(urls, ["u:2"]);
    cache.cleanup_url("u:2").unwrap();
    cache.cleanup_url("u:2").unwrap();
    assert!(cache.list().unwrap().is_empty());
}

#[test]
fn the_first_content_counts_and_a_growing_one_is_seen() {
    let root = tempfile::tempdir().unwrap();
    let cache = cache(root.path());
    cache.add(URL, "a").unwrap();
    let mut late = cache.part(URL).unwrap();
    late.file.write_all(b"late").unwrap();
    keep(&cache, URL, b"first");
    cache.keep(URL, late).unwrap();
    assert_eq!(content(&cache, URL).unwrap(), "first");
    assert_eq!(std::fs::read(cache.path(URL).unwrap()).unwrap(), b"first");

    let mut growing = cache.grow(URL, "a").unwrap();
    growing.write_all(b"line\n").unwrap();
    assert_eq!(content(&cache, URL).unwrap(), "line\n");
}

#[test]
fn what_a_crash_left_is_in_nobodys_way() {
    let root = tempfile::tempdir().unwrap();
    let cache = cache(root.path());
    cache.add(URL, "a").unwrap();
    let place = root.path().join("cache/entries");
    let entry = std::fs::read_dir(&place)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    // A count that was being written, content that was, an entry that had just been begun.
    std::fs::write(entry.join("new"), "half").unwrap();
    std::fs::write(entry.join("part-0"), "half").unwrap();
    std::fs::create_dir(place.join("0".repeat(64))).unwrap();
    assert!(!cache.add(URL, "a").unwrap());
    assert_eq!(tags(&cache), [pair("a", 2)]);
    keep(&cache, URL, b"x");
    assert_eq!(cache.list().unwrap()[0].bytes, Some(1));
    cache.cleanup_url(URL).unwrap();
    assert!(!entry.exists());
}

#[test]
fn nobody_else_may_look_and_an_entry_of_another_url_is_not_touched() {
    let root = tempfile::tempdir().unwrap();
    let cache = cache(root.path());
    cache.add(URL, "a").unwrap();
    keep(&cache, URL, b"x");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&root.path().join("cache")), 0o700);
    assert_eq!(mode(&cache.path(URL).unwrap()), 0o600);
    let url = cache.path(URL).unwrap().with_file_name("url");
    std::fs::write(url, "https://other").unwrap();
    for done in [cache.add(URL, "a").map(|_| ()), cache.cleanup_url(URL)] {
        assert!(matches!(done, Err(CacheError::Damaged { .. })), "{done:?}");
    }
}

#[test]
fn many_at_a_time_lose_no_count() {
    let root = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = cache(root.path());
                for _ in 0..25 {
                    own.add(URL, "a").unwrap();
                }
            });
        }
    });
    assert_eq!(tags(&cache(root.path())), [pair("a", 100)]);
}
