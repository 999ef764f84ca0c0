//! The costs of meshes with several axes: bytes of a core by the compiler's count, and bytes of collectives by the
//! formulas.

use traind_pjrt::{Client, CreateOptions, Plugin};
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::runtime::{LazyDevice, LocalCores};

use super::*;

/// Almost all of its parameters are in matrices of layers that are large enough to be sharded.
fn model_of_layers() -> Arc<Model> {
    let config = serde_json::json!({
        "model_type": "bert", "vocab_size": 32, "hidden_size": 256, "num_hidden_layers": 4,
        "num_attention_heads": 2, "intermediate_size": 4096, "max_position_embeddings": 16,
        "type_vocab_size": 2, "num_labels": 3,
    });
    let config = ModelConfig::new("config.json", config.as_object().unwrap().clone());
    registry::build(config, Task::SequenceClassification).unwrap().into()
}

/// The devices of each stage, all of one client.
fn devices(mesh: &Mesh) -> Vec<LazyDevice> {
    let plugin = Plugin::load(traind_pjrt::installed_plugin("cpu").unwrap()).unwrap();
    let count = mesh.of_stage().replica_count();
    let client = Client::new(plugin, &CreateOptions::new().with("cpu_device_count", count as i64));
    let client = client.unwrap();
    let device = |_| {
        let cores = LocalCores::of_host(client.clone(), mesh.of_stage()).unwrap();
        LazyDevice::new(cores, None, GpuOptions::default())
    };
    (0..mesh.size(Axis::Pipeline)).map(device).collect()
}

/// The bytes of parameters, optimizer state and sums of gradients on a core of the fullest stage, as planned and as the
/// compiler counts the arguments of the programs that update them.
fn state_bytes(sections: &str) -> (u64, u64) {
    let job = job(&format!("{sections}\ntrain: {{gradient_accumulation_steps: 2}}"));
    let mut devices = devices(&mesh(&job).unwrap());
    let inputs = ModelInputs { token_type_ids: true, attention_mask: true, position_ids: false };
    let recorders = devices.iter_mut().map(LazyDevice::recorder_mut);
    let model = model_of_layers();
    let config = recipe::step_config(&job).unwrap();
    let programs =
        JobPrograms::declare(&config, &model, inputs, Readout::Logits, recorders).unwrap();
    let updates = programs.parts_of(ProgramShape::update()).into_iter();
    let updates = updates.filter(|part| part.program == Program::Update);
    let bytes = updates.map(|update| {
        let stage = programs.stage_of(&update);
        let device = &devices[stage];
        let recorded = programs.record(device.recorder(), update).unwrap();
        let compiled = device.compiler().compile(recorded).unwrap();
        let stats = compiled.executable().program().compiled_memory_stats().unwrap().unwrap();
        let planned = programs.states[stage].bytes(device.recorder());
        (planned.parameters + planned.slots + planned.gradient_sums, stats.argument_bytes as u64)
    });
    bytes.max().unwrap()
}

#[test]
fn programs_take_the_state_that_is_planned_and_a_share_of_one_cores() {
    let (_, one) = state_bytes("resources: {cores: 1}");
    for (cores, parallel, parts) in [
        (2, "fsdp: full_shard", 2),
        (4, "fsdp: full_shard", 4),
        (2, "tensor: 2", 2),
        (2, "pipeline: 2", 2),
        (4, "tensor: 2, pipeline: 2", 4),
        (4, "tensor: 2, fsdp: full_shard", 4),
    ] {
        let sections = format!("resources: {{cores: {cores}}}\nparallel: {{{parallel}}}");
        let (planned, compiled) = state_bytes(&sections);
        let of_plan = compiled as f64 / planned as f64;
        let of_one = (compiled * parts) as f64 / one as f64;
        println!("{parallel}: {of_plan:.4} of the plan, {of_one:.4} of a {parts}th of one core");
        assert!((of_plan - 1.0).abs() < 0.05, "{parallel}: {compiled} of {planned} bytes");
        assert!((of_one - 1.0).abs() < 0.05, "{parallel}: {compiled} x {parts} of {one} bytes");
    }
}

/// Bytes of the states between layers: four rows of eight positions of 16 features.
const STATES: u64 = 4 * 8 * 16 * 4;
const LAYERS: usize = 2;

/// The collectives of two cores that share layers which are as large as states.
fn of_states(parallel: &str) -> Vec<Collective> {
    let sections =
        format!("resources: {{cores: 2}}\nparallel: {{{parallel}}}\ntrain: {{optim: sgd}}");
    let step = Recorded::of_job(&sections).record(Program::Train);
    let is_state = |it: &Collective| it.operand_bytes.max(it.result_bytes) == STATES;
    step.collectives().into_iter().filter(is_state).collect()
}

#[test]
fn cores_that_share_layers_add_up_the_states_of_each_four_times() {
    let found = of_states("tensor: 2");
    assert!(found.iter().all(|it| it.operation == "all_reduce"), "{found:?}");
    // The states of the word embeddings are added up once, and behind the attention of the last layer are those of the
    // first tokens alone, which are added up three times.
    assert_eq!(found.len(), 4 * LAYERS + 1 - 3);
    let sent: f64 = found.iter().map(Collective::sent_bytes).sum();
    // Each of two cores sends half of the states twice.
    assert_eq!(sent, (found.len() as u64 * STATES) as f64);
}

/// An all-reduce is a reduce-scatter and an all-gather of the same bytes.
#[test]
fn dividing_positions_sends_the_same_bytes_in_halves() {
    let found = of_states("tensor: 2, sequence_parallel: true");
    let of = |operation: &str| -> Vec<&Collective> {
        found.iter().filter(|it| it.operation == operation).collect()
    };
    let (scattered, gathered) = (of("reduce_scatter"), of("all_gather"));
    // In each direction around attention and around the inner layer, and for the embeddings. The head reads whole
    // states.
    assert_eq!([scattered.len(), gathered.len()], [4 * LAYERS + 1, 4 * LAYERS + 2]);
    let halves = scattered.iter().chain(&gathered);
    assert!(halves.clone().all(|it| it.sent_bytes() == (STATES / 2) as f64), "{found:?}");
    assert!(of("all_reduce").is_empty(), "{found:?}");
}

#[test]
fn batches_of_shared_layers_communicate_over_data_only_in_the_update() {
    for parallel in ["", ", sequence_parallel: true", ", shard_optimizer_state: true"] {
        let job = Recorded::of_job(&format!(
            "resources: {{cores: 4}}\nparallel: {{tensor: 2{parallel}}}\n\
             train: {{gradient_accumulation_steps: 2}}"
        ));
        let mesh = mesh(&self::job("resources: {cores: 4}\nparallel: {tensor: 2}")).unwrap();
        let axes = |program| -> Vec<Vec<Axis>> {
            let collectives = job.record(program).collectives();
            collectives.iter().map(|it| mesh.axes_between(&it.participants.first())).collect()
        };
        let batch = axes(Program::Accumulate);
        assert!(!batch.is_empty() && batch.iter().all(|it| *it == [Axis::Tensor]), "{batch:?}");
        let update = axes(Program::Update);
        assert!(update.iter().any(|it| it.contains(&Axis::Data)), "{parallel}: {update:?}");
    }
}
