//! The loader's settings of rows, by the values that the job file names.

use traind_job_file::{
    self as named, DataLayout, EmbeddingLoss, RerankerLoss, TrainSamplingStrategy,
};
use traind_loader::{
    CastType, LabelFormat, LabelScale, Mixing, OnBadLines, PackingStrategy, PassageLabels,
    PromptStyle, RowFormat, SamplingStrategy, SetMixing, TrainOn,
};

use super::by_name::by_name;

by_name! {
    /// The treatment of lines with too many fields.
    pub(crate) fn on_bad_lines(named::OnBadLines) -> OnBadLines { Error, Warn, Skip }

    /// The form of several labels of a row.
    pub(crate) fn label_format(named::LabelFormat) -> LabelFormat { Classes, OneHot }

    /// The order of the rows of an epoch.
    pub(crate) fn sampling_strategy(TrainSamplingStrategy) -> SamplingStrategy {
        Random, Sequential, GroupByLength
    }

    /// How texts share rows.
    pub(crate) fn packing_strategy(named::PackingStrategy) -> PackingStrategy { Bfd, Wrapped }

    /// The prompt of instructions.
    pub(crate) fn prompt_style(named::PromptStyle) -> PromptStyle { Instruct, Chat, Chatml, Phi }

    /// The turns whose last token is a target.
    pub(crate) fn train_on(named::TrainOn) -> TrainOn { All, Turn, Last, None }
}

/// The type of a column after a cast.
pub(crate) fn cast_type(kind: named::CastType) -> CastType {
    // A test goes through all names.
    CastType::of_name(kind.as_str()).unwrap_or(CastType::String)
}

/// The order of the rows of several sets.
pub(crate) fn mixing(mixing: named::Mixing) -> Mixing {
    match mixing {
        named::Mixing::Concatenate
        // Batches are mixed, not rows.
        | named::Mixing::Proportional
        | named::Mixing::RoundRobin => Mixing::Concatenate,
        named::Mixing::FirstExhausted => Mixing::FirstExhausted,
        named::Mixing::AllExhausted => Mixing::AllExhausted,
        named::Mixing::AllExhaustedWithoutReplacement => Mixing::WithoutReplacement,
    }
}

/// The order of batches that have rows of one set each; `None` where batches have rows of all sets.
pub(crate) fn set_mixing(mixing: named::Mixing) -> Option<SetMixing> {
    match mixing {
        named::Mixing::Proportional => Some(SetMixing::Proportional),
        named::Mixing::RoundRobin => Some(SetMixing::RoundRobin),
        _ => None,
    }
}

/// The layout of a row.
pub(crate) fn row_format(layout: DataLayout) -> RowFormat {
    match layout {
        DataLayout::Alpaca => RowFormat::Alpaca,
        DataLayout::Sharegpt | DataLayout::Chatml | DataLayout::Messages => RowFormat::Conversation,
        DataLayout::Completion => RowFormat::Completion,
        DataLayout::Pretokenized => RowFormat::Pretokenized,
    }
}

/// The labels of a reranker's rows.
pub(crate) fn passage_labels(loss: RerankerLoss) -> PassageLabels {
    match loss {
        RerankerLoss::CrossEntropy => PassageLabels::Class,
        RerankerLoss::MarginMse => PassageLabels::Margins,
        _ => PassageLabels::Each,
    }
}

/// The scale of the labels that a reranker's loss reads.
pub(crate) fn passage_scale(loss: RerankerLoss) -> LabelScale {
    match loss {
        RerankerLoss::BinaryCrossEntropy => LabelScale::Probability,
        _ => LabelScale::Any,
    }
}

/// The scale of the labels that a loss of vectors reads.
pub(crate) fn text_scale(loss: EmbeddingLoss) -> LabelScale {
    match loss {
        EmbeddingLoss::CosineSimilarity => LabelScale::Cosine,
        loss if loss.has_flag() => LabelScale::Flag,
        _ => LabelScale::Any,
    }
}
