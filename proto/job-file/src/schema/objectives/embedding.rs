//! `embedding`: the objective of embedded texts, under the names of sentence-transformers.

use std::ops::Bound;

use traind_choices::{DenseActivation, PoolingMode};

use crate::section::{above, section};
use crate::spelled::spelled;
use crate::values::{ModelSource, OneOrMany};

section! {
    /// The model and the objective of `task: embedding`, under the names of sentence-transformers'
    /// modules and losses.
    pub struct Embedding {
        /// Loss of a batch.
        loss: EmbeddingLoss = EmbeddingLoss::MultipleNegativesRanking;
        /// Factor of similarities, for `multiple_negatives_ranking` and `cosent`: the inverse of a
        /// temperature.
        scale: f64 = 20.0, in above(0.0);
        /// Similarity that the loss compares; defaults to `cos_sim`, but for `margin_mse` to
        /// `dot_score`.
        similarity: Option<EmbeddingSimilarity> = None;
        /// Texts that `multiple_negatives_ranking` compares, of which `query_to_doc` must be one.
        directions: OneOrMany<EmbeddingDirection> = OneOrMany::one(EmbeddingDirection::QueryToDoc);
        /// How several `directions` are normalized.
        partition_mode: PartitionMode = PartitionMode::Joint;
        /// Negatives of `multiple_negatives_ranking` that weigh more, the more similar they are to the anchor.
        hardness_mode: Option<HardnessMode> = None;
        /// Number that, times the similarity, is added to the scores of these negatives, which are
        /// similarities times `scale`.
        hardness_strength: f64 = 0.0, in (Bound::Included(0.0), Bound::Unbounded);
        /// Distance of two embeddings; defaults to `euclidean` for losses of triplets, and to
        /// `cosine` for those of pairs.
        distance_metric: Option<DistanceMetric> = None;
        /// Margin between the distances of texts that belong together and those of others; defaults
        /// to 5 for losses of triplets, to 0.5 for those of pairs, and to 0 for `gist`: how far below
        /// the guide's cosine of the positive a text must be to count as a negative.
        margin: Option<f64> = None, in (Bound::Included(0.0), Bound::Unbounded);
        /// Divisor of similarities, for `gist`.
        temperature: f64 = 0.01, in above(0.0);
        /// Meaning of `margin`, for `gist`.
        margin_strategy: MarginStrategy = MarginStrategy::Absolute;
        /// Whether anchors are negatives of each other, for `gist`.
        contrast_anchors: bool = true;
        /// Whether positives are negatives of each other, for `gist`.
        contrast_positives: bool = true;
        /// Model that decides which texts of a batch are negatives, for `gist`: Hugging Face model folder or hub id. It
        /// embeds the texts once, before the first step, and may have any tokenizer and size. Without it, labels
        /// have its vectors.
        guide: Option<ModelSource> = None;
        /// Numbers of a vector of the guide, for `gist` without `guide`: rows then have the vectors of all of their
        /// texts in the label, one behind the other.
        guide_width: Option<u32> = None, in 1.0..=65536.0;
        /// Rows that pass through the model at a time, for `multiple_negatives_ranking` and `gist`:
        /// batches are compared whole in the memory of so many rows, and pass forward twice
        /// (CachedMultipleNegativesRankingLoss, CachedGISTEmbedLoss). With `parallel.pipeline`, a micro-batch has
        /// at most so many rows, unless `parallel.microbatches` is given.
        mini_batch_size: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Numbers of an embedding, the first ones, that are also trained by themselves, such as
        /// `[384, 128, 32]`: the loss is the sum over these (MatryoshkaLoss).
        matryoshka_dims: Vec<u32> = Vec::new();
        /// Weights of the losses of `matryoshka_dims`, in its order; 1 each by default.
        matryoshka_weights: Option<Vec<f64>> = None;
        /// How rows are put into batches.
        batch_sampler: BatchSampler = BatchSampler::BatchSampler;
        /// How the states of a text's tokens become its embedding. Defaults to that of the model
        /// folder (`1_Pooling/config.json`), or else to `mean`.
        pooling_mode: Option<PoolingMode> = None;
        /// Numbers of an embedding, to which a new linear layer behind the pooling changes them
        /// (`Dense`).
        dense_out_features: Option<u32> = None, in 1.0..=1_048_576.0;
        /// Activation of that layer.
        dense_activation_function: DenseActivation = DenseActivation::Tanh;
        /// Scale embeddings to the length 1. Defaults to what `modules.json` of the model folder
        /// says, or else to false.
        normalize: Option<bool> = None;
    }
}

