//! Whether NeuronCores can run the programs of a job, before their compiler works on them for minutes.

use std::path::Path;

use traind_job_file::commands::MeshSearch;
use traind_job_file::{JobFile, Platform};
use traind_neuron::{Cause, CoreKind, Version, explain, runtime_version};
use traind_xla::runtime::{RecordedStep, Recorder};
use traind_xla::verify::neuron::{Finding, Instructions, Limits, Report};

use super::devices::{self, neuron_core};
use crate::error::{RunError, RunResult};

/// Problems that a failure shows.
const SHOWN: usize = 3;
/// Faults that the planner finds itself: it compares what a job takes with the memory of a core in a finer way,
/// and counts the instructions of layers that it does not record.
const OF_PLANNER: [&str; 2] = ["NCC_EOOM002", "NCC_EXTP004"];

/// The warnings and the size of a program that NeuronCores can run.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Operations that the compiler computes in another type.
    pub warnings: Vec<Finding>,
    pub instructions: Instructions,
}

/// The limits of a job's programs on the device that `traind plan --device` names, or on the first one; `None` on
/// other platforms. `runtime` is a version, or this host's. The error function is written in plain StableHLO there, so
/// no program needs `chlo`.
pub(super) fn limits(job: &JobFile, device: &str, runtime: Option<Version>) -> Option<Limits> {
    if job.resources.platform != Platform::Neuron {
        return None;
    }
    let core: &CoreKind = neuron_core(device).or_else(|| neuron_core(""))?;
    // A host without a runtime has the limit of the older ones.
    let runtime = runtime.or_else(|| runtime_version(Path::new("/")));
    let groups = traind_neuron::replica_groups_max(runtime);
    Some(Limits { replica_groups_max: groups, ..Limits::of_core(core) })
}

/// Parses the version of a runtime that a search names; `None` for this host's. Other platforms have none.
pub(super) fn named_runtime(text: &str, platform: Platform) -> RunResult<Option<Version>> {
    if text.is_empty() {
        return Ok(None);
    }
    let error = |problem: String| {
        let value = text.to_owned();
        RunError::Field { name: "neuron_runtime", value, problem }
    };
    if platform != Platform::Neuron {
        return Err(error(format!(
            "is for NeuronCores, and the job is for the platform {platform}"
        )));
    }
    let parsed = Version::parse(text).map(Some);
    parsed.ok_or_else(|| error("is not a version of Neuron's runtime, such as 2.34".to_owned()))
}

/// Refuses numbers of cores of a host for which AWS documents no collectives on the device of a search.
pub(super) fn check_count(job: &JobFile, search: &MeshSearch, per_host: u32) -> RunResult<()> {
    let core = neuron_core(&search.device);
    let Some(core) = core.filter(|_| job.resources.platform == Platform::Neuron) else {
        return Ok(());
    };
    let counts = core.generation.documented_core_counts();
    let is_admitted = search.any_core_count && per_host.is_power_of_two();
    if is_admitted || counts.contains(&per_host) {
        return Ok(());
    }
    let device = match devices::is_named(&search.device) {
        true => search.device.as_str(),
        false => core.generation.target(),
    };
    let total = job.resources.total_cores();
    let of_each = match total / per_host.max(1) {
        0 | 1 => String::new(),
        hosts => format!("are {per_host} of each of {hosts} hosts: "),
    };
    Err(RunError::Field {
        name: "resources.cores",
        value: total.to_string(),
        problem: format!(
            "{of_each}AWS documents collectives of {device} for {} cores of a host alone; with \
             TRAIND_NEURON_ANY_CORE_COUNT=1 in its environment, the daemon admits other powers of two",
            listed(counts)
        ),
    })
}

/// "1, 2 or 8".
fn listed(counts: &[u32]) -> String {
    let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
    match counts.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => counts.join(", "),
    }
}

