//! The trained part of a job's model.

use traind_job_file::{Peft, TargetModules, TokenIndices, WeightDtype};
use traind_models::tuning::{self, Lora};
use traind_xla::DType;

use crate::error::{RunError, RunResult};

/// The adapters of a job, for a model of this type.
pub(crate) fn lora(peft: &Peft, model_type: &str) -> RunResult<Lora> {
    let layers = peft.layers_to_transform.as_ref();
    Ok(Lora {
        r: peft.r as usize,
        lora_alpha: peft.lora_alpha,
        lora_dropout: peft.lora_dropout,
        target_modules: targets(peft, model_type)?,
        modules_to_save: peft.modules_to_save.clone(),
        use_rslora: peft.use_rslora,
        use_dora: peft.use_dora,
        bias: peft.bias,
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

/// The type in which frozen parameters are stored, where it is another than the one they are loaded in.
pub(crate) fn frozen_dtype(dtype: WeightDtype) -> Option<DType> {
    match dtype {
        WeightDtype::Float32 => None,
        WeightDtype::Bfloat16 => Some(DType::BF16),
    }
}
