//! Trains a model folder on rows in memory with AdamW, on two cores of the CPU, and saves it:
//! `cargo run -p traind-trainer --example train -- MODEL_FOLDER OUTPUT_FOLDER`
#![allow(clippy::print_stdout)] // the result

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Map;
use traind_loader::ArrayValues::S32;
use traind_loader::{BatchArray, ModelInputs};
use traind_models::{Model, ModelConfig, Task, registry, weights};
use traind_trainer::Trainer;
use traind_trainer::session::open_plugin;
use traind_trainer::state::{MeshConfig, StartValues, StateConfig};
use traind_trainer::step::StepConfig;

fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, output] = &folders[..] else { return Err("name a model and an output".into()) };
    println!("losses: {:?}", train(model, output, 20)?);
    Ok(())
}

/// Returns the loss of each step.
pub(crate) fn train(
    folder: &Path,
    output: &Path,
    steps: usize,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let config = ModelConfig::load(folder, &Map::new())?;
    let model: Arc<Model> = registry::build(config, Task::SequenceClassification)?.into();
    let parameters = weights::load(folder, model.as_ref(), 42)?.arrays;
    let mesh = MeshConfig { data: 2, ..MeshConfig::default() };
    let plugin = traind_pjrt::installed_plugin("cpu").ok_or("run `traind plugins install cpu`")?;
    let cores = open_plugin(&plugin, "cpu", 2, mesh.mesh()?)?;
    let inputs = ModelInputs { token_type_ids: false, attention_mask: true, position_ids: false };
    let state = StateConfig { rows_per_core: 2, ..StateConfig::default() };
    let config = StepConfig { mesh, state, ..StepConfig::default() };
    let start = StartValues { parameters, ..StartValues::default() };
    let mut trainer = Trainer::new(cores, Arc::clone(&model), inputs, &config, &start)?;
    let mut losses = Vec::new();
    for _ in 0..steps {
        trainer.add_batch(&batch())?;
        losses.push(trainer.update(5e-3)?.loss);
    }
    let arrays = trainer.parameters()?;
    weights::save(output, model.config(), model.parameters(), &arrays, u64::MAX)?;
    Ok(losses)
}

/// Four rows of three tokens, each with a class.
fn batch() -> Vec<BatchArray> {
    let array = |name, dims: &[usize], values| BatchArray { name, dims: dims.to_vec(), values };
    vec![
        array("input_ids", &[4, 3], S32(vec![2, 7, 3, 2, 8, 3, 2, 9, 3, 2, 10, 3])),
        array("attention_mask", &[4, 3], S32(vec![1; 12])),
        array("labels", &[4], S32(vec![0, 1, 2, 0])),
    ]
}
