//! Until when calls wait for a job's rate, by a clock of the test's own (spec/policy P92).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_preload::rate::{DEADLINE, PAPER, RATE, RULE, Shared, WORDS, Way};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 77 * SECOND;

fn page(rule: u64, rate: u64) -> [AtomicU64; WORDS] {
    let words = [const { AtomicU64::new(0) }; WORDS];
    words[RULE].store(rule, Relaxed);
    words[RATE].store(rate, Relaxed);
    words
}

/// How long it takes to move so many pieces when nothing but the rate holds them up.
fn taken(words: &[AtomicU64; WORDS], way: Way, piece: u64, pieces: u64, begin: u64) -> u64 {
    let shared = Shared::new(words);
    let end = (0..pieces).fold(begin, |now, _| shared.until(way, piece, now).max(now));
    end - begin
}

#[test]
fn pieces_of_every_size_are_moved_at_the_rate() {
    // Rule, rate, piece, how far from the rate in thousandths: the paper's first window costs nothing.
    let check = |rule: u64, rate: u64, piece: u64, most: (u64, u64)| {
        let taken = taken(&page(rule, rate), Way::Sent, piece, 4 * rate / piece, BEGIN);
        let thousandths = taken * 1000 / (4 * SECOND);
        let within = (1000 - most.0..=1000 + most.1).contains(&thousandths);
        assert!(within, "{rule} {rate} {piece}: {thousandths}");
    };
    for rate in [125_000, 12_500_000, 1_250_000_000] {
        for piece in [rate / 1000, rate / 100, rate / 3] {
            check(DEADLINE, rate, piece, (6, 1));
        }
        // By the formula a call of c is over by about c / t; see the next case for large ones.
        check(PAPER, rate, rate / 1000, (40, 1));
        check(PAPER, rate, rate / 100, (120, 1));
    }
    check(DEADLINE, 125_000, 1, (6, 1));
    check(DEADLINE, 125_000_000, 1_400, (6, 1));
    check(PAPER, 12_500_000, 1_400, (30, 1));
}

#[test]
fn the_paper_s_formula_is_what_it_says() {
    let words = page(PAPER, 1_000_000);
    let shared = Shared::new(&words);
    let check = |bytes: u64, at_ms: u64, expected_ms: u64| {
        let now = BEGIN + at_ms * 1_000_000;
        let waits = shared.until(Way::Sent, bytes, now) - now;
        assert_eq!(waits, expected_ms * 1_000_000, "{bytes} at {at_ms} ms");
    };
    check(60_000, 0, 0);
    check(70_000, 50, 30);
    check(50_000, 99, 80);
    // The first is no longer in the window.
    check(30_000, 100, 50);
    check(0, 250, 0);
    check(1_000_000, 300, 900);
}

#[test]
fn all_who_share_the_page_have_one_rate_and_each_way_its_own() {
    for rule in [DEADLINE, PAPER] {
        let words = page(rule, 1_000_000);
        let shared = Shared::new(&words);
        // Two, of which always that one moves which is let go first.
        let mut at = [BEGIN; 2];
        for _ in 0..4_000 {
            let mine = at.iter_mut().min().unwrap();
            *mine = shared.until(Way::Sent, 1_000, *mine).max(*mine);
        }
        let seconds = (at[0].max(at[1]) - BEGIN) as f64 / SECOND as f64;
        assert!((3.7..4.1).contains(&seconds), "{rule}: {seconds}");
        assert_eq!(shared.until(Way::Received, 10, BEGIN), BEGIN, "{rule}");
    }
}

#[test]
fn little_of_what_was_not_used_is_kept() {
    let check = |rule: u64, least_ms: u64| {
        let words = page(rule, 1_000_000);
        taken(&words, Way::Received, 1_000, 100, BEGIN);
        // After ten minutes of rest, two seconds' worth in small pieces.
        let later = taken(&words, Way::Received, 1_000, 2_000, BEGIN + 600 * SECOND);
        assert!(later >= least_ms * 1_000_000, "{rule}: {later}");
    };
    check(DEADLINE, 1_975);
    check(PAPER, 1_895);
}

#[test]
fn without_a_rate_nobody_waits_and_another_rate_holds_at_once() {
    for rule in [DEADLINE, PAPER] {
        let words = page(rule, 0);
        let shared = Shared::new(&words);
        assert_eq!(shared.until(Way::Sent, u64::MAX, BEGIN), BEGIN);
        words[RATE].store(1_000, Relaxed);
        let until = shared.until(Way::Sent, 10_000, BEGIN);
        assert!(until > BEGIN + 9 * SECOND, "{rule}: {}", until - BEGIN);
        // What would come to an overflow waits for long, and is no instant before now.
        assert!(shared.until(Way::Sent, u64::MAX, BEGIN) > BEGIN + SECOND);
    }
}
