//! `BertEmbeddings`: words, positions and, in some families, segments, added
//! and, in most, normalized.
//!
//! B rows, S positions, E `embedding_size`.

use traind_xla::{DType, Tensor};

use super::{EncoderConfig, EncoderNames, Positions};
use crate::error::Result;
use crate::layers::{
    Embedding, LayerNorm, OffsetPositionEmbedding, PositionEmbedding, dropout, flatten_tokens,
    with_noise,
};
use crate::model::{Batch, Forward};
use crate::parameters::{Dimension, Init, ParameterPath, Stage};

#[derive(Clone, Debug)]
pub(super) struct Embeddings {
    words: Embedding,
    /// The embeddings that are added to those of the words, in that order.
    added: Vec<Added>,
    /// None where layers normalize before their parts.
    norm: Option<LayerNorm>,
    zeroes_padding: bool,
    dropout: f64,
}

/// A table of vectors that are added to those of words.
#[derive(Clone, Debug)]
enum Added {
    FromZero(PositionEmbedding),
    AfterPadding(OffsetPositionEmbedding),
    Segments(Embedding),
}

impl Embeddings {
    pub(super) fn new(
        encoder: &mut ParameterPath<'_>,
        names: &EncoderNames,
        config: &EncoderConfig,
    ) -> Embeddings {
        let (width, std) = (config.embedding_size, config.std());
        let mut path = encoder.at("embeddings").in_stage(Stage::Embeddings);
        let (vocabulary, padding_id) =
            (Dimension::vocabulary(config.vocab_size), config.pad_token_id);
        let words = path.at("word_embeddings");
        let words = Embedding::with_padding(words, vocabulary, width, std, padding_id);
        let positions = Added::positions(path.at("position_embeddings"), config);
        let segments = config.type_vocab_size.map(|rows| {
            Added::Segments(Embedding::new(path.at("token_type_embeddings"), rows, width, std))
        });
        let has_norm = config.last_norm.is_none();
        let norm = has_norm.then(|| {
            let path = encoder.at(names.embedding_norm).in_stage(Stage::Embeddings);
            LayerNorm::new(path, width, config.layer_norm_eps)
        });
        let is_disentangled = config.disentangled.is_some();
        let added = if is_disentangled { [positions, segments] } else { [segments, positions] };
        let added = added.into_iter().flatten().collect();
        let zeroes_padding = is_disentangled;
        Embeddings { words, added, norm, zeroes_padding, dropout: config.embedding_dropout }
    }

    /// The same tables with another rate of dropout.
    pub(super) fn with_dropout(&self, dropout: f64) -> Embeddings {
        Embeddings { dropout, ..self.clone() }
    }

    /// [B S, E].
    pub(super) fn forward(&self, cx: &Forward<'_>, batch: &Batch) -> Result<Tensor> {
        let ids = batch.get("input_ids")?;
        let mut sum = with_noise(cx, &self.words.forward(cx, ids)?)?;
        for table in &self.added {
            sum = sum.add(&table.forward(cx, batch, ids)?)?;
        }
        let mut normal = flatten_tokens(&sum)?;
        if let Some(norm) = &self.norm {
            normal = norm.forward(cx, &normal)?;
        }
        if self.zeroes_padding {
            let present = cx.own_positions(batch.get("attention_mask")?, 1)?;
            let present = present.reshape(&[normal.dims()[0], 1])?.convert(DType::F32)?;
            normal = normal.mul(&present)?;
        }
        dropout(cx, &normal, self.dropout)
    }
}

impl Added {
    fn positions(path: ParameterPath<'_>, config: &EncoderConfig) -> Option<Added> {
        let (width, std) = (config.embedding_size, config.std());
        Some(match config.positions {
            Positions::FromZero { rows, sinusoidal } => {
                let init = if sinusoidal { Init::Sinusoids } else { Init::Normal { std } };
                Added::FromZero(PositionEmbedding::with_init(path, rows, width, init))
            }
            Positions::AfterPadding { rows, padding_id } => Added::AfterPadding(
                OffsetPositionEmbedding::new(path, [rows, width], std, padding_id),
            ),
            Positions::Absent { .. } => return None,
        })
    }

    /// Ids s32[B, S] to [E], [S, E] or [B, S, E].
    fn forward(&self, cx: &Forward<'_>, batch: &Batch, ids: &Tensor) -> Result<Tensor> {
        match self {
            Added::FromZero(table) => {
                table.forward(cx, ids.dims().last().copied().unwrap_or_default())
            }
            Added::AfterPadding(table) => table.forward(cx, ids),
            Added::Segments(table) => match batch.optional("token_type_ids") {
                Some(ids) => table.forward(cx, ids),
                None => table.first_row(cx),
            },
        }
    }
}
