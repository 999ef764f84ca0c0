//! A model folder's tokenizer by the `tokenizers` crate, called as
//! `AutoTokenizer(...)(text, text_pair, truncation=True, max_length=N)` calls it: truncation and
//! padding settings that lie in the file are overridden.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokenizers::utils::truncation::truncate_encodings;
use tokenizers::{
    Encoding, PostProcessor, PostProcessorWrapper, Tokenizer, TruncationDirection,
    TruncationParams, TruncationStrategy,
};
use traind_durable::read_description;

use super::classes::{self, Class, NamedClass};
use super::config::{TokenizerConfig, cls_token_id, mask_token_id, pad_token_id};
use super::decode;
use super::settings::Settings;
use super::vocabulary_files::{self, VocabularyFiles};
use super::{
    Encoded, ModelInputs, PaddingSide, SpannedEncoding, TextTokenizer, TokenSpan, WindowOptions,
};
use crate::error::{Error, Result, TokenizeProblem};
use crate::guard::guard;

/// The settings of a tokenizer that the job gives.
#[derive(Clone, Debug, Default)]
pub struct TokenizerOptions {
    /// Tokens a row is cut to, special tokens included. Default: the tokenizer's own
    /// `model_max_length`, if it has one.
    pub max_length: Option<u32>,
}

/// A tokenizer loaded from a Hugging Face model folder.
pub struct HuggingFaceTokenizer {
    /// The tokenizer without truncation, padding and post-processor, which are called after it.
    pub(super) tokenizer: Tokenizer,
    pub(super) post_processor: Option<PostProcessorWrapper>,
    /// The post-processor of targets, where they have another language than sources.
    pub(super) target_post_processor: Option<PostProcessorWrapper>,
    pub(super) class: Class,
    /// `all_special_ids`.
    special_ids: BTreeSet<u32>,
    pub(super) settings: Settings,
    pub(super) file: PathBuf,
    pub(super) max_length: Option<u32>,
    truncation_direction: TruncationDirection,
    /// The tokenizer of words that are given split, where it is another one.
    of_words: Option<Tokenizer>,
    padding_side: PaddingSide,
    pad_token_id: Option<u32>,
    pad_token_type_id: u8,
    model_inputs: ModelInputs,
    cls_token_id: Option<u32>,
    mask_token_id: Option<u32>,
    vocab_size: u32,
    /// `clean_up_tokenization_spaces`.
    cleans_up: bool,
    /// The hash of all that makes the tokenizer.
    content_hash: String,
    truncation_side: Option<String>,
    /// The tokenizer whose tokens of a text are the text, where there is one.
    first: Option<Arc<HuggingFaceTokenizer>>,
    fingerprint: String,
}

impl HuggingFaceTokenizer {
    /// Returns whether a folder has a tokenizer, even if it is one that cannot be read.
    pub fn is_in(folder: &Path) -> bool {
        vocabulary_files::is_any_in(folder)
    }

    /// Loads `tokenizer.json`, or a vocabulary where there is none, and `tokenizer_config.json`
    /// if there is one, from `folder`, and makes of them what the tokenizer's class does.
    pub fn open(folder: &Path, options: &TokenizerOptions) -> Result<Self> {
        let file = folder.join("tokenizer.json");
        let settings = Settings::read(folder)?;
        let config = TokenizerConfig::read(&folder.join("tokenizer_config.json"))?;
        let source = match read_description(&file) {
            Ok(bytes) => {
                let content = serde_json::from_slice(&bytes);
                let content = content.map_err(|error| Error::bad_tokenizer(&file, error))?;
                let class = NamedClass::of(&settings, Some(&content));
                VocabularyFiles { file, content, class }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                vocabulary_files::read(folder, &settings)?
            }
            Err(error) => return Err(Error::io(&file, "read the tokenizer")(error)),
        };
        let path = source.file.clone();
        guard(&path, "load the tokenizer", || Self::build(source, settings, &config, options))
    }

