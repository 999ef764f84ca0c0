//! Every value of the enumerations that objectives have.

use traind_job_file::{
    CpoLoss, DistanceMetric, DpoDivergence, EmbeddingDirection, EmbeddingLoss, EmbeddingSimilarity,
    HardnessMode, KtoLoss, MarginStrategy, PartitionMode, ReductionLog, RerankerLoss,
    WeightingScheme,
};
use traind_models::tasks::embedding::RowLabels;

use super::{converted, job, words};
use crate::recipe::preference::{cpo, divergence, kto};
use crate::recipe::{embedding, reranker};

/// The numbers of an embedding.
const WIDTH: usize = 4;

/// The name at the beginning of what `Debug` writes.
fn name_of(value: impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '{', '(']).next().unwrap().to_owned()
}

#[test]
fn preferences_have_the_losses_of_the_job() {
    let mut dpo = job("").dpo;
    let divergences = converted(DpoDivergence::ALL, |named| {
        dpo.f_divergence_type = named;
        divergence(&dpo)
    });
    assert_eq!(divergences.len(), DpoDivergence::ALL.len());
    let mut section = job("").cpo;
    for loss in CpoLoss::ALL {
        section.loss_type = *loss;
        let found = cpo(&section);
        // AlphaPO is SimPO without the loss of tokens.
        let expect = if *loss == CpoLoss::Alphapo { CpoLoss::Simpo } else { *loss };
        assert_eq!(format!("{:?}", found.loss), format!("{expect:?}"));
        assert_eq!(found.cpo_alpha == 0.0, *loss == CpoLoss::Alphapo);
    }
    let mut section = job("").kto;
    let estimates = converted(KtoLoss::ALL, |loss| {
        section.loss_type = loss;
        kto(&section).estimates_divergence
    });
    assert_eq!(estimates, ["true", "false"]);
}

/// Each loss has the name that the job file has for it, and wants the rows that the job file's checks ask for.
#[test]
fn embeddings_have_the_losses_of_the_job() {
    let mut section = job("").embedding;
    for loss in EmbeddingLoss::ALL {
        section.loss = *loss;
        let (fewest, most) = loss.texts();
        let texts = fewest.max(2).min(most);
        let found = embedding::loss(&section, texts, WIDTH);
        assert_eq!(name_of(&found), format!("{loss:?}"));
        assert!(found.texts().contains(&texts), "{loss}: {:?}", found.texts());
        assert_eq!(found.labels() != RowLabels::None, loss.needs_label(), "{loss}");
        assert_eq!(found.compares_rows(), loss.compares_rows(), "{loss}");
    }
}

#[test]
fn embeddings_are_compared_as_the_job_has_it() {
    let all = EmbeddingSimilarity::ALL;
    assert_eq!(converted(all, embedding::similarity), words(all));
    assert_eq!(converted(DistanceMetric::ALL, embedding::distance), words(DistanceMetric::ALL));
    // One direction is always compared, and each of the others by itself.
    let directions = converted(EmbeddingDirection::ALL, |one| embedding::directions(&[one]));
    assert_eq!(directions.len(), EmbeddingDirection::ALL.len());
    let mut section = job("").embedding;
    assert_eq!(embedding::hardness(&section), None);
    for mode in HardnessMode::ALL {
        section.hardness_mode = Some(*mode);
        section.hardness_strength = 0.0;
        assert_eq!(embedding::hardness(&section), None, "{mode}");
        section.hardness_strength = 5.0;
        let found = embedding::hardness(&section).unwrap();
        assert_eq!((format!("{:?}", found.mode), found.strength), (format!("{mode:?}"), 5.0));
    }
    let mut section = job("").embedding;
    section.loss = EmbeddingLoss::Gist;
    let margins = converted(MarginStrategy::ALL, |strategy| {
        section.margin_strategy = strategy;
        embedding::loss(&section, 2, WIDTH)
    });
    assert_eq!(margins.len(), MarginStrategy::ALL.len());
    section.loss = EmbeddingLoss::MultipleNegativesRanking;
    let partitions = converted(PartitionMode::ALL, |mode| {
        section.partition_mode = mode;
        embedding::loss(&section, 2, WIDTH)
    });
    assert_eq!(partitions.len(), PartitionMode::ALL.len());
}

#[test]
fn rerankers_have_the_losses_of_the_job() {
    let mut section = job("").reranker;
    for loss in RerankerLoss::ALL {
        section.loss = *loss;
        let passages = if *loss == RerankerLoss::CrossEntropy { 1 } else { 3 };
        let found = reranker::loss(&section, passages).unwrap();
        assert_eq!(name_of(&found), format!("{loss:?}"));
        assert!(found.texts().contains(&passages), "{loss}: {:?}", found.texts());
        assert_eq!(found.compares_rows(), *loss == RerankerLoss::Lambda, "{loss}");
    }
    section.loss = RerankerLoss::Lambda;
    for scheme in WeightingScheme::ALL {
        section.weighting_scheme = *scheme;
        assert_eq!(name_of(reranker::weighting(&section)), format!("{scheme:?}"));
    }
    let logarithms = converted(ReductionLog::ALL, |logarithm| {
        section.reduction_log = logarithm;
        reranker::loss(&section, 3)
    });
    assert_eq!(logarithms.len(), ReductionLog::ALL.len());
}
