//! Numbers that `json.dump` of Python writes and JSON does not have: `NaN`, `Infinity` and
//! `-Infinity`. They become missing values, as where pandas reads a document.

use std::io::{BufRead, BufReader, Read, Result};

use memchr::memchr2;

const NUMBERS: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];
const MISSING: &[u8] = b"null";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Replaces the numbers in JSON that comes in pieces.
#[derive(Default)]
struct Replacing {
    in_string: bool,
    /// Whether the character before is a backslash that does not stand for itself.
    is_escaped: bool,
    /// The beginning of what may be a number.
    held: Vec<u8>,
}

impl Replacing {
    /// Appends a piece to `standard`, but for an end that may be the beginning of a number.
    fn push(&mut self, mut piece: &[u8], standard: &mut Vec<u8>) {
        while let Some(&first) = piece.first() {
            let taken = match self.in_string {
                true => self.push_in_string(piece, standard),
                false => {
                    self.push_outside(first, standard);
                    1
                }
            };
            piece = &piece[taken..];
        }
    }

    /// Appends the part of a piece that is in the same string; returns its length.
    fn push_in_string(&mut self, piece: &[u8], standard: &mut Vec<u8>) -> usize {
        let end = match self.is_escaped {
            true => Some(0),
            false => memchr2(b'"', b'\\', piece),
        };
        let taken = end.map_or(piece.len(), |end| end + 1);
        standard.extend(&piece[..taken]);
        if let Some(end) = end {
            self.in_string = self.is_escaped || piece[end] != b'"';
            self.is_escaped = !self.is_escaped && piece[end] == b'\\';
        }
        taken
    }

    fn push_outside(&mut self, byte: u8, standard: &mut Vec<u8>) {
        if self.held.is_empty() && !matches!(byte, b'N' | b'I' | b'-') {
            standard.push(byte);
            self.in_string = byte == b'"';
            return;
        }
        self.held.push(byte);
        if NUMBERS.contains(&self.held.as_slice()) {
            standard.extend(MISSING);
            self.held.clear();
        } else if !NUMBERS.iter().any(|number| number.starts_with(&self.held)) {
            self.held.pop();
            standard.append(&mut self.held);
            standard.push(byte);
            self.in_string = byte == b'"';
        }
    }

    /// Appends the end.
    fn finish(&mut self, standard: &mut Vec<u8>) {
        standard.append(&mut self.held);
    }
}

/// The text in standard JSON; `None` where it has none of these numbers.
pub(super) fn replaced(text: &str) -> Option<String> {
    let (mut replacing, mut standard) = (Replacing::default(), Vec::new());
    replacing.push(text.as_bytes(), &mut standard);
    replacing.finish(&mut standard);
    let standard = String::from_utf8(standard).ok()?;
    (standard != text).then_some(standard)
}

/// A document in standard JSON, without its byte order mark.
pub(super) struct StandardJson<R> {
    inner: BufReader<R>,
    replacing: Replacing,
    ready: Vec<u8>,
    /// The bytes of `ready` that were read.
    taken: usize,
    has_begun: bool,
}

impl<R: Read> StandardJson<R> {
    pub(super) fn new(inner: R) -> Self {
        let inner = BufReader::with_capacity(1 << 16, inner);
        let (replacing, ready) = (Replacing::default(), Vec::new());
        Self { inner, replacing, ready, taken: 0, has_begun: false }
    }

    /// Makes the next bytes ready; none are at the end.
    fn advance(&mut self) -> Result<()> {
        self.ready.clear();
        self.taken = 0;
        while self.ready.is_empty() {
            let piece = self.inner.fill_buf()?;
            let read = piece.len();
            let mark = if self.has_begun { None } else { piece.strip_prefix(BYTE_ORDER_MARK) };
            self.has_begun = true;
            self.replacing.push(mark.unwrap_or(piece), &mut self.ready);
            self.inner.consume(read);
            if read == 0 {
                self.replacing.finish(&mut self.ready);
                break;
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for StandardJson<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.taken == self.ready.len() {
            self.advance()?;
        }
        let read = (&self.ready[self.taken..]).read(buffer)?;
        self.taken += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"a": NaN, "b\\": [-Infinity,-5, -1e-3],"NaN \" -Infinity": Infinity}"#;
    const STANDARD: &str = r#"{"a": null, "b\\": [null,-5, -1e-3],"NaN \" -Infinity": null}"#;

    #[test]
    fn numbers_outside_texts_are_replaced() {
        assert_eq!(replaced(TEXT).as_deref(), Some(STANDARD));
        assert_eq!(replaced(STANDARD), None);
        assert_eq!(replaced("Na"), None);
    }

    #[test]
    fn pieces_may_end_within_a_number() {
        for size in 1..TEXT.len() {
            let (mut replacing, mut found) = (Replacing::default(), Vec::new());
            TEXT.as_bytes().chunks(size).for_each(|piece| replacing.push(piece, &mut found));
            replacing.finish(&mut found);
            assert_eq!(String::from_utf8(found).unwrap(), STANDARD);
        }
        let mut read = String::new();
        let document = [BYTE_ORDER_MARK, TEXT.as_bytes()].concat();
        StandardJson::new(document.as_slice()).read_to_string(&mut read).unwrap();
        assert_eq!(read, STANDARD);
    }
}
