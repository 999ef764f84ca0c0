//! Text in other encodings than UTF-8 (`data.encoding`), decoded as it is read.

use std::io::{Error, ErrorKind, Read, Result};

use encoding_rs::{Decoder, DecoderResult};
use serde::{Serialize, Serializer};

/// Bytes read at a time.
const CHUNK: usize = 1 << 16;

/// The encoding of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Each byte is the character of its number: browsers take this name for another one.
    Latin1,
    Other(&'static encoding_rs::Encoding),
}

impl Encoding {
    /// The encoding of this name, as Python or the Encoding Standard spells it.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_lowercase().replace('_', "-");
        let label = match name.as_str() {
            "latin-1" | "latin1" | "iso-8859-1" | "l1" => return Some(Self { kind: Kind::Latin1 }),
            "utf-16-le" => "utf-16le",
            "utf-16-be" => "utf-16be",
            "utf-8-sig" => "utf-8",
            name => name,
        };
        let found = encoding_rs::Encoding::for_label(label.as_bytes())?;
        Some(Self { kind: Kind::Other(found) })
    }

    fn name(self) -> &'static str {
        match self.kind {
            Kind::Latin1 => "latin-1",
            Kind::Other(encoding) => encoding.name(),
        }
    }

    /// The text of `inner` in UTF-8.
    pub(super) fn decode(self, inner: Box<dyn Read>) -> Box<dyn Read> {
        let decoder = match self.kind {
            Kind::Latin1 => None,
            Kind::Other(encoding) => Some(encoding.new_decoder()),
        };
        let (name, text) = (self.name(), Vec::new());
        Box::new(Decoded { inner, decoder, name, text, given: 0, ended: false })
    }
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The encoding that bytes which are not UTF-8 are likely to have.
pub(super) fn looks_like(bytes: &[u8]) -> &'static str {
    let zeros = |first: usize| bytes.iter().skip(first).step_by(2).filter(|&&byte| byte == 0);
    let (even, odd) = (zeros(0).count(), zeros(1).count());
    // Where both bytes of a character are zero, it is none.
    let is_half = |zeros: usize, others: usize| 4 * zeros > bytes.len() && 4 * others < zeros;
    if bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF") {
        "utf-16"
    } else if is_half(odd, even) {
        "utf-16-le"
    } else if is_half(even, odd) {
        "utf-16-be"
    } else if bytes.iter().any(|byte| (0x80..0xA0).contains(byte)) {
        "cp1252"
    } else {
        "latin-1"
    }
}

/// Whether bytes are UTF-16, which may pass for UTF-8 with zeros in it.
pub(super) fn is_utf16(bytes: &[u8]) -> bool {
    bytes.len() > 1 && looks_like(bytes).starts_with("utf-16")
}

/// Why bytes with many zeros are no text, where they are in no encoding that is read: UTF-8 has a character of number
/// zero, so that they may pass for text.
pub(super) fn problem_of_zeros(bytes: &[u8]) -> Option<&'static str> {
    let zeros = bytes.iter().filter(|&&byte| byte == 0).count();
    let is_wide = |quads: &[u8]| {
        let letters = quads.chunks_exact(4);
        letters.clone().filter(|it| it[..2] == [0, 0] || it[2..] == [0, 0]).count() == letters.len()
    };
    if zeros == bytes.len() && zeros > 0 {
        Some("it has nothing but zeros, as a file whose content was lost; write or copy it again")
    } else if 4 * zeros <= bytes.len() || is_utf16(bytes) {
        None
    } else if is_wide(bytes) && zeros < bytes.len() / 8 * 7 {
        Some("it looks like UTF-32, which is not read: convert it by iconv -f utf-32 -t utf-8")
    } else {
        Some("it is not text: more than a quarter of its bytes are zeros")
    }
}

struct Decoded {
    inner: Box<dyn Read>,
    /// None decodes Latin-1.
    decoder: Option<Decoder>,
    name: &'static str,
    text: Vec<u8>,
    /// Bytes of `text` that were handed out.
    given: usize,
    ended: bool,
}

