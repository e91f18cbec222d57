//! Messages (spec/gram G22 to G40): what is asked of a gatekeeper and of a job, the answers, and what a job tells its
//! clients.

use super::body::{BodyError, Field, plain, quote, read};
use super::frame::{Request, Response, Status};
use super::query::Query;
use kumiko_job::rsl::GramCode;

/// The version that all of this is.
const PROTOCOL_VERSION: &str = "2";
/// The service that is meant where none is named.
const DEFAULT_SERVICE: &str = "jobmanager";

/// Why a message cannot be used: the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("the target {target:?} names no service")]
    NoService { target: String },
    #[error("the line {name} is missing")]
    Missing { name: &'static str },
    #[error("{name} is no number: {value:?}")]
    NoNumber { name: &'static str, value: String },
    #[error("protocol-version is {version:?}, and must be 2")]
    Version { version: String },
    #[error("the job is asked for {query:?}, which is none of the known requests")]
    UnknownQuery { query: String },
    #[error("the state {number} is none")]
    NoState { number: u32 },
}

impl MessageError {
    /// The number by which the peer knows it.
    pub fn gram(&self) -> GramCode {
        match self {
            MessageError::Version { .. } => GramCode::VERSION_MISMATCH,
            MessageError::UnknownQuery { .. } => GramCode::INVALID_JOB_QUERY,
            MessageError::NoService { .. } => GramCode::SERVICE_NOT_FOUND,
            _ => GramCode::HTTP_UNPACK,
        }
    }
}

/// States as GRAM's clients know them; a mask of states is a sum of these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    Pending = 1,
    Active = 2,
    Failed = 4,
    Done = 8,
    Suspended = 16,
    Unsubmitted = 32,
    StageIn = 64,
    StageOut = 128,
}

impl JobState {
    pub const ALL: [JobState; 8] = [
        JobState::Pending,
        JobState::Active,
        JobState::Failed,
        JobState::Done,
        JobState::Suspended,
        JobState::Unsubmitted,
        JobState::StageIn,
        JobState::StageOut,
    ];

    pub fn number(self) -> u32 {
        self as u32
    }

    pub fn of(number: u32) -> Option<JobState> {
        JobState::ALL
            .into_iter()
            .find(|state| state.number() == number)
    }

    pub fn is_in(self, mask: u32) -> bool {
        mask & self.number() != 0
    }
}

/// What is wanted of which service of a gatekeeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToGatekeeper {
    pub service: String,
    /// The account that is wished for (`service@account`).
    pub account: Option<String>,
    pub wanted: Wanted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Ping,
    Version,
    Job(JobRequest),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRequest {
    pub state_mask: u32,
    /// Where the client listens; None: it does not.
    pub callback: Option<String>,
    pub rsl: String,
}

impl ToGatekeeper {
    pub fn decode(request: &Request) -> Result<ToGatekeeper, MessageError> {
        let target = request.target.as_str();
        let no_service = || MessageError::NoService {
            target: target.chars().take(80).collect(),
        };
        // A ping's target has no slash before it, and a job's has one: "ping" may be a service's name too.
        let (ping, path) = match target.strip_prefix("ping/") {
            Some(path) => (true, path),
            None => (false, target.strip_prefix('/').ok_or_else(no_service)?),
        };
        let (service, account) = match path.split_once('@') {
            Some((service, account)) => (service, Some(account.to_owned())),
            None => (path, None),
        };
        if account.as_deref() == Some("") {
            return Err(no_service());
        }
        let service = if service.is_empty() {
            DEFAULT_SERVICE
        } else {
            service
        };
        let wanted = if ping {
            Wanted::Ping
        } else {
            wanted(&request.body)?
        };
        Ok(ToGatekeeper {
            service: service.to_owned(),
            account,
            wanted,
        })
    }

    pub fn encode(&self, host: &str) -> Request {
        let account = self.account.iter().map(|account| format!("@{account}"));
        let path = format!("{}{}", self.service, account.collect::<String>());
        let (target, body) = match &self.wanted {
            Wanted::Ping => (format!("ping/{path}"), String::new()),
            Wanted::Version => (format!("/{path}"), "command: version\r\n".to_owned()),
            Wanted::Job(job) => {
                let callback = plain(job.callback.as_deref().unwrap_or_default());
                let body = format!(
                    "protocol-version: {PROTOCOL_VERSION}\r\njob-state-mask: {}\r\ncallback-url: {callback}\r\nrsl: {}\r\n",
                    job.state_mask,
                    quote(&job.rsl)
                );
                (format!("/{path}"), body)
            }
        };
        Request {
            target,
            host: host.to_owned(),
            body,
        }
    }
}

fn wanted(body: &str) -> Result<Wanted, MessageError> {
    let fields = read(body)?;
    if find(&fields, "command") == Some("version") {
        return Ok(Wanted::Version);
    }
    version(&fields)?;
    let callback = find(&fields, "callback-url").filter(|url| !url.is_empty());
    Ok(Wanted::Job(JobRequest {
        state_mask: number(&fields, "job-state-mask")?,
        callback: callback.map(str::to_owned),
        rsl: field(&fields, "rsl")?.to_owned(),
    }))
}

fn find<'a>(fields: &'a [Field], name: &str) -> Option<&'a str> {
    fields
        .iter()
        .find(|field| field.name.as_deref() == Some(name))
        .map(|field| field.value.as_str())
}

fn field<'a>(fields: &'a [Field], name: &'static str) -> Result<&'a str, MessageError> {
    find(fields, name).ok_or(MessageError::Missing { name })
}

