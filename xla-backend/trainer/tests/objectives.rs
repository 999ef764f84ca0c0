//! Objectives whose rows have several sequences, on any number of cores, over several batches, and after a restart:
//! embedded texts, scored passages, rewards, and preferences.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod on_cpu;

use std::path::Path;
use std::sync::Arc;

use serde_json::Map;
use traind_loader::{ArrayValues, BatchArray};
use traind_models::tasks::embedding::{
    Directions, EmbeddingLoss, Gist, GuideVectors, MultipleNegativesRanking, Similarity,
};
use traind_models::tasks::preference::{
    Cpo, CpoLoss, Divergence, Dpo, DpoLoss, Kto, Orpo, PreferenceObjective, Reward,
};
use traind_models::tasks::replaced_tokens::ReplacedTokenDetection;
use traind_models::tasks::reranker::{Lambda, ListNet, Weighting};
use traind_models::{Model, ModelConfig, Task, TokenGenerator, registry, weights};
use traind_trainer::Trainer;
use traind_trainer::session::StepResults;
use traind_trainer::state::{Fsdp, MeshConfig, PipelineConfig, Reference, StateConfig};
use traind_trainer::step::{EmbeddingObjective, ForwardConfig, OptimizerConfig, StepConfig};

/// The rows of the data in a batch of all cores.
const ROWS: usize = 8;
const POSITIONS: usize = 4;
/// The sequences of a row.
const SEQUENCES: usize = 2;

/// The values of `labels` and of other targets.
#[derive(Clone, Copy, Debug)]
enum Targets {
    None,
    /// A number for each row.
    Scores,
    /// A number for each sequence of a row.
    Shares,
    /// The same numbers, each beside its sequence, as the vectors of a guide.
    Beside,
    /// The tokens of completions, behind prompts of one token.
    Completions,
    /// The tokens of completions, with an input that is 1 for every other row.
    Desirable,
    /// The original tokens of masked ones, in rows of one sequence with a seed each.
    Masked,
}

/// The cores that train, and how they divide the model.
#[derive(Clone, Copy, Debug)]
struct Cores {
    mesh: MeshConfig,
    interleave: usize,
    layers: usize,
    fsdp: Fsdp,
    sequence_parallel: bool,
}

impl Default for Cores {
    fn default() -> Cores {
        Cores {
            mesh: MeshConfig::default(),
            interleave: 1,
            layers: 1,
            fsdp: Fsdp::No,
            sequence_parallel: false,
        }
    }
}

/// An objective with the model that it trains.
struct Case {
    fixture: &'static str,
    task: Task,
    forward: ForwardConfig,
    reference: Option<Reference>,
    targets: Targets,
}

fn embedded(loss: Arc<dyn EmbeddingLoss>, rows_of_parts: Option<usize>) -> ForwardConfig {
    let objective = EmbeddingObjective {
        loss: Some(loss),
        texts: SEQUENCES,
        part_rows: rows_of_parts,
        of_sets: Vec::new(),
    };
    ForwardConfig { embedding: Some(objective), ..ForwardConfig::default() }
}

fn ranked(rows_of_parts: Option<usize>) -> Case {
    let loss = MultipleNegativesRanking {
        scale: 20.0,
        similarity: Similarity::CosSim,
        directions: Directions::default(),
        per_direction: false,
        hardness: None,
    };
    let forward = embedded(Arc::new(loss), rows_of_parts);
    let (fixture, task) = ("bert-masked-lm", Task::Embedding);
    Case { fixture, task, forward, reference: None, targets: Targets::None }
}

/// The guide's vectors, of one number for each text.
fn guided(guide: GuideVectors, rows_of_parts: Option<usize>) -> Case {
    let loss = Gist {
        temperature: 0.1,
        margin: 0.1,
        is_relative: false,
        contrasts_anchors: true,
        contrasts_positives: true,
        texts: SEQUENCES,
        guide,
        guide_width: 1,
    };
    let forward = embedded(Arc::new(loss), rows_of_parts);
    let targets = match guide {
        GuideVectors::OfLabels => Targets::Shares,
        GuideVectors::BesideTexts => Targets::Beside,
    };
    Case { forward, targets, ..ranked(None) }
}

