//! LoRA (Hu et al., 2021) as PEFT has it: beside the frozen matrix W of a linear layer stand a
//! narrow A and B, and the layer's result is x Wᵀ + s · dropout(x) Aᵀ Bᵀ with s = alpha / r.
//!
//! r the rank, I inputs, O outputs.

use traind_choices::PeftBias;
use traind_xla::{DType, Shape};

use super::adapters::{Adapter, Adapters, magnitude_name};
use super::lora_config::Lora;
use super::module_names::ModuleNames;
use super::targets::{Target, targets};
use super::token_rows::{AddedRows, token_rows};
use super::{beginnings, nearest};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::parameters::{Init, ParameterSpec, PartialGradient, Partition, Role};

/// Adds LoRA's adapters to a model and freezes the rest, but for the modules and biases that are
/// trained besides.
pub fn add_lora(model: &mut Model, lora: &Lora) -> Result<()> {
    let mut specs = model.parameters().to_vec();
    specs.iter_mut().for_each(|spec| spec.trainable = false);
    let module_names = ModuleNames::of(model.config().model_type()?);
    train_modules(&mut specs, module_names, lora)?;
    let mut adapters = Adapters::new(lora.clone(), module_names);
    let mut added = Vec::new();
    let frozen = specs.clone();
    for target in targets(&frozen, module_names, lora)? {
        let bias = format!("{}.bias", target.path);
        if lora.bias == PeftBias::LoraOnly {
            let own = specs.iter_mut().find(|spec| spec.name == bias);
            own.into_iter().for_each(|spec| spec.trainable = true);
        }
        let (adapter, parameters) = adapter(&target, lora);
        adapters.insert(&target.weight.name, bias, adapter);
        added.extend(parameters);
    }
    if let Some(tokens) = &lora.trainable_token_indices {
        for AddedRows { table, rows, spec } in token_rows(&frozen, module_names, tokens)? {
            adapters.insert_token_rows(table, rows);
            added.push(spec);
        }
    }
    if lora.bias == PeftBias::All {
        // BART's `final_logits_bias` is a buffer.
        let biases = specs.iter_mut().filter(|spec| spec.name.ends_with(".bias"));
        biases.for_each(|spec| spec.trainable = true);
    }
    check_joined(&specs, module_names, lora)?;
    specs.extend(added);
    model.tune(specs, adapters);
    Ok(())
}

/// Makes the parameters of modules trainable, by PEFT's rule: a module's path ends with a name.
fn train_modules(
    specs: &mut [ParameterSpec],
    module_names: ModuleNames,
    lora: &Lora,
) -> Result<()> {
    const FIELD: &str = "peft.modules_to_save";
    for module in &lora.modules_to_save {
        let is_named = |name: &String| {
            let name = module_names.parameter(name);
            beginnings(&name).any(|path| path != name && path.ends_with(module.as_str()))
        };
        let is_in = |spec: &ParameterSpec| is_named(&spec.name) || spec.tied.iter().any(is_named);
        let mut found = specs.iter_mut().filter(|spec| is_in(spec)).peekable();
        // One family has the name of a task's head and another has not.
        if found.peek().is_none()
            && !["classifier", "score", "qa_outputs"].contains(&module.as_str())
        {
            let names = specs.iter().flat_map(|spec| spec.name.split('.'));
            let nearest = nearest(module, names);
            return Err(Error::NoSuchModule { field: FIELD, name: module.clone(), nearest });
        }
        for spec in found {
            if !spec.tied.is_empty() && !lora.ensure_weight_tying {
                return Err(Error::TiedModule { field: FIELD, name: spec.name.clone() });
            }
            spec.trainable = true;
        }
    }
    Ok(())
}

/// Refuses parameters of several modules that would be trained whole: PEFT saves those of each module by itself.
fn check_joined(specs: &[ParameterSpec], module_names: ModuleNames, lora: &Lora) -> Result<()> {
    let is_joined = |spec: &&ParameterSpec| {
        let path = spec.name.rsplit_once('.').map_or("", |(path, _)| path);
        spec.trainable && !module_names.modules_of(path).is_empty()
    };
    match specs.iter().find(is_joined) {
        None => Ok(()),
        Some(spec) => {
            let is_bias = spec.name.ends_with(".bias") && lora.bias != PeftBias::None;
            let field = if is_bias { "peft.bias" } else { "peft.modules_to_save" };
            Err(Error::JoinedModules { field, name: spec.name.clone() })
        }
    }
}

/// The adapter of one layer and its parameters.
fn adapter(target: &Target<'_>, lora: &Lora) -> (Adapter, Vec<ParameterSpec>) {
    let weight = target.weight;
    let transposed = weight.role == Role::TransposedProjection;
    let (out, of) = if transposed { (1, 0) } else { (0, 1) };
    let (inputs, outputs) = (weight.shape.dims[of], target.outputs(weight.shape.dims[out]));
    let division = target.output_partition(weight.partitions[out]);
    let narrow = Partition::Replicated;
    // Each core has its part of the other side, and so of the gradient.
    let beside = |this: usize, other: usize| {
        let divides = |side: usize| weight.partitions[side] != Partition::Replicated;
        match (divides(this), divides(other)) {
            (true, _) => PartialGradient::Never,
            (false, true) => PartialGradient::Always,
            (false, false) => weight.partial_gradient,
        }
    };
    let (of_inputs, of_outputs) = (beside(of, out), beside(out, of));
    let spec =
        |name: &str, dims: &[usize], partitions: &[Partition], partial, init| ParameterSpec {
            name: name.to_owned(),
            shape: Shape::new(DType::F32, dims),
            init,
            role: Role::Projection,
            trainable: true,
            partitions: partitions.to_vec(),
            partial_gradient: partial,
            stages: weight.stages.clone(),
            tied: Vec::new(),
        };
    let name = |part: &str| format!("{}.{part}", target.path);
    let (a, b) = (name("lora_A.weight"), name("lora_B.weight"));
    // `kaiming_uniform_(a=√5)`, which is PyTorch's default for a linear layer.
    let uniform = Init::Uniform { bound: (inputs as f64).sqrt().recip() };
    let mut specs = vec![
        spec(&a, &[lora.r, inputs], &[narrow, weight.partitions[of]], of_inputs, uniform),
        spec(&b, &[outputs, lora.r], &[division, narrow], of_outputs, Init::Zeros),
    ];
    let magnitude = lora.use_dora.then(|| magnitude_name(&target.path));
    if let Some(name) = &magnitude {
        specs.push(spec(name, &[outputs], &[division], of_outputs, Init::Ones));
    }
    (Adapter { path: target.path.clone(), a, b, magnitude, transposed, run: target.run }, specs)
}
