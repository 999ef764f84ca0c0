//! An HTTP server for tests. A function of the request gives the response, and responses with
//! content can be made to break off or to stall.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Still percent-encoded.
    pub query: String,
    /// The headers by their names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the response is subject to injected faults.
    pub is_content: bool,
}

/// Faults to inject into responses with content.
#[derive(Debug, Default)]
struct Faults {
    /// The number of responses still to be cut off.
    cuts: Mutex<usize>,
    stalls: Mutex<bool>,
    /// The condition that is signalled when `stalls` changes.
    changed: Condvar,
}

impl Faults {
    /// The number of bytes of the body to send.
    fn length_sent(&self, response: &Response) -> usize {
        let half = response.body.len() / 2;
        match response.is_content {
            // A request for the second half gets nothing.
            true if self.stalls() && response.status == 206 => 0,
            true if self.stalls() || self.takes_cut() => half,
            _ => response.body.len(),
        }
    }

    fn takes_cut(&self) -> bool {
        let mut cuts = self.cuts.lock().unwrap();
        let is_cut = *cuts > 0;
        *cuts -= usize::from(is_cut);
        is_cut
    }

    fn stalls(&self) -> bool {
        *self.stalls.lock().unwrap()
    }

    fn set_stalls(&self, stalls: bool) {
        *self.stalls.lock().unwrap() = stalls;
        self.changed.notify_all();
    }

    fn wait_out_stall(&self) {
        let stalls = self.stalls.lock().unwrap();
        drop(self.changed.wait_while(stalls, |stalls| *stalls).unwrap());
    }
}

/// Serves on a port of its own until the test's process ends.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    faults: Arc<Faults>,
}

impl Server {
    pub fn start(respond: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server { address, requests: Arc::default(), faults: Arc::default() };
        let (requests, faults) = (Arc::clone(&server.requests), Arc::clone(&server.faults));
        let respond = Arc::new(respond);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (requests, faults) = (Arc::clone(&requests), Arc::clone(&faults));
                let respond = Arc::clone(&respond);
                std::thread::spawn(move || {
                    // Clients may disconnect at any time.
                    let _ = serve(connection, &requests, &faults, respond.as_ref());
                });
            }
        });
        server
    }

    /// Cuts off the next `count` responses with content in the middle.
    pub fn cut(&self, count: usize) {
        *self.faults.cuts.lock().unwrap() = count;
    }

    /// Sets whether responses with content stop in the middle while their connections stay open.
    pub fn stall(&self, stalls: bool) {
        self.faults.set_stalls(stalls);
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The number of requests so far with this method and a path that ends with `suffix`.
    pub fn count(&self, method: &str, suffix: &str) -> usize {
        let requests = self.requests();
        let matches = requests
            .iter()
            .filter(|request| request.method == method && request.path.ends_with(suffix));
        matches.count()
    }
}

fn serve(
    connection: TcpStream,
    requests: &Mutex<Vec<Request>>,
    faults: &Faults,
    respond: &dyn Fn(&Request) -> Response,
) -> std::io::Result<()> {
    let Some(request) = read_request(&connection)? else { return Ok(()) };
    requests.lock().unwrap().push(request.clone());
    send(connection, &request, &respond(&request), faults)
}

/// `None` for a connection without a request.
fn read_request(connection: &TcpStream) -> std::io::Result<Option<Request>> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut lines = reader.by_ref().lines();
    let Some(first) = lines.next().transpose()? else { return Ok(None) };
    let mut parts = first.split(' ');
    let method = parts.next().unwrap_or_default().to_owned();
    let target = parts.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let body = read_body(&mut reader, &headers)?;
    Ok(Some(Request { method, path: path.to_owned(), query: query.to_owned(), headers, body }))
}

/// Reads a body of a declared length, or in chunks.
fn read_body(
    reader: &mut impl BufRead,
    headers: &BTreeMap<String, String>,
) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_none_or(|encoding| encoding != "chunked") {
        let length = headers.get("content-length").and_then(|length| length.parse().ok());
        body.resize(length.unwrap_or_default(), 0);
        reader.read_exact(&mut body)?;
        return Ok(body);
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
        let start = body.len();
        // Each chunk ends with a line break.
        body.resize(start + length + 2, 0);
        reader.read_exact(&mut body[start..])?;
        body.truncate(start + length);
        if length == 0 {
            return Ok(body);
        }
    }
}

/// Decodes the percent-encoding of a path or of a part of a query.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let escaped = escaped.filter(|_| *first == b'%');
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap()
}

fn send(
    mut connection: TcpStream,
    request: &Request,
    response: &Response,
    faults: &Faults,
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} status\r\nconnection: close\r\n", response.status);
    for (name, value) in &response.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", response.body.len());
    connection.write_all(head.as_bytes())?;
    if request.method != "HEAD" {
        let is_stalled = response.is_content && faults.stalls();
        connection.write_all(&response.body[..faults.length_sent(response)])?;
        connection.flush()?;
        if is_stalled {
            faults.wait_out_stall();
        }
    }
    Ok(())
}

impl Request {
    /// The decoded value of a parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let value = |part: &str| match part.split_once('=') {
            Some((found, value)) => (found == name).then(|| decoded(value)),
            None => (part == name).then(String::new),
        };
        self.query.split('&').find_map(value)
    }
}

impl Response {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Response {
        Response { status, body: body.into(), ..Response::default() }
    }

    /// A response that is subject to injected faults.
    pub fn content(body: Vec<u8>) -> Response {
        Response { is_content: true, ..Response::new(200, body) }
    }

    pub fn with(mut self, name: &str, value: &str) -> Response {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether the request succeeded.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The part of the body that the request's `Range` header selects, or all of it without one.
    pub fn ranged(mut self, request: &Request) -> Response {
        let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
        let Some((start, end)) = range.and_then(|range| range.split_once('-')) else { return self };
        let (start, last) = (start.parse().unwrap_or(0), self.body.len() - 1);
        let end = end.parse().unwrap_or(last).min(last);
        let content_range = format!("bytes {start}-{end}/{}", self.body.len());
        self.body = self.body[start..=end].to_vec();
        Response { status: 206, ..self }.with("content-range", &content_range)
    }
}