fn scored(loss: Arc<dyn EmbeddingLoss>) -> Case {
    let (fixture, task) = ("bert-regression", Task::SequenceClassification);
    let (forward, targets) = (embedded(loss, None), Targets::Shares);
    Case { fixture, task, forward, reference: None, targets }
}

fn preferred(objective: impl PreferenceObjective + 'static, targets: Targets) -> Case {
    let objective: Arc<dyn PreferenceObjective> = Arc::new(objective);
    let forward = ForwardConfig { preference: Some(objective), ..ForwardConfig::default() };
    let (fixture, task) = match targets {
        Targets::Scores => ("bert-regression", Task::SequenceClassification),
        _ => ("llama-causal-lm", Task::CausalLm),
    };
    let reference = matches!(targets, Targets::Desirable).then_some(Reference::WithoutAdapters);
    Case { fixture, task, forward, reference, targets }
}

fn detected() -> Case {
    let objective = ReplacedTokenDetection { generator_weight: 1.0, discriminator_weight: 0.5 };
    let forward =
        ForwardConfig { preference: Some(Arc::new(objective)), ..ForwardConfig::default() };
    let (fixture, task) = ("electra-replaced-token-detection", Task::ReplacedTokenDetection);
    Case { fixture, task, forward, reference: None, targets: Targets::Masked }
}

impl Case {
    /// The sequences of a row of the data.
    fn sequences(&self) -> usize {
        if matches!(self.targets, Targets::Masked) { 1 } else { SEQUENCES }
    }

    /// The config of the fixture, with that of its generator where it has one.
    fn config(&self, folder: &Path, layers: usize) -> ModelConfig {
        let mut overrides = Map::from_iter([("num_hidden_layers".to_owned(), layers.into())]);
        if layers > 1 {
            overrides.insert("hidden_dropout_prob".to_owned(), 0.1.into());
        }
        let mut config = ModelConfig::load(folder, &overrides).unwrap();
        if matches!(self.targets, Targets::Masked) {
            let own = ModelConfig::load(&folder.join("generator"), &Map::new()).unwrap();
            let config_of = Some(Box::new(own));
            let generator = TokenGenerator { config: config_of, ..TokenGenerator::default() };
            config.set_token_generator(generator);
        }
        config
    }

    fn trainer(&self, cores: usize) -> Trainer {
        let mesh = MeshConfig { data: cores, ..MeshConfig::default() };
        self.trainer_on(&Cores { mesh, ..Cores::default() })
    }

    fn trainer_on(&self, cores: &Cores) -> Trainer {
        let Cores { mesh, interleave, layers, fsdp, sequence_parallel } = *cores;
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/fixtures");
        let folder = fixtures.join(self.fixture);
        let model: Arc<Model> =
            registry::build(self.config(&folder, layers), self.task).unwrap().into();
        let parameters = weights::load(&folder, model.as_ref(), 1).unwrap().arrays;
        let state = StateConfig {
            rows_per_core: ROWS / mesh.data,
            reference: self.reference,
            fsdp,
            sequence_parallel,
            ..StateConfig::default()
        };
        let name = "sgd".to_owned();
        let config = StepConfig {
            mesh,
            pipeline: PipelineConfig { interleave, ..PipelineConfig::default() },
            state,
            forward: self.forward.clone(),
            optimizer: OptimizerConfig { name, ..OptimizerConfig::default() },
            ..StepConfig::default()
        };
        on_cpu::trainer(model, parameters, &config)
    }

