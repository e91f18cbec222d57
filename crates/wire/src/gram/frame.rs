//! Frames (spec/gram G10 to G14): the subset of HTTP/1.1 that GRAM speaks, bytes to values and back.

/// Most bytes of a request's or reply's head. GRAM's own are below 300; some clients add a header or two.
pub const MAX_HEAD_BYTES: usize = 8 * 1024;
/// Most bytes of a body: the limit of GT's gatekeeper.
pub const MAX_BODY_BYTES: usize = 64_000;

const CONTENT_TYPE: &str = "Content-Type: application/x-globus-gram\r\n";

/// Why bytes are no frame: the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a head of more than {MAX_HEAD_BYTES} bytes")]
    HeadTooLong,
    #[error("a body of {bytes} bytes; at most {MAX_BODY_BYTES} are taken")]
    BodyTooLong { bytes: u64 },
    #[error("the first line is no POST of GRAM: {line:?}")]
    NoRequest { line: String },
    #[error("the first line is no status of HTTP/1: {line:?}")]
    NoStatus { line: String },
    #[error("the head is not text")]
    NotText,
    #[error("the head has no Content-Length")]
    NoLength,
    #[error("Content-Length is no number: {value:?}")]
    BadLength { value: String },
    #[error("the body is not text")]
    BodyNotText,
    #[error("a zero byte stands inside of the body")]
    ZeroByte,
}

/// A request as framed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// As written after POST: `/jobmanager`, `ping/jobmanager`, `/123/456/`.
    pub target: String,
    pub host: String,
    /// Without the final zero byte.
    pub body: String,
}

/// The statuses that are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    BadRequest,
    Forbidden,
    NotFound,
    InternalError,
    /// One that is not ours.
    Other(u16),
}

impl Status {
    pub fn number(self) -> u16 {
        match self {
            Status::Ok => 200,
            Status::BadRequest => 400,
            Status::Forbidden => 403,
            Status::NotFound => 404,
            Status::InternalError => 500,
            Status::Other(number) => number,
        }
    }

    fn of(number: u16) -> Status {
        [
            Status::Ok,
            Status::BadRequest,
            Status::Forbidden,
            Status::NotFound,
            Status::InternalError,
        ]
        .into_iter()
        .find(|status| status.number() == number)
        .unwrap_or(Status::Other(number))
    }

    fn words(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::BadRequest => "Bad Request",
            Status::Forbidden => "Forbidden",
            Status::NotFound => "Not Found",
            Status::InternalError => "Internal Server Error",
            Status::Other(_) => "-",
        }
    }
}

/// A reply as framed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: Status,
    /// Without the final zero byte; None: the frame says nothing of a body.
    pub body: Option<String>,
}

/// Head and body of a frame, and its length.
struct Parted<'a> {
    first: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    /// Where the body begins.
    begins: usize,
}

/// None: the head has not come whole.
fn head(bytes: &[u8]) -> Result<Option<Parted<'_>>, FrameError> {
    let within = bytes.get(..MAX_HEAD_BYTES).unwrap_or(bytes);
    let end = within.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        return if bytes.len() >= MAX_HEAD_BYTES {
            Err(FrameError::HeadTooLong)
        } else {
            Ok(None)
        };
    };
    let text = within.get(..end).unwrap_or_default();
    let text = std::str::from_utf8(text).map_err(|_| FrameError::NotText)?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    Ok(Some(Parted {
        first,
        headers,
        begins: end + 4,
    }))
}

impl Parted<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(written, _)| written.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value)
    }

    fn length(&self) -> Result<Option<usize>, FrameError> {
        let Some(value) = self.header("Content-Length") else {
            return Ok(None);
        };
        let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let Some(bytes) = value.parse::<u64>().ok().filter(|_| digits) else {
            let value = value.chars().take(40).collect();
            return Err(FrameError::BadLength { value });
        };
        match usize::try_from(bytes) {
            Ok(length) if length <= MAX_BODY_BYTES => Ok(Some(length)),
            _ => Err(FrameError::BodyTooLong { bytes }),
        }
    }
}

fn body(bytes: &[u8]) -> Result<String, FrameError> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|_| FrameError::BodyNotText)?;
    if text.contains('\0') {
        return Err(FrameError::ZeroByte);
    }
    Ok(text.to_owned())
}

/// The request at the beginning of `bytes`, and how many bytes it takes; None: it has not come whole.
pub fn decode_request(bytes: &[u8]) -> Result<Option<(Request, usize)>, FrameError> {
    let Some(head) = head(bytes)? else {
        return Ok(None);
    };
    let no_request = || FrameError::NoRequest {
        line: head.first.chars().take(80).collect(),
    };
    let mut words = head.first.split(' ');
    let (Some("POST"), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(no_request());
    };
    if target.is_empty() {
        return Err(no_request());
    }
    let length = head.length()?.ok_or(FrameError::NoLength)?;
    let end = head.begins + length;
    let Some(content) = bytes.get(head.begins..end) else {
        return Ok(None);
    };
    let request = Request {
        target: target.to_owned(),
        host: head.header("Host").unwrap_or_default().to_owned(),
        body: body(content)?,
    };
    Ok(Some((request, end)))
}

/// The reply at the beginning of `bytes`, and how many bytes it takes; None: it has not come whole.
pub fn decode_response(bytes: &[u8]) -> Result<Option<(Response, usize)>, FrameError> {
    let Some(head) = head(bytes)? else {
        return Ok(None);
    };
    let no_status = || FrameError::NoStatus {
        line: head.first.chars().take(80).collect(),
    };
    let mut words = head.first.splitn(3, ' ');
    let (Some("HTTP/1.1" | "HTTP/1.0"), Some(number)) = (words.next(), words.next()) else {
        return Err(no_status());
    };
    let number = number.parse::<u16>().map_err(|_| no_status())?;
    let status = Status::of(number);
    // A status without a body is followed by a zero byte that no header counts.
    let length = head.length()?;
    let end = head.begins + length.unwrap_or(0);
    let Some(content) = bytes.get(head.begins..end) else {
        return Ok(None);
    };
    let response = Response {
        status,
        body: length.map(|_| body(content)).transpose()?,
    };
    Ok(Some((response, end)))
}

/// A request; its body is followed by a zero byte that counts, unless it is empty.
pub fn encode_request(request: &Request) -> Vec<u8> {
    let Request { target, host, body } = request;
    let length = counted(body);
    let mut bytes = format!(
        "POST {target} HTTP/1.1\r\nHost: {host}\r\n{CONTENT_TYPE}Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes();
    if length > 0 {
        bytes.push(0);
    }
    bytes
}

/// A reply. One with an empty body, or none, is followed by a zero byte that does not count: GT's gatekeeper does so.
pub fn encode_response(response: &Response) -> Vec<u8> {
    let (number, words) = (response.status.number(), response.status.words());
    let mut bytes = match &response.body {
        Some(body) => {
            let length = counted(body);
            format!(
                "HTTP/1.1 {number} {words}\r\n{CONTENT_TYPE}Content-Length: {length}\r\n\r\n{body}"
            )
        }
        None => format!("HTTP/1.1 {number} {words}\r\nConnection: close\r\n\r\n"),
    }
    .into_bytes();
    bytes.push(0);
    bytes
}

fn counted(body: &str) -> usize {
    match body.len() {
        0 => 0,
        some => some + 1,
    }
}
