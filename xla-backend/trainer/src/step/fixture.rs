//! The programs of a small model, recorded without a device.

use std::sync::Arc;

use traind_loader::{BatchAxis, BatchSizes, ModelInputs};
use traind_models::{Model, ModelConfig, Task, registry};
use traind_xla::kernels::{GpuOptions, Kernels};
use traind_xla::runtime::Recorder;

use super::{JobPrograms, Program, ProgramShape, Readout, StepConfig};
use crate::error::Result;

/// The programs of a model of two layers, with the recorder that declared their variables.
pub(crate) struct Recorded {
    pub(crate) programs: JobPrograms,
    pub(crate) recorder: Recorder,
}

impl Recorded {
    pub(crate) fn of(config: &StepConfig) -> Result<Recorded> {
        let (mesh, kernels) = (config.mesh.mesh()?, Kernels::own_if(false));
        let mut recorder = Recorder::new(mesh, "cpu", GpuOptions::default(), kernels);
        let inputs =
            ModelInputs { token_type_ids: true, attention_mask: true, position_ids: false };
        let recorders = [&mut recorder];
        let programs = JobPrograms::declare(config, &model(), inputs, Readout::Logits, recorders)?;
        Ok(Recorded { programs, recorder })
    }
}

pub(crate) fn model() -> Arc<Model> {
    let config = serde_json::json!({
        "model_type": "bert", "vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 32,
        "type_vocab_size": 2, "num_labels": 3,
    });
    let config = ModelConfig::new("config.json", config.as_object().unwrap().clone());
    registry::build(config, Task::SequenceClassification).unwrap().into()
}

/// The shape of a program for batches of four rows.
pub(crate) fn shape(program: Program) -> ProgramShape {
    match program {
        Program::Update => ProgramShape::update(),
        _ => {
            let sizes = BatchSizes::of_rows(4).with(BatchAxis::Positions, 8);
            ProgramShape::of_batch(program, sizes)
        }
    }
}