    /// Batch `number`, whose texts are its own. Every third sequence has padding.
    fn batch(&self, number: usize) -> Vec<BatchArray> {
        let sequences = self.sequences();
        let places = (0..ROWS).flat_map(|row| (0..sequences).map(move |place| (row, place)));
        let (mut ids, mut mask, mut labels, mut desirable) = (vec![], vec![], vec![], vec![]);
        let mut numbers: Vec<f32> = Vec::new();
        for (row, place) in places {
            let is_short = (row * SEQUENCES + place).is_multiple_of(3);
            for position in 0..POSITIONS {
                let is_token = !(is_short && position + 1 == POSITIONS);
                let word = (row * 7 + place * 11 + number * 13 + position * 3) % 40 + 5;
                ids.push(if is_token { word as i32 } else { 0 });
                mask.push(i32::from(is_token));
                let is_masked = (row * 5 + position * 3 + number).is_multiple_of(4);
                let has_label = match self.targets {
                    Targets::Masked => is_masked,
                    _ => position > 0,
                };
                labels.push(if is_token && has_label { word as i32 } else { -100 });
            }
            let score = |place: usize| ((row * 3 + place * 5 + number) % 7) as f32 / 7.0;
            match self.targets {
                Targets::Shares => numbers.extend((0..SEQUENCES).map(score)),
                Targets::Beside => numbers.push(score(place)),
                _ => numbers.push(score(0)),
            }
            desirable.push((row % 2) as f32);
        }
        let rows = ROWS * sequences;
        let of = |name, dims: &[usize], values| BatchArray { name, dims: dims.to_vec(), values };
        let mut arrays = vec![
            of("input_ids", &[rows, POSITIONS], ArrayValues::S32(ids)),
            of("attention_mask", &[rows, POSITIONS], ArrayValues::S32(mask)),
        ];
        arrays.extend(match self.targets {
            Targets::None => None,
            Targets::Scores => Some(of("labels", &[rows], ArrayValues::F32(numbers))),
            Targets::Shares => Some(of("labels", &[rows, SEQUENCES], ArrayValues::F32(numbers))),
            Targets::Beside => Some(of("guide_vectors", &[rows, 1], ArrayValues::F32(numbers))),
            Targets::Completions | Targets::Desirable | Targets::Masked => {
                Some(of("labels", &[rows, POSITIONS], ArrayValues::S32(labels)))
            }
        });
        if matches!(self.targets, Targets::Masked) {
            let seeds = (0..rows).map(|row| (row * 977 + number * 31) as i32).collect();
            arrays.push(of("sampling_seeds", &[rows], ArrayValues::S32(seeds)));
        }
        if matches!(self.targets, Targets::Desirable) {
            arrays.push(of("desirable", &[rows], ArrayValues::F32(desirable)));
        }
        arrays
    }

    /// A step on some batches.
    fn step(&self, trainer: &mut Trainer, batches: &[usize], rate: f64) -> StepResults {
        batches.iter().for_each(|batch| trainer.add_batch(&self.batch(*batch)).unwrap());
        trainer.update(rate).unwrap()
    }

    /// Checks that 8 cores take the steps of one, that a step's loss is the mean of its batches', and that training
    /// continues to the bit from what was saved between two batches of a step.
    fn check(&self) {
        let mut one = self.trainer(1);
        let [first, second] = [0, 1].map(|batch| self.step(&mut one, &[batch], 0.0));
        // A model is as far from its reference with all rows.
        let is_varied = first.loss != second.loss || self.reference.is_some();
        assert!(first.grad_norm > 1e-3 && is_varied, "{first:?}, {second:?}");
        let run = |trainer: &mut Trainer| {
            [(&[0, 1][..], 0.05), (&[2], 0.05), (&[0], 0.0)]
                .map(|(batches, rate)| self.step(trainer, batches, rate))
        };
        let expect = run(&mut one);
        check_close(expect[0].loss, f64::midpoint(first.loss, second.loss));
        assert!(expect[2].loss < first.loss, "{expect:?} after {first:?}");
        check_same(&run(&mut self.trainer(8)), &expect);
        self.check_resumed(one);
    }

