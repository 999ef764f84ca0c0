//! Whether NeuronCores can run the programs of a job, before their compiler works on them for minutes.

use std::path::Path;

use traind_job_file::{JobFile, Platform};
use traind_neuron::{CoreKind, runtime_version};
use traind_xla::runtime::{RecordedStep, Recorder};
use traind_xla::verify::neuron::{Finding, Limits};

use super::devices::neuron_core;
use crate::error::{RunError, RunResult};

/// Problems that a failure shows.
const SHOWN: usize = 3;
/// The planner compares what a job takes with the memory of a core in a finer way.
const MEMORY: &str = "NCC_EOOM002";

/// The limits of a job's programs on the device that `traind plan --device` names, or on the first one; `None` on
/// other platforms. The error function is written in plain StableHLO there, so no program needs `chlo`.
pub(super) fn limits(job: &JobFile, device: &str) -> Option<Limits> {
    if job.resources.platform != Platform::Neuron {
        return None;
    }
    let core: &CoreKind = neuron_core(device).or_else(|| neuron_core(""))?;
    let groups = traind_neuron::replica_groups_max(runtime_version(Path::new("/")));
    Some(Limits { replica_groups_max: groups, ..Limits::of_core(core) })
}

/// Refuses a program that NeuronCores cannot run.
pub(super) fn check(limits: &Limits, recorder: &Recorder, step: &RecordedStep) -> RunResult<()> {
    let found = recorder.verify_for_neuron(step, limits).findings;
    let found: Vec<Finding> = found.into_iter().filter(|it| it.code != MEMORY).collect();
    let Some(first) = found.first() else { return Ok(()) };
    let is_of_mesh = first.code.starts_with("NRT_") && first.code != "NRT_EXEC_OOB";
    let words: Vec<String> = found.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = match found.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Err(RunError::Field {
        name: if is_of_mesh { "parallel" } else { "resources.platform" },
        value: Platform::Neuron.to_string(),
        problem: format!(
            "has a program that {} cannot run: {}{more}",
            limits.core.kind,
            words.join("; ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};
    use traind_job_file::JobFile;

    use crate::plan::PlannedModel;
    use crate::plan::memory::Memory;

    const FIXTURES: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../xla-backend/models/fixtures");
    const TASKS: [&str; 7] = [
        "sequence-classification",
        "token-classification",
        "question-answering",
        "masked-lm",
        "causal-lm",
        "seq2seq-lm",
        "image-classification",
    ];

    /// Plans a job for the model of a fixture, and returns why NeuronCores cannot run it.
    fn problem(fixture: &str, task: &str, settings: &Value) -> Option<String> {
        let mut job = json!({
            "name": fixture, "model": {"name_or_path": format!("{FIXTURES}/{fixture}"), "task": task},
            "data": {"train": "/train.csv", "validation": "/dev.csv"},
            "train": {"per_device_train_batch_size": 2, "eval_strategy": "epoch"},
            "resources": {"cores": 1, "platform": "neuron"}, "output_dir": "/out",
        });
        match task {
            "causal-lm" | "masked-lm" => job["data"]["max_length"] = 8.into(),
            "seq2seq-lm" => job["data"]["max_target_length"] = 8.into(),
            "image-classification" => job["model"]["num_labels"] = 3.into(),
            _ => job["data"]["max_length"] = 8.into(),
        }
        for (section, keys) in settings.as_object().unwrap() {
            for (key, value) in keys.as_object().unwrap() {
                job[section][key] = value.clone();
            }
        }
        let job: JobFile = serde_json::from_value(job).unwrap();
        let planned = PlannedModel::of_job(&job, false).unwrap();
        assert!(planned.neuron.is_some());
        Memory::of(&job, &planned).err().map(|error| format!("{fixture} {settings}: {error}"))
    }

    /// Each fixture with its task.
    fn fixtures() -> Vec<(String, &'static str)> {
        let entries = fs::read_dir(FIXTURES).unwrap().flatten();
        let with_config = entries.filter(|entry| entry.path().join("config.json").is_file());
        let mut names: Vec<String> =
            with_config.map(|it| it.file_name().into_string().unwrap()).collect();
        names.sort();
        let task = |name: &str| TASKS.into_iter().find(|task| name.ends_with(task));
        names.into_iter().filter_map(|name| task(&name).map(|task| (name, task))).collect()
    }

    #[test]
    fn programs_of_all_families_and_tasks_run_on_neuron_cores() {
        let fixtures = fixtures();
        assert!(fixtures.len() > 20, "{fixtures:?}");
        for task in TASKS {
            assert!(fixtures.iter().any(|(_, of)| *of == task), "no fixture for {task}");
        }
        let problems = fixtures.iter().filter_map(|(name, task)| problem(name, task, &json!({})));
        assert_eq!(problems.collect::<Vec<_>>(), Vec::<String>::new());
    }

    #[test]
    fn programs_of_meshes_and_optimizers_run_on_neuron_cores() {
        let optimizers = ["adamw_torch", "sgd", "adafactor", "adagrad", "rmsprop", "lion_32bit"];
        let optimizers = optimizers.map(|it| json!({"train": {"optim": it}}));
        let meshes = [
            (2, json!({})),
            (2, json!({"tensor": 2})),
            (2, json!({"pipeline": 2})),
            (4, json!({"tensor": 2, "fsdp": "full_shard"})),
        ];
        let meshes = meshes.map(|(cores, parallel)| {
            json!({"resources": {"cores": cores, "platform": "neuron"}, "parallel": parallel, "train": {"bf16": true, "max_grad_norm": 1.0}})
        });
        let all = optimizers.iter().chain(&meshes);
        let problems = all.filter_map(|it| {
            problem("bert-sequence-classification", "sequence-classification", it)
        });
        assert_eq!(problems.collect::<Vec<_>>(), Vec::<String>::new());
    }

    #[test]
    fn a_program_that_is_too_large_is_refused_with_the_code() {
        let large = json!({"train": {"per_device_train_batch_size": 1_000_000}, "data": {"max_length": 32}});
        let problem =
            problem("bert-sequence-classification", "sequence-classification", &large).unwrap();
        assert!(problem.contains("NCC_EVRF024") && problem.contains("NC_v2"), "{problem}");
    }
}
