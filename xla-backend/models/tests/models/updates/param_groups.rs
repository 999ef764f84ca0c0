//! Steps of a model whose parameters have groups, against PyTorch's parameter groups in `fixtures/param-groups`.

use safetensors::SafeTensors;
use traind_models::Task;
use traind_models::optimizers::{GroupSettings, Settings};
use traind_trainer::step::OptimizerConfig;

use super::training::{LEARNING_RATE, WEIGHT_DECAY, batch, trainer};
use crate::fixture::{Fixture, floats, folder_of};
use crate::support::check_close;

/// The steps of `scripts/fixtures/param_groups.py`.
const STEPS: u64 = 3;

/// The head, with a rate and a decay of its own.
fn classifier() -> GroupSettings {
    GroupSettings { weight_decay: Some(0.1), ..group("classifier", 1e-2) }
}

fn group(pattern: &str, learning_rate: f64) -> GroupSettings {
    let rate = learning_rate / LEARNING_RATE;
    GroupSettings { pattern: pattern.to_owned(), rate, weight_decay: None, optim: None }
}

#[test]
fn groups_are_updated_as_those_of_pytorch() {
    let args = [("momentum".to_owned(), 0.9.into())].into();
    let sgd = Settings { args, ..Settings::default() };
    let norms =
        GroupSettings { optim: Some(("sgd".to_owned(), sgd)), ..group("*LayerNorm*", 5e-2) };
    let groups = [classifier(), group(r"encoder\.layer\.0\.", 2e-4), norms];
    check("groups", "adamw_torch", &[], &groups);
}

#[test]
fn muon_moves_the_matrices_of_layers_and_adamw_all_others() {
    // Fewer iterations are compiled sooner.
    check("muon", "muon", &[("ns_steps", 2.0)], &[classifier()]);
}

fn check(case: &str, optim: &str, args: &[(&str, f64)], groups: &[GroupSettings]) {
    let fixture =
        Fixture::load(&folder_of("bert-sequence-classification"), Task::SequenceClassification);
    let args = args.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let settings = Settings { weight_decay: WEIGHT_DECAY, args, ..Settings::default() };
    let (name, groups) = (optim.to_owned(), groups.to_vec());
    let mut trainer = trainer(&fixture, OptimizerConfig { name, settings, groups, own: None });
    for _ in 0..STEPS {
        trainer.add_batch(&batch(&fixture)).unwrap();
        trainer.update(LEARNING_RATE).unwrap();
    }
    let weights = trainer.parameters().unwrap();
    let file = std::fs::read(folder_of("param-groups").join("expected.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    for (spec, weight) in fixture.model.parameters().iter().zip(&weights) {
        let name = format!("{case}.{}", spec.name);
        // Adam makes full steps of rounding noise where a gradient is zero.
        let noise = spec.name.ends_with("key.bias");
        let tolerance = if noise { STEPS as f64 * LEARNING_RATE } else { 2e-5 };
        let expected = floats(&tensors, &name).unwrap();
        check_close(&name, &weight.to_f32().unwrap(), &expected, tolerance);
    }
}
