//! `BertEmbeddings`: words, positions and, in some families, segments, added
//! and normalized.
//!
//! B rows, S positions, E `embedding_size`.

use traind_xla::Tensor;

use super::{EncoderConfig, Positions};
use crate::error::Result;
use crate::layers::{
    Embedding, LayerNorm, OffsetPositionEmbedding, PositionEmbedding, dropout, flatten_tokens,
    with_noise,
};
use crate::model::{Batch, Forward};
use crate::parameters::{Dimension, Init, ParameterPath};

#[derive(Debug)]
pub(super) struct Embeddings {
    words: Embedding,
    positions: PositionTable,
    segments: Option<Embedding>,
    norm: LayerNorm,
    dropout: f64,
}

#[derive(Debug)]
enum PositionTable {
    FromZero(PositionEmbedding),
    AfterPadding(OffsetPositionEmbedding),
}

impl Embeddings {
    pub(super) fn new(mut path: ParameterPath<'_>, config: &EncoderConfig) -> Embeddings {
        let (width, std) = (config.embedding_size, config.std());
        let (vocabulary, padding_id) =
            (Dimension::vocabulary(config.vocab_size), config.pad_token_id);
        let words = path.at("word_embeddings");
        let words = Embedding::with_padding(words, vocabulary, width, std, padding_id);
        let positions = PositionTable::new(path.at("position_embeddings"), config);
        let segments = config
            .type_vocab_size
            .map(|rows| Embedding::new(path.at("token_type_embeddings"), rows, width, std));
        let norm = LayerNorm::new(path.at("LayerNorm"), width, config.layer_norm_eps);
        Embeddings { words, positions, segments, norm, dropout: config.embedding_dropout }
    }

    /// [B S, E].
    pub(super) fn forward(&self, cx: &Forward<'_>, batch: &Batch) -> Result<Tensor> {
        let ids = batch.get("input_ids")?;
        let mut sum = with_noise(cx, &self.words.forward(cx, ids)?)?;
        if let Some(segments) = &self.segments {
            sum = sum.add(&match batch.optional("token_type_ids") {
                Some(ids) => segments.forward(cx, ids)?,
                None => segments.first_row(cx)?,
            })?;
        }
        let sum = sum.add(&self.positions.forward(cx, ids)?)?;
        dropout(cx, &self.norm.forward(cx, &flatten_tokens(&sum)?)?, self.dropout)
    }
}

impl PositionTable {
    fn new(path: ParameterPath<'_>, config: &EncoderConfig) -> PositionTable {
        let (width, std) = (config.embedding_size, config.std());
        match config.positions {
            Positions::FromZero { rows, sinusoidal } => {
                let init = if sinusoidal { Init::Sinusoids } else { Init::Normal { std } };
                PositionTable::FromZero(PositionEmbedding::with_init(path, rows, width, init))
            }
            Positions::AfterPadding { rows, padding_id } => PositionTable::AfterPadding(
                OffsetPositionEmbedding::new(path, [rows, width], std, padding_id),
            ),
        }
    }

    /// Ids s32[B, S] to [S, H] or [B, S, H].
    fn forward(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        match self {
            PositionTable::FromZero(table) => {
                table.forward(cx, ids.dims().last().copied().unwrap_or_default())
            }
            PositionTable::AfterPadding(table) => table.forward(cx, ids),
        }
    }
}