/// GT writes masks as signed numbers; all of them mean 32 bits.
fn number(fields: &[Field], name: &'static str) -> Result<u32, MessageError> {
    let value = field(fields, name)?.trim();
    let number = value.parse::<i64>().ok().map(|number| number & 0xffff_ffff);
    number
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| MessageError::NoNumber {
            name,
            value: value.chars().take(40).collect(),
        })
}

fn version(fields: &[Field]) -> Result<(), MessageError> {
    match field(fields, "protocol-version")?.trim() {
        PROTOCOL_VERSION => Ok(()),
        other => Err(MessageError::Version {
            version: other.chars().take(40).collect(),
        }),
    }
}

/// What stands at the end of each reply and callback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contacted {
    pub version: Option<String>,
    pub toolkit_version: Option<String>,
    pub exit_code: Option<i64>,
    /// Why it failed, in words.
    pub message: Option<String>,
}

impl Contacted {
    fn decode(fields: &[Field]) -> Contacted {
        let text = |name| find(fields, name).map(str::to_owned);
        Contacted {
            version: text("version"),
            toolkit_version: text("toolkit-version"),
            exit_code: find(fields, "exit-code").and_then(|code| code.trim().parse().ok()),
            message: text("gt3-failure-message"),
        }
    }

    fn encode(&self, body: &mut String) {
        let mut put = |name: &str, value: &str| {
            // One line each: GT's reader ends a field at its line.
            let value = value.replace(['\r', '\n'], " ");
            body.push_str(&format!("{name}: {}\r\n", quote(&value)));
        };
        if let Some(message) = &self.message {
            put("gt3-failure-message", message);
        }
        if let Some(version) = &self.version {
            put("version", version);
        }
        if let Some(version) = &self.toolkit_version {
            put("toolkit-version", version);
        }
        if let Some(code) = self.exit_code {
            put("exit-code", &code.to_string());
        }
    }
}

/// A gatekeeper's answer to a request for a job or for its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReply {
    pub status: GramCode,
    pub contact: Option<String>,
    pub more: Contacted,
}

impl JobReply {
    pub fn encode(&self) -> Response {
        let mut body = format!(
            "protocol-version: {PROTOCOL_VERSION}\r\nstatus: {}\r\n",
            self.status
        );
        if let Some(contact) = &self.contact {
            body.push_str(&format!("job-manager-url: {contact}\r\n"));
        }
        self.more.encode(&mut body);
        Response {
            status: Status::Ok,
            body: Some(body),
        }
    }

    pub fn decode(body: &str) -> Result<JobReply, MessageError> {
        let fields = read(body)?;
        version(&fields)?;
        Ok(JobReply {
            status: code(&fields, "status")?,
            contact: find(&fields, "job-manager-url").map(str::to_owned),
            more: Contacted::decode(&fields),
        })
    }
}

fn code(fields: &[Field], name: &'static str) -> Result<GramCode, MessageError> {
    let number = number(fields, name)?;
    u16::try_from(number)
        .map(GramCode)
        .map_err(|_| MessageError::NoNumber {
            name,
            value: number.to_string(),
        })
}

impl Query {
    pub fn decode(body: &str) -> Result<Query, MessageError> {
        let fields = read(body)?;
        version(&fields)?;
        let command = fields.iter().find(|field| field.name.is_none());
        let command = command.ok_or(MessageError::Missing { name: "command" })?;
        Query::parse(&command.value)
    }

    /// The body of a request to a job's contact.
    pub fn encode(&self) -> String {
        format!(
            "protocol-version: {PROTOCOL_VERSION}\r\n{}\r\n",
            quote(&self.text())
        )
    }
}

/// A job's answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryReply {
    /// None: there is no such job (written 0).
    pub state: Option<JobState>,
    /// Why the query failed.
    pub failure: GramCode,
    /// Why the job failed.
    pub job_failure: GramCode,
    pub more: Contacted,
}

impl QueryReply {
    pub fn encode(&self) -> Response {
        let state = self.state.map_or(0, JobState::number);
        let mut body = format!(
            "protocol-version: {PROTOCOL_VERSION}\r\nstatus: {state}\r\nfailure-code: {}\r\njob-failure-code: {}\r\n",
            self.failure, self.job_failure
        );
        self.more.encode(&mut body);
        Response {
            status: Status::Ok,
            body: Some(body),
        }
    }

    pub fn decode(body: &str) -> Result<QueryReply, MessageError> {
        let fields = read(body)?;
        version(&fields)?;
        let state = match number(&fields, "status")? {
            0 => None,
            number => Some(JobState::of(number).ok_or(MessageError::NoState { number })?),
        };
        let job_failure = match find(&fields, "job-failure-code") {
            Some(_) => code(&fields, "job-failure-code")?,
            None => GramCode::SUCCESS,
        };
        Ok(QueryReply {
            state,
            failure: code(&fields, "failure-code")?,
            job_failure,
            more: Contacted::decode(&fields),
        })
    }
}

/// What a job tells a client that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    pub contact: String,
    pub state: JobState,
    pub failure: GramCode,
    pub more: Contacted,
}

impl Callback {
    pub fn encode(&self) -> String {
        let mut body = format!(
            "protocol-version: {PROTOCOL_VERSION}\r\njob-manager-url: {}\r\nstatus: {}\r\nfailure-code: {}\r\n",
            self.contact,
            self.state.number(),
            self.failure
        );
        self.more.encode(&mut body);
        body
    }

    pub fn decode(body: &str) -> Result<Callback, MessageError> {
        let fields = read(body)?;
        version(&fields)?;
        let state = number(&fields, "status")?;
        Ok(Callback {
            contact: field(&fields, "job-manager-url")?.to_owned(),
            state: JobState::of(state).ok_or(MessageError::NoState { number: state })?,
            failure: code(&fields, "failure-code")?,
            more: Contacted::decode(&fields),
        })
    }
}