    fn check_resumed(&self, mut trainer: Trainer) {
        let folder = tempfile::tempdir().unwrap();
        trainer.add_batch(&self.batch(3)).unwrap();
        trainer.save(folder.path()).unwrap();
        let rest = |trainer: &mut Trainer| {
            let steps = [4, 5].map(|batch| self.step(trainer, &[batch], 0.05));
            let arrays = trainer.parameters().unwrap();
            let values = arrays.iter().flat_map(|array| array.to_f32().unwrap());
            (steps, values.collect::<Vec<f32>>())
        };
        let expect = rest(&mut trainer);
        // A reference is where training started, also after a restart.
        let mut resumed = if self.reference.is_some() { self.trainer(1) } else { trainer };
        resumed.load(folder.path()).unwrap();
        assert!(rest(&mut resumed) == expect);
    }
}

fn check_close(found: f64, expect: f64) {
    assert!((found - expect).abs() <= 2e-5 * (1.0 + expect.abs()), "{found}, {expect}");
}

fn check_same(found: &[StepResults], expect: &[StepResults]) {
    for (found, expect) in found.iter().zip(expect) {
        check_close(found.loss, expect.loss);
        check_close(found.grad_norm, expect.grad_norm);
    }
}

/// The negatives of a text are those of all cores, but not those of another batch.
#[test]
fn ranked_texts() {
    ranked(None).check();
}

/// Parts of three rows do not divide the batch of a core.
#[test]
fn texts_in_parts() {
    let check = |parts: Case, whole: Case| {
        let run = |case: &Case, trainer: &mut Trainer| {
            [0.05, 0.0].map(|rate| case.step(trainer, &[0], rate))
        };
        let mut in_parts = parts.trainer(1);
        check_same(&run(&parts, &mut in_parts), &run(&whole, &mut whole.trainer(1)));
        parts.check_resumed(in_parts);
    };
    check(ranked(Some(3)), ranked(None));
    let labels = || guided(GuideVectors::OfLabels, None);
    check(guided(GuideVectors::OfLabels, Some(3)), labels());
    // The same vectors beside the texts.
    check(guided(GuideVectors::BesideTexts, None), labels());
    check(guided(GuideVectors::BesideTexts, Some(3)), labels());
}

/// Stages take the steps of one core, with losses that compare all rows of a batch, and give the same embeddings.
fn check_stages(case: &Case, meshes: &[([usize; 3], usize)]) {
    let cores = |&([data, tensor, pipeline], interleave): &([usize; 3], usize)| Cores {
        mesh: MeshConfig { data, tensor, pipeline, ..MeshConfig::default() },
        interleave,
        layers: 4,
        fsdp: if data > 1 { Fsdp::FullShard } else { Fsdp::No },
        sequence_parallel: tensor > 1,
    };
    let run = |trainer: &mut Trainer| {
        let steps = [(&[0, 1][..], 0.05), (&[2], 0.05), (&[0], 0.0)];
        let steps = steps.map(|(batches, rate)| case.step(trainer, batches, rate));
        (steps, trainer.forward(&case.batch(0)).unwrap())
    };
    let (expect, forwarded) = run(&mut case.trainer_on(&cores(&([1; 3], 1))));
    for mesh in meshes {
        let mut trainer = case.trainer_on(&cores(mesh));
        let (steps, found) = run(&mut trainer);
        check_same(&steps, &expect);
        assert_eq!(found.loss.is_some(), forwarded.loss.is_some());
        check_close(found.loss.unwrap_or(0.0), forwarded.loss.unwrap_or(0.0));
        assert_eq!(found.rows.len(), forwarded.rows.len());
        for (found, expect) in found.rows.iter().zip(&forwarded.rows) {
            for (found, expect) in found.values.iter().zip(&expect.values) {
                check_close(f64::from(*found), f64::from(*expect));
            }
        }
        if mesh.1 > 1 {
            case.check_resumed(trainer);
        }
    }
}

