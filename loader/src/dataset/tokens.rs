//! The tokens of a set on disk: flat arrays with one item per token, the rows end to end. Rows are
//! spans of them, so that blocks and parts of a set need no copy.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::array::{Array, ArrayWriter, MostlyZeros, Seal};
use super::images::{Images, ImagesWriter};
use crate::error::Result;
use crate::tasks::Example;

pub(super) const INPUT_IDS: &str = "input_ids.u32";
pub(super) const TOKEN_TYPE_IDS: &str = "token_type_ids.u8";
pub(super) const MASKING: &str = "masking.u8";
pub(super) const CONTEXT_OFFSETS: &str = "context_offsets.u32x2";
pub(super) const TEXT_STARTS: &str = "text_starts.u8";
pub(super) const UNATTENDED: &str = "unattended.u8";
pub(super) const LABELS: &str = "labels.i32";

/// The arrays of a set, of one length.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    pub(super) input_ids: Array<u32>,
    /// Absent where all are 0.
    pub(super) token_type_ids: Option<Array<u8>>,
    /// Absent where nothing will be masked.
    pub(super) masking: Option<Array<u8>>,
    /// Present only for questions whose answers will be looked up.
    pub(super) context_offsets: Option<Array<[u32; 2]>>,
    /// Present only where texts share rows.
    pub(super) text_starts: Option<Array<u8>>,
    /// Absent where tokens attend to all tokens of their rows.
    pub(super) unattended: Option<Array<u8>>,
    /// Absent where tokens have no targets of their own.
    pub(super) labels: Option<Array<i32>>,
    /// Present only where each row is an image.
    pub(super) images: Option<Images>,
}

impl Tokens {
    /// The items of a span in one of the arrays that may be absent.
    pub(super) fn read<T: bytemuck::Pod>(
        array: &Option<Array<T>>,
        span: Range<u64>,
    ) -> Result<Option<Vec<T>>> {
        array.as_ref().map(|array| array.read(span)).transpose()
    }

    /// Returns true if all arrays have one length.
    pub(super) fn fit(&self) -> bool {
        let lengths = [
            self.token_type_ids.as_ref().map(Array::len),
            self.masking.as_ref().map(Array::len),
            self.context_offsets.as_ref().map(Array::len),
            self.text_starts.as_ref().map(Array::len),
            self.unattended.as_ref().map(Array::len),
            self.labels.as_ref().map(Array::len),
            self.images.as_ref().map(Images::len),
        ];
        lengths.into_iter().flatten().all(|length| length == self.input_ids.len())
    }
}

/// Writes the arrays, but for the labels.
pub(super) struct TokensWriter {
    folder: PathBuf,
    input_ids: ArrayWriter<u32>,
    token_type_ids: MostlyZeros,
    masking: Option<ArrayWriter<u8>>,
    context_offsets: Option<ArrayWriter<[u32; 2]>>,
    text_starts: Option<ArrayWriter<u8>>,
    unattended: MostlyZeros,
    images: Option<ImagesWriter>,
}

impl TokensWriter {
    pub(super) fn create(folder: &Path) -> Result<Self> {
        Ok(Self {
            folder: folder.to_path_buf(),
            input_ids: ArrayWriter::create(folder, INPUT_IDS)?,
            token_type_ids: MostlyZeros::new(folder, TOKEN_TYPE_IDS),
            masking: None,
            context_offsets: None,
            text_starts: None,
            unattended: MostlyZeros::new(folder, UNATTENDED),
            images: None,
        })
    }

    /// The number of tokens so far.
    pub(super) fn len(&self) -> u64 {
        self.input_ids.len()
    }

    /// The size of the arrays so far, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let optional = [
            self.masking.as_ref().map(ArrayWriter::bytes),
            self.context_offsets.as_ref().map(ArrayWriter::bytes),
            self.text_starts.as_ref().map(ArrayWriter::bytes),
            self.images.as_ref().map(ImagesWriter::bytes),
        ];
        let optional: u64 = optional.into_iter().flatten().sum();
        let mostly_zeros = self.token_type_ids.bytes() + self.unattended.bytes();
        self.input_ids.bytes() + mostly_zeros + optional
    }

    pub(super) fn push(&mut self, example: &Example) -> Result<()> {
        let target = example.target.as_deref().unwrap_or_default();
        let tokens = example.encoded.input_ids.len() + target.len();
        self.input_ids.extend(&example.encoded.input_ids)?;
        self.input_ids.extend(target)?;
        self.token_type_ids.extend(&example.encoded.token_type_ids)?;
        self.token_type_ids.extend(&vec![0; target.len()])?;
        let mut unattended = example.unattended.clone();
        unattended.resize(tokens, 0);
        self.unattended.extend(&unattended)?;
        if let Some(image) = &example.image {
            let images = match &mut self.images {
                Some(images) => images,
                none => none.insert(ImagesWriter::create(&self.folder)?),
            };
            images.push(image)?;
        }
        extend(&mut self.masking, &self.folder, MASKING, &example.masking)?;
        extend(&mut self.text_starts, &self.folder, TEXT_STARTS, &example.text_starts)?;
        let offsets = &example.context_offsets;
        extend(&mut self.context_offsets, &self.folder, CONTEXT_OFFSETS, offsets)
    }

    pub(super) fn finish(self) -> Result<(Tokens, Vec<Seal>)> {
        let (input_ids, seal) = self.input_ids.finish()?;
        let mut seals = vec![seal];
        let masking = self.masking.map(ArrayWriter::finish).transpose()?;
        let context_offsets = self.context_offsets.map(ArrayWriter::finish).transpose()?;
        let text_starts = self.text_starts.map(ArrayWriter::finish).transpose()?;
        let images = self.images.map(ImagesWriter::finish).transpose()?;
        let images = images.map(|(images, of_images)| {
            seals.extend(of_images);
            images
        });
        let tokens = Tokens {
            input_ids,
            token_type_ids: sealed(self.token_type_ids.finish()?, &mut seals),
            masking: sealed(masking, &mut seals),
            context_offsets: sealed(context_offsets, &mut seals),
            text_starts: sealed(text_starts, &mut seals),
            unattended: sealed(self.unattended.finish()?, &mut seals),
            labels: None,
            images,
        };
        Ok((tokens, seals))
    }
}

/// Extends an array that is created with its first items. Rows that came before had no tokens.
fn extend<T: bytemuck::Pod>(
    writer: &mut Option<ArrayWriter<T>>,
    folder: &Path,
    name: &'static str,
    items: &[T],
) -> Result<()> {
    let writer = match writer {
        Some(writer) => writer,
        None if items.is_empty() => return Ok(()),
        none => none.insert(ArrayWriter::create(folder, name)?),
    };
    writer.extend(items)
}

fn sealed<T>(finished: Option<(Array<T>, Seal)>, seals: &mut Vec<Seal>) -> Option<Array<T>> {
    let (array, seal) = finished?;
    seals.push(seal);
    Some(array)
}
