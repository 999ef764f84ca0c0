//! The library by itself: the example, and steps that a job file has no words for.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod arrays_page;
#[path = "../on_cpu/mod.rs"]
mod on_cpu;
mod refused;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use traind_loader::{ArrayValues, BatchArray};
use traind_models::optimizers::GroupSettings;
use traind_models::tuning::{Lora, PeftBias, TargetModules, add_lora};
use traind_models::{Model, ModelConfig, Task, registry, weights};
use traind_trainer::Trainer;
use traind_trainer::state::{MeshConfig, StartValues, StateConfig};
use traind_trainer::step::{OptimizerConfig, StepConfig};
use traind_xla::runtime::HostArray;

#[allow(dead_code)] // its main function
#[path = "../../examples/train.rs"]
mod example;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/fixtures/bert-sequence-classification")
}

fn model() -> (Arc<Model>, Vec<HostArray>) {
    model_with(&Map::new())
}

/// The model with other settings of its config, and its values.
fn model_with(overrides: &Map<String, Value>) -> (Arc<Model>, Vec<HostArray>) {
    let config = ModelConfig::load(&folder(), overrides).unwrap();
    let model: Arc<Model> = registry::build(config, Task::SequenceClassification).unwrap().into();
    let parameters = weights::load(&folder(), model.as_ref(), 1).unwrap().arrays;
    (model, parameters)
}

/// A trainer on `cores` cores that see different rows, with the optimizer of that name.
fn trainer(cores: usize, optimizer: &str) -> Trainer {
    let optimizer = OptimizerConfig { name: optimizer.to_owned(), ..OptimizerConfig::default() };
    let mesh = MeshConfig { data: cores, ..MeshConfig::default() };
    trainer_of(model(), StepConfig { mesh, state: room(), optimizer, ..StepConfig::default() })
}

/// A state with room for all rows on each core.
fn room() -> StateConfig {
    StateConfig { rows_per_core: ROWS.len(), ..StateConfig::default() }
}

fn trainer_of((model, parameters): (Arc<Model>, Vec<HostArray>), config: StepConfig) -> Trainer {
    on_cpu::trainer(model, parameters, &config)
}

/// The model with adapters, and its values.
fn adapted() -> (Arc<Model>, Vec<HostArray>) {
    let config = ModelConfig::load(&folder(), &Map::new()).unwrap();
    let mut model = registry::build(config, Task::SequenceClassification).unwrap();
    let lora = Lora {
        r: 2,
        lora_alpha: 4.0,
        lora_dropout: 0.0,
        target_modules: TargetModules::Named(vec!["query".to_owned(), "value".to_owned()]),
        modules_to_save: vec!["classifier".to_owned()],
        use_rslora: false,
        use_dora: false,
        bias: PeftBias::None,
        layers_to_transform: None,
        trainable_token_indices: None,
        ensure_weight_tying: false,
    };
    add_lora(&mut model, &lora).unwrap();
    let parameters = weights::load(&folder(), &model, 1).unwrap().arrays;
    (model.into(), parameters)
}

/// Rows of three tokens with these words and classes.
fn batch(rows: &[(i32, i32)]) -> Vec<BatchArray> {
    let words = rows.iter().flat_map(|(word, _)| [2, *word, 3]).collect();
    let labels = rows.iter().map(|(_, label)| *label).collect();
    let of = |name, dims: &[usize], values| BatchArray { name, dims: dims.to_vec(), values };
    vec![
        of("input_ids", &[rows.len(), 3], ArrayValues::S32(words)),
        of("attention_mask", &[rows.len(), 3], ArrayValues::S32(vec![1; 3 * rows.len()])),
        of("labels", &[rows.len()], ArrayValues::S32(labels)),
    ]
}

const ROWS: [(i32, i32); 4] = [(7, 0), (8, 1), (9, 2), (10, 0)];

fn values(trainer: &Trainer) -> Vec<f32> {
    let arrays = trainer.parameters().unwrap();
    arrays.iter().flat_map(|array| array.to_f32().unwrap()).collect()
}

fn far(left: &[f32], right: &[f32]) -> f32 {
    left.iter().zip(right).map(|(left, right)| (left - right).abs()).fold(0.0, f32::max)
}

