//! HTTP/2 by hand: a client that costs next to nothing, so that what is measured on one machine
//! with the daemon is the daemon. It makes one call after another, each as a new stream.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;

use crate::support::host::PATIENCE;

/// The preface and an empty SETTINGS frame.
pub(crate) const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A PING frame.
pub(crate) const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0abcdefgh";
const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PINGED: u8 = 6;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Number of calls between two polls for answers.
const CHUNK: usize = 64;
const EVENTS_MAX: usize = 1024;

/// One connection and its newest call.
struct Caller {
    stream: UnixStream,
    next_stream_id: u32,
    received: Vec<u8>,
    /// A message was received, so the call was served.
    message: bool,
    /// The newest call has no answer yet.
    waits: bool,
    start: Instant,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub served: bool,
    pub took: Duration,
}

impl Caller {
    fn connect(socket: &Path) -> Caller {
        let start = Instant::now();
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(HELLO).unwrap();
        stream.set_nonblocking(true).unwrap();
        let received = Vec::new();
        Caller { stream, next_stream_id: 1, received, message: false, waits: false, start }
    }

    /// Calls ListJobs with an empty message, and starts to measure the time.
    fn call(&mut self) {
        let block = request_headers();
        let mut request = frame(HEADERS, END_HEADERS, self.next_stream_id, &block);
        request.extend(frame(DATA, END_STREAM, self.next_stream_id, &[0; 5]));
        self.next_stream_id += 2;
        (self.message, self.waits) = (false, true);
        self.stream.write_all(&request).unwrap();
    }

    /// Reads what has arrived. Returns the answer once it is complete.
    fn take(&mut self) -> Option<Answer> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the daemon closed a connection"),
                Ok(bytes) => self.received.extend(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let mut ended = false;
        while let Some((kind, flags, id, length)) = self.head() {
            let payload: Vec<u8> = self.received.drain(..length).skip(HEAD_BYTES).collect();
            if kind == PINGED && flags & ACK == 0 {
                self.stream.write_all(&frame(PINGED, ACK, 0, &payload)).unwrap();
            }
            let own = id == self.next_stream_id - 2;
            self.message |= own && kind == DATA;
            ended |= own && flags & END_STREAM != 0 && matches!(kind, DATA | HEADERS);
        }
        self.waits &= !ended;
        ended.then(|| Answer { served: self.message, took: self.start.elapsed() })
    }

    /// Kind, flags, stream and length of the first complete frame.
    fn head(&self) -> Option<(u8, u8, u32, usize)> {
        let head: &[u8; HEAD_BYTES] = self.received.first_chunk()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize + HEAD_BYTES;
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        (self.received.len() >= length).then_some((head[3], head[4], id, length))
    }
}

/// Callers, with an epoll instance for their answers.
pub(super) struct Crowd {
    callers: Vec<Caller>,
    epoll: OwnedFd,
    answers: Vec<Answer>,
}

impl Crowd {
    pub(super) fn new() -> Crowd {
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        Crowd { callers: Vec::new(), epoll, answers: Vec::new() }
    }

    /// Connects `count` callers and makes a call on each, all at once. Times include connecting.
    pub(super) fn enter(&mut self, socket: &Path, count: usize) -> Vec<Answer> {
        for index in 0..count {
            let mut caller = Caller::connect(socket);
            let data = EventData::new_u64(self.callers.len() as u64);
            epoll::add(&self.epoll, &caller.stream, data, EventFlags::IN).unwrap();
            caller.call();
            self.callers.push(caller);
            if index % CHUNK == 0 {
                self.collect(Duration::ZERO);
            }
        }
        self.finish(count)
    }

    /// Makes a call on every connection at once.
    pub(super) fn call(&mut self) -> Vec<Answer> {
        let count = self.callers.len();
        for index in 0..count {
            self.callers[index].start = Instant::now();
            self.callers[index].call();
            if index % CHUNK == 0 {
                self.collect(Duration::ZERO);
            }
        }
        self.finish(count)
    }

    /// Makes calls on one connection after another, `period` apart.
    pub(super) fn call_in_turn(&mut self, count: usize, period: Duration) -> Vec<Answer> {
        let (start, mut next) = (Instant::now(), 0);
        for number in 0..count {
            let due = start + period * number as u32;
            while Instant::now() < due {
                self.collect(due.saturating_duration_since(Instant::now()));
            }
            // Skips connections that wait for an answer.
            while self.callers[next % self.callers.len()].waits {
                self.collect(Duration::ZERO);
                next += 1;
            }
            let index = next % self.callers.len();
            next += 1;
            self.callers[index].start = Instant::now();
            self.callers[index].call();
        }
        self.finish(count)
    }

    fn finish(&mut self, count: usize) -> Vec<Answer> {
        let start = Instant::now();
        while self.answers.len() < count {
            self.collect(Duration::from_secs(1));
            assert!(start.elapsed() < PATIENCE, "{} of {count} answers", self.answers.len());
        }
        std::mem::take(&mut self.answers)
    }

    fn collect(&mut self, patience: Duration) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let patience = patience.try_into().unwrap();
        epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&patience)).unwrap();
        for event in &events {
            let data = event.data;
            self.answers.extend(self.callers[data.u64() as usize].take());
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    let mut frame = length.to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// `POST http`, then literals without indexing, with names from HPACK's static table or spelled out.
fn request_headers() -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    literal(&mut block, &[0x01], "traind");
    literal(&mut block, &[0x04], "/traind.v1.Jobs/ListJobs");
    literal(&mut block, &[0x0f, 0x10], "application/grpc");
    block.push(0);
    block.extend([2, b't', b'e']);
    block.push(8);
    block.extend(b"trailers");
    block
}

fn literal(block: &mut Vec<u8>, name: &[u8], value: &str) {
    block.extend(name);
    block.push(value.len() as u8);
    block.extend(value.as_bytes());
}
