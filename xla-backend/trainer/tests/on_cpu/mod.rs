//! Trainers on CPU devices.

use std::sync::Arc;

use traind_loader::ModelInputs;
use traind_models::Model;
use traind_trainer::session::open_plugin;
use traind_trainer::state::StartValues;
use traind_trainer::step::StepConfig;
use traind_trainer::{Error, Trainer};
use traind_xla::runtime::HostArray;

/// A trainer of a model that starts with `parameters`, on as many devices as the config's mesh has.
pub(crate) fn trainer(
    model: Arc<Model>,
    parameters: Vec<HostArray>,
    config: &StepConfig,
) -> Trainer {
    try_trainer(model, parameters, config).unwrap()
}

/// A trainer of a model that starts with `parameters`, or the error of a config that does not fit.
pub(crate) fn try_trainer(
    model: Arc<Model>,
    parameters: Vec<HostArray>,
    config: &StepConfig,
) -> Result<Trainer, Error> {
    let plugin = traind_pjrt::installed_plugin("cpu").unwrap();
    let mesh = config.mesh;
    let cores = mesh.data * mesh.tensor * mesh.pipeline;
    let cores = open_plugin(&plugin, "cpu", cores, mesh.mesh().unwrap()).unwrap();
    let inputs = ModelInputs { token_type_ids: false, attention_mask: true, position_ids: false };
    let start = StartValues { parameters, ..StartValues::default() };
    Trainer::new(cores, model, inputs, config, &start)
}
