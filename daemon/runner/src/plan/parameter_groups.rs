//! The trained parameters by the settings that update them.

use traind_job_file::commands::PlannedGroup;
use traind_job_file::{ParamGroup, Train};
use traind_models::Model;
use traind_models::optimizers::Optimizers;

/// The groups of a job, and behind them the parameters that have none, if there are any; empty for a job without
/// groups.
pub(super) fn of(train: &Train, optimizers: &Optimizers, model: &Model) -> Vec<PlannedGroup> {
    let groups = &train.param_groups;
    if groups.is_empty() || !train.do_train {
        return Vec::new();
    }
    let mut planned: Vec<_> = groups.iter().map(|group| of_group(train, group)).collect();
    planned.push(without_group(train));
    for spec in model.parameters().iter().filter(|spec| spec.trainable) {
        let group = &mut planned[optimizers.group(spec)];
        group.tensors += 1;
        group.parameters += spec.shape.element_count() as u64;
    }
    planned.retain(|group| group.tensors > 0);
    planned
}

fn without_group(train: &Train) -> PlannedGroup {
    PlannedGroup {
        pattern: String::new(),
        tensors: 0,
        parameters: 0,
        learning_rate: train.learning_rate,
        weight_decay: train.weight_decay,
        optim: train.optim.to_string(),
    }
}

fn of_group(train: &Train, group: &ParamGroup) -> PlannedGroup {
    let of_job = without_group(train);
    PlannedGroup {
        pattern: group.pattern.clone(),
        learning_rate: group.learning_rate.unwrap_or(of_job.learning_rate),
        weight_decay: group.weight_decay.unwrap_or(of_job.weight_decay),
        optim: group.optim.map_or(of_job.optim.clone(), |optim| optim.to_string()),
        ..of_job
    }
}
