//! The one runtime of the process, and waiting for it as Python wants it: others go on meanwhile, and Ctrl-C is heard. Not here:
//! what is waited for.

use kumiko_rpc_client::Carrier;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// How long Ctrl-C waits at most to be heard.
const SLICE: Duration = Duration::from_millis(50);

/// What is waited for has so long to end after Ctrl-C, before it is left to itself.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// A fork has none of its parent's threads: it gets a runtime of its own, and cannot use what hangs on the other.
static CARRIER: Mutex<Option<(u32, &'static Carrier)>> = Mutex::new(None);

pub fn carrier() -> PyResult<&'static Carrier> {
    let mut current = CARRIER.lock().unwrap_or_else(PoisonError::into_inner);
    let own = std::process::id();
    if let Some((process, carrier)) = *current {
        if process == own {
            return Ok(carrier);
        }
    }
    let carrier = Carrier::start().map_err(|error| PyOSError::new_err(error.to_string()))?;
    *current = Some((own, carrier));
    Ok(carrier)
}

/// That a fork does not use its parent's connections.
#[derive(Debug)]
pub struct Process(u32);

impl Process {
    pub fn this() -> Process {
        Process(std::process::id())
    }

    pub fn check(&self) -> PyResult<()> {
        match self.0 == std::process::id() {
            true => Ok(()),
            false => Err(PyRuntimeError::new_err(
                "this site was connected before the process was forked: connect anew in the child",
            )),
        }
    }
}

/// What a moment of waiting brought.
enum Slice<T, Q> {
    Done(T),
    Asked(Q),
    Over,
}

/// Other threads of Python go on; a signal's handler that raises ends the waiting.
pub fn wait<T: Send>(py: Python<'_>, future: impl Future<Output = T> + Send) -> PyResult<T> {
    wait_or(py, future, || ()).map_err(|(error, _)| error)
}

/// As [`wait`]; when a signal's handler raises, `stop` is to end what is waited for, which is waited for a moment longer. The
/// exception, and what came all the same.
pub fn wait_or<T: Send>(
    py: Python<'_>,
    future: impl Future<Output = T> + Send,
    stop: impl FnOnce(),
) -> Result<T, (PyErr, Option<T>)> {
    let (_, mut none) = unbounded_channel::<()>();
    wait_asked(py, future, stop, &mut none, |_, ()| ())
}

/// As [`wait_or`]; what is asked meanwhile is answered in this thread.
pub fn wait_asked<'py, T: Send, Q: Send>(
    py: Python<'py>,
    future: impl Future<Output = T> + Send,
    stop: impl FnOnce(),
    questions: &mut UnboundedReceiver<Q>,
    mut answer: impl FnMut(Python<'py>, Q),
) -> Result<T, (PyErr, Option<T>)> {
    let carrier = carrier().map_err(|error| (error, None))?;
    let mut future = pin!(future);
    let mut slice = |length| {
        let slice = || {
            carrier.wait(async {
                tokio::select! {
                    done = future.as_mut() => Slice::Done(done),
                    Some(question) = questions.recv() => Slice::Asked(question),
                    () = tokio::time::sleep(length) => Slice::Over,
                }
            })
        };
        py.detach(slice)
    };
    loop {
        match slice(SLICE) {
            Slice::Done(done) => return Ok(done),
            Slice::Asked(question) => answer(py, question),
            Slice::Over => {}
        }
        if let Err(raised) = py.check_signals() {
            stop();
            let came = match slice(STOP_WITHIN) {
                Slice::Done(done) => Some(done),
                Slice::Asked(_) | Slice::Over => None,
            };
            return Err((raised, came));
        }
    }
}
