//! Reading what a vendor's program prints: it may fall silent, and must hold up nobody then.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A pipe that counts as broken when nothing comes out of it for so long.
pub(super) struct Patient<R> {
    pipe: R,
    patience: Duration,
}

impl<R> Patient<R> {
    pub(super) fn new(pipe: R, patience: Duration) -> Patient<R> {
        Patient { pipe, patience }
    }
}

impl<R: Read + AsFd> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let patience = Timespec::try_from(self.patience).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(&self.pipe, PollFlags::IN)];
        // Interrupted, it says so, and whoever reads tries again.
        if poll(&mut ready, Some(&patience))? == 0 {
            let silence = format!("it said nothing for {} s", self.patience.as_secs_f64());
            return Err(io::Error::new(ErrorKind::TimedOut, silence));
        }
        self.pipe.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn who_falls_silent_is_not_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut patient = Patient::new(reader, Duration::from_millis(20));
        writer.write_all(b"half a li").unwrap();
        let mut said = Vec::new();
        let error = patient.read_to_end(&mut said).unwrap_err();
        assert_eq!((said.as_slice(), error.kind()), (&b"half a li"[..], ErrorKind::TimedOut));
        drop(writer);
        assert_eq!(patient.read(&mut [0]).unwrap(), 0);
    }
}
