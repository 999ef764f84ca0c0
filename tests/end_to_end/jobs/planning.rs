//! `traind plan`: its output, its errors, and the accuracy of its memory estimate.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use traind_job_file::RunSpec;
use traind_proto::v1::{self, MemoryUsage, Plan};
use traind_tests::{Draft, Host, JOB_FILE, POLL, Runners, timeout};

/// The allowed relative error of the estimate.
const TOLERANCE: f64 = 0.2;
const POSITIONS: usize = 128;

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_shows_parameters_and_memory_by_category() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "planned");
    fs::write(draft.path("job.yaml"), JOB_FILE).unwrap();
    let output = host.cli(draft.folder(), &["plan", "job.yaml"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let parameters = parameters_of(&draft.path("model/model.safetensors"));
    assert!(output.stdout.contains(&format!("bert, {parameters} parameters")), "{}", output.stdout);
    for category in ["weights", "gradients", "optimizer", "activations", "checkpoint", "on disk"] {
        let line = output.stdout.lines().find(|line| line.trim_start().starts_with(category));
        let line = line.unwrap_or_else(|| panic!("no {category} in {}", output.stdout));
        assert!(line.ends_with("iB"), "{line}");
    }
    assert!(host.cli(draft.folder(), &["ls"]).stdout.lines().count() <= 1, "no job was made");
    assert!(!output.stdout.contains("parallel."), "{}", output.stdout);
    let two = ["plan", "job.yaml", "--set=resources.cores=2", "--set=parallel.tensor=2"];
    let output = host.cli(draft.folder(), &two);
    let expect = "parallel.tensor: 2\n  2 cores with the same rows have a part of each layer\n  memory per core -";
    assert!(output.stdout.contains(expect), "{}", output.stdout);
    let output = host.cli(draft.folder(), &[&two[..], &["--output=json"]].concat());
    let plan: Value = serde_json::from_str(&output.stdout).unwrap();
    let places = plan["parallelism"]["places"].clone();
    let place =
        |core: u32| json!({"host": 0, "core": core, "data": 0, "pipeline": 0, "tensor": core});
    assert_eq!((&plan["parameters"], places), (&parameters.into(), json!([place(0), place(1)])));
}

/// The data of a job file without a daemon, as a run reports them.
#[tokio::test(flavor = "multi_thread")]
async fn data_have_a_histogram_of_their_classes() {
    let host = Host::started(1).await;
    let rows = "text,label\nthe cat,tool\na dog,animal\nthe dog,tool\n,tool\n";
    let draft = Draft::new(&host, "described").write("train.csv", rows);
    fs::write(draft.path("job.yaml"), JOB_FILE).unwrap();
    let cache = format!("--cache-dir={}", draft.path("cache").display());
    let arguments = ["data", "job.yaml", "--set=data.validation=null", &cache];
    let found = host.cli(draft.folder(), &arguments);
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert!(lines[0].starts_with("train      4 rows, "), "{}", found.stdout);
    assert!(
        lines[3].ends_with(&format!("3 rows   75.0 %  {}", "#".repeat(30))),
        "{}",
        found.stdout
    );
    assert!(found.stderr.contains("EMPTY_TEXT: train data: 1 row has no text"), "{}", found.stderr);
    // From the cache, with the same warnings.
    let again = host.cli(draft.folder(), &[&arguments[..], &["--output=json"]].concat());
    let splits: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(splits[0]["classes"], json!([["animal", 1], ["fruit", 0], ["tool", 3]]));
    assert_eq!(again.stderr, found.stderr);
}

/// They had a form of their own in `traind data`, which also reported one at a time.
#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_a_job_file_read_alike_in_every_command() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "mistaken").write("train.csv", "text,label\nthe cat,tool\n");
    fs::write(draft.path("job.yaml"), JOB_FILE).unwrap();
    let cache = format!("--cache-dir={}", draft.path("cache").display());
    for (mistakes, expect) in [
        (&["--set=data.label=stars", "--set=data.validation=null"][..], "no column \"stars\""),
        (&["--set=data.labl=stars", "--set=train.learning_rate=fast"], "has 2 mistakes\n"),
        (&["--set=data.train=no.csv", "--set=model.name_or_path=./none"], "there is no file"),
    ] {
        let said = ["submit", "plan", "data"].map(|command| {
            let cache = (command == "data").then_some(cache.as_str());
            let arguments: Vec<&str> = [command, "job.yaml"]
                .into_iter()
                .chain(mistakes.iter().copied())
                .chain(cache)
                .collect();
            let output = host.cli(draft.folder(), &arguments);
            assert_eq!(output.code, Some(1), "{arguments:?}: {}", output.stderr);
            output.stderr
        });
        assert!(said[0].contains(expect), "{}", said[0]);
        assert_eq!((&said[0], &said[0]), (&said[1], &said[2]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_gpus_that_are_not_here_comes_from_their_compiler() {
    const VARIABLE: &str = "TRAIND_TEST_CUDA_PLUGIN";
    let Ok(plugin) = std::env::var(VARIABLE) else {
        eprintln!("not tested: {VARIABLE} names no plugin");
        return;
    };
    let host = Host::started_with_environment(1, vec![("TRAIND_PLUGIN_CUDA", plugin)]).await;
    let draft = Draft::new(&host, "planned");
    fs::write(draft.path("job.yaml"), JOB_FILE).unwrap();
    let elsewhere = ["--platform=cuda", "--device=h100", "--cores=2"];
    let output =
        host.cli(draft.folder(), &[&["plan", "job.yaml", "--auto"], &elsewhere[..]].concat());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let compiled = output.stdout.lines().filter(|line| line.ends_with("compiled")).count();
    assert_eq!(compiled, 1, "{}", output.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_keeps_the_mesh_that_the_planner_chose() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "chosen")
        .set("resources.cores", 2)
        .set("train.per_device_train_batch_size", 4)
        .set("train.max_steps", 1)
        .set("parallel", "auto");
    let job = host.create(&draft).await.unwrap();
    let chosen = job.warnings.iter().find(|warning| warning.code == "MESH_CHOSEN").unwrap();
    assert!(chosen.message.contains("by prediction"), "{}", chosen.message);
    host.until(&job.id, |job| job.state() == v1::JobState::Completed).await;
    let run = RunSpec::read(&host.path(&format!("state/jobs/{}", job.id))).unwrap();
    let (parallel, train) = (&run.job.parallel, &run.job.train);
    assert!(!parallel.auto);
    let axes = [parallel.data.unwrap(), parallel.tensor, parallel.pipeline];
    assert_eq!(axes.iter().product::<u32>(), 2);
    let batches = train.gradient_accumulation_steps;
    assert_eq!(train.per_device_train_batch_size * batches * axes[0], 8);
    assert!(chosen.message.contains(&format!("data: {}, tensor: {}", axes[0], axes[1])));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exchange_between_cpu_hosts_is_measured_where_mpi_is_installed() {
    let between_hosts = async |library: &Path| {
        let library = library.to_str().unwrap().to_owned();
        let host = Host::started_with_environment(1, vec![("TRAIND_PLUGIN_MPI", library)]).await;
        let draft = Draft::new(&host, "planned");
        fs::write(draft.path("job.yaml"), JOB_FILE).unwrap();
        let hosts = ["plan", "job.yaml", "--auto", "--platform=cpu", "--hosts=2", "--cores=2"];
        let output = host.cli(draft.folder(), &hosts);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let line = output.stdout.lines().find_map(|line| line.strip_prefix("between hosts"));
        line.unwrap_or_else(|| panic!("{}", output.stdout)).trim_start().to_owned()
    };
    let absent = between_hosts(Path::new("/absent/libmpi_abi.so.1")).await;
    assert!(absent.starts_with("MPI not measured (load the MPI library /absent/"), "{absent}");
    assert!(absent.contains("two copies assumed; Ethernet of 10 Gbit/s"), "{absent}");
    if Runners::are_possible() {
        let measured = between_hosts(&Runners::mpi_library().unwrap()).await;
        assert!(measured.starts_with("MPI measured on this host: "), "{measured}");
    }
}

/// The number of values in a safetensors file.
fn parameters_of(weights: &Path) -> u64 {
    let bytes = fs::read(weights).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let tensors = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    let elements = |tensor: &Value| -> u64 {
        tensor["shape"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).product()
    };
    tensors.map(|(_, tensor)| elements(tensor)).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_fit_is_rejected_with_the_change_that_makes_it_fit() {
    let host = Host::started_with(1, &["--memory-per-core=1"]).await;
    let shape = Shape { rows: 256, ..BERT };
    let draft = shape.draft(&host, "large").set("train.gradient_checkpointing", "true");
    fs::write(draft.path("job.yaml"), &draft.job_file).unwrap();
    let overrides: Vec<String> =
        draft.overrides.iter().map(|(field, value)| format!("--set={field}={value}")).collect();
    let plan = |more: &[&str]| {
        let given = overrides.iter().map(String::as_str);
        let all: Vec<&str> =
            ["plan", "job.yaml"].into_iter().chain(given).chain(more.iter().copied()).collect();
        host.cli(draft.folder(), &all)
    };
    let refused = plan(&["--set=train.per_device_train_batch_size=2048"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let fits = "it fits with train.per_device_train_batch_size: ";
    let (_, advice) = refused.stderr.split_once(fits).unwrap_or_else(|| panic!("{refused:?}"));
    let rows: String = advice.chars().take_while(char::is_ascii_digit).collect();
    let taken = plan(&[&format!("--set=train.per_device_train_batch_size={rows}")]);
    assert_eq!(taken.code, Some(0), "what is advised is taken: {taken:?}");
    let request = draft.set("train.per_device_train_batch_size", 2048);
    assert!(host.create(&request).await.unwrap_err().message().contains(fits), "submitting too");
    let found = host.create(&request.set("train.auto_find_batch_size", true)).await.unwrap();
    assert_eq!(found.warnings[0].code, "BATCH_SIZE_LOWERED");
    host.cancel(&found.id).await;
}

/// A model and the shape of its batches.
#[derive(Clone, Copy, Debug)]
struct Shape {
    task: &'static str,
    fixture: &'static str,
    data: &'static str,
    rows: usize,
    width: usize,
    cores: u32,
    /// Fields of the job file and their values.
    settings: &'static [(&'static str, &'static str)],
}

const BERT: Shape = Shape {
    task: "sequence-classification",
    fixture: "bert-sequence-classification",
    data: "{train: train.jsonl, text: text, label_map: [animal, fruit, tool], max_length: 128, pad_to_max_length: true}",
    rows: 16,
    width: 64,
    cores: 1,
    settings: &[],
};
const GPT2: Shape = Shape {
    task: "causal-lm",
    fixture: "gpt2-causal-lm",
    data: "{train: train.jsonl, text: text, block_size: 128}",
    ..BERT
};

impl Shape {
    fn draft(self, host: &Host, name: &str) -> Draft {
        let draft = Draft::new(host, name).of_task(self.task, self.fixture, self.data);
        let row = json!({"text": "cat ".repeat(POSITIONS), "label": "animal"});
        let other = json!({"text": "dog ".repeat(POSITIONS), "label": "fruit"});
        let rows = format!("{row}\n{other}\n").repeat(2 * self.rows);
        self.widen(&draft.path("model/config.json"));
        let draft = draft
            .write("train.jsonl", rows)
            .set("model.from_config", true)
            // Such a job has no end, and space for its checkpoints would be asked for.
            .set("train.save_strategy", "no")
            .set("train.per_device_train_batch_size", self.rows)
            .set("resources.cores", self.cores)
            .endless();
        self.settings.iter().fold(draft, |draft, (field, value)| draft.set(field, *value))
    }

    /// Makes the model large enough for its activations to matter.
    fn widen(self, path: &Path) {
        let mut config: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let sizes = [
            ("hidden_size", self.width),
            ("n_embd", self.width),
            ("intermediate_size", 4 * self.width),
            ("num_hidden_layers", 2),
            ("n_layer", 2),
            ("max_position_embeddings", POSITIONS),
            ("n_positions", POSITIONS),
        ];
        for (key, size) in sizes {
            if config.get(key).is_some() {
                config[key] = json!(size);
            }
        }
        for dropout in [
            "attention_probs_dropout_prob",
            "hidden_dropout_prob",
            "attn_pdrop",
            "embd_pdrop",
            "resid_pdrop",
        ] {
            if config.get(dropout).is_some() {
                config[dropout] = json!(0.1);
            }
        }
        fs::write(path, config.to_string()).unwrap();
    }
}

/// The memory that the compiler allocates for the largest program of a training job.
async fn compiled(host: &Host, draft: &Draft) -> MemoryUsage {
    let job = host.create(draft).await.unwrap();
    let start = std::time::Instant::now();
    let memory = loop {
        let core = host.cores().await.remove(0);
        // The previous job may still be exiting.
        let usage = core.usage.filter(|_| core.job_id == job.id);
        match usage.and_then(|usage| usage.memory).filter(|memory| memory.temporary_bytes > 0) {
            Some(memory) => break memory,
            None => assert!(start.elapsed() < timeout(), "{}", host.runner_log(&job.id)),
        }
        tokio::time::sleep(POLL).await;
    };
    host.cancel(&job.id).await;
    host.watch(&job.id).await;
    memory
}

async fn planned(host: &Host, draft: &Draft) -> Plan {
    let request = v1::PlanJobRequest {
        job_file: draft.job_file.clone(),
        base_dir: draft.base_dir.clone(),
        overrides: draft.overrides.clone(),
        search: None,
    };
    host.jobs().await.plan_job(request).await.unwrap().into_inner()
}

/// Jobs that differ in what their programs take.
const SHAPES: &[Shape] = &[
    BERT,
    Shape { settings: &[("train.bf16", "true")], ..BERT },
    Shape { settings: &[("train.fp16", "true")], cores: 2, ..BERT },
    Shape {
        settings: &[("parallel.shard_optimizer_state", "true")],
        rows: 2,
        width: 192,
        cores: 2,
        ..BERT
    },
    Shape { settings: &[("parallel.fsdp", "full_shard")], rows: 2, width: 192, cores: 2, ..BERT },
    GPT2,
    Shape { settings: &[("train.gradient_checkpointing", "true")], ..GPT2 },
];

#[tokio::test]
async fn the_estimate_of_activations_is_close_to_the_compilers_allocation() {
    let host = Host::started(2).await;
    let mut off = Vec::new();
    for (index, shape) in SHAPES.iter().enumerate() {
        let draft = shape.draft(&host, &format!("{}-{index}", shape.task));
        let plan = planned(&host, &draft).await;
        let memory = compiled(&host, &draft).await;
        // The compiler's temporaries include the gradients, where those are no variables.
        let variables = memory.parameters_bytes + memory.optimizer_bytes;
        let estimate = (plan.bytes_per_core - variables) as f64;
        let ratio = estimate / memory.temporary_bytes as f64;
        println!(
            "{} {:?}: estimate {estimate} of {} bytes, ratio {ratio:.2}",
            shape.fixture, shape.settings, memory.temporary_bytes
        );
        if (ratio - 1.0).abs() > TOLERANCE {
            off.push((shape, ratio));
        }
    }
    assert!(off.is_empty(), "{off:?}");
}
