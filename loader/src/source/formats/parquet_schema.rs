//! The depth of a Parquet file's schema, from its footer. The reader descends into nested columns by calls, so that a
//! schema that is deep enough would end the process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::thrift;

/// The deepest schema that is read.
pub(super) const DEPTH_MAX: usize = 64;

/// The longest footer. The memory for one is several times as large, and a sparse file has room for any.
const FOOTER_BYTES_MAX: u64 = 256 << 20;
const MAGIC: &[u8; 4] = b"PAR1";
/// The length of the footer and the magic, at the end of a file.
const END_BYTES: u64 = 8;
/// Structures in structures that are skipped; a footer has fewer.
const SKIPPED_DEPTH_MAX: usize = 32;

/// Fields of Thrift's `FileMetaData` and `SchemaElement`.
const SCHEMA: i64 = 2;
const NUM_CHILDREN: i64 = 5;

/// Types of Thrift's compact protocol.
const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Returns the depth of a file's schema; `None` if it has no footer. The reader says why.
pub(super) fn depth(file: &File) -> io::Result<Option<usize>> {
    let length = file.metadata()?.len();
    let mut end = [0; END_BYTES as usize];
    let Some(at) = length.checked_sub(END_BYTES) else { return Ok(None) };
    file.read_exact_at(&mut end, at)?;
    let (size, magic) = end.split_at(4);
    let size = u64::from(u32::from_le_bytes([size[0], size[1], size[2], size[3]]));
    if size > FOOTER_BYTES_MAX && size <= at {
        return Err(io::Error::other(format!(
            "its footer has {size} bytes, of {FOOTER_BYTES_MAX}"
        )));
    }
    let Some(start) = at.checked_sub(size).filter(|_| magic == MAGIC) else { return Ok(None) };
    let mut footer = vec![0; size as usize];
    file.read_exact_at(&mut footer, start)?;
    let depth = Footer(&footer).depth();
    depth.map(Some).ok_or_else(|| io::Error::other("its footer is damaged"))
}

/// The rest of a footer.
struct Footer<'a>(&'a [u8]);

impl Footer<'_> {
    fn depth(mut self) -> Option<usize> {
        let (mut field, mut deepest) = (0, 0);
        loop {
            match self.field(&mut field)? {
                STOP => return Some(deepest),
                LIST if field == SCHEMA => deepest = deepest.max(self.schema()?),
                LIST => self.skip_entries()?,
                kind => self.skip(kind, 0)?,
            }
        }
    }

    /// Skips a list of which no entry is empty. The reader makes room for all entries before it reads the first one,
    /// and a sparse file has any number of zeros.
    fn skip_entries(&mut self) -> Option<()> {
        let (kind, count) = self.list()?;
        (0..count).try_for_each(|_| {
            if kind == STRUCT && self.0.first() == Some(&STOP) {
                return None;
            }
            self.skip_element(kind, 1)
        })
    }

    /// The depth of the elements of a schema, each of which stands before its children.
    fn schema(&mut self) -> Option<usize> {
        let (kind, count) = self.list()?;
        if kind != STRUCT {
            return None;
        }
        // The children that are left on each level.
        let (mut open, mut deepest): (Vec<i64>, usize) = (Vec::new(), 0);
        for _ in 0..count {
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            open.push(self.children()?);
            deepest = deepest.max(open.len());
            while open.last().is_some_and(|left| *left <= 0) {
                open.pop();
            }
        }
        Some(deepest)
    }

    /// The number of children of an element.
    fn children(&mut self) -> Option<i64> {
        let (mut field, mut children) = (0, 0);
        loop {
            match self.field(&mut field)? {
                STOP => return Some(children),
                I32 if field == NUM_CHILDREN => children = self.number()?,
                kind => self.skip(kind, 0)?,
            }
        }
    }

    /// Reads the head of a field: its type, and its number into `field`.
    fn field(&mut self, field: &mut i64) -> Option<u8> {
        let head = self.byte()?;
        if head == STOP {
            return Some(STOP);
        }
        *field = match head >> 4 {
            0 => self.number()?,
            step => field.checked_add(i64::from(step))?,
        };
        Some(head & 0xf)
    }

    /// Reads the head of a list: the type of its elements, and their number.
    fn list(&mut self) -> Option<(u8, u64)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        Some((head & 0xf, count))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > SKIPPED_DEPTH_MAX {
            return None;
        }
        match kind {
            TRUE | FALSE => Some(()),
            BYTE => self.take(1),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.take(8),
            BINARY => {
                let length = self.varint()?;
                self.take(length)
            }
            LIST | SET => {
                let (kind, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(kind, depth + 1))
            }
            MAP => {
                let count = self.varint()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 0xf, depth + 1)
                })
            }
            STRUCT => {
                let mut field = 0;
                loop {
                    match self.field(&mut field)? {
                        STOP => return Some(()),
                        kind => self.skip(kind, depth + 1)?,
                    }
                }
            }
            _ => None,
        }
    }

    /// Skips an element of a list, where truth values take a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            TRUE | FALSE => self.take(1),
            kind => self.skip(kind, depth),
        }
    }

    fn take(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<i64> {
        thrift::number(|| self.byte())
    }

    fn varint(&mut self) -> Option<u64> {
        thrift::varint(|| self.byte())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{DataFolder, parquet_file};

    fn varint(mut number: u64, bytes: &mut Vec<u8>) {
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    }

    /// A file without rows whose only column is `depth` groups deep.
    pub(crate) fn nested_file(depth: usize) -> Vec<u8> {
        // The version, then the schema: the root, the groups, a column of integers.
        let mut footer = vec![0x15, 2, 0x19, 0xfc];
        varint(depth as u64 + 2, &mut footer);
        footer.extend([0x48, 1, b'r', 0x15, 2, 0]);
        for _ in 0..depth {
            // Required, called "g", with one child.
            footer.extend([0x35, 0, 0x18, 1, b'g', 0x15, 2, 0]);
        }
        footer.extend([0x15, 2, 0x25, 0, 0x18, 1, b'x', 0]);
        // No rows, and no row groups.
        footer.extend([0x16, 0, 0x19, 0x0c, 0]);
        let mut file = MAGIC.to_vec();
        file.extend(&footer);
        file.extend((footer.len() as u32).to_le_bytes());
        file.extend(MAGIC);
        file
    }

    #[test]
    fn the_depth_of_a_schema_is_counted() {
        let folder = DataFolder::new();
        let depth = |bytes: Vec<u8>| {
            let path = folder.write("a.parquet", bytes);
            depth(&File::open(path).unwrap()).unwrap()
        };
        assert_eq!(depth(parquet_file(&[("x", 0)], 1)), Some(2));
        for groups in [0, 1, 40, 100_000] {
            assert_eq!(depth(nested_file(groups)), Some(groups + 2));
        }
        let whole = nested_file(3);
        let forged = |length: u32| {
            let mut bytes = whole.clone();
            let at = bytes.len() - 8;
            bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
            bytes
        };
        for bytes in [vec![], vec![0; 9], b"PAR1".repeat(3), forged(u32::MAX)] {
            assert_eq!(depth(bytes), None);
        }
    }
}
