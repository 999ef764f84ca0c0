//! An HTTP server for tests: what it answers is a function of the request, and it may break off
//! in the middle of an answer.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// As it is in the request line.
    pub query: String,
    /// By lower-case names.
    pub headers: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether it is content, which may be broken off.
    pub is_content: bool,
}

/// What goes wrong with answers that are content.
#[derive(Debug, Default)]
struct Trouble {
    /// How many are still to be broken off.
    cuts: AtomicUsize,
    stalls: AtomicBool,
}

impl Trouble {
    /// How much of the body is sent.
    fn end_of(&self, answer: &Answer) -> usize {
        let (all, half) = (answer.body.len(), answer.body.len() / 2);
        let less = |left: usize| left.checked_sub(1);
        let is_cut = || self.cuts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        match answer.is_content {
            // One that goes on from the middle ends where it begins.
            true if self.stalls() && answer.status == 206 => 0,
            true if self.stalls() || is_cut() => half,
            _ => all,
        }
    }

    fn stalls(&self) -> bool {
        self.stalls.load(Ordering::SeqCst)
    }
}

/// Serves until the test ends.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    trouble: Arc<Trouble>,
}

impl Server {
    pub fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let trouble = Arc::new(Trouble::default());
        let server = Server { address, requests, trouble };
        let (log, troubles) = (Arc::clone(&server.requests), Arc::clone(&server.trouble));
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (log, trouble) = (Arc::clone(&log), Arc::clone(&troubles));
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || {
                    // A client that goes away is not the server's trouble.
                    let _ = serve(connection, &log, &trouble, answer.as_ref());
                });
            }
        });
        server
    }

    /// Breaks off the next `count` answers that are content, in the middle.
    pub fn cut(&self, count: usize) {
        self.trouble.cuts.store(count, Ordering::SeqCst);
    }

    /// Whether answers that are content come to nothing in the middle, and their connections stay
    /// open, from now on.
    pub fn stall(&self, stalls: bool) {
        self.trouble.stalls.store(stalls, Ordering::SeqCst);
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// How many requests of a method there were so far for paths with this end.
    pub fn count(&self, method: &str, end: &str) -> usize {
        let asked = |request: &&Request| request.method == method && request.path.ends_with(end);
        self.requests().iter().filter(asked).count()
    }
}

fn serve(
    connection: TcpStream,
    log: &Mutex<Vec<Request>>,
    trouble: &Trouble,
    answer: &dyn Fn(&Request) -> Answer,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    let Some(first) = lines.next() else { return Ok(()) };
    let first = first?;
    let mut parts = first.split(' ');
    let method = parts.next().unwrap_or_default().to_owned();
    let target = parts.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request =
        Request { method, path: path.into(), query: query.into(), ..Default::default() };
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(':') else { break };
        request.headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    log.lock().unwrap().push(request.clone());
    send(connection, &request, &answer(&request), trouble)
}

fn send(
    mut connection: TcpStream,
    request: &Request,
    answer: &Answer,
    trouble: &Trouble,
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} answer\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", answer.body.len());
    connection.write_all(head.as_bytes())?;
    if request.method != "HEAD" {
        let is_stalled = answer.is_content && trouble.stalls();
        connection.write_all(&answer.body[..trouble.end_of(answer)])?;
        connection.flush()?;
        while is_stalled && trouble.stalls() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

impl Answer {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status, body: body.into(), ..Answer::default() }
    }

    /// Content, which may be broken off.
    pub fn content(body: Vec<u8>) -> Answer {
        Answer { is_content: true, ..Answer::new(200, body) }
    }

    pub fn with(mut self, name: &str, value: &str) -> Answer {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What the request's `Range` asks of the body; all of it without one.
    pub fn ranged(mut self, request: &Request) -> Answer {
        let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
        let Some((start, end)) = range.and_then(|range| range.split_once('-')) else { return self };
        let (start, last) = (start.parse().unwrap_or(0), self.body.len() - 1);
        let end = end.parse().unwrap_or(last).min(last);
        let content_range = format!("bytes {start}-{end}/{}", self.body.len());
        self.body = self.body[start..=end].to_vec();
        Answer { status: 206, ..self }.with("content-range", &content_range)
    }
}
