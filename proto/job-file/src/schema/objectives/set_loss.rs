//! The loss of one of several sets of embedded texts.

use std::ops::Bound;

use super::embedding::{
    DistanceMetric, Embedding, EmbeddingDirection, EmbeddingLoss, EmbeddingSimilarity,
    HardnessMode, MarginStrategy, PartitionMode,
};
use crate::field_type::FieldType;
use crate::node::Node;
use crate::problems::Problems;
use crate::schema::layout::Mixing;
use crate::section::{above, section};
use crate::values::OneOrMany;

section! {
    /// Settings of the loss of a set, with the names and the meaning of those of section `embedding`. Those that are
    /// left out are those of `embedding`, or of a set with a `loss` of its own the defaults.
    pub struct LossArgs {
        /// Factor of similarities, for `multiple_negatives_ranking` and `cosent`.
        scale: Option<f64> = None, in above(0.0);
        /// Similarity that the loss compares.
        similarity: Option<EmbeddingSimilarity> = None;
        /// Texts that `multiple_negatives_ranking` compares.
        directions: Option<OneOrMany<EmbeddingDirection>> = None;
        /// How several `directions` are normalized.
        partition_mode: Option<PartitionMode> = None;
        /// Negatives of `multiple_negatives_ranking` that weigh more, the more similar they are.
        hardness_mode: Option<HardnessMode> = None;
        /// Number that, times the similarity, is added to their scores.
        hardness_strength: Option<f64> = None, in (Bound::Included(0.0), Bound::Unbounded);
        /// Distance of two embeddings.
        distance_metric: Option<DistanceMetric> = None;
        /// Margin of distances, or of the guide's cosines.
        margin: Option<f64> = None, in (Bound::Included(0.0), Bound::Unbounded);
        /// Divisor of similarities, for `gist`.
        temperature: Option<f64> = None, in above(0.0);
        /// Meaning of `margin`, for `gist`.
        margin_strategy: Option<MarginStrategy> = None;
        /// Whether anchors are negatives of each other, for `gist`.
        contrast_anchors: Option<bool> = None;
        /// Whether positives are negatives of each other, for `gist`.
        contrast_positives: Option<bool> = None;
        /// Numbers of a vector of the guide, for `gist` without `embedding.guide`.
        guide_width: Option<u32> = None, in 1.0..=65536.0;
    }
}

impl Embedding {
    /// The settings of the rows of a set that has these, and perhaps a loss of its own.
    pub(crate) fn with_args(&self, loss: Option<EmbeddingLoss>, args: &LossArgs) -> Embedding {
        let own = match loss {
            Some(loss) => self.with_loss(loss),
            None => self.clone(),
        };
        let args = args.clone();
        Embedding {
            scale: args.scale.unwrap_or(own.scale),
            similarity: args.similarity.or(own.similarity),
            directions: args.directions.unwrap_or(own.directions),
            partition_mode: args.partition_mode.unwrap_or(own.partition_mode),
            hardness_mode: args.hardness_mode.or(own.hardness_mode),
            hardness_strength: args.hardness_strength.unwrap_or(own.hardness_strength),
            distance_metric: args.distance_metric.or(own.distance_metric),
            margin: args.margin.or(own.margin),
            temperature: args.temperature.unwrap_or(own.temperature),
            margin_strategy: args.margin_strategy.unwrap_or(own.margin_strategy),
            contrast_anchors: args.contrast_anchors.unwrap_or(own.contrast_anchors),
            contrast_positives: args.contrast_positives.unwrap_or(own.contrast_positives),
            guide_width: args.guide_width.or(own.guide_width),
            ..own
        }
    }

    /// The same model and batches with another loss, whose settings are the defaults.
    fn with_loss(&self, loss: EmbeddingLoss) -> Embedding {
        // A section whose keys all have defaults.
        let Some(default) = all_defaults::<Embedding>() else { return self.clone() };
        Embedding {
            loss,
            guide: self.guide.clone(),
            guide_width: self.guide_width.filter(|_| self.guide.is_some()),
            mini_batch_size: self.mini_batch_size,
            matryoshka_dims: self.matryoshka_dims.clone(),
            matryoshka_weights: self.matryoshka_weights.clone(),
            batch_sampler: self.batch_sampler,
            pooling_mode: self.pooling_mode,
            dense_out_features: self.dense_out_features,
            dense_activation_function: self.dense_activation_function,
            normalize: self.normalize,
            ..default
        }
    }
}

impl LossArgs {
    /// Whether the settings are all left out.
    pub(crate) fn is_empty(&self) -> bool {
        all_defaults().as_ref() == Some(self)
    }
}

/// A section of which no key is given.
fn all_defaults<T: FieldType>() -> Option<T> {
    let empty = Node::empty_map();
    T::read(&empty, "", &mut Problems::of(&empty, Vec::new))
}

impl Mixing {
    /// Whether each batch has rows of one set.
    pub fn is_of_batches(self) -> bool {
        matches!(self, Mixing::Proportional | Mixing::RoundRobin)
    }
}
