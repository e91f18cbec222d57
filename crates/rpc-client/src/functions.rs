//! Functions of the caller's, which a routine has do some of its work (spec/rpc P68): each question is put to them once, however often
//! the site asks. Not here: how a function is called (the interfaces for C and Python).

use crate::conversation::about;
use crate::error::RpcError;
use bytes::Bytes;
use kumiko_call::id::CallId;
use kumiko_call::message::FromClient;
use kumiko_idl::{Limits, Placed, Plan, Signature, Span};
use kumiko_wire::routine::CALLBACK_BYTES;
use kumiko_wire::rpc::ToSite;
use std::future::pending;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// While a function works the site hears so often that its caller lives; it waits ten times as long (spec/rpc P68).
const BEAT: Duration = Duration::from_secs(60);

/// What a function is asked.
#[derive(Debug)]
pub struct Question {
    /// Which formal of the routine it is.
    pub formal: usize,
    /// Its arguments, in the form of a call's.
    pub data: Bytes,
    /// The result in the form of a call's, or what went wrong, which is the end of the call.
    pub reply: oneshot::Sender<Result<Bytes, String>>,
}

impl Question {
    /// The function as a routine, and where everything stands in its arguments.
    ///
    /// # Errors
    /// The routine does not ask as its signature says.
    pub fn plan(&self, routine: &Signature) -> Result<(Signature, Plan), RpcError> {
        let function = routine.callback(self.formal).ok_or(RpcError::Unexpected)?;
        let heads = function.heads(&self.data).ok_or(RpcError::Unexpected)?;
        let limits = Limits {
            array_bytes: CALLBACK_BYTES,
            call_bytes: CALLBACK_BYTES,
        };
        let plan = function.plan(&heads, limits)?;
        let is_as_said = plan.places.iter().all(|place| match place {
            Placed::Text { at: Some(span) } => self.text(*span).is_some(),
            Placed::Many {
                given: Some(span), ..
            } => self.part(*span).is_some_and(|packed| {
                let files = place.files(packed, span.bytes);
                files.is_some() || place.texts(packed).is_some()
            }),
            _ => true,
        });
        match plan.in_bytes == self.data.len() as u64 && is_as_said {
            true => Ok((function, plan)),
            false => Err(RpcError::Unexpected),
        }
    }

    /// One of its texts, without the zero at its end; None: none stands there.
    pub fn text(&self, span: Span) -> Option<&[u8]> {
        let (zero, text) = self.part(span)?.split_last()?;
        (*zero == 0 && !text.contains(&0)).then_some(text)
    }

    /// Some of its bytes; None: they are not there.
    pub fn part(&self, span: Span) -> Option<&[u8]> {
        let at = usize::try_from(span.at).ok()?;
        let end = at.checked_add(usize::try_from(span.bytes).ok()?)?;
        self.data.get(at..end)
    }
}

/// Those of one call.
#[derive(Debug, Default)]
pub struct Functions {
    to: Option<UnboundedSender<Question>>,
    /// A function works.
    working: Option<Working>,
    /// What was said last: a site that was killed before it kept that asks again.
    last: Option<(Same, Bytes)>,
    /// Why the call is to end.
    pub failed: Option<String>,
}

/// By which a question is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Same {
    number: u64,
    formal: u64,
    data: Bytes,
}

#[derive(Debug)]
struct Working {
    epoch: u32,
    same: Same,
    reply: oneshot::Receiver<Result<Bytes, String>>,
    beat: Instant,
}

impl Functions {
    pub fn new(to: Option<UnboundedSender<Question>>) -> Functions {
        Functions {
            to,
            ..Functions::default()
        }
    }

    pub fn are_given(&self) -> bool {
        self.to.is_some()
    }

    /// What is said to the site at once.
    pub fn asked(
        &mut self,
        call: CallId,
        epoch: u32,
        number: u64,
        formal: u64,
        data: Bytes,
    ) -> Result<Option<ToSite>, RpcError> {
        if self.failed.is_some() {
            return Ok(Some(about(FromClient::Cancel { call })));
        }
        let same = Same {
            number,
            formal,
            data,
        };
        match (&mut self.working, &self.last) {
            (Some(working), _) if working.same == same => {
                working.epoch = epoch;
                return Ok(None);
            }
            (_, Some((last, data))) if *last == same => {
                let data = data.clone();
                return Ok(Some(ToSite::Said {
                    call,
                    epoch,
                    number,
                    data,
                }));
            }
            _ => {}
        }
        let no_function = RpcError::NoFunction { call };
        let Some(to) = &self.to else {
            return Err(no_function);
        };
        let (reply, replied) = oneshot::channel();
        let question = Question {
            formal: usize::try_from(formal).unwrap_or(usize::MAX),
            data: same.data.clone(),
            reply,
        };
        to.send(question).map_err(|_| no_function)?;
        self.working = Some(Working {
            epoch,
            same,
            reply: replied,
            beat: Instant::now() + BEAT,
        });
        Ok(None)
    }

    /// What is to be said next to the site; never, if no function works. Cancel safe.
    pub async fn next(&mut self, call: CallId) -> ToSite {
        let Some(working) = &mut self.working else {
            return pending().await;
        };
        let replied = tokio::select! {
            replied = &mut working.reply => replied,
            () = tokio::time::sleep_until(working.beat) => {
                working.beat = Instant::now() + BEAT;
                return about(FromClient::Ask { call });
            }
        };
        let (epoch, same) = (working.epoch, working.same.clone());
        self.working = None;
        match replied {
            Ok(Ok(data)) => {
                let number = same.number;
                self.last = Some((same, data.clone()));
                ToSite::Said {
                    call,
                    epoch,
                    number,
                    data,
                }
            }
            Ok(Err(what)) => {
                self.failed = Some(what);
                about(FromClient::Cancel { call })
            }
            Err(_) => {
                self.failed = Some("nobody answers for it".to_owned());
                about(FromClient::Cancel { call })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use kumiko_idl::{ALIGN_BYTES, text_head};

    /// The text that a function is given which takes one, by what a routine says of it.
    fn given(bytes: Option<u64>, text: &[u8]) -> Result<Option<Vec<u8>>, RpcError> {
        let routine = Signature::from_text("Module m; Define f(g(IN string s)) {}").unwrap();
        let mut data = text_head(bytes).to_vec();
        if bytes.is_some() {
            data.resize(ALIGN_BYTES as usize, 0);
        }
        data.extend(text);
        let question = Question {
            formal: 0,
            data: data.into(),
            reply: oneshot::channel().0,
        };
        let (_, plan) = question.plan(&routine)?;
        let Some(Placed::Text { at }) = plan.places.first() else {
            return Ok(None);
        };
        Ok(at.and_then(|span| question.text(span)).map(<[u8]>::to_vec))
    }

    #[test]
    fn a_function_is_given_a_text_that_ends_where_the_routine_says_or_nothing() {
        assert_eq!(given(None, b"").unwrap(), None);
        assert_eq!(given(Some(0), b"\0").unwrap(), Some(Vec::new()));
        assert_eq!(given(Some(2), b"to\0").unwrap(), Some(b"to".to_vec()));
        for (bytes, text) in [
            (Some(2), &b"tom"[..]),
            (Some(2), b"t\0\0"),
            (Some(2), b"to"),
            (Some(2), b"to\0\0"),
            (Some(u64::MAX - 1), b"to\0"),
            (None, b"to\0"),
        ] {
            let told = given(bytes, text);
            assert!(told.is_err(), "{bytes:?} {text:?}: {told:?}");
        }
    }
}
