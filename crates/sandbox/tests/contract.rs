//! The contract of mechanisms, duty by duty.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::*;
use kumiko_policy::Policy;

#[test]
fn a_guest_runs() {
    let Some(_) = machine("a_guest_runs") else {
        return;
    };
    let job = Scratch::new();
    let got = shell(
        &Policy::default(),
        &job.0,
        "id; pwd; ls -la / /dev /etc; env; cat /proc/self/status | grep -E 'Cap|NoNew|Secc'; cat /proc/self/mountinfo; ps ax; echo hi >out; exit 7",
    );
    eprintln!("{}\n{}\n{:?}", got.stdout, got.stderr, got.ended);
}