/// Refuses a program that NeuronCores cannot run, whatever it leaves out.
pub(super) fn check(
    limits: &Limits,
    recorder: &Recorder,
    step: &RecordedStep,
) -> RunResult<Checked> {
    let Report { findings, warnings, instructions } = recorder.verify_for_neuron(step, limits);
    let found = findings.into_iter().filter(|it| !OF_PLANNER.contains(&it.code));
    refuse(limits, &found.collect::<Vec<_>>())?;
    Ok(Checked { warnings, instructions })
}

/// Refuses a whole program with too many instructions.
pub(super) fn check_instructions(
    limits: Option<&Limits>,
    instructions: &Instructions,
) -> RunResult<()> {
    let Some(limits) = limits else { return Ok(()) };
    refuse(limits, instructions.check(limits.instructions_max).as_slice())
}

/// The error with the changes that make the programs of the job small enough, if their size is what it is about.
pub(super) fn with_remedy(error: RunError, changes: impl FnOnce() -> Vec<String>) -> RunError {
    match error {
        RunError::Field { name, value, problem }
            if explain(&problem).is_some_and(|it| it.cause == Cause::Size) =>
        {
            let changes = changes();
            let remedy = match changes.is_empty() {
                true => "no smaller batch, shorter rows or number of cores that share layers was found with which it \
                         can"
                    .to_owned(),
                false => format!("it can with {}", changes.join(", or with ")),
            };
            RunError::Field { name, value, problem: format!("{problem}; {remedy}") }
        }
        other => other,
    }
}

