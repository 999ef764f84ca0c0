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
    /// Bytes of the body after which the connection is closed.
    pub cut_at: Option<usize>,
    /// Holds the connection open before it is closed, and says nothing.
    pub stalled: Option<Stall>,
}

/// A server that says no more in the middle of an answer, as long as it is set. Clones stall
/// together.
#[derive(Clone, Debug, Default)]
pub struct Stall(Arc<AtomicBool>);

impl Stall {
    pub fn set(&self, stalls: bool) {
        self.0.store(stalls, Ordering::SeqCst);
    }

    /// Ends the answer in the middle if it is to stall now; one that goes on from the middle ends
    /// where it begins.
    pub fn apply(&self, answer: &mut Answer) {
        if self.0.load(Ordering::SeqCst) {
            let goes_on = answer.status == 206;
            answer.cut_at = Some(if goes_on { 0 } else { answer.body.len() / 2 });
            answer.stalled = Some(self.clone());
        }
    }

    fn wait(&self) {
        while self.0.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// How many answers are still to be broken off. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Cuts(Arc<AtomicUsize>);

impl Cuts {
    pub fn set(&self, count: usize) {
        self.0.store(count, Ordering::SeqCst);
    }

    /// Breaks the answer off in the middle if it is one of them.
    pub fn apply(&self, answer: &mut Answer) {
        let less = |left: usize| left.checked_sub(1);
        let cut = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        answer.cut_at = cut.then_some(answer.body.len() / 2);
    }
}

/// Serves until the test ends.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                // A client that goes away is not the server's trouble.
                std::thread::spawn(move || serve(connection, &log, answer.as_ref()).ok());
            }
        });
        Server { address, requests }
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
    send(connection, &request, &answer(&request))
}

fn send(mut connection: TcpStream, request: &Request, answer: &Answer) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} answer\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", answer.body.len());
    connection.write_all(head.as_bytes())?;
    if request.method != "HEAD" {
        let end = answer.cut_at.unwrap_or(answer.body.len()).min(answer.body.len());
        connection.write_all(&answer.body[..end])?;
    }
    connection.flush()?;
    answer.stalled.iter().for_each(Stall::wait);
    Ok(())
}

impl Answer {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status, body: body.into(), ..Answer::default() }
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