spelled! {
    /// The loss of a batch of embeddings. Rows have the columns in parentheses.
    pub enum EmbeddingLoss {
        /// Positives against all texts of the batch, on all cores and hosts (anchor, positive, any
        /// number of negatives).
        MultipleNegativesRanking = "multiple_negatives_ranking",
        /// Order of the similarities of pairs (text, text, score).
        Cosent = "cosent",
        /// Squared error of cosines (text, text, score).
        CosineSimilarity = "cosine_similarity",
        /// Margin of distances (anchor, positive, negative).
        Triplet = "triplet",
        /// Distances of pairs that belong together, and margins of others (text, text, 1 or 0).
        Contrastive = "contrastive",
        /// Contrastive loss of the hard pairs of a batch alone (text, text, 1 or 0).
        OnlineContrastive = "online_contrastive",
        /// Margin between the farthest text of the same class and the nearest of another (text,
        /// class).
        BatchHardTriplet = "batch_hard_triplet",
        /// Squared error of a teacher's embeddings (one or more texts, a list of numbers as long as
        /// an embedding).
        Mse = "mse",
        /// Squared error of a teacher's margins (query, positive, negatives, a number for each
        /// negative).
        MarginMse = "margin_mse",
        /// Positives against all texts of the batch that a guide does not take for positives (anchor,
        /// positive, any number of negatives; without `guide` also the guide's vectors of all of them).
        Gist = "gist",
    }
}

spelled! {
    /// The meaning of the margin below the guide's cosine of the positive.
    pub enum MarginStrategy {
        /// A difference of cosines.
        Absolute = "absolute",
        /// A share of the positive's cosine.
        Relative = "relative",
    }
}

spelled! {
    /// How rows are put into batches.
    pub enum BatchSampler {
        /// In the order of `train.train_sampling_strategy`.
        BatchSampler = "batch_sampler",
        /// Random order in which rows with a text in common come into different batches as far as there are
        /// enough others, so that no text is a negative of itself.
        NoDuplicates = "no_duplicates",
        /// Random order in which classes take turns with two rows each, for `batch_hard_triplet`.
        GroupByLabel = "group_by_label",
    }
}

spelled! {
    /// The similarity of two embeddings.
    pub enum EmbeddingSimilarity {
        /// The cosine of their angle.
        CosSim = "cos_sim",
        /// The product of both.
        DotScore = "dot_score",
    }
}

spelled! {
    /// The texts that are compared.
    pub enum EmbeddingDirection {
        /// Anchors with positives and negatives.
        QueryToDoc = "query_to_doc",
        /// Anchors with those of other rows.
        QueryToQuery = "query_to_query",
        /// Positives with anchors.
        DocToQuery = "doc_to_query",
        /// Positives with positives and negatives of other rows.
        DocToDoc = "doc_to_doc",
    }
}

spelled! {
    /// How several directions are normalized.
    pub enum PartitionMode {
        /// All together.
        Joint = "joint",
        /// Each by itself; the loss is their mean.
        PerDirection = "per_direction",
    }
}

spelled! {
    /// The negatives whose scores grow by their similarities.
    pub enum HardnessMode {
        /// Positives and negatives of other rows.
        InBatchNegatives = "in_batch_negatives",
        /// Negatives of the same row.
        HardNegatives = "hard_negatives",
        /// Both.
        AllNegatives = "all_negatives",
    }
}

spelled! {
    /// The distance of two embeddings.
    pub enum DistanceMetric {
        /// 1 less the cosine of their angle.
        Cosine = "cosine",
        /// The length of their difference.
        Euclidean = "euclidean",
        /// The sum of the absolute differences of their numbers.
        Manhattan = "manhattan",
    }
}

