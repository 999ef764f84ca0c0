//! Files of text to tokenized, sharded, prefetched batches.
//!
//! ```text
//! Source ──rows──> Task + TextTokenizer ──examples──> TokenizedSet (tokens on disk)
//!                                                          │ lengths
//!                                  Sampler, LengthLadder ──┴─> BatchPlan ──> Collator ──> Prefetcher
//! ```
//!
//! [`ChatTemplate`] turns conversations into text, and [`ImageProcessor`] encoded images into pixels. [`Masking`] hides
//! tokens as rows are collated; [`squad`] turns logits back into answers.
//!
//! Four rows of a file, in batches of two for each of two cores:
//!
//! ```
//! use traind_loader::{
//!     BatchAxis, Collator, DatasetOptions, HuggingFaceTokenizer, LabelKind, LabelSpec, LengthLadder,
//!     PadTo, Padding, Sampler, SamplerConfig, SamplingStrategy, SequenceClassification, TaskSpec,
//!     TextTokenizer, TokenLimits, TokenizerOptions, prepare,
//! };
//! # use std::error::Error;
//! # use std::path::Path;
//!
//! # fn main() -> Result<(), Box<dyn Error>> {
//! # let model = &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/token_parity/wordpiece");
//! # let folder = tempfile::tempdir()?;
//! let file = folder.path().join("reviews.csv");
//! std::fs::write(&file, "text,label\ngood,1\nbad film,0\nquite good,1\nbad,0\n")?;
//! let label = LabelSpec {
//!     column: "label".to_owned(),
//!     kind: LabelKind::Infer { num_labels: None },
//!     weight: None,
//!     ignored: Vec::new(),
//! };
//! let task = TaskSpec::SequenceClassification(SequenceClassification {
//!     text: "text".to_owned(),
//!     text_pair: None,
//!     label: Some(label),
//! });
//! let files = [file.display().to_string()].into_iter().collect();
//! let tokenizer = HuggingFaceTokenizer::open(model, &TokenizerOptions::default())?;
//! let token_limits = TokenLimits::default();
//! let options = DatasetOptions { files, task, token_limits, cache_dir: None };
//! let set = prepare(&options, &tokenizer)?.set;
//!
//! let ladder = LengthLadder::new(64, false)?;
//! let config = SamplerConfig {
//!     batch_per_core: 1,
//!     cores: 2,
//!     seed: 42,
//!     strategy: SamplingStrategy::Random,
//!     drop_last: false,
//! };
//! let sampler = Sampler::new(config, set.lengths(), ladder)?;
//! let padding = Padding {
//!     token_id: tokenizer.pad_token_id().ok_or("no padding")?,
//!     token_type_id: 0,
//!     side: tokenizer.padding_side(),
//!     to: PadTo::Longest { multiple_of: 1 },
//!     is_attended: false,
//! };
//! let collator = Collator::new(set, padding).of_shards(0..2);
//! for batch in sampler.run(0, 2) {
//!     let batch = collator.collate(batch)?;
//!     let core = &batch.cores[0];
//!     let words = core.array("input_ids").ok_or("no tokens")?;
//!     assert_eq!(words.dims, [1, core.sizes.get(BatchAxis::Positions)]);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: what the files hold is the only input of a [`TokenizedSet`]; which rows a batch
//! holds, and which of their tokens are masked, depends on seed, epoch and the global batch,
//! never on the number of cores; every shape a run may need is known before its first step; memory
//! grows by some bytes a row and not with texts. Nothing here knows of devices or jobs.

#![warn(missing_docs)]

mod batch;
mod chat;
mod collate;
mod dataset;
mod error;
mod guard;
mod image;
mod labels;
mod layouts;
mod length_ladder;
mod masking;
mod prefetch;
mod random;
mod sampler;
mod source;
pub mod squad;
mod stand_in;
mod stats;
mod tasks;
#[cfg(test)]
mod testing;
mod token_row;
mod tokenize;

pub use batch::{
    ArrayValues, BatchArray, BatchAxis, BatchSizes, CoreBatch, PadTo, Padding, answer_factors,
    answer_weights, batch_sums, batch_terms, equal_part_rows,
};
pub use chat::{
    ChatOptions, ChatTemplate, MessageFormat, PairTemplate, RenderedChat, bos_token, eos_token,
    named_templates,
};
pub use collate::{Collator, HostBatch};
pub use dataset::{
    Checked, DatasetOptions, FileRows, MixedSet, Mixing, Mixture, OpenSet, Prepared, SplitPart,
    SplitRange, TextVectors, TextVectorsWriter, TokenLengths, TokenizedSet, VectorSizes,
    check_files, prepare, prepare_watched, require_example,
};
pub use error::{
    AnswerProblem, ChatProblem, Error, ImageProblem, LabelProblem, Location, ObjectProblem, Result,
    TokenizeProblem,
};
pub use guard::panic_message;
pub use image::{Augmentation, ImageProcessor};
pub use labels::{
    IGNORED_LABEL, LabelEncoder, LabelFormat, LabelKind, LabelScale, LabelSpec, LabelTarget,
    Labels, MultiLabels,
};
pub use layouts::{
    Encoding as LayoutEncoding, Layouts, PieceRule, PromptFormat, PromptStyle, RowFields,
    RowFormat, RowLayout, TrainOn, TurnRule, turn_template_names,
};
pub use length_ladder::{LengthBudget, LengthLadder};
pub use masking::{Masking, Replacements};
pub use prefetch::{PrefetchError, Prefetched, Prefetcher};
pub use sampler::{
    BatchPlan, EpochPlan, GatherInOrder, MaskedShare, Sampler, SamplerConfig, SamplerError,
    SamplingStrategy, ScheduledBatch, SetBatches, SetMixing, SizedBatch,
};
pub use source::{
    CastType, Columns, CsvOptions, Delimiter, Encoding, FetchContext, Files, FormatOptions,
    OnBadLines, Part, Records, Source, Value, data_format, data_formats, matching_files,
    names_split, split_names, value_of_json,
};
pub use stand_in::stand_in;
pub use stats::{LengthPercentiles, SetStats, padding_share};
pub use tasks::{
    Answer, CausalLm, Cpo, DecoderStart, Dpo, EmbeddedSet, Embedding, EmbeddingLabel,
    ImageClassification, KnownTokenizer, Kto, LabelCount, MaskedLm, NO_PASSAGE, PackingStrategy,
    PassageLabels, QuestionAnswering, Reranker, RerankerLabel, Reward, Seq2SeqLm,
    SequenceClassification, Sft, TaskSpec, TextColumn, TokenClassification, Tokenized,
};
pub use token_row::{NO_TARGET, TokenLimit, TokenLimits};
pub use tokenize::{
    Encoded, ExtendedTokenizer, HuggingFaceTokenizer, ModelInputs, NewTokens, NoTokenizer,
    PaddingSide, SpannedEncoding, TextTokenizer, TokenSpan, TokenizerOptions, WindowOptions,
    model_max_length,
};
