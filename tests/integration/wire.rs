//! A client that says exactly what it is told, byte by byte, over one kept connection; and the folding of
//! streams, for comparing what an upstream sent with what came out.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    time::Duration,
};

use serde_json::{Map, Value};

/// Far longer than anything here takes; a hang becomes a failed test.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection.
pub struct Connection {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
    /// The last body ended before its framing says.
    broken: bool,
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body ended as its framing says.
    pub whole: bool,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        Self::try_open(address).unwrap()
    }

    /// The same where perhaps nobody listens.
    pub fn try_open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { address, stream: BufReader::new(stream), broken: false })
    }

    /// A new connection where the last body broke off, as toolmark does behind the error of a stream.
    fn renew(&mut self) {
        if self.broken {
            *self = Self::open(self.address);
        }
    }

    /// Sends bytes as they are; `false` where the other side has closed.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// Nothing more will be sent.
    pub fn finish(&mut self) {
        // The other side may have closed it all.
        let _closed = self.stream.get_ref().shutdown(std::net::Shutdown::Write);
    }

    /// A JSON post with these further header lines, each ending in CRLF.
    pub fn post(&mut self, path: &str, further: &str, body: &[u8]) -> Reply {
        self.post_as(path, "Bearer test", further, body)
    }

    /// The same with this `Authorization`.
    pub fn post_as(&mut self, path: &str, authorization: &str, further: &str, body: &[u8]) -> Reply {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nauthorization: {authorization}\r\n{further}content-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        self.renew();
        self.send(&[head.as_bytes(), body].concat());
        self.reply()
    }

    /// `POST /v1/chat/completions`
    pub fn chat(&mut self, body: &str) -> Reply {
        self.post("/v1/chat/completions", "", body.as_bytes())
    }

    pub fn get(&mut self, path: &str) -> Reply {
        let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer test\r\n\r\n", self.address);
        self.send(head.as_bytes());
        self.reply()
    }

    /// Reads one response; status 0 where none came.
    pub fn reply(&mut self) -> Reply {
        let mut reply = Reply::default();
        reply.whole = self.read(&mut reply).is_ok();
        self.broken = !reply.whole && reply.status != 0;
        reply
    }

    /// Reads one line; empty at the end.
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn read(&mut self, reply: &mut Reply) -> io::Result<()> {
        let first = self.line()?;
        reply.status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::UnexpectedEof)?;
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            reply.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        if let Some(length) = reply.header("content-length").parse::<usize>().ok().filter(|_| !reply.header("content-length").is_empty()) {
            reply.body.resize(length, 0);
            return self.stream.read_exact(&mut reply.body);
        }
        if reply.header("transfer-encoding") != "chunked" {
            return self.stream.read_to_end(&mut reply.body).map(drop);
        }
        loop {
            let size = usize::from_str_radix(&self.line()?, 16).map_err(|_| io::ErrorKind::UnexpectedEof)?;
            let start = reply.body.len();
            reply.body.resize(start + size, 0);
            self.stream.read_exact(&mut reply.body[start..])?;
            self.line()?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}

impl Reply {
    /// A header; empty where it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    /// `error.code` of the body, or of the last event of a stream.
    pub fn error_code(&self) -> String {
        let error = if self.is_stream() { events(&self.text()).pop().unwrap_or_default() } else { self.json() };
        error["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type").starts_with("text/event-stream")
    }

    /// The verdict and the codes of the violations, from the headers or the comment.
    pub fn verdict(&self) -> (String, Vec<String>) {
        if !self.is_stream() || !self.header("toolmark-verdict").is_empty() {
            let codes = self.header("toolmark-violations").split(',').filter(|code| !code.is_empty());
            return (self.header("toolmark-verdict").to_owned(), codes.map(str::to_owned).collect());
        }
        let text = self.text();
        let comment = text.lines().find_map(|line| line.strip_prefix(": toolmark ")).unwrap_or("null");
        let object: Value = serde_json::from_str(comment).unwrap();
        let codes = object["violations"].as_array().into_iter().flatten().filter_map(Value::as_str);
        (object["verdict"].as_str().unwrap_or_default().to_owned(), codes.map(str::to_owned).collect())
    }
}

/// The data of a stream's events, but `[DONE]`.
pub fn events(stream: &str) -> Vec<Value> {
    let text = stream.replace("\r\n", "\n");
    let data = |event: &str| {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    };
    let data = text.split("\n\n").map(data).filter(|data| !data.trim().is_empty() && data.trim() != "[DONE]");
    data.map(|data| serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {data}"))).collect()
}

/// A stream, folded: per choice every text joined, calls joined, the finish reason; the rest by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folded {
    pub choices: BTreeMap<u64, Choice>,
    pub rest: Map<String, Value>,
}