    fn build(
        source: VocabularyFiles,
        settings: Settings,
        config: &TokenizerConfig,
        options: &TokenizerOptions,
    ) -> Result<Self> {
        let content_hash = content_hash(&source, &settings);
        let VocabularyFiles { file, content, class: NamedClass { name, class } } = source;
        let has_file = file.ends_with("tokenizer.json");
        let (tokenizer, special_ids) = classes::make(class, content, &settings, &file, has_file)?;
        let max_length = options.max_length.or(config.max_length());
        let pad_token_id = pad_token_id(&tokenizer, class, &settings);
        let padding_side = config.padding_side(&tokenizer, class);
        let pad_token_type_id = config.pad_token_type_id(&tokenizer);
        let truncation_direction = config.truncation_direction(&tokenizer);
        let post_processor = tokenizer.get_post_processor().cloned();
        let tokenizer = bare(tokenizer, &file)?;
        let mut built = Self {
            padding_side,
            pad_token_id,
            pad_token_type_id,
            model_inputs: config.model_inputs(&name),
            cls_token_id: cls_token_id(&tokenizer, &settings),
            mask_token_id: mask_token_id(&tokenizer, &settings),
            vocab_size: vocab_size(&tokenizer),
            cleans_up: config.clean_up_tokenization_spaces.unwrap_or(false),
            target_post_processor: None,
            post_processor,
            content_hash,
            truncation_side: config.truncation_side.clone(),
            first: None,
            fingerprint: String::new(),
            truncation_direction,
            of_words: classes::of_words(class, &tokenizer, &settings),
            tokenizer,
            file,
            max_length,
            class,
            special_ids,
            settings,
        };
        built.set_target_language()?;
        built.set_max_length(max_length)?;
        Ok(built)
    }

    /// Reads of each text what `first` leaves of it: its tokens, without the special ones, as text.
    pub fn behind(mut self, first: Arc<HuggingFaceTokenizer>) -> Result<Self> {
        self.first = Some(first);
        self.set_max_length(self.max_length)?;
        Ok(self)
    }

    /// Returns whether both have the same tokens with the same ids.
    pub fn has_vocabulary_of(&self, other: &HuggingFaceTokenizer) -> bool {
        let vocabulary = |of: &HuggingFaceTokenizer| of.tokenizer.get_vocab(true);
        vocabulary(self) == vocabulary(other)
    }

    /// Cuts rows to at most `limit` tokens, special tokens included.
    pub fn limited_to(mut self, limit: u32) -> Result<Self> {
        if self.max_length.is_none_or(|max_length| max_length > limit) {
            self.set_max_length(Some(limit))?;
        }
        Ok(self)
    }

    pub(super) fn set_max_length(&mut self, max_length: Option<u32>) -> Result<()> {
        self.max_length = max_length;
        let (hash, side) = (&self.content_hash, self.truncation_side.as_deref());
        // As JSON, which sorts the tokens that they hold in hash maps.
        let around = serde_json::to_vec(&(&self.post_processor, &self.target_post_processor));
        let around = around.map_err(|error| Error::bad_tokenizer(&self.file, error))?;
        let around = blake3::hash(&around).to_hex();
        self.fingerprint = format!("{hash} {max_length:?} {side:?} {around}");
        if let Some(first) = &self.first {
            self.fingerprint = format!("{} behind {}", self.fingerprint, first.fingerprint);
        }
        self.check_max_length()
    }

    fn check_max_length(&self) -> Result<()> {
        let specials = self.added_tokens(true);
        match self.max_length {
            Some(max_length) if max_length as usize <= specials => {
                let message =
                    format!("{max_length} leaves no room beside {specials} special tokens");
                Err(Error::BadOption { field: "data.max_length", message })
            }
            _ => Ok(()),
        }
    }

    fn added_tokens(&self, is_pair: bool) -> usize {
        self.post_processor.as_ref().map_or(0, |post| post.added_tokens(is_pair))
    }

    /// The part of a text that the first tokenizer leaves.
    fn left_of<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, TokenizeProblem> {
        match &self.first {
            None => Ok(Cow::Borrowed(text)),
            Some(first) => first.decode(&first.encode(text, None)?.input_ids).map(Cow::Owned),
        }
    }

    fn try_encode(&self, text: &str, text_pair: Option<&str>) -> Result<Encoded, TokenizeProblem> {
        let encoding = self.tokenizer.encode_fast(text, false)?;
        let pair = text_pair.map(|text| self.tokenizer.encode_fast(text, false)).transpose()?;
        let (mut encoding, mut pair) = self.truncate(encoding, pair)?;
        let mut truncated = !encoding.take_overflowing().is_empty();
        if let Some(pair) = &mut pair {
            // What was cut is of no use, and special tokens around every combination of it cost
            // minutes and gigabytes where texts are long.
            truncated |= !pair.take_overflowing().is_empty();
            pair.set_type_ids(vec![1; pair.len()]);
        }
        let encoding = self.post_process(encoding, pair)?;
        Ok(encoded(&encoding, truncated))
    }