impl Decoded {
    fn fill(&mut self) -> Result<()> {
        let mut chunk = vec![0; CHUNK];
        let read = self.inner.read(&mut chunk)?;
        self.ended = read == 0;
        self.given = 0;
        let chunk = &chunk[..read];
        let Some(decoder) = &mut self.decoder else {
            self.text = chunk.iter().map(|&byte| char::from(byte)).collect::<String>().into();
            return Ok(());
        };
        let mut text = String::new();
        let needed = decoder.max_utf8_buffer_length_without_replacement(read);
        text.reserve(needed.unwrap_or(4 * CHUNK));
        let (result, _) =
            decoder.decode_to_string_without_replacement(chunk, &mut text, self.ended);
        if let DecoderResult::Malformed(..) = result {
            return Err(Error::new(ErrorKind::InvalidData, format!("not valid {}", self.name)));
        }
        self.text = text.into();
        Ok(())
    }
}

impl Read for Decoded {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.given == self.text.len() && !self.ended {
            self.fill()?;
        }
        let rest = &self.text[self.given..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(name: &str, bytes: &[u8]) -> Result<String> {
        let mut text = String::new();
        let bytes = bytes.to_vec();
        let inner = Box::new(std::io::Cursor::new(bytes));
        Encoding::of_name(name).unwrap().decode(inner).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn encodings_go_by_the_names_of_python_and_of_browsers() {
        let wide = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(bytes).collect()
        };
        let text = "caf\u{e9}, na\u{ef}ve\n";
        let latin: Vec<u8> = text.chars().map(|letter| letter as u8).collect();
        for name in ["latin-1", "latin_1", "ISO-8859-1", "cp1252", "windows-1252"] {
            assert_eq!(decoded(name, &latin).unwrap(), text, "{name}");
        }
        assert_eq!(decoded("latin-1", b"\x80").unwrap(), "\u{80}");
        assert_eq!(decoded("cp1252", b"\x80").unwrap(), "\u{20ac}");
        let little = wide(text, u16::to_le_bytes);
        assert_eq!(decoded("utf-16-le", &little).unwrap(), text);
        assert_eq!(decoded("utf-16", &[b"\xFF\xFE", &little[..]].concat()).unwrap(), text);
        let big = wide(text, u16::to_be_bytes);
        assert_eq!(decoded("utf-16", &[b"\xFE\xFF", &big[..]].concat()).unwrap(), text);
        assert_eq!((looks_like(&little), looks_like(&big)), ("utf-16-le", "utf-16-be"));
        assert_eq!((looks_like(&latin), looks_like(b"\x93quoted\x94")), ("latin-1", "cp1252"));
        assert!(!is_utf16(&latin) && !is_utf16(b"a"));
        let beginning = &little[..little.len() - 1];
        assert!(is_utf16(&little) && is_utf16(&big) && is_utf16(beginning));
        for text in [&latin[..], &little, &big, beginning, b"a\0b", b"", b"a"] {
            assert_eq!(problem_of_zeros(text), None, "{text:?}");
        }
        assert!(Encoding::of_name("klingon").is_none());
    }

    /// A file of zeros was said to be UTF-16.
    #[test]
    fn zeros_that_are_no_text_are_named() {
        let wide = |bytes: fn(u32) -> [u8; 4]| -> Vec<u8> {
            "text,label\ncaf\u{e9},1\n".chars().flat_map(|letter| bytes(letter.into())).collect()
        };
        let executable = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01\0\0\0";
        for (bytes, expect) in [
            (vec![0], "nothing but zeros"),
            (vec![0; 3001], "nothing but zeros"),
            (wide(u32::to_le_bytes), "UTF-32"),
            (wide(u32::to_be_bytes), "UTF-32"),
            (executable.to_vec(), "is not text"),
            ([&b"text\n"[..], &[0; 100]].concat(), "is not text"),
        ] {
            let problem = problem_of_zeros(&bytes).unwrap_or_default();
            assert!(problem.contains(expect) && !is_utf16(&bytes), "{bytes:?}: {problem}");
        }
    }

    #[test]
    fn characters_may_lie_across_chunks_and_damage_is_an_error() {
        let long = "x".repeat(CHUNK / 2 - 1) + "\u{1F600}end";
        let bytes: Vec<u8> = long.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decoded("utf-16-le", &bytes).unwrap(), long);
        let error = decoded("utf-16-le", b"\x00\xD8a\x00").unwrap_err();
        assert_eq!(error.to_string(), "not valid UTF-16LE");
        assert!(decoded("shift_jis", b"\x81").is_err());
    }
}
