//! The content of a request: a range of a file, read as it is sent.

use std::fs::File;
use std::io::{Error, Read, Result};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A range of a file. Reading it fails once the upload is abandoned, which ends the request.
pub(super) struct Range {
    pub file: File,
    pub at: u64,
    pub left: u64,
    pub abandoned: Arc<AtomicBool>,
}

impl Read for Range {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(Error::other("the upload was abandoned"));
        }
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..wanted], self.at)?;
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}
