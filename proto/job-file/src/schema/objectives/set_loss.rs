//! The loss of one of several sets of embedded texts.

use std::ops::Bound;

use super::embedding::{
    DistanceMetric, Embedding, EmbeddingDirection, EmbeddingLoss, EmbeddingSimilarity,
    MarginStrategy, PartitionMode,
};
use crate::field_type::FieldType;
use crate::node::Node;
use crate::problems::Problems;
use crate::range::above;
use crate::schema::JobFile;
use crate::schema::data_set::DataSet;
use crate::schema::layout::Mixing;
use crate::section::section;
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
        /// Numbers of a vector of the guide, for `gist`.
        guide_width: Option<u32> = None, in 1.0..=65536.0;
    }
}

impl Embedding {
    /// The settings of the rows of a set.
    pub fn of_set(&self, set: &DataSet) -> Embedding {
        let own = match set.loss {
            Some(loss) => self.with_loss(loss),
            None => self.clone(),
        };
        let args = set.loss_args.clone();
        Embedding {
            scale: args.scale.unwrap_or(own.scale),
            similarity: args.similarity.or(own.similarity),
            directions: args.directions.unwrap_or(own.directions),
            partition_mode: args.partition_mode.unwrap_or(own.partition_mode),
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

impl DataSet {
    /// Whether its rows have a loss, or columns of texts, of their own.
    pub fn has_objective(&self) -> bool {
        self.loss.is_some() || !self.loss_args.is_empty() || !self.texts.is_empty()
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

impl JobFile {
    /// The settings and the columns of texts of each set that is trained on, where each batch has rows of one; none
    /// where all rows are alike. Sets without names of columns have all columns of their files.
    pub fn embedding_sets(&self) -> Vec<(Embedding, &[String])> {
        let Some(files) = self.data.train.as_ref().filter(|_| self.mixes_batches()) else {
            return Vec::new();
        };
        let texts = &self.data.texts[..];
        if files.sets.is_empty() {
            return files.patterns.iter().map(|_| (self.embedding.clone(), texts)).collect();
        }
        let sets = files.sets.iter().map(|set| {
            let own = if set.texts.is_empty() { texts } else { &set.texts };
            (self.embedding.of_set(set), own)
        });
        sets.collect()
    }

    /// Whether each batch that is trained on has rows of one of several sets.
    pub fn mixes_batches(&self) -> bool {
        self.train.do_train && self.data.mixing.is_of_batches()
    }

    /// The settings of the set with the most texts of a row, with their number, or with the fewest that there can be
    /// where only the files tell.
    pub fn widest_embedding(&self) -> (Embedding, usize) {
        let count = |settings: &Embedding, texts: &[String]| match texts.len() {
            0 => settings.loss.texts().0,
            named => named,
        };
        let sets = self.embedding_sets().into_iter().map(|(settings, texts)| {
            let texts = count(&settings, texts);
            (settings, texts)
        });
        let all = || (self.embedding.clone(), count(&self.embedding, &self.data.texts));
        sets.max_by_key(|(_, texts)| *texts).unwrap_or_else(all)
    }
}
