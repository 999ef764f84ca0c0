//! A limit on the bytes of a reader that are in memory at a time.

use std::cell::Cell;
use std::io::{Error, Read, Result};
use std::rc::Rc;

/// A cloneable handle: the reader has one, and the parser has one to start a new count.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    used: Rc<Cell<u64>>,
    limit: u64,
}

/// A reader that fails once more than the limit is read without a new count.
pub(super) struct Metered<R> {
    inner: R,
    meter: Meter,
}

impl Meter {
    pub(super) fn new(limit: u64) -> Self {
        Self { used: Rc::default(), limit }
    }

    /// Starts a new count: the bytes read so far are no longer in memory.
    pub(super) fn begin(&self) {
        self.used.set(0);
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.used.get() > self.limit
    }

    pub(super) fn of<R: Read>(&self, inner: R) -> Metered<R> {
        Metered { inner, meter: self.clone() }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.meter.is_exceeded() {
            return Err(Error::other("longer than one row may be"));
        }
        let read = self.inner.read(buffer)?;
        self.meter.used.set(self.meter.used.get() + read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_limit_is_an_error_until_it_begins_anew() {
        let meter = Meter::new(4);
        let mut reader = meter.of(&b"0123456789"[..]);
        let mut buffer = [0; 4];
        assert_eq!(reader.read(&mut buffer).unwrap(), 4);
        assert_eq!(reader.read(&mut buffer[..1]).unwrap(), 1);
        assert!(meter.is_exceeded() && reader.read(&mut buffer).is_err());
        meter.begin();
        assert_eq!(reader.read(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"5678");
    }
}
