//! What a site answers late, or again, is taken for the answer to nothing else (spec/rpc P54): before a site that says what a test has it say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use kumiko_call::id::CallId;
use kumiko_call::message::{FromClient, Status};
use kumiko_client::{Client, SiteAddress};
use kumiko_identity::tls::Acceptor;
use kumiko_idl::{Signature, Value};
use kumiko_job::contract::Refusal;
use kumiko_rpc_client::{Argument, Arguments, Calls, Settings, Stages};
use kumiko_session::{Draft, Options, Server, Stream};
use kumiko_testkit::{Ca, deadline};
use kumiko_wire::rpc::{FromSite, ToSite};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const ROUTINE: &str = "Module m; Define f(IN int n) {}";
const ALPN: &[u8] = b"kumiko/1";

/// Answers each message in order, on its stream.
async fn answer<S: FnMut(ToSite) -> Vec<FromSite>>(stream: Stream, script: Arc<Mutex<S>>) {
    let (mut sender, mut receiver) = stream.split();
    while let Ok(Some(message)) = receiver.recv().await {
        let message = ToSite::decode(message.kind, message.data).unwrap();
        let answers = script.lock().unwrap()(message).into_iter();
        let drafts = answers.map(|answer| {
            let (kind, [first, data]) = answer.encode();
            Draft { kind, first, data }
        });
        let _ = sender.send_all(&mut drafts.collect()).await;
    }
}

async fn calls_at<S>(script: S) -> Calls
where
    S: FnMut(ToSite) -> Vec<FromSite> + Send + 'static,
{
    let ca = Ca::new();
    let acceptor = Acceptor::new(&ca.host("localhost"), &ca.trust(), &[ALPN]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = SiteAddress {
        host: "localhost".to_owned(),
        port: listener.local_addr().unwrap().port(),
    };
    let (server, script) = (
        Server::new(Options::default()),
        Arc::new(Mutex::new(script)),
    );
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let (tls, _) = acceptor.accept(tcp).await.unwrap();
        let serve = move |_: Bytes, stream: Stream| {
            tokio::spawn(answer(stream, Arc::clone(&script)));
        };
        let _ = server.serve(tls, "Alice", serve).await;
    });
    let (alice, trust) = (ca.user("Alice"), ca.trust());
    let client = Client::connect(&site, &alice, &trust);
    let client = deadline("a connection", client).await.unwrap();
    Calls::new(client, Settings::default())
}

fn refused(call: CallId, code: &str) -> FromSite {
    FromSite::Refused {
        call: Some(call),
        refusal: Refusal::new(code, "the test says so".to_owned()),
    }
}

fn status(call: CallId, status: Status) -> Vec<FromSite> {
    vec![FromSite::Status { call, status }]
}

/// The result of a call that gives nothing back.
async fn called(calls: &Calls) {
    let signature = Signature::from_text(ROUTINE).unwrap();
    let arguments = Arguments::new(&signature, &[Argument::Number(Value::Integer(1))]).unwrap();
    let id = calls.number().await.unwrap();
    let came = deadline("the call", calls.call(id, "m/f", &arguments)).await;
    came.unwrap();
}

/// What the site knows of a call that is refused at first, with its block, by this code.
#[derive(Default)]
struct Refusing {
    code: &'static str,
    clients: u64,
    invoked: u32,
}

impl Refusing {
    fn heard(&mut self, message: ToSite) -> Vec<FromSite> {
        let message = match message {
            ToSite::Call { message, .. } => message,
            ToSite::Register { .. } => {
                self.clients += 1;
                let client = self.clients;
                return vec![FromSite::Registered { client }];
            }
            _ => return Vec::new(),
        };
        match message {
            FromClient::Invoke { call, .. } => {
                self.invoked += 1;
                match self.invoked {
                    1 => Vec::new(),
                    _ => status(call, Status::Wants { block: 0 }),
                }
            }
            // Both at once, so that the later of them is there when the client goes on.
            FromClient::Block { call, .. } if self.invoked == 1 => {
                let behind = match self.code {
                    "rpc_no_client" => "rpc_no_client",
                    _ => "rpc_no_call",
                };
                vec![refused(call, self.code), refused(call, behind)]
            }
            FromClient::Block { call, .. } => {
                let (blocks, out_bytes) = (0, 0);
                status(call, Status::Result { blocks, out_bytes })
            }
            FromClient::Acknowledge { .. } => Vec::new(),
            other => {
                let call = other.call().unwrap();
                status(call, Status::Over { expired: false })
            }
        }
    }
}

#[tokio::test]
async fn a_site_that_does_not_take_a_call_for_now_is_not_asked_again_where_there_are_others() {
    let mut site = Refusing {
        code: "rpc_too_many_calls",
        ..Refusing::default()
    };
    let calls = calls_at(move |message| site.heard(message)).await;
    let signature = Signature::from_text(ROUTINE).unwrap();
    let arguments = Arguments::new(&signature, &[Argument::Number(Value::Integer(1))]).unwrap();
    let stages = Stages::default();
    let id = calls.number().await.unwrap();
    let call = calls.call_or_elsewhere(id, "m/f", &arguments, &stages);
    let error = deadline("the call", call).await.unwrap_err();
    assert!(error.goes_elsewhere(&stages), "{error}");
    // This site would take it the second time.
    called(&calls).await;
}

#[tokio::test]
async fn what_was_said_behind_a_refused_call_refuses_it_not_again_when_it_is_said_anew() {
    for code in ["rpc_log_unwritable", "rpc_too_many_calls", "rpc_no_client"] {
        let mut site = Refusing {
            code,
            ..Refusing::default()
        };
        let calls = calls_at(move |message| site.heard(message)).await;
        called(&calls).await;
        called(&calls).await;
    }
}

#[tokio::test]
async fn a_question_is_not_answered_by_what_is_said_of_a_call() {
    let other = CallId {
        client: 7,
        sequence: 3,
    };
    let calls = calls_at(move |message| match message {
        ToSite::Call {
            message: FromClient::Cancel { call },
            ..
        } => vec![refused(call, "rpc_no_call")],
        ToSite::Signature { .. } => [ROUTINE, ""]
            .map(|signature| FromSite::Routine {
                dumped: false,
                signature: signature.to_owned(),
            })
            .into(),
        ToSite::Register { .. } => vec![FromSite::Registered { client: 1 }],
        ToSite::Record { call } => vec![FromSite::Recorded { call, one: None }],
        _ => Vec::new(),
    })
    .await;
    calls.cancel(other).await.unwrap();
    let signature = deadline("a signature", calls.signature("m/f")).await;
    assert_eq!(signature.unwrap().name, "f");
    calls.cancel(other).await.unwrap();
    deadline("a number", calls.number()).await.unwrap();
    calls.cancel(other).await.unwrap();
    let mine = CallId {
        client: 1,
        sequence: 1,
    };
    let record = deadline("a record", calls.record(mine)).await;
    assert_eq!(record.unwrap(), []);
}
