//! Messages between two processes, which no program waits for: the bytes that stages of a pipeline on different hosts
//! hand on.

use std::ffi::c_int;
use std::fmt;

use crate::error::Result;

/// The other process of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The number of the process among those of the job.
    pub rank: usize,
    /// Tells the messages between two processes apart, up to [`Peer::TAG_MAX`]. Those with the same tag arrive in the
    /// order in which they were sent.
    pub tag: u32,
}

/// A message that is sent or expected.
pub(crate) struct Message {
    pub direction: Direction,
    pub peer: Peer,
    pub bytes: Vec<u8>,
    pub then: Then,
}

/// Takes the bytes of a message once MPI needs them no more.
pub(crate) type Then = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Sent,
    Received,
}

impl Peer {
    /// The largest tag that every MPI library accepts.
    pub const TAG_MAX: u32 = 32_767;

    /// The process and the tag as MPI takes them.
    pub(crate) fn numbers(self) -> [c_int; 2] {
        [self.rank as c_int, self.tag as c_int]
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Message { direction, peer, bytes, .. } = self;
        write!(f, "{direction:?} {} bytes, {peer:?}", bytes.len())
    }
}