/// The layers of a generator and of a wider discriminator, one behind the other: the means are over the tokens of the
/// whole batch, and parameters that both have are those of two stages.
#[test]
fn replaced_tokens_in_stages() {
    check_stages(&detected(), &[([2, 1, 2], 1), ([1, 1, 2], 2)]);
}

/// Texts are embedded in four stages with other rows on other cores, and in two that have two parts of the model each
/// and divide layers.
#[test]
fn texts_in_stages() {
    check_stages(&ranked(None), &[([2, 1, 4], 1), ([1, 2, 2], 2)]);
}

/// Labels are compared with those of other micro-batches too.
#[test]
fn labelled_texts_in_stages() {
    for guide in [GuideVectors::OfLabels, GuideVectors::BesideTexts] {
        check_stages(&guided(guide, Some(3)), &[([1, 1, 2], 1)]);
    }
}

/// An evaluation compares its rows too.
#[test]
fn ordered_passages_in_stages() {
    let loss = Lambda {
        passages: SEQUENCES,
        weighting: Weighting::NdcgLoss2,
        k: None,
        sigma: 1.0,
        eps: 1e-10,
        is_binary: true,
    };
    check_stages(&scored(Arc::new(loss)), &[([1, 1, 2], 1)]);
}

#[test]
fn ordered_passages() {
    scored(Arc::new(ListNet { passages: SEQUENCES })).check();
}

#[test]
fn rewards() {
    preferred(Reward { center_rewards_coefficient: Some(0.01) }, Targets::Scores).check();
}

/// The loss of the tokens of chosen completions is a mean over those of all cores, which have other numbers of them.
#[test]
fn preferences_by_odds() {
    preferred(Orpo { beta: 0.1 }, Targets::Completions).check();
}

#[test]
fn preferences_without_a_reference() {
    let loss = CpoLoss::Simpo;
    let objective =
        Cpo { loss, beta: 2.0, label_smoothing: 0.0, cpo_alpha: 0.5, simpo_gamma: 0.5, alpha: 0.0 };
    preferred(objective, Targets::Completions).check();
}

#[test]
fn preferences_and_tokens() {
    let objective = Dpo {
        losses: vec![(DpoLoss::Sigmoid, 0.8), (DpoLoss::Sft, 1.0)],
        beta: 0.1,
        label_smoothing: 0.0,
        divergence: Divergence::ReverseKl,
        discopop_tau: 0.05,
        ld_alpha: None,
        use_weighting: false,
    };
    let reference = Some(Reference::WithoutAdapters);
    Case { reference, ..preferred(objective, Targets::Completions) }.check();
}

/// The divergence is that of all cores, and the reference is where training started, not where it continues.
#[test]
fn single_completions() {
    let objective = Kto {
        beta: 0.1,
        desirable_weight: 1.0,
        undesirable_weight: 1.5,
        estimates_divergence: true,
    };
    preferred(objective, Targets::Desirable).check();
}

/// The means are over the tokens of all cores, and those that are drawn depend on the rows alone.
#[test]
fn replaced_tokens() {
    detected().check();
}

#[test]
fn sequences_of_a_row_stay_on_one_core() {
    let case = ranked(None);
    let mut trainer = case.trainer(8);
    let mut arrays = case.batch(0);
    for array in &mut arrays {
        array.dims[0] -= SEQUENCES;
        let ArrayValues::S32(values) = &mut array.values else { panic!("tokens are numbers") };
        values.truncate(array.dims.iter().product());
    }
    let error = trainer.add_batch(&arrays).unwrap_err().to_string();
    assert!(
        error.contains("14 rows, 2 of each of the data, which 8 cores cannot share"),
        "{error}"
    );
}