fn refuse(limits: &Limits, found: &[Finding]) -> RunResult<()> {
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
    use traind_job_file::commands::MeshSearch;
    use traind_job_file::{EmbeddingLoss, JobFile, Optim, Platform, RerankerLoss};
    use traind_xla::DType;
    use traind_xla::kernels::GpuOptions;
    use traind_xla::mesh::Mesh;
    use traind_xla::ops::ReduceKind;

    use super::{Limits, Recorder};
    use crate::plan::PlannedModel;
    use crate::plan::memory;

    const FIXTURES: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../xla-backend/models/fixtures");
    const TASKS: [&str; 8] = [
        "sequence-classification",
        "token-classification",
        "question-answering",
        "masked-lm",
        "replaced-token-detection",
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
        memory::of(&job, &planned).err().map(|error| format!("{fixture} {settings}: {error}"))
    }

    #[test]
    fn programs_are_checked_for_the_kind_of_core_of_their_host() {
        let job = json!({
            "name": "a", "model": {"name_or_path": "/model", "task": "causal-lm"}, "data": {"train": "/train.csv"},
            "resources": {"platform": "neuron"}, "output_dir": "/out",
        });
        let job: JobFile = serde_json::from_value(job).unwrap();
        let kind = |device: &str| super::limits(&job, device, None).unwrap().core.kind;
        for (device, expect) in [
            ("", "NC_v2"),
            ("inf2", "NC_v2"),
            ("trn2", "NC_v3d"),
            ("trn2-lnc1", "NC_v3"),
            ("trn3", "NC_v4d"),
            ("trn3-lnc1", "NC_v4"),
            ("NC_v3d", "NC_v3d"),
            ("NC_v4", "NC_v4"),
        ] {
            assert_eq!(kind(device), expect, "{device}");
            assert!(
                super::super::devices::core(job.resources.platform, device, &job.train).is_ok()
            );
        }
    }

    #[test]
    fn a_search_names_the_runtime_that_allows_more_groups() {
        let job = json!({
            "name": "a", "model": {"name_or_path": "/model", "task": "causal-lm"}, "data": {"train": "/train.csv"},
            "resources": {"platform": "neuron"}, "output_dir": "/out",
        });
        let job: JobFile = serde_json::from_value(job).unwrap();
        let groups = |text: &str| {
            let runtime = super::named_runtime(text, Platform::Neuron);
            let runtime = runtime.map_err(|error| error.to_string())?;
            Ok(super::limits(&job, "trn2", runtime).unwrap().replica_groups_max)
        };
        assert_eq!((groups("2.33"), groups("2.34.10.0")), (Ok(12), Ok(16)));
        let error: String = groups("newest").unwrap_err();
        assert!(error.contains("neuron_runtime") && error.contains("2.34"), "{error}");
        for platform in [Platform::Cpu, Platform::Cuda] {
            let error = super::named_runtime("2.34", platform).unwrap_err().to_string();
            assert!(error.contains(&platform.to_string()), "{error}");
            assert_eq!(super::named_runtime("", platform).unwrap(), None);
        }
    }

    /// Each device of the table with each number of cores to 130, with and without those that nobody documents.
    #[test]
    fn a_search_has_numbers_of_cores_with_collectives() {
        let job = |platform: Platform| {
            let job = json!({
                "name": "a", "model": {"name_or_path": "/model", "task": "causal-lm"},
                "data": {"train": "/train.csv"}, "resources": {"platform": platform.to_string()},
                "output_dir": "/out",
            });
            serde_json::from_value::<JobFile>(job).unwrap()
        };
        let admitted = |platform, device: &str, any_core_count| -> Vec<u32> {
            let search =
                MeshSearch { device: device.to_owned(), any_core_count, ..MeshSearch::default() };
            let job = job(platform);
            let check = |count: &u32| super::check_count(&job, &search, *count).is_ok();
            (1..=130).filter(check).collect()
        };
        for (devices, counts) in [
            (&["", "trn1", "trn1n", "inf2", "NC_v2"][..], &[1, 2, 4, 8, 32][..]),
            (&["trn2", "trn2-lnc1", "trn3", "trn3-lnc1", "NC_v3d", "NC_v4"], &[1, 4, 16, 64]),
        ] {
            for device in devices {
                assert_eq!(admitted(Platform::Neuron, device, false), counts, "{device}");
                let any = admitted(Platform::Neuron, device, true);
                assert_eq!(any, [1, 2, 4, 8, 16, 32, 64, 128], "{device}");
            }
        }
        assert_eq!(admitted(Platform::Cuda, "h100", false).len(), 130);
        let search = MeshSearch { device: "trn2".to_owned(), ..MeshSearch::default() };
        let error = super::check_count(&job(Platform::Neuron), &search, 3).unwrap_err().to_string();
        assert!(error.contains("trn2 for 1, 4, 16 or 64 cores of a host alone"), "{error}");
        // A count is that of each host, and the message has both.
        let mut on_hosts = job(Platform::Neuron);
        on_hosts.resources.cores = 9;
        let error = super::check_count(&on_hosts, &search, 3).unwrap_err().to_string();
        assert!(error.contains('9') && error.contains("are 3 of each of 3 hosts"), "{error}");
        // Its cores are those of trn1.
        let search = MeshSearch { device: "inf2".to_owned(), ..MeshSearch::default() };
        let error = super::check_count(&job(Platform::Neuron), &search, 3).unwrap_err().to_string();
        assert!(error.contains("collectives of inf2 for"), "{error}");
    }

    /// Two sums of integers that the program bounds.
    #[test]
    fn warnings_of_a_program_are_said_once() {
        let mesh = Mesh::data_parallel(2).unwrap();
        let recorder = Recorder::expected(mesh, "neuron", GpuOptions::default());
        let step = recorder.record(&[], |recording| -> Result<(), traind_xla::Error> {
            for name in ["rows", "columns"] {
                let places = recording.trace().iota(DType::S32, &[name.len(), 8], 1)?;
                recording.fetch(name, &places.all_reduce(ReduceKind::Sum, &[vec![0, 1]])?);
            }
            Ok(())
        });
        let limits = Limits::of_core(traind_neuron::core_kind("NC_v3d").unwrap());
        let found = super::check(&limits, &recorder, &step.unwrap()).unwrap().warnings;
        let [warning] = &found[..] else { panic!("{found:?}") };
        assert_eq!(warning.code, "NCC_EVRF061");
        let message = warning.message();
        assert!(message.contains("all-reduce of i32, whose numbers float32 holds"), "{message}");
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
    fn programs_of_optimizers_run_on_neuron_cores() {
        let optimizers = Optim::ALL.iter().map(
            |it| json!({"train": {"optim": it.to_string(), "bf16": true, "max_grad_norm": 1.0}}),
        );
        let problems = optimizers.filter_map(|it| {
            problem("bert-sequence-classification", "sequence-classification", &it)
        });
        assert_eq!(problems.collect::<Vec<_>>(), Vec::<String>::new());
    }

    /// Tasks whose rows have several texts, with each of their losses.
    #[test]
    fn programs_of_preferences_embeddings_and_rerankers_run_on_neuron_cores() {
        let none = || vec![json!({})];
        let losses = |section: &str, names: Vec<String>| -> Vec<Value> {
            let of = |name| Value::from_iter([(section, json!({"loss": name}))]);
            names.into_iter().map(of).collect()
        };
        let names = |all: &[EmbeddingLoss]| all.iter().map(ToString::to_string).collect();
        let rerankers = RerankerLoss::ALL.iter().map(ToString::to_string).collect();
        let mut problems = Vec::new();
        for (fixture, task, settings) in [
            ("llama-causal-lm", "sft", none()),
            ("llama-causal-lm", "dpo", none()),
            ("llama-causal-lm", "reward", none()),
            ("llama-causal-lm", "orpo", none()),
            ("llama-causal-lm", "cpo", none()),
            ("llama-causal-lm", "kto", none()),
            (
                "bert-sequence-classification",
                "embedding",
                losses("embedding", names(EmbeddingLoss::ALL)),
            ),
            ("bert-regression", "reranker", losses("reranker", rerankers)),
        ] {
            for mut settings in settings {
                settings["resources"] = json!({"cores": 2, "platform": "neuron"});
                problems
                    .extend(problem(fixture, task, &settings).map(|it| format!("{task}: {it}")));
            }
        }
        assert_eq!(problems, Vec::<String>::new());
    }

    /// The meshes of `scripts/compare/meshes`: cores, and keys of the sections `parallel` and `train`.
    fn meshes() -> Vec<(u32, Value, Value)> {
        let accumulated = || json!({"gradient_accumulation_steps": 2});
        let checkpointed = || json!({"gradient_checkpointing": true});
        vec![
            (8, json!({}), json!({})),
            (2, json!({"tensor": 2}), json!({})),
            (4, json!({"tensor": 2, "shard_optimizer_state": true}), accumulated()),
            (8, json!({"tensor": 2}), json!({})),
            (4, json!({"tensor": 4}), checkpointed()),
            (2, json!({"tensor": 2, "sequence_parallel": true}), checkpointed()),
            (
                4,
                json!({"tensor": 2, "sequence_parallel": true, "fsdp": "full_shard"}),
                accumulated(),
            ),
            (2, json!({"fsdp": "full_shard"}), json!({})),
            (4, json!({"fsdp": "full_shard"}), accumulated()),
            (8, json!({"fsdp": "full_shard"}), json!({})),
            (4, json!({"fsdp": "full_shard", "tensor": 2}), checkpointed()),
            (8, json!({"fsdp": "full_shard", "tensor": 2}), accumulated()),
            (4, json!({"fsdp": "shard_grad_op"}), accumulated()),
            (4, json!({"pipeline": 2}), json!({})),
            (8, json!({"pipeline": 2}), json!({})),
            (2, json!({"pipeline": 2, "pipeline_interleave": 2}), checkpointed()),
            (2, json!({"pipeline": 2, "offload": ["activations", "optimizer"]}), accumulated()),
            (4, json!({"pipeline": 4}), json!({})),
            (4, json!({"pipeline": 4, "pipeline_interleave": 2}), accumulated()),
            (8, json!({"tensor": 4, "pipeline": 2}), json!({})),
            (8, json!({"pipeline": 2, "tensor": 2, "shard_optimizer_state": true}), accumulated()),
            (4, json!({"pipeline": 2, "fsdp": "full_shard"}), json!({})),
        ]
    }

    /// Plans the models of fixtures on meshes: a program is clean, or the model cannot have the mesh, for a reason that
    /// is none of NeuronCores nor a fault, and is clean on one core. Returns how many are clean, and the reasons.
    fn check_meshes(choose: impl Fn(usize, usize) -> bool) -> (usize, Vec<String>) {
        let (fixtures, meshes) = (fixtures(), meshes());
        let (mut clean, mut reasons) = (0, Vec::new());
        for (row, (name, task)) in fixtures.iter().enumerate() {
            // The plain programs are checked once.
            let mut plain = Some(());
            for (column, (cores, parallel, train)) in meshes.iter().enumerate() {
                if !choose(row, column) {
                    continue;
                }
                let resources = json!({"cores": cores, "platform": "neuron"});
                let settings =
                    json!({"resources": resources, "parallel": parallel, "train": train});
                match problem(name, task, &settings) {
                    None => clean += 1,
                    Some(reason) => {
                        reasons.push(reason);
                        reasons.extend(plain.take().and_then(|()| problem(name, task, &json!({}))));
                    }
                }
            }
        }
        let is_fault = |it: &&String| {
            ["NCC_", "NRT_", "the weights have"].iter().any(|part| it.contains(part))
        };
        let faults = reasons.iter().filter(is_fault);
        assert_eq!(faults.collect::<Vec<_>>(), Vec::<&String>::new());
        (clean, reasons)
    }

    /// Each fixture on one mesh, and each mesh of several fixtures.
    #[test]
    fn programs_of_all_families_tasks_and_kinds_of_mesh_run_on_neuron_cores() {
        for task in TASKS {
            assert!(fixtures().iter().any(|(_, of)| *of == task), "no fixture for {task}");
        }
        let count = meshes().len();
        let (clean, reasons) = check_meshes(|row, column| row % count == column);
        assert!(clean > reasons.len(), "{clean} clean: {reasons:#?}");
    }

    /// All fixtures on every fourth mesh, from this one on.
    fn check_quarter(first: usize) {
        let (clean, reasons) = check_meshes(|_, column| column % 4 == first);
        reasons.iter().for_each(|reason| eprintln!("{reason}"));
        println!(
            "{} jobs on {} meshes: {clean} are clean, {} have another mesh for a reason of their models",
            clean + reasons.len(),
            meshes().len().saturating_sub(first).div_ceil(4),
            reasons.len()
        );
        assert!(clean > reasons.len());
    }

    /// All families and tasks on all meshes: `scripts/soak/neuron` runs them.
    macro_rules! quarters {
        ($($test:ident: $first:literal,)*) => {
            $(
                #[test]
                #[ignore = "takes minutes"]
                fn $test() {
                    check_quarter($first);
                }
            )*
        };
    }

    quarters! {
        programs_of_all_families_and_tasks_run_on_the_first_quarter_of_meshes: 0,
        programs_of_all_families_and_tasks_run_on_the_second_quarter_of_meshes: 1,
        programs_of_all_families_and_tasks_run_on_the_third_quarter_of_meshes: 2,
        programs_of_all_families_and_tasks_run_on_the_last_quarter_of_meshes: 3,
    }

    #[test]
    fn a_program_that_is_too_large_is_refused_with_the_code() {
        let large = json!({"train": {"per_device_train_batch_size": 1_000_000}, "data": {"max_length": 32}});
        let problem =
            problem("bert-sequence-classification", "sequence-classification", &large).unwrap();
        assert!(problem.contains("NCC_EVRF024") && problem.contains("NC_v2"), "{problem}");
    }
}
