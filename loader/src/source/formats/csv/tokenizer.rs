//! Bytes to fields and records, by the states of pandas' C parser (`pandas/_libs/src/parser`).

use std::io::{BufRead, ErrorKind};

use super::options::CsvOptions;
use crate::source::formats::ROW_BYTES_MAX;

/// A record: its fields, one behind the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    bytes: Vec<u8>,
    /// Where each field ends.
    ends: Vec<usize>,
    /// The byte of the file at which it begins.
    pub(super) mark: u64,
}

impl Record {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field; empty beyond the last one.
    pub(super) fn field(&self, index: usize) -> &[u8] {
        let Some(&end) = self.ends.get(index) else { return &[] };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..end]
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn end_field(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

/// Why a file ends in the middle of a record, or a record has no end.
#[derive(Debug)]
pub(super) enum TokenError {
    Io(std::io::Error),
    /// The file ends inside quotes.
    UnclosedQuote,
    /// The file ends with the escape character.
    EscapeAtEnd,
    TooLong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    StartRecord,
    StartField,
    InField,
    Escaped,
    InQuotes,
    EscapedInQuotes,
    /// Behind a quote that ends the quoted part, or is the first of two.
    QuoteInQuotes,
    /// Behind a carriage return that ends a record.
    AfterReturn,
    /// Behind a carriage return that ends a line that is no record.
    AfterSkippedReturn,
    InComment,
    InCommentLine,
    /// In a line of which only white space is known.
    InBlankLine,
    StartOfSkippedField,
    InSkippedLine,
    InQuotesOfSkippedLine,
    QuoteInQuotesOfSkippedLine,
}

/// The effect of a byte.
enum Step {
    Consumed,
    /// The record is complete.
    Ended,
    /// The record is complete, and the byte belongs to the next one.
    EndedBefore,
    /// The byte is looked at again in another state.
    Again,
}

/// Reads records.
pub(super) struct Tokenizer<'options> {
    options: &'options CsvOptions,
    delimiter: u8,
    state: State,
    /// Bytes of the file that were read.
    offset: u64,
    /// Lines of the file that have ended.
    lines: u64,
    /// White space at the start of a line, which is text if more follows.
    blanks: Vec<u8>,
}

impl<'options> Tokenizer<'options> {
    pub(super) fn new(options: &'options CsvOptions, delimiter: u8) -> Self {
        let (offset, lines, blanks) = (0, 0, Vec::new());
        Self { options, delimiter, state: State::StartRecord, offset, lines, blanks }
    }

    /// Counts bytes that were read before the first record.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.offset += bytes;
    }