    fn try_encode_windows(
        &self,
        text: &str,
        text_pair: &str,
        windows: WindowOptions,
    ) -> Result<Vec<SpannedEncoding>, TokenizeProblem> {
        let text = self.tokenizer.encode_char_offsets(text, false)?;
        let mut pair = self.tokenizer.encode_char_offsets(text_pair, false)?;
        let room = windows.max_length.map_or(pair.len(), |max_length| {
            (max_length as usize).saturating_sub(text.len() + self.added_tokens(true))
        });
        if room < pair.len() && room <= windows.doc_stride as usize {
            let (tokens, doc_stride) = (text.len(), windows.doc_stride);
            return Err(TokenizeProblem::NoRoom { tokens, room, doc_stride });
        }
        pair.truncate(room, windows.doc_stride as usize, TruncationDirection::Right);
        let mut rest = pair.take_overflowing();
        let truncated = !rest.is_empty();
        rest.insert(0, pair);
        let window = |mut pair: Encoding| {
            pair.set_type_ids(vec![1; pair.len()]);
            let encoding = self.post_process(text.clone(), Some(pair))?;
            Ok(pieces(&encoding, truncated))
        };
        rest.into_iter().map(window).collect()
    }

    fn post_process(
        &self,
        encoding: Encoding,
        pair: Option<Encoding>,
    ) -> tokenizers::Result<Encoding> {
        match &self.post_processor {
            Some(processor) => processor.process(encoding, pair, true),
            None => self.tokenizer.post_process(encoding, pair, true),
        }
    }

    /// One text with its special tokens.
    fn single(
        &self,
        encoding: Encoding,
        max_length: Option<u32>,
    ) -> Result<SpannedEncoding, TokenizeProblem> {
        self.single_by(self.post_processor.as_ref(), encoding, max_length)
    }

    fn single_by(
        &self,
        processor: Option<&PostProcessorWrapper>,
        mut encoding: Encoding,
        max_length: Option<u32>,
    ) -> Result<SpannedEncoding, TokenizeProblem> {
        if let Some(max_length) = max_length {
            let specials = processor.map_or(0, |processor| processor.added_tokens(false));
            encoding.truncate(max_length as usize - specials, 0, self.truncation_direction);
        }
        let truncated = !encoding.take_overflowing().is_empty();
        let encoding = match processor {
            Some(processor) => processor.process(encoding, None, true)?,
            None => self.post_process(encoding, None)?,
        };
        Ok(pieces(&encoding, truncated))
    }

    /// Runs `encode`; a panic in it becomes a problem.
    fn guarded<T>(
        &self,
        encode: impl FnOnce() -> Result<T, TokenizeProblem>,
    ) -> Result<T, TokenizeProblem> {
        // `guard` itself fails for a panic alone.
        guard(&self.file, "tokenize", || Ok(encode())).unwrap_or_else(|panicked| {
            Err(TokenizeProblem::Panicked { message: panicked.to_string() })
        })
    }

    fn truncate(
        &self,
        encoding: Encoding,
        pair: Option<Encoding>,
    ) -> tokenizers::Result<(Encoding, Option<Encoding>)> {
        let Some(max_length) = self.max_length else {
            return Ok((encoding, pair));
        };
        let params = TruncationParams {
            max_length: max_length as usize - self.added_tokens(pair.is_some()),
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
            direction: self.truncation_direction,
        };
        truncate_encodings(encoding, pair, &params)
    }

    /// The text of tokens, without the special ones.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizeProblem> {
        self.guarded(|| decode::decode(&self.tokenizer, self.cleans_up, ids))
    }

    /// The `tokenizer.json` or vocabulary it was loaded from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The id of a token of the vocabulary.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    /// The segment of padding.
    pub fn pad_token_type_id(&self) -> u8 {
        self.pad_token_type_id
    }

    /// The inputs that a model is given besides the ids.
    pub fn model_inputs(&self) -> ModelInputs {
        self.model_inputs
    }
}

impl From<tokenizers::Error> for TokenizeProblem {
    fn from(error: tokenizers::Error) -> Self {
        Self::Failed { message: error.to_string() }
    }
}

impl TextTokenizer for HuggingFaceTokenizer {
    fn encode(&self, text: &str, text_pair: Option<&str>) -> Result<Encoded, TokenizeProblem> {
        let (text, pair) = (self.left_of(text)?, text_pair.map(|it| self.left_of(it)).transpose()?);
        self.guarded(|| self.try_encode(&text, pair.as_deref()))
    }

    fn encode_text(&self, text: &str, truncate: bool) -> Result<SpannedEncoding, TokenizeProblem> {
        self.guarded(|| {
            let encoding = self.tokenizer.encode_char_offsets(text, false)?;
            self.single(encoding, self.max_length.filter(|_| truncate))
        })
    }

