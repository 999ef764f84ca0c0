//! Reads from the pipes of vendors' programs, which may stop writing without exiting.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A pipe whose reads fail after `timeout` without data.
pub(crate) struct TimeoutReader<R> {
    pipe: R,
    timeout: Duration,
}

impl<R> TimeoutReader<R> {
    pub(crate) fn new(pipe: R, timeout: Duration) -> TimeoutReader<R> {
        TimeoutReader { pipe, timeout }
    }
}

impl<R: Read + AsFd> Read for TimeoutReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let timeout = Timespec::try_from(self.timeout).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(&self.pipe, PollFlags::IN)];
        // An interrupted poll returns an error of that kind, and the caller reads again.
        if poll(&mut ready, Some(&timeout))? == 0 {
            let message = format!("no output for {} s", self.timeout.as_secs_f64());
            return Err(io::Error::new(ErrorKind::TimedOut, message));
        }
        self.pipe.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_silent_pipe_times_out() {
        let (pipe, mut writer) = io::pipe().unwrap();
        let mut reader = TimeoutReader::new(pipe, Duration::from_millis(20));
        writer.write_all(b"half a li").unwrap();
        let mut bytes = Vec::new();
        let error = reader.read_to_end(&mut bytes).unwrap_err();
        assert_eq!((bytes.as_slice(), error.kind()), (&b"half a li"[..], ErrorKind::TimedOut));
        drop(writer);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
