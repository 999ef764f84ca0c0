//! The trained part of a job's model, by its job file: `train.freeze`, `peft` and `model.dtype`.

use traind_job_file::{JobFile, PeftMethod};
use traind_models::tuning;
use traind_models::{Model, Task};

use crate::error::{RunError, RunResult};
use crate::recipe;

/// Freezes parameters and adds adapters as the job file has it.
pub(crate) fn tune(model: &mut Model, job: &JobFile, task: Task) -> RunResult<()> {
    if !job.train.freeze.is_empty() {
        tuning::freeze(model, &job.train.freeze)?;
    }
    if job.peft.method == Some(PeftMethod::Lora) {
        check_generator(model, job)?;
        let lora = match &job.peft.adapter_name_or_path {
            Some(folder) => tuning::load_lora_of(folder, model)?,
            None => recipe::lora(&job.peft, model.config().model_type()?)?,
        };
        let lora = lora.with_head_of(task, model.config().model_type()?);
        tuning::add_lora(model, &lora)?;
    }
    if let Some(dtype) = recipe::frozen_dtype(job.model.dtype) {
        tuning::store_frozen_as(model, dtype);
    }
    Ok(())
}

/// Refuses adapters of a generator with random weights, which would be frozen and not saved.
fn check_generator(model: &Model, job: &JobFile) -> RunResult<()> {
    let generator = model.config().token_generator();
    if job.peft.merge || !generator.is_some_and(|generator| generator.is_new) {
        return Ok(());
    }
    Err(RunError::Field {
        name: "peft.method",
        value: "lora".to_owned(),
        problem: "freezes the generator's weights, which are random and would not be saved: name a generator in \
                  model.generator, or set peft.merge"
            .to_owned(),
    })
}