#[test]
fn the_example_learns_its_rows_and_saves_the_model() {
    let output = tempfile::tempdir().unwrap();
    let losses = example::train(&folder(), output.path(), 20).unwrap();
    assert_eq!(losses.len(), 20);
    assert!(losses[19] < 0.2 * losses[0], "{losses:?}");
    let (model, start) = model();
    let saved = weights::load(output.path(), model.as_ref(), 1).unwrap();
    assert!(saved.report.initialized.is_empty() && saved.report.missing.is_empty());
    assert_ne!(saved.arrays, start);
}

/// Two batches add up to the gradients of one with all their rows, and change nothing by themselves.
#[test]
fn batches_add_gradients_and_an_update_applies_them() {
    let (mut whole, mut parts) = (trainer(2, "sgd"), trainer(2, "sgd"));
    let start = values(&whole);
    whole.add_batch(&batch(&ROWS)).unwrap();
    let expect = whole.update(0.1).unwrap();
    for rows in ROWS.chunks(2) {
        parts.add_batch(&batch(rows)).unwrap();
        assert_eq!(values(&parts), start, "no update yet");
    }
    let found = parts.update(0.1).unwrap();
    assert!((found.loss - expect.loss).abs() < 1e-5, "{found:?}, {expect:?}");
    assert!((found.grad_norm - expect.grad_norm).abs() < 1e-4, "{found:?}, {expect:?}");
    assert!(far(&values(&parts), &values(&whole)) < 1e-5);
    assert!(far(&values(&parts), &start) > 1e-4);
    assert_eq!((parts.steps(), whole.steps()), (1, 1));
}

/// The rate of each update is the caller's.
#[test]
fn an_update_moves_by_its_own_rate() {
    let moved = |rate: f64| {
        let mut trainer = trainer(1, "sgd");
        let start = values(&trainer);
        trainer.add_batch(&batch(&ROWS)).unwrap();
        trainer.update(rate).unwrap();
        far(&values(&trainer), &start)
    };
    assert_eq!(moved(0.0), 0.0);
    let (one, two) = (moved(0.01), moved(0.02));
    assert!((two / one - 2.0).abs() < 1e-2, "{one}, {two}");
}

/// Values that were read are where training continues later.
#[test]
fn training_starts_again_from_values_that_were_read() {
    let mut trainer = trainer(1, "sgd");
    let step = |trainer: &mut Trainer| {
        trainer.add_batch(&batch(&ROWS)).unwrap();
        trainer.update(0.1).unwrap().loss
    };
    step(&mut trainer);
    let parameters = trainer.parameters().unwrap();
    let expect = [step(&mut trainer), step(&mut trainer)];
    let mut other = parameters.clone();
    if let Some(last) = other.last_mut() {
        *last = HostArray::from_f32(&[7], &[0.0; 7]).unwrap();
    }
    let before = values(&trainer);
    let error = trainer.start(&StartValues { parameters: other, ..StartValues::default() }, 1);
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("classifier.bias: f32[7] for f32[3]"), "{error}");
    assert_eq!(values(&trainer), before, "a start that fails changes nothing");
    trainer.start(&StartValues { parameters, ..StartValues::default() }, 1).unwrap();
    assert_eq!([step(&mut trainer), step(&mut trainer)], expect);
    assert_eq!(trainer.steps(), 3);
    let error = trainer.start(&StartValues::default(), 0).unwrap_err();
    assert!(error.to_string().starts_with("parameters: given 0, and "), "{error}");
}

/// A row of weight 0 is as if it were absent.
#[test]
fn rows_count_by_their_weights() {
    let (mut weighted, mut fewer) = (trainer(1, "sgd"), trainer(1, "sgd"));
    let mut arrays = batch(&ROWS);
    let values = ArrayValues::F32(vec![1.0, 0.0, 1.0, 0.0]);
    arrays.push(BatchArray { name: "sample_weights", dims: vec![4], values });
    weighted.add_batch(&arrays).unwrap();
    fewer.add_batch(&batch(&[ROWS[0], ROWS[2]])).unwrap();
    let (found, expect) = (weighted.update(0.1).unwrap(), fewer.update(0.1).unwrap());
    assert!((found.loss - expect.loss).abs() < 1e-6, "{found:?}, {expect:?}");
    assert!((found.grad_norm - expect.grad_norm).abs() < 1e-5, "{found:?}, {expect:?}");
}

