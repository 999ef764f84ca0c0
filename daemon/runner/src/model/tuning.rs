//! The trained part of a job's model, by its job file: `train.freeze`, `peft` and `model.dtype`.

use traind_job_file::{JobFile, Peft, PeftMethod, TargetModules, TokenIndices, WeightDtype};
use traind_models::tuning::{self, Lora};
use traind_models::{Model, Task};
use traind_xla::DType;

use crate::error::{RunError, RunResult};
use crate::recipe;

/// Freezes parameters and adds adapters as the job file has it.
pub(crate) fn tune(model: &mut Model, job: &JobFile, task: Task) -> RunResult<()> {
    if !job.train.freeze.is_empty() {
        tuning::freeze(model, &job.train.freeze)?;
    }
    if job.peft.method == Some(PeftMethod::Lora) {
        let lora = match &job.peft.adapter_name_or_path {
            Some(folder) => tuning::load_lora(folder)?,
            None => lora(&job.peft, model.config().model_type()?)?,
        };
        let lora = lora.with_head_of(task, model.config().model_type()?);
        tuning::add_lora(model, &lora)?;
    }
    if job.model.dtype == WeightDtype::Bfloat16 {
        tuning::store_frozen_as(model, DType::BF16);
    }
    Ok(())
}

fn lora(peft: &Peft, model_type: &str) -> RunResult<Lora> {
    let layers = peft.layers_to_transform.as_ref();
    Ok(Lora {
        r: peft.r as usize,
        lora_alpha: peft.lora_alpha,
        lora_dropout: peft.lora_dropout,
        target_modules: targets(peft, model_type)?,
        modules_to_save: peft.modules_to_save.clone(),
        use_rslora: peft.use_rslora,
        use_dora: peft.use_dora,
        bias: recipe::adapter_bias(peft.bias),
        layers_to_transform: layers
            .map(|layers| layers.0.iter().map(|layer| *layer as usize).collect()),
        trainable_token_indices: peft.trainable_token_indices.as_ref().map(token_indices),
        ensure_weight_tying: peft.ensure_weight_tying,
    })
}

fn token_indices(tokens: &TokenIndices) -> tuning::TokenIndices {
    let list = |tokens: &[u32]| tokens.iter().map(|token| *token as usize).collect();
    match tokens {
        TokenIndices::OfEmbedding(tokens) => tuning::TokenIndices::OfEmbedding(list(tokens)),
        TokenIndices::OfModules(modules) => tuning::TokenIndices::OfModules(
            modules.iter().map(|(name, tokens)| (name.to_owned(), list(tokens))).collect(),
        ),
    }
}

fn targets(peft: &Peft, model_type: &str) -> RunResult<tuning::TargetModules> {
    match &peft.target_modules {
        Some(TargetModules::Named(names)) => Ok(tuning::TargetModules::Named(names.clone())),
        Some(TargetModules::AllLinear) => Ok(tuning::TargetModules::AllLinear),
        None => Lora::default_targets(model_type).ok_or_else(|| RunError::Field {
            name: "peft.target_modules",
            value: "none".to_owned(),
            problem: format!("{model_type} models have no default; `all-linear` takes all layers"),
        }),
    }
}
