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
//! Invariants: what the files hold is the only input of a [`TokenizedSet`]; which rows a batch
//! holds, and which of their tokens are masked, depends on seed, epoch and the global batch,
//! never on the number of cores; every shape a run may need is known before its first step; memory
//! grows by some bytes a row and not with texts. Nothing here knows of devices or jobs.

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
mod stats;
mod tasks;
#[cfg(test)]
mod testing;
mod token_row;
mod tokenize;

pub use batch::{ArrayValues, BatchArray, BatchAxis, BatchSizes, CoreBatch, PadTo, Padding};
pub use chat::{ChatOptions, ChatTemplate, RenderedChat, bos_token, eos_token, named_templates};
pub use collate::{Collator, HostBatch};
pub use dataset::{
    DatasetOptions, FileRows, MixedSet, Mixing, Mixture, OpenSet, Prepared, SplitPart, SplitRange,
    TokenizedSet, prepare, prepare_watched,
};
pub use error::{
    AnswerProblem, ChatProblem, Error, ImageProblem, LabelProblem, Location, ObjectProblem, Result,
    TokenizeProblem,
};
pub use guard::panic_message;
pub use image::{Augmentation, ImageProcessor};
pub use labels::{
    IGNORED_LABEL, LabelEncoder, LabelFormat, LabelKind, LabelSpec, LabelTarget, Labels,
    MultiLabels,
};
pub use layouts::{
    Encoding as LayoutEncoding, Layouts, PieceRule, PromptFormat, PromptStyle, RowFields,
    RowFormat, RowLayout, TrainOn, TurnRule, turn_template_names,
};
pub use length_ladder::{LengthBudget, LengthLadder};
pub use masking::Masking;
pub use prefetch::{PrefetchError, Prefetched, Prefetcher};
pub use sampler::{
    BatchPlan, EpochPlan, GatherInOrder, Sampler, SamplerConfig, SamplerError, SamplingStrategy,
    ScheduledBatch,
};
pub use source::{
    CastType, Columns, CsvOptions, Delimiter, Encoding, FetchContext, Files, FormatOptions,
    OnBadLines, Part, Records, Source, Value, data_format, data_formats, value_of_json,
};
pub use stats::{LengthPercentiles, SetStats, padding_share};
pub use tasks::{
    Answer, CausalLm, DecoderStart, Dpo, Embedding, EmbeddingLabel, ImageClassification, MaskedLm,
    PackingStrategy, QuestionAnswering, Seq2SeqLm, SequenceClassification, Sft, TaskSpec,
    TextColumn, TokenClassification, Tokenized,
};
pub use tokenize::{
    Encoded, ExtendedTokenizer, HuggingFaceTokenizer, ModelInputs, NewTokens, NoTokenizer,
    PaddingSide, SpannedEncoding, TextTokenizer, TokenSpan, TokenizerOptions, WindowOptions,
};