    /// Reads the next record. Returns false at the end of the file.
    pub(super) fn next(
        &mut self,
        input: &mut dyn BufRead,
        record: &mut Record,
    ) -> Result<bool, TokenError> {
        record.clear();
        record.mark = self.offset;
        loop {
            let buffer = match input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(TokenError::Io(error)),
            };
            if buffer.is_empty() {
                return self.end(record);
            }
            let (consumed, ended) = self.take(buffer, record);
            input.consume(consumed);
            if ended {
                return Ok(true);
            }
            if self.offset - record.mark > ROW_BYTES_MAX {
                return Err(TokenError::TooLong);
            }
        }
    }

    /// Takes bytes up to the end of the record. Returns their number, and whether it ended.
    fn take(&mut self, buffer: &[u8], record: &mut Record) -> (usize, bool) {
        let mut at = 0;
        while at < buffer.len() {
            let plain = self.plain(&buffer[at..]);
            if plain > 0 {
                record.bytes.extend_from_slice(&buffer[at..at + plain]);
                at += plain;
                self.offset += plain as u64;
                continue;
            }
            match self.step(buffer[at], record) {
                Step::Consumed => {
                    at += 1;
                    self.offset += 1;
                }
                Step::Ended => {
                    self.offset += 1;
                    return (at + 1, true);
                }
                Step::EndedBefore => return (at, true),
                Step::Again => {}
            }
        }
        (at, false)
    }

    /// The number of bytes at the start that are text of the present field.
    fn plain(&self, bytes: &[u8]) -> usize {
        let is_plain = |byte: &u8| match self.state {
            State::InField => {
                !matches!(*byte, b'\n' | b'\r')
                    && *byte != self.delimiter
                    && Some(*byte) != self.options.escapechar
                    && Some(*byte) != self.options.comment
            }
            State::InQuotes => {
                Some(*byte) != self.options.quotechar && Some(*byte) != self.options.escapechar
            }
            _ => false,
        };
        bytes.iter().position(|byte| !is_plain(byte)).unwrap_or(bytes.len())
    }

    fn step(&mut self, byte: u8, record: &mut Record) -> Step {
        match self.state {
            State::StartRecord => self.start_record(byte, record),
            State::StartField => self.start_field(byte, record),
            State::InField => self.in_field(byte, record),
            State::Escaped => self.push(byte, State::InField, record),
            State::InQuotes => self.in_quotes(byte, record),
            State::EscapedInQuotes => self.push(byte, State::InQuotes, record),
            State::QuoteInQuotes => self.quote_in_quotes(byte, record),
            State::AfterReturn => self.after_return(byte, record),
            State::AfterSkippedReturn => {
                self.state = State::StartRecord;
                // pandas takes a delimiter there for a part of the line end.
                if byte == b'\n' || byte == self.delimiter { Step::Consumed } else { Step::Again }
            }
            State::InComment => match byte {
                b'\n' => self.end_line(),
                b'\r' => self.go(State::AfterReturn),
                _ => Step::Consumed,
            },
            State::InCommentLine => self.in_skipped(byte, State::InCommentLine),
            State::InBlankLine => self.in_blank_line(byte, record),
            State::StartOfSkippedField if self.is_quote(byte) => {
                self.go(State::InQuotesOfSkippedLine)
            }
            State::StartOfSkippedField | State::InSkippedLine => self.in_skipped_field(byte),
            State::InQuotesOfSkippedLine => match self.is_quote(byte) {
                true if self.options.doublequote => self.go(State::QuoteInQuotesOfSkippedLine),
                true => self.go(State::InSkippedLine),
                false => Step::Consumed,
            },
            State::QuoteInQuotesOfSkippedLine => match self.is_quote(byte) {
                true => self.go(State::InQuotesOfSkippedLine),
                false => self.in_skipped_field(byte),
            },
        }
    }

    fn start_record(&mut self, byte: u8, record: &mut Record) -> Step {
        record.mark = self.offset;
        if self.lines < self.options.skiprows {
            return match byte {
                b'\n' => self.in_skipped(byte, State::StartRecord),
                byte if self.is_quote(byte) => self.go(State::InQuotesOfSkippedLine),
                // Whatever it is: pandas looks for line ends and delimiters behind it.
                _ => self.go(State::InSkippedLine),
            };
        }
        match byte {
            b'\n' | b'\r' => self.in_skipped(byte, State::StartRecord),
            byte if Some(byte) == self.options.comment => self.go(State::InCommentLine),
            b' ' | b'\t' if byte != self.delimiter => {
                self.blanks.push(byte);
                self.go(State::InBlankLine)
            }
            _ => {
                self.state = State::StartField;
                Step::Again
            }
        }
    }

    fn start_field(&mut self, byte: u8, record: &mut Record) -> Step {
        match byte {
            b'\n' | b'\r' => self.in_field(byte, record),
            byte if self.is_quote(byte) => self.go(State::InQuotes),
            byte if Some(byte) == self.options.escapechar => self.go(State::Escaped),
            byte if byte == self.delimiter || Some(byte) == self.options.comment => {
                self.in_field(byte, record)
            }
            byte => self.push(byte, State::InField, record),
        }
    }

    fn in_field(&mut self, byte: u8, record: &mut Record) -> Step {
        match byte {
            b'\n' => {
                record.end_field();
                self.end_line()
            }
            b'\r' => {
                record.end_field();
                self.go(State::AfterReturn)
            }
            byte if Some(byte) == self.options.escapechar => self.go(State::Escaped),
            byte if byte == self.delimiter => {
                record.end_field();
                self.go(State::StartField)
            }
            byte if Some(byte) == self.options.comment => {
                record.end_field();
                self.go(State::InComment)
            }
            byte => self.push(byte, State::InField, record),
        }
    }

    fn in_quotes(&mut self, byte: u8, record: &mut Record) -> Step {
        match byte {
            byte if Some(byte) == self.options.escapechar => self.go(State::EscapedInQuotes),
            byte if self.is_quote(byte) => self.go(match self.options.doublequote {
                true => State::QuoteInQuotes,
                false => State::InField,
            }),
            byte => self.push(byte, State::InQuotes, record),
        }
    }

    fn quote_in_quotes(&mut self, byte: u8, record: &mut Record) -> Step {
        match byte {
            byte if self.is_quote(byte) => self.push(byte, State::InQuotes, record),
            b'\n' | b'\r' => self.in_field(byte, record),
            byte if byte == self.delimiter => self.in_field(byte, record),
            byte => self.push(byte, State::InField, record),
        }
    }

    /// A line that ends with a carriage return alone ends before the next byte.
    fn after_return(&mut self, byte: u8, _: &mut Record) -> Step {
        self.lines += 1;
        self.state = State::StartRecord;
        if byte == b'\n' { Step::Ended } else { Step::EndedBefore }
    }

    fn in_blank_line(&mut self, byte: u8, record: &mut Record) -> Step {
        match byte {
            b'\n' | b'\r' => {
                self.blanks.clear();
                self.in_skipped(byte, State::InBlankLine)
            }
            b' ' | b'\t' if byte != self.delimiter => {
                self.blanks.push(byte);
                Step::Consumed
            }
            _ => {
                record.bytes.append(&mut self.blanks);
                self.state = State::InField;
                Step::Again
            }
        }
    }

    fn in_skipped_field(&mut self, byte: u8) -> Step {
        let starts_field = byte == self.delimiter;
        let state = if starts_field { State::StartOfSkippedField } else { State::InSkippedLine };
        self.in_skipped(byte, state)
    }

    /// A byte of a line that is no record.
    fn in_skipped(&mut self, byte: u8, state: State) -> Step {
        match byte {
            b'\n' => {
                self.lines += 1;
                self.go(State::StartRecord)
            }
            b'\r' => {
                self.lines += 1;
                self.go(State::AfterSkippedReturn)
            }
            _ => self.go(state),
        }
    }

    fn end_line(&mut self) -> Step {
        self.lines += 1;
        self.state = State::StartRecord;
        Step::Ended
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::Consumed
    }

    fn push(&mut self, byte: u8, state: State, record: &mut Record) -> Step {
        record.bytes.push(byte);
        self.go(state)
    }

    fn is_quote(&self, byte: u8) -> bool {
        Some(byte) == self.options.quotechar
    }

    /// The end of the file.
    fn end(&mut self, record: &mut Record) -> Result<bool, TokenError> {
        match std::mem::replace(&mut self.state, State::StartRecord) {
            State::InQuotes | State::EscapedInQuotes => Err(TokenError::UnclosedQuote),
            State::Escaped => Err(TokenError::EscapeAtEnd),
            State::InField | State::StartField | State::QuoteInQuotes => {
                record.end_field();
                Ok(true)
            }
            State::AfterReturn | State::InComment => Ok(true),
            _ => Ok(false),
        }
    }
}
