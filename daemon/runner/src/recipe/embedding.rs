//! The objective of a job that embeds texts, or scores them.

use std::sync::Arc;

use traind_job_file::{
    DistanceMetric, Embedding, EmbeddingDirection, EmbeddingLoss as Named, EmbeddingSimilarity,
    HardnessMode as NamedHardness, JobFile, MarginStrategy, PartitionMode, TaskName,
};
use traind_loader::SetBatches;
use traind_models::tasks::embedding::{
    BatchHardTriplet, Contrastive, Cosent, CosineSimilarity, Directions, Distance, EmbeddingLoss,
    Gist, GuideVectors, Hardness, HardnessMode, MarginMse, Matryoshka, Mse,
    MultipleNegativesRanking, OnlineContrastive, Similarity, Triplet,
};
use traind_wording::counted_as;

use super::reranker;
use crate::error::{RunError, RunResult};
use crate::step::{EmbeddingObjective, SetObjective};

/// The objective of rows with `texts` texts or passages, whose embeddings have `width` numbers; none of other tasks.
pub(crate) fn objective(
    job: &JobFile,
    texts: usize,
    width: usize,
) -> RunResult<Option<EmbeddingObjective>> {
    match job.model.task {
        TaskName::Embedding => of_settings(&job.embedding, texts, width).map(Some),
        TaskName::Reranker => Ok(Some(reranker::objective(job, texts))),
        _ => Ok(None),
    }
}

/// The objective before the rows are known: that of the set with the most texts, and those of all sets.
pub(crate) fn planned_objective(
    job: &JobFile,
    width: usize,
) -> RunResult<Option<EmbeddingObjective>> {
    match job.model.task {
        TaskName::Embedding => {
            let (settings, texts) = job.widest_embedding();
            let mut objective = of_settings(&settings, texts, width)?;
            for (settings, texts) in job.embedding_sets() {
                let texts = if texts.is_empty() { settings.loss.texts().0 } else { texts.len() };
                if let Some(loss) = of_settings(&settings, texts, width)?.loss {
                    objective.of_sets.push(SetObjective { loss, texts });
                }
            }
            Ok(Some(objective))
        }
        _ => objective(job, job.sequences_per_row(), width),
    }
}

/// The objective of rows that are evaluated, with those of sets that have their own.
pub(crate) fn objective_with_sets(
    job: &JobFile,
    texts: usize,
    sets: &SetObjectives,
    width: usize,
) -> RunResult<Option<EmbeddingObjective>> {
    let mut objective = objective(job, texts, width)?;
    if let Some(objective) = objective.as_mut().filter(|_| sets.differ) {
        for (settings, texts) in &sets.distinct {
            let loss = match job.model.task {
                TaskName::Reranker => reranker::objective(job, *texts).loss,
                _ => of_settings(settings, *texts, width)?.loss,
            };
            let loss = loss.ok_or_else(|| does_not_take(settings, *texts))?;
            objective.of_sets.push(SetObjective { loss, texts: *texts });
        }
    }
    Ok(objective)
}

/// The objectives of the sets that are trained on, where each batch has rows of one of them, or of all rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetObjectives {
    /// The settings, each with the number of texts of a row.
    distinct: Vec<(Embedding, usize)>,
    /// The place of each set's among those.
    of_sets: Vec<usize>,
    /// Whether any is not that of evaluations.
    differ: bool,
}

impl SetObjectives {
    /// Returns the objectives of a job whose sets have rows of `texts` texts, in their order, and that evaluates
    /// rows of `evaluated` texts.
    pub(crate) fn of_job(
        job: &JobFile,
        texts: impl Iterator<Item = usize>,
        evaluated: usize,
    ) -> SetObjectives {
        let mut found = SetObjectives::default();
        for ((settings, _), texts) in job.embedding_sets().into_iter().zip(texts) {
            let objective = (settings, texts);
            let place = found.distinct.iter().position(|other| *other == objective);
            found.of_sets.push(place.unwrap_or(found.distinct.len()));
            if place.is_none() {
                found.distinct.push(objective);
            }
        }
        let of_evaluations = (job.embedding.clone(), evaluated);
        found.differ = found.distinct.iter().any(|objective| *objective != of_evaluations);
        found
    }

    /// Returns the objective of a job whose rows all have `texts` texts, and that evaluates rows of `evaluated` texts;
    /// none where it evaluates as many.
    pub(crate) fn of_rows(job: &JobFile, texts: usize, evaluated: usize) -> SetObjectives {
        match texts == evaluated {
            true => SetObjectives::default(),
            false => SetObjectives {
                distinct: vec![(job.embedding.clone(), texts)],
                of_sets: vec![0],
                differ: true,
            },
        }
    }

    /// The sizes of the batches of each set.
    pub(crate) fn batches(&self) -> Vec<SetBatches> {
        let batches = |place: &usize| match self.differ {
            false => SetBatches::default(),
            true => SetBatches {
                sequences: self.distinct[*place].1 as u32,
                objective: *place as u32 + 1,
            },
        };
        self.of_sets.iter().map(batches).collect()
    }

    /// Fails where the loss of a set does not take as many texts as its rows have.
    pub(crate) fn check(&self) -> RunResult<()> {
        let is_wrong = |(settings, texts): &&(Embedding, usize)| !settings.loss.takes(*texts);
        match self.distinct.iter().find(is_wrong) {
            Some((settings, texts)) => Err(does_not_take(settings, *texts)),
            None => Ok(()),
        }
    }
}

fn does_not_take(settings: &Embedding, texts: usize) -> RunError {
    RunError::Field {
        name: "data.train",
        value: format!("loss: {}", settings.loss),
        problem: format!(
            "rows of the set with this loss have {}, and it needs {}; `texts` of the set names those that it takes",
            counted_as(texts, "column of texts", "columns of texts"),
            settings.loss.needed_texts()
        ),
    }
}

fn of_settings(settings: &Embedding, texts: usize, width: usize) -> RunResult<EmbeddingObjective> {
    let dims = settings.matryoshka();
    if let Some((dim, _)) = dims.iter().find(|(dim, _)| *dim as usize > width) {
        return Err(RunError::Field {
            name: "embedding.matryoshka_dims",
            value: dim.to_string(),
            problem: format!("embeddings have {width} numbers"),
        });
    }
    let loss = loss(settings, texts, width);
    let dims: Vec<_> = dims.into_iter().map(|(dim, weight)| (dim as usize, weight)).collect();
    let loss = if dims.is_empty() { loss } else { Arc::new(Matryoshka { loss, dims }) };
    // Rows of other texts are refused where they are trained on.
    let loss = Some(loss).filter(|loss| loss.texts().contains(&texts));
    let part_rows = settings.mini_batch_size.filter(|_| loss.is_some()).map(|rows| rows as usize);
    Ok(EmbeddingObjective { loss, texts, part_rows, of_sets: Vec::new() })
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
            hardness: hardness(job),
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
            guide: match job.has_guide() {
                true => GuideVectors::BesideTexts,
                false => GuideVectors::OfLabels,
            },
            // The width of a guide is known before programs are recorded: see `model::guide`.
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

/// The negatives that weigh more; none where they weigh nothing more.
pub(super) fn hardness(job: &Embedding) -> Option<Hardness> {
    let mode = match job.hardness_mode? {
        NamedHardness::InBatchNegatives => HardnessMode::InBatchNegatives,
        NamedHardness::HardNegatives => HardnessMode::HardNegatives,
        NamedHardness::AllNegatives => HardnessMode::AllNegatives,
    };
    (job.hardness_strength > 0.0).then_some(Hardness { mode, strength: job.hardness_strength })
}