impl EmbeddingLoss {
    /// Whether rows need a label, without `embedding.guide`.
    pub fn needs_label(self) -> bool {
        !matches!(self, Self::MultipleNegativesRanking | Self::Triplet)
    }

    /// Whether the label says that texts belong together, as 1 or 0.
    pub fn has_flag(self) -> bool {
        matches!(self, Self::Contrastive | Self::OnlineContrastive)
    }

    /// The fewest and the most texts of a row.
    pub fn texts(self) -> (usize, usize) {
        match self {
            Self::MultipleNegativesRanking | Self::Gist => (2, usize::MAX),
            Self::Cosent | Self::CosineSimilarity | Self::Contrastive | Self::OnlineContrastive => {
                (2, 2)
            }
            Self::Triplet => (3, 3),
            Self::BatchHardTriplet => (1, 1),
            Self::Mse => (1, usize::MAX),
            Self::MarginMse => (3, usize::MAX),
        }
    }

    /// Whether rows may have so many texts.
    pub fn takes(self, texts: usize) -> bool {
        let (fewest, most) = self.texts();
        (fewest..=most).contains(&texts)
    }

    /// The number of texts that a row needs, in words.
    pub fn needed_texts(self) -> String {
        match self.texts() {
            (fewest, most) if fewest == most => fewest.to_string(),
            (fewest, _) => format!("at least {fewest}"),
        }
    }

    /// Whether it reads `similarity`.
    pub(crate) fn has_similarity(self) -> bool {
        matches!(self, Self::MultipleNegativesRanking | Self::Cosent | Self::MarginMse)
    }

    /// Whether it reads `scale`.
    pub(crate) fn has_scale(self) -> bool {
        matches!(self, Self::MultipleNegativesRanking | Self::Cosent)
    }

    /// Whether it reads `distance_metric`.
    pub fn has_distance(self) -> bool {
        self.is_of_triplets() || matches!(self, Self::Contrastive | Self::OnlineContrastive)
    }

    /// Whether it compares each row with all texts of the batch, which may pass through the model in parts.
    pub(crate) fn ranks_batch(self) -> bool {
        matches!(self, Self::MultipleNegativesRanking | Self::Gist)
    }

    /// Whether the loss of a row depends on the other rows of a batch.
    pub fn compares_rows(self) -> bool {
        let is_of_pairs = matches!(self, Self::Cosent | Self::OnlineContrastive);
        self.ranks_batch() || is_of_pairs || self == Self::BatchHardTriplet
    }

    fn is_of_triplets(self) -> bool {
        matches!(self, Self::Triplet | Self::BatchHardTriplet)
    }
}

impl Embedding {
    /// Whether rows need a label.
    pub fn needs_label(&self) -> bool {
        self.loss.needs_label() && !self.has_guide()
    }

    /// Whether a model guides the loss.
    pub fn has_guide(&self) -> bool {
        self.loss == EmbeddingLoss::Gist && self.guide.is_some()
    }

    /// The distance of two embeddings.
    pub fn distance(&self) -> DistanceMetric {
        let default = match self.loss.is_of_triplets() {
            true => DistanceMetric::Euclidean,
            false => DistanceMetric::Cosine,
        };
        self.distance_metric.unwrap_or(default)
    }

    /// The margin of distances, or of the guide's cosines.
    pub fn margin_or_default(&self) -> f64 {
        self.margin.unwrap_or(match self.loss {
            EmbeddingLoss::Gist => 0.0,
            loss if loss.is_of_triplets() => 5.0,
            _ => 0.5,
        })
    }

    /// The similarity of two embeddings.
    pub fn similarity_or_default(&self) -> EmbeddingSimilarity {
        let default = match self.loss {
            EmbeddingLoss::MarginMse => EmbeddingSimilarity::DotScore,
            _ => EmbeddingSimilarity::CosSim,
        };
        self.similarity.unwrap_or(default)
    }

    /// The numbers of an embedding that are trained by themselves, each with its weight.
    pub fn matryoshka(&self) -> Vec<(u32, f64)> {
        let weights = self.matryoshka_weights.iter().flatten().copied();
        let dims = self.matryoshka_dims.iter().copied();
        dims.zip(weights.chain(std::iter::repeat(1.0))).collect()
    }
}
