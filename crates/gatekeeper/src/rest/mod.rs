//! REST over HTTP/1.1 and HTTP/2 (spec/rest): the connection. What is asked is in `route`.

mod body;
mod reply;
mod route;

use crate::Refused;
use crate::admit::{Door, Link, TURN_AWAY_WITHIN, Visitor};
use crate::config::HTTP2_STREAMS;
use crate::desk::Desk;
use body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use kumiko_job::contract::{Jobs, Refusal};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// All header fields of a request; ours need a tenth.
const HEADER_BYTES: u32 = 32 * 1024;
const HEADER_FIELDS: usize = 64;
/// HTTP/2 asks a silent peer whether it lives.
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// Serves one connection until it ends, is idle for too long, or the site stops.
pub(crate) async fn serve<J: Jobs>(
    desk: Arc<Desk<J>>,
    visitor: Arc<Visitor>,
    link: impl Link,
    door: Door,
    peer: SocketAddr,
    stopped: watch::Receiver<bool>,
) {
    let idle = desk.config.limits.http_idle;
    let answer = move |request| {
        let (desk, visitor) = (desk.clone(), visitor.clone());
        async move { route::answer(desk, visitor, request).await }
    };
    if let Err(cause) = converse(link, door, idle, stopped, answer).await {
        tracing::info!(%peer, %cause, "REST connection broken");
    }
}

/// Answers whatever is asked with the reason why nothing is.
pub(crate) async fn turn_away(link: impl Link, door: Door, why: &Refused) {
    let refusal = match why.is_of_site() {
        true => Refusal::new("agent_unavailable", why.to_string()),
        false => Refusal::new("not_admitted", why.to_string()),
    };
    let answer = move |_: Request<Incoming>| {
        let answer = reply::refused(&refusal);
        async move { answer }
    };
    let (_stop, stopped) = watch::channel(false);
    // Whether it was heard makes no difference any more.
    let _ = converse(link, door, TURN_AWAY_WITHIN, stopped, answer).await;
}

async fn converse<A, F>(
    link: impl Link,
    door: Door,
    idle: Duration,
    stopped: watch::Receiver<bool>,
    answer: A,
) -> Result<(), hyper::Error>
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let activity = Arc::new(Activity::default());
    let service = service_fn(|request| {
        let (answer, busy) = (answer(request), activity.begin());
        async move { Ok::<_, Infallible>(body::while_sent(answer.await, busy)) }
    });
    let io = TokioIo::new(link);
    if door == Door::Http2 {
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(HTTP2_STREAMS)
            .max_header_list_size(HEADER_BYTES)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN)
            .serve_connection(io, service);
        drive(connection, &activity, idle, stopped).await
    } else {
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(idle)
            .max_headers(HEADER_FIELDS)
            .max_buf_size(HEADER_BYTES as usize)
            .serve_connection(io, service);
        drive(connection, &activity, idle, stopped).await
    }
}

async fn drive<C>(
    connection: C,
    activity: &Activity,
    idle: Duration,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), C::Error>
where
    C: GracefulConnection,
{
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        _ = stopped.wait_for(|stop| *stop) => {}
        () = activity.idle_for(idle) => {}
    }
    // No more requests; answers under way end. `Front::run` bounds the time of a stop.
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection => ended,
        () = activity.idle_for(idle) => Ok(()),
    }
}

/// Requests under way on one connection, and since when there are none.
#[derive(Debug)]
struct Activity(Mutex<(usize, Instant)>);

impl Default for Activity {
    fn default() -> Self {
        Activity(Mutex::new((0, Instant::now())))
    }
}

/// One request under way.
#[derive(Debug)]
struct Busy(Arc<Activity>);

impl Activity {
    fn begin(self: &Arc<Self>) -> Busy {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        Busy(self.clone())
    }

    async fn idle_for(&self, idle: Duration) {
        loop {
            let (requests, since) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let until = if requests > 0 {
                Instant::now() + idle
            } else {
                since + idle
            };
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = (state.0 - 1, Instant::now());
    }
}