    fn encode_as_it_is(&self, text: &str) -> Result<SpannedEncoding, TokenizeProblem> {
        self.guarded(|| {
            let encoding = self.tokenizer.encode_char_offsets(text, false)?;
            // It may trim the spans of tokens, also where it adds none.
            let encoding = match &self.post_processor {
                Some(processor) => processor.process(encoding, None, false)?,
                None => encoding,
            };
            Ok(pieces(&encoding, false))
        })
    }

    fn encode_up_to(&self, text: &str, max_length: u32) -> Result<Encoded, TokenizeProblem> {
        self.guarded(|| {
            let encoding = self.tokenizer.encode_fast(text, false)?;
            Ok(self.single(encoding, Some(max_length))?.encoded)
        })
    }

    fn encode_target(&self, text: &str, max_length: u32) -> Result<Encoded, TokenizeProblem> {
        let processor = self.target_post_processor.as_ref().or(self.post_processor.as_ref());
        self.guarded(|| {
            let encoding = self.tokenizer.encode_fast(text, false)?;
            Ok(self.single_by(processor, encoding, Some(max_length))?.encoded)
        })
    }

    fn encode_words(&self, words: &[&str]) -> Result<SpannedEncoding, TokenizeProblem> {
        let tokenizer = self.of_words.as_ref().unwrap_or(&self.tokenizer);
        self.guarded(|| self.single(tokenizer.encode_char_offsets(words, false)?, self.max_length))
    }

    fn encode_windows(
        &self,
        text: &str,
        text_pair: &str,
        windows: WindowOptions,
    ) -> Result<Vec<SpannedEncoding>, TokenizeProblem> {
        self.guarded(|| self.try_encode_windows(text, text_pair, windows))
    }

    fn max_length(&self) -> Option<u32> {
        self.max_length
    }

    fn special_tokens(&self) -> u32 {
        self.added_tokens(false) as u32
    }

    fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    fn pad_token_id(&self) -> Option<u32> {
        self.pad_token_id
    }

    fn cls_token_id(&self) -> Option<u32> {
        self.cls_token_id
    }

    fn mask_token_id(&self) -> Option<u32> {
        self.mask_token_id
    }

    fn is_special_token(&self, id: u32) -> bool {
        self.special_ids.contains(&id)
    }

    fn cuts_beginning(&self) -> bool {
        matches!(self.truncation_direction, TruncationDirection::Left)
    }

    fn padding_side(&self) -> PaddingSide {
        self.padding_side
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// The hash of all that makes a tokenizer: its file, its class and the settings.
fn content_hash(source: &VocabularyFiles, settings: &Settings) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [&source.content.to_string(), &source.class.name, &settings.fingerprint()] {
        hasher.update(part.as_bytes()).update(&[0]);
    }
    hasher.finalize().to_hex().to_string()
}

/// We truncate ourselves: given the task, 0.23.2 first cuts each text of a pair to `max_length`,
/// and then mistakes which of them is the longer one. A post-processor would run on each text and
/// again on the whole, and trim offsets twice.
fn bare(mut tokenizer: Tokenizer, file: &Path) -> Result<Tokenizer> {
    tokenizer.with_padding(None);
    tokenizer.with_post_processor(None::<PostProcessorWrapper>);
    tokenizer.with_truncation(None).map_err(|error| Error::bad_tokenizer(file, error))?;
    Ok(tokenizer)
}

/// Ids may have gaps, and an added token may lie beyond the model's vocabulary.
fn vocab_size(tokenizer: &Tokenizer) -> u32 {
    tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id.saturating_add(1))
}

fn encoded(encoding: &Encoding, truncated: bool) -> Encoded {
    Encoded {
        truncated,
        token_type_ids: encoding.get_type_ids().iter().map(|&id| id as u8).collect(),
        input_ids: encoding.get_ids().to_vec(),
    }
}

fn pieces(encoding: &Encoding, truncated: bool) -> SpannedEncoding {
    let sequences = encoding.get_sequence_ids();
    let words = encoding.get_word_ids().iter().zip(encoding.get_offsets());
    let spans = sequences.into_iter().zip(words).map(|(sequence, (word, offsets))| TokenSpan {
        sequence: sequence.map(|sequence| sequence as u8),
        word: sequence.and(*word),
        start: offsets.0 as u32,
        end: offsets.1 as u32,
    });
    SpannedEncoding { spans: spans.collect(), encoded: encoded(encoding, truncated) }
}
