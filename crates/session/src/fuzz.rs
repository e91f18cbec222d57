//! The state machine under bytes that nobody chose; for fuzz/fuzz_targets/session_core.rs.

use crate::Options;
use crate::core::{Core, Role};
use bytes::BytesMut;
use kumiko_wire::frame::ACK_EVERY_BYTES;
use std::task::{Poll, Waker};

/// Feeds `data` to a server's session and to a client's, in pieces that its first byte sets, and uses what streams it
/// opens. Panics only if the state machine does, or holds more than it may.
pub fn feed(data: &[u8]) {
    let Some((&first, bytes)) = data.split_first() else {
        return;
    };
    let options = Options {
        max_streams: 4,
        session_buffer_bytes: 4 * ACK_EVERY_BYTES,
        ..Options::default()
    };
    for role in [Role::Server, Role::Client] {
        let mut core = Core::new(role, options.clone(), [0; 16], [0; 16]);
        let mut streams = Vec::new();
        if role == Role::Server {
            if core.welcome(None).is_err() {
                return;
            }
        } else {
            core.greet();
            if let Poll::Ready(Ok(id)) =
                core.poll_open(&bytes::Bytes::from_static(b"request"), Waker::noop())
            {
                streams.push(id);
            }
        }
        let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
        for (turn, piece) in bytes.chunks(1 + usize::from(first)).enumerate() {
            input.extend_from_slice(piece);
            core.on_bytes(&mut input);
            streams.extend(core.take_opened().into_iter().map(|(id, _)| id));
            for &id in &streams {
                if turn % 3 == 0 {
                    let _ =
                        core.poll_recv(id, &mut std::collections::VecDeque::new(), Waker::noop());
                }
                let mut message = bytes::Bytes::from_static(&[0; 3000]);
                let pieces = [&mut bytes::Bytes::from_static(b"first"), &mut message];
                let _ = core.poll_send(id, 1, pieces, Waker::noop());
            }
            output.clear();
            core.fill(&mut output, 10_000);
            if turn % 7 == 6 {
                core.cut();
                input.clear();
                match role {
                    Role::Client => _ = core.greet(),
                    Role::Server => _ = core.welcome(Some(turn as u64 / 2)),
                }
            }
            // Twice the streams, each with a window that grew once at most in so few turns; and what is to be sent.
            let most = 8 * (1 << 20) + 2 * 4 * ACK_EVERY_BYTES + (1 << 20);
            assert!(
                core.held_bytes() <= most,
                "{} bytes are held",
                core.held_bytes()
            );
        }
        for id in streams {
            core.end_sending(id, None);
            core.end_receiving(id, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    /// The vectors, and neighbours of them by a few bytes: no input makes the state machine panic.
    #[test]
    fn whatever_a_peer_says_is_answered() {
        let vectors =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/session/vectors");
        let mut seed = 1u64;
        let mut random = move |bound: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % bound
        };
        let mut fed = 0;
        for folder in ["valid", "invalid"] {
            for entry in std::fs::read_dir(vectors.join(folder)).unwrap() {
                let vector = std::fs::read(entry.unwrap().path()).unwrap();
                for _ in 0..200 {
                    // A server's session has read HELLO when the state machine begins.
                    let skip = if random(2) == 0 {
                        60.min(vector.len())
                    } else {
                        0
                    };
                    let mut bytes = vector[skip..].to_vec();
                    bytes.insert(0, random(256) as u8);
                    for _ in 0..random(4) {
                        let at = random(bytes.len());
                        bytes[at] = [0, 1, 2, 7, 64, 128, 255][random(7)];
                    }
                    super::feed(&bytes);
                    fed += 1;
                }
            }
        }
        assert!(fed > 10_000, "{fed} inputs");
    }
}