/// One choice of a folded stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    pub texts: BTreeMap<String, String>,
    pub others: BTreeMap<String, Vec<Value>>,
    pub calls: Vec<Call>,
    pub finish: Option<String>,
    index_of: BTreeMap<u64, usize>,
}

/// One call of a folded stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    pub id: String,
    pub kind: Option<String>,
    pub name: String,
    pub arguments: Option<String>,
    pub others: BTreeMap<String, Value>,
}

/// Folds the events of a stream.
pub fn fold(events: &[Value]) -> Folded {
    let mut folded = Folded::default();
    for event in events {
        for (name, value) in event.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                ("choices", choices) => choices.as_array().into_iter().flatten().for_each(|choice| folded.choice(choice)),
                ("obfuscation" | "toolmark", _) | (_, Value::Null) => {}
                (_, value) => drop(folded.rest.insert(name.clone(), value.clone())),
            }
        }
    }
    for choice in folded.choices.values_mut() {
        choice.index_of.clear();
    }
    folded
}

impl Folded {
    fn choice(&mut self, event: &Value) {
        let choice = self.choices.entry(event["index"].as_u64().unwrap_or(0)).or_default();
        if let Some(finish) = event["finish_reason"].as_str() {
            choice.finish = Some(finish.to_owned());
        }
        for (name, value) in event["delta"].as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                ("tool_calls", calls) => calls.as_array().into_iter().flatten().for_each(|call| choice.call(call)),
                ("role", _) | (_, Value::Null) => {}
                (_, Value::String(text)) if text.is_empty() => {}
                (_, Value::String(text)) => choice.texts.entry(name.clone()).or_default().push_str(text),
                (_, value) => choice.others.entry(name.clone()).or_default().push(value.clone()),
            }
        }
        for (name, value) in event.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "index" | "delta" | "finish_reason") && !value.is_null() {
                // OpenRouter says how it ended in two events: once is enough.
                let said = choice.others.entry(format!("choice.{name}")).or_default();
                if said.last() != Some(value) {
                    said.push(value.clone());
                }
            }
        }
    }
}

impl Choice {
    fn call(&mut self, delta: &Value) {
        let (id, index) = (delta["id"].as_str().unwrap_or_default(), delta["index"].as_u64());
        let known = match index {
            Some(index) => self.index_of.get(&index).copied(),
            None => self.calls.len().checked_sub(1),
        };
        let same = known.filter(|at| id.is_empty() || self.calls[*at].id == id);
        let at = same.unwrap_or_else(|| {
            self.calls.push(Call::default());
            self.calls.len() - 1
        });
        self.index_of.extend(index.map(|index| (index, at)));
        let call = &mut self.calls[at];
        call.id = if call.id.is_empty() { id.to_owned() } else { std::mem::take(&mut call.id) };
        call.kind = call.kind.take().or_else(|| delta["type"].as_str().map(str::to_owned));
        let function = &delta["function"];
        if call.name.is_empty() {
            call.name = function["name"].as_str().unwrap_or_default().to_owned();
        }
        match &function["arguments"] {
            Value::Null => {}
            Value::String(text) => call.arguments.get_or_insert_default().push_str(text),
            other => call.arguments = Some(other.to_string()),
        }
        for (name, value) in delta.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "id" | "index" | "type" | "function") && !value.is_null() {
                call.others.insert(name.clone(), value.clone());
            }
        }
    }
}

/// True for a call mark's shape.
pub fn is_mark(id: &str) -> bool {
    id.strip_prefix("call_")
        .is_some_and(|hex| hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase()))
}

/// A file of the recorded traffic, line by line; `None`, said loudly, where this machine hasn't got it.
pub fn recorded(name: &str) -> Option<Vec<Value>> {
    let shared =
        std::env::var_os("TOOLMARK_SHARED").map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")), PathBuf::from);
    let path = shared.join("traffic").join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        // Past the capture of the test harness: a skipped check must be seen.
        let _unseen =
            writeln!(io::stderr(), "\n*** SKIPPED: the recorded traffic {} is not there (set TOOLMARK_SHARED) ***\n", path.display());
        return None;
    };
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Runs `job` for each item on several threads; what it returns, in order.
pub fn on_threads<I: Sync, T: Send>(items: &[I], job: impl Fn(&mut Option<Connection>, &I) -> T + Sync) -> Vec<T> {
    const THREADS: usize = 4;
    let job = &job;
    let part = items.len().div_ceil(THREADS).max(1);
    std::thread::scope(|scope| {
        let run = |items| {
            move || {
                let mut connection = None;
                <[I]>::iter(items).map(|item| job(&mut connection, item)).collect::<Vec<T>>()
            }
        };
        let threads: Vec<_> = items.chunks(part).map(|items| scope.spawn(run(items))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}