/// Each of the rows that several batches have on two cores, with room for more, has dropout of its own: the losses of
/// equal rows differ.
#[test]
fn rows_of_small_batches_have_random_bits_of_their_own() {
    let dropout = Map::from_iter([("hidden_dropout_prob".to_owned(), 0.5.into())]);
    let (model, parameters) = model_with(&dropout);
    let mesh = MeshConfig { data: 2, ..MeshConfig::default() };
    let state = StateConfig { rows_per_core: 2, ..StateConfig::default() };
    let config = StepConfig { mesh, state, ..StepConfig::default() };
    let mut trainer = trainer_of((model, parameters.clone()), config);
    let (batches, cores) = (4, 2);
    let mut losses = Vec::new();
    for counted in 0..batches * cores {
        let start = StartValues { parameters: parameters.clone(), ..StartValues::default() };
        trainer.start(&start, 0).unwrap();
        let steps = (0..batches).map(|place| {
            let weight = |core: usize| f32::from(u8::from(place * cores + core == counted));
            let mut arrays = batch(&[ROWS[0]; 2]);
            let values = ArrayValues::F32((0..cores).map(weight).collect());
            arrays.push(BatchArray { name: "sample_weights", dims: vec![cores], values });
            arrays
        });
        // The loop numbers rows as single calls do.
        match counted % 2 {
            0 => steps.for_each(|arrays| trainer.add_batch(&arrays).unwrap()),
            _ => {
                let results = trainer.train([steps.collect()], |_| 0.0).unwrap();
                losses.push(results[0].loss);
                continue;
            }
        }
        losses.push(trainer.update(0.0).unwrap().loss);
    }
    for (place, loss) in losses.iter().enumerate() {
        assert!(!losses[..place].contains(loss), "{losses:?}");
    }
}

/// A forward pass has the loss of a step, and changes nothing.
#[test]
fn a_forward_pass_gives_loss_and_logits() {
    let mut trainer = trainer(2, "sgd");
    let start = values(&trainer);
    let found = trainer.forward(&batch(&ROWS)).unwrap();
    assert_eq!(values(&trainer), start);
    let unlabelled = trainer.forward(&batch(&ROWS)[..2]).unwrap();
    assert_eq!((unlabelled.loss, &unlabelled.rows), (None, &found.rows));
    // The mean cross-entropy of the logits.
    let row_loss = |(row, (_, label)): (&Vec<f32>, &(i32, i32))| {
        let sum = row.iter().map(|logit| f64::from(*logit).exp()).sum::<f64>();
        sum.ln() - f64::from(row[*label as usize])
    };
    let logits: Vec<Vec<f32>> = found.rows.into_iter().map(|row| row.values).collect();
    let expect = logits.iter().zip(&ROWS).map(row_loss).sum::<f64>() / 4.0;
    let loss = found.loss.unwrap();
    assert!((loss - expect).abs() < 1e-5, "{loss}, {expect}");
    trainer.add_batch(&batch(&ROWS)).unwrap();
    let step = trainer.update(0.1).unwrap().loss;
    assert!((loss - step).abs() < 1e-5, "{loss}, {step}");
}

/// The loop launches what single calls do.
#[test]
fn many_steps_are_those_of_single_calls() {
    let (mut many, mut single) = (trainer(2, "adamw_torch"), trainer(2, "adamw_torch"));
    let steps: Vec<Vec<Vec<BatchArray>>> =
        (0..3).map(|_| ROWS.chunks(2).map(batch).collect()).collect();
    let rate = |step: u64| 0.01 / (step + 1) as f64;
    let found = many.train(steps.clone(), rate).unwrap();
    for (number, (step, found)) in steps.iter().zip(&found).enumerate() {
        step.iter().for_each(|batch| single.add_batch(batch).unwrap());
        assert_eq!(single.update(rate(number as u64)).unwrap(), *found);
    }
    assert_eq!(values(&many), values(&single));
    assert_eq!((found.len(), many.steps()), (3, 3));
}

