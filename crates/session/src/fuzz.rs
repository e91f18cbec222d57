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
            if core.welcome(None, 0).is_err() {
                return;
            }
        } else {
            core.greet(0);
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
                    let _ = core.poll_recv(id, Waker::noop());
                }
                let mut message = bytes::Bytes::from_static(&[0; 3000]);
                let _ = core.poll_send(id, 1, &mut message, Waker::noop());
            }
            output.clear();
            core.fill(&mut output, 10_000);
            if turn % 7 == 6 {
                core.cut();
                input.clear();
                match role {
                    Role::Client => _ = core.greet(0),
                    Role::Server => _ = core.welcome(Some(turn as u64 / 2), 0),
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
