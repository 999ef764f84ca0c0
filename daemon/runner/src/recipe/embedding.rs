//! The objective of a job that embeds texts, or scores them.

use std::sync::Arc;

use traind_job_file::{
    DistanceMetric, Embedding, EmbeddingDirection, EmbeddingLoss as Named, EmbeddingSimilarity,
    JobFile, MarginStrategy, PartitionMode, TaskName,
};
use traind_models::tasks::embedding::{
    BatchHardTriplet, Contrastive, Cosent, CosineSimilarity, Directions, Distance, EmbeddingLoss,
    Gist, MarginMse, Matryoshka, Mse, MultipleNegativesRanking, OnlineContrastive, RowLabels,
    Similarity, Triplet,
};

use super::reranker;
use crate::error::{RunError, RunResult};
use crate::state::CacheConfig;
use crate::step::EmbeddingObjective;

/// The objective of rows with `texts` texts or passages, whose embeddings have `width` numbers; none of other tasks.
pub(crate) fn objective(
    job: &JobFile,
    texts: usize,
    width: usize,
) -> RunResult<Option<EmbeddingObjective>> {
    match job.model.task {
        TaskName::Embedding => {}
        TaskName::Reranker => return Ok(Some(reranker::objective(job, texts))),
        _ => return Ok(None),
    }
    let dims = job.embedding.matryoshka();
    if let Some((dim, _)) = dims.iter().find(|(dim, _)| *dim as usize > width) {
        return Err(RunError::Field {
            name: "embedding.matryoshka_dims",
            value: dim.to_string(),
            problem: format!("embeddings have {width} numbers"),
        });
    }
    let loss = loss(&job.embedding, texts, width);
    let dims: Vec<_> = dims.into_iter().map(|(dim, weight)| (dim as usize, weight)).collect();
    let loss = if dims.is_empty() { loss } else { Arc::new(Matryoshka { loss, dims }) };
    // Rows of other texts are refused where they are trained on.
    let loss = Some(loss).filter(|loss| loss.texts().contains(&texts));
    let label_width = match loss.as_ref().map(|loss| loss.labels()) {
        Some(RowLabels::Numbers(width)) => width,
        Some(RowLabels::Class | RowLabels::None) | None => 0,
    };
    let cache = job.embedding.mini_batch_size.filter(|_| loss.is_some());
    let cache = cache.map(|rows| CacheConfig { rows: rows as usize, texts, width, label_width });
    Ok(Some(EmbeddingObjective { loss, texts, cache }))
}

pub(super) fn loss(job: &Embedding, texts: usize, width: usize) -> Arc<dyn EmbeddingLoss> {
    let (scale, similarity) = (job.scale, similarity(job.similarity_or_default()));
    let (distance, margin) = (distance(job.distance()), job.margin_or_default());
    match job.loss {
        Named::MultipleNegativesRanking => Arc::new(MultipleNegativesRanking {
            scale,
            similarity,
            directions: directions(&job.directions),
            per_direction: job.partition_mode == PartitionMode::PerDirection,
        }),
        Named::Cosent => Arc::new(Cosent { scale, similarity }),
        Named::CosineSimilarity => Arc::new(CosineSimilarity),
        Named::Triplet => Arc::new(Triplet { distance, margin }),
        Named::Contrastive => Arc::new(Contrastive { distance, margin }),
        Named::OnlineContrastive => Arc::new(OnlineContrastive { distance, margin }),
        Named::BatchHardTriplet => Arc::new(BatchHardTriplet { distance, margin }),
        Named::Mse => Arc::new(Mse { width }),
        Named::Gist => Arc::new(Gist {
            temperature: job.temperature,
            margin,
            is_relative: job.margin_strategy == MarginStrategy::Relative,
            contrasts_anchors: job.contrast_anchors,
            contrasts_positives: job.contrast_positives,
            texts,
            guide_width: job.guide_width.unwrap_or(1) as usize,
        }),
        Named::MarginMse => Arc::new(MarginMse { similarity, negatives: texts.max(3) - 2 }),
    }
}

pub(super) fn similarity(similarity: EmbeddingSimilarity) -> Similarity {
    match similarity {
        EmbeddingSimilarity::CosSim => Similarity::CosSim,
        EmbeddingSimilarity::DotScore => Similarity::DotScore,
    }
}

pub(super) fn distance(distance: DistanceMetric) -> Distance {
    match distance {
        DistanceMetric::Cosine => Distance::Cosine,
        DistanceMetric::Euclidean => Distance::Euclidean,
        DistanceMetric::Manhattan => Distance::Manhattan,
    }
}

pub(super) fn directions(directions: &[EmbeddingDirection]) -> Directions {
    let has = |direction| directions.contains(&direction);
    Directions {
        query_to_query: has(EmbeddingDirection::QueryToQuery),
        doc_to_query: has(EmbeddingDirection::DocToQuery),
        doc_to_doc: has(EmbeddingDirection::DocToDoc),
    }
}