#[test]
fn groups_have_rates_of_their_own() {
    let group = GroupSettings {
        pattern: "classifier".to_owned(),
        rate: 1.0,
        weight_decay: None,
        optim: None,
    };
    let optimizer =
        OptimizerConfig { name: "sgd".to_owned(), groups: vec![group], ..Default::default() };
    let mut trainer = trainer_of(model(), StepConfig { optimizer, ..StepConfig::default() });
    let start = values(&trainer);
    trainer.add_batch(&batch(&ROWS)).unwrap();
    let error = trainer.update_at(&[0.1]).unwrap_err().to_string();
    assert_eq!(error, "learning rates: given 1, and 2 are needed");
    trainer.update_at(&[0.1, 0.0]).unwrap();
    let (model, moved) = (model().0, values(&trainer));
    let mut place = 0;
    for spec in model.parameters() {
        let range = place..place + spec.shape.element_count();
        place = range.end;
        let is_moved = moved[range.clone()] != start[range];
        assert_eq!(is_moved, spec.name.starts_with("classifier"), "{}", spec.name);
    }
}

/// Training continues from a folder to the bit, in the middle of a step too.
#[test]
fn state_is_saved_and_loaded_at_any_point() {
    let step = |trainer: &mut Trainer, rows: &[(i32, i32)]| {
        trainer.add_batch(&batch(rows)).unwrap();
        trainer.update(0.01).unwrap()
    };
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut trainer = trainer_of(adapted(), StepConfig::default());
    step(&mut trainer, &ROWS);
    trainer.save(folders[0].path()).unwrap();
    trainer.add_batch(&batch(&ROWS[..2])).unwrap();
    trainer.save(folders[1].path()).unwrap();
    let expect = [step(&mut trainer, &ROWS[2..]), step(&mut trainer, &ROWS)];
    let weights = values(&trainer);

    let mut other = trainer_of(adapted(), StepConfig::default());
    other.load(folders[1].path()).unwrap();
    assert_eq!([step(&mut other, &ROWS[2..]), step(&mut other, &ROWS)], expect);
    assert_eq!((values(&other), other.steps()), (weights.clone(), 3));

    other.load(folders[0].path()).unwrap();
    other.add_batch(&batch(&ROWS[..2])).unwrap();
    assert_eq!([step(&mut other, &ROWS[2..]), step(&mut other, &ROWS)], expect);
    assert_eq!(values(&other), weights);

    std::fs::remove_file(folders[0].path().join("state.json")).unwrap();
    let error = other.load(folders[0].path()).unwrap_err().to_string();
    assert!(error.contains("cannot be loaded"), "{error}");
}

/// Two sets of adapters that are trained by turns have the bits of two that are trained alone.
#[test]
fn sets_of_adapters_share_a_frozen_model() {
    let rows = [&ROWS[..2], &ROWS[2..]];
    let add = |trainer: &mut Trainer, set: usize| trainer.add_batch(&batch(rows[set])).unwrap();
    let alone = |set: usize| {
        let mut trainer = trainer_of(adapted(), StepConfig::default());
        for _ in 0..2 {
            add(&mut trainer, set);
            add(&mut trainer, 1 - set);
            trainer.update(0.01).unwrap();
        }
        values(&trainer)
    };
    let expect = [alone(0), alone(1)];
    assert_ne!(expect[0], expect[1]);

    let mut trainer = trainer_of(adapted(), StepConfig::default());
    let start = trainer.parameters().unwrap();
    add(&mut trainer, 0);
    assert_eq!(trainer.add_set(start.clone()).unwrap(), 1);
    add(&mut trainer, 1);
    for _ in 0..2 {
        for set in [0, 1] {
            trainer.select_set(set).unwrap();
            add(&mut trainer, 1 - set);
            trainer.update(0.01).unwrap();
            add(&mut trainer, set);
        }
    }
    let found = [0, 1].map(|set| {
        trainer.select_set(set).unwrap();
        values(&trainer)
    });
    assert!(found == expect);
    assert_eq!((trainer.set(), trainer.steps()), (1, 2));
    let error = trainer.select_set(2).unwrap_err().to_string();
    assert_eq!(error, "there is no set 2: the trainer has 2");
    let error = trainer.add_set(start[1..].to_vec()).unwrap_err().to_string();
    assert!(error.starts_with("parameters: given "), "{error}");
}
