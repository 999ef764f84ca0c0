//! The programs of a step, recorded without a device: what each reads from the cores and changes on
//! them, and how cores communicate.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use traind_job_file::JobFile;
use traind_loader::{BatchAxis, BatchSizes, ModelInputs};
use traind_models::{Model, ModelConfig, Task, registry};
use traind_xla::analysis::Collective;
use traind_xla::graph::Participants;
use traind_xla::kernels::{GpuOptions, Kernels};
use traind_xla::mesh::Axis;
use traind_xla::runtime::{RecordedStep, Recorder};

mod meshes;

use crate::error::RunResult;
use crate::recipe::{self, mesh};
use crate::step::{JobPrograms, Program, ProgramShape, Readout};

mod hosts;
mod preference;

/// The programs of a job of two layers, with the recorder that declared their variables.
pub(super) struct Recorded {
    pub programs: JobPrograms,
    pub recorder: Recorder,
}

impl Recorded {
    /// `sections` are lines of the job file.
    pub(super) fn of_job(sections: &str) -> Recorded {
        Recorded::try_of_job(sections).unwrap()
    }

    fn try_of_job(sections: &str) -> RunResult<Recorded> {
        Recorded::on_hosts(sections, 1)
    }

    /// The programs of the first of several hosts, each with the cores of the job file.
    fn on_hosts(sections: &str, hosts: usize) -> RunResult<Recorded> {
        Recorded::of_job_on(sections, hosts, false)
    }

    fn of_job_on(sections: &str, hosts: usize, kernels: bool) -> RunResult<Recorded> {
        let job = job(sections);
        let mesh = mesh(&job)?.on_hosts(hosts, 0)?;
        let mut recorder =
            Recorder::new(mesh, "cpu", GpuOptions::default(), Kernels::own_if(kernels));
        Ok(Recorded { programs: declare(&job, &mut recorder)?, recorder })
    }

    fn record(&self, program: Program) -> RecordedStep {
        self.programs.record(&self.recorder, shape(program)).unwrap()
    }

    /// The collectives of a program as "operation bytes", in their order.
    fn collectives(&self, program: Program) -> Vec<String> {
        let collectives = self.record(program).collectives();
        let text = collectives.iter().map(|it| format!("{} {}", it.operation, it.operand_bytes));
        text.collect()
    }

    /// The collectives over shards: `A` gathers one, `R` reduces to one.
    fn shard_collectives(&self, program: Program) -> String {
        let letters = self.record(program).collectives().into_iter().filter_map(|it| {
            assert!(matches!(it.participants, Participants::Groups(_)));
            match it.operation {
                "all_gather" => Some('A'),
                "reduce_scatter" => Some('R'),
                _ => None,
            }
        });
        letters.collect()
    }

    /// The bytes of each exchange of a core with other hosts.
    fn exchanges(&self, program: Program) -> Vec<f64> {
        let collectives = self.record(program).collectives();
        let across = collectives.iter().filter(|it| it.operation == "all_reduce_hosts");
        across.map(Collective::sent_bytes).collect()
    }

    fn parameter_count(&self) -> usize {
        model().parameters().len()
    }
}

fn job(sections: &str) -> JobFile {
    let yaml = format!(
        "name: a\nmodel: {{name_or_path: ./a, task: sequence-classification, num_labels: 3}}\n\
         data: {{train: a.csv}}\noutput_dir: out\n{sections}"
    );
    JobFile::parse(&yaml, Path::new("/")).unwrap().job
}

fn declare(job: &JobFile, recorder: &mut Recorder) -> RunResult<JobPrograms> {
    let inputs = ModelInputs { token_type_ids: true, attention_mask: true, position_ids: false };
    let config = recipe::step_config(job)?;
    Ok(JobPrograms::declare(&config, &model(), inputs, Readout::Logits, [recorder])?)
}

fn model() -> Arc<Model> {
    let config = serde_json::json!({
        "model_type": "bert", "vocab_size": 2048, "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 2048, "max_position_embeddings": 32,
        "type_vocab_size": 2, "num_labels": 3,
    });
    let config = ModelConfig::new("config.json", config.as_object().unwrap().clone());
    registry::build(config, Task::SequenceClassification).unwrap().into()
}

/// The shape of a program for batches of four rows.
pub(super) fn shape(program: Program) -> ProgramShape {
    match program {
        Program::Update => ProgramShape::update(),
        _ => {
            let sizes = BatchSizes::of_rows(4).with(BatchAxis::Positions, 8);
            ProgramShape::of_batch(program, sizes)
        }
    }
}

#[test]
fn one_program_updates_every_parameter_and_its_slots() {
    let job = Recorded::of_job("train: {optim: adamw_torch}");
    let step = job.record(Program::Train);
    assert_eq!(step.fetched(), ["loss", "grad_norm"]);
    assert_eq!(step.assigned().len(), 3 * job.parameter_count(), "value and two moments");
    assert_eq!(job.collectives(Program::Train), [""; 0], "one core");
}

#[test]
fn an_optimizer_without_slots_assigns_the_parameters_alone() {
    let job = Recorded::of_job("train: {optim: sgd}");
    assert_eq!(job.record(Program::Train).assigned().len(), job.parameter_count());
}

#[test]
fn cores_sum_loss_weights_and_each_gradient_once() {
    let job = Recorded::of_job("resources: {cores: 2}");
    let found = job.collectives(Program::Train);
    assert!(found.iter().all(|collective| collective.starts_with("all_reduce ")), "{found:?}");
    assert_eq!(found.len(), SHARDED + SMALL + 2);
    assert_eq!(found.iter().filter(|it| *it == "all_reduce 4").count(), 2, "loss and weights");
    let bytes = found.iter().filter_map(|it| it.strip_prefix("all_reduce ")?.parse::<usize>().ok());
    let parameters: usize = model().parameters().iter().map(|it| it.shape.size_bytes()).sum();
    assert_eq!(bytes.sum::<usize>(), parameters + 8);
}

#[test]
fn an_offloaded_update_loads_each_part_of_the_state_once() {
    let job = Recorded::of_job("parallel: {offload: optimizer}");
    let batch = job.record(job.programs.step_programs().batch_program());
    let is_slot = |name: &str| name.ends_with(".exp_avg") || name.ends_with(".exp_avg_sq");
    assert!(batch.arguments().iter().all(|argument| !is_slot(&argument.name)));
    let shapes = job.programs.parts_of(ProgramShape::update());
    assert!(shapes.len() > 3, "{shapes:?}");
    let steps = shapes.iter().map(|shape| job.programs.record(&job.recorder, *shape).unwrap());
    let steps: Vec<RecordedStep> = steps.collect();
    let arguments = steps.iter().flat_map(RecordedStep::arguments);
    let mut slots: Vec<String> =
        arguments.map(|argument| argument.name).filter(|name| is_slot(name)).collect();
    slots.sort_unstable();
    assert!(slots.windows(2).all(|pair| pair[0] != pair[1]), "{slots:?}");
    assert_eq!(slots.len(), 2 * job.parameter_count());
    // Values, slots and sums of each parameter, and the sums of losses and weights.
    let assigned: Vec<usize> = steps.iter().map(|step| step.assigned().len()).collect();
    assert_eq!(assigned[0], job.parameter_count(), "sums over all cores");
    assert_eq!(assigned[1..].iter().sum::<usize>(), 4 * job.parameter_count() + 2);
}

#[test]
fn batches_of_a_step_communicate_only_in_its_update() {
    let job = Recorded::of_job("resources: {cores: 2}\ntrain: {gradient_accumulation_steps: 4}");
    assert_eq!(job.collectives(Program::Accumulate), [""; 0]);
    let batch = job.record(Program::Accumulate);
    assert!(batch.fetched().is_empty(), "{:?}", batch.fetched());
    assert_eq!(batch.assigned().len(), job.parameter_count() + 2, "gradients, loss and weights");
    assert_eq!(job.collectives(Program::Update).len(), SHARDED + SMALL + 2);
    // Parameters, two slots and the sums, which begin the next step as zeros.
    let update = job.record(Program::Update);
    assert_eq!(update.assigned().len(), 4 * job.parameter_count() + 2);
    assert_eq!(update.fetched(), ["loss", "grad_norm"]);
}

#[test]
fn fp16_keeps_its_scale_on_the_cores() {
    let job = Recorded::of_job("train: {fp16: true}");
    let update = job.record(Program::Update);
    assert_eq!(update.fetched(), ["loss", "grad_norm", "loss_scale", "updated"]);
    let scale = job.programs.states[0].loss_scale.as_ref().unwrap().scale;
    assert!(update.assigned().contains(&scale));
    assert!(!job.record(Program::Accumulate).assigned().contains(&scale));
}

#[test]
fn sharded_state_scatters_gradients_and_gathers_parameters() {
    let sections = "resources: {cores: 2}\nparallel: {shard_optimizer_state: true}";
    let job = Recorded::of_job(sections);
    let found = job.collectives(Program::Train);
    let count = |operation: &str| found.iter().filter(|it| it.starts_with(operation)).count();
    let (scattered, gathered) = (count("reduce_scatter "), count("all_gather "));
    assert!(scattered > 0 && scattered == gathered, "{found:?}");
    // The norm adds up the shards' squares besides loss and weights.
    assert_eq!([count("all_reduce "), scattered], [SMALL + 3, SHARDED], "{found:?}");
}

#[test]
fn a_kernel_updates_the_copies_of_a_layer_together() {
    for fsdp in ["shard_optimizer", "shard_grad_op"] {
        let sections = format!("resources: {{cores: 2}}\nparallel: {{fsdp: {fsdp}}}");
        let job = Recorded::of_job_on(&sections, 1, true).unwrap();
        let found = job.collectives(Program::Train);
        let count = |operation: &str| found.iter().filter(|it| it.starts_with(operation)).count();
        // One for each of two layers, and none for each of their matrices.
        let sums = [count("shard_sums "), count("reduce_scatter ")];
        assert_eq!(sums, [2, 0], "{found:?}");
        assert_eq!(count("all_gather "), EMBEDDED, "{found:?}");
        assert_eq!([count("sum_together "), count("all_reduce ")], [SMALL, 3], "{found:?}");
        // Embeddings, and both matrices of each of two layers.
        let bytes = [1, 2, 2].map(|matrices| format!("sharded_adamw {}", matrices * 2048 * 16 * 4));
        let updates = found.iter().filter(|it| it.starts_with("sharded_adamw "));
        assert_eq!(updates.collect::<Vec<_>>(), bytes.iter().collect::<Vec<_>>());
        assert_eq!(job.record(Program::Train).assigned().len(), 3 * job.parameter_count());
    }
    // Other optimizers have no kernel, and skipped updates leave each value as it is.
    for train in ["optim: lion_32bit", "fp16: true"] {
        let sections = format!(
            "resources: {{cores: 2}}\nparallel: {{fsdp: shard_optimizer}}\ntrain: {{{train}}}"
        );
        let job = Recorded::of_job_on(&sections, 1, true).unwrap();
        let (program, embedded) = match train.starts_with("fp16") {
            true => (Program::Update, 0),
            false => (Program::Train, EMBEDDED),
        };
        let gathered = job.shard_collectives(program).matches('A').count();
        assert_eq!(gathered, SHARDED + embedded, "{train}");
    }
}

/// The word embeddings and two matrices of each layer. Other parameters are small.
const SHARDED: usize = 1 + 2 * 2;
/// With kernels, cores exchange rows of word embeddings with their numbers, and no table.
const EMBEDDED: usize = 2;
/// The collectives of the small ones: one for each layer, and one for embeddings and head.
const SMALL: usize = 2 + 1;

#[test]
fn full_shards_are_gathered_by_layer_and_again_in_the_backward_pass() {
    for tensor in [1, 2] {
        let sections = format!(
            "resources: {{cores: {}}}\nparallel: {{fsdp: full_shard, tensor: {tensor}}}",
            2 * tensor
        );
        let found = Recorded::of_job(&sections).shard_collectives(Program::Train);
        // The gradient of a lookup reads no embeddings.
        assert_eq!(found, "AAAAAARARARARR", "tensor {tensor}");
    }
    let job = Recorded::of_job("resources: {cores: 4}\nparallel: {fsdp: full_shard}");
    let step = job.record(Program::Train);
    assert_eq!(step.assigned().len(), 3 * job.parameter_count(), "no copies of shards");
    for it in step.collectives().iter().filter(|it| it.operation != "all_reduce") {
        let (shard, whole) = (2048 * 16, 4 * 2048 * 16);
        let expect = match it.operation {
            "all_gather" => (shard, whole),
            _ => (whole, shard),
        };
        assert_eq!((it.operand_bytes, it.result_bytes), expect, "{it:?}");
        assert_eq!(it.participants.first(), [0, 1, 2, 3]);
    }
    let found = job.collectives(Program::Train);
    let sums = found.iter().filter(|it| it.starts_with("all_reduce ")).count();
    assert_eq!(sums, SMALL + 3, "and loss, weights and the norm");
    assert_eq!(job.shard_collectives(Program::Evaluate), "A".repeat(SHARDED));
}

/// Norms, biases of sums and tables of positions and segments stand between layers.
#[test]
fn gradients_of_positions_are_added_over_all_cores() {
    let over_all = |parallel: &str| -> Vec<u64> {
        let job = format!("resources: {{cores: 4}}\nparallel: {{tensor: 2{parallel}}}");
        let found = Recorded::of_job(&job).record(Program::Train).collectives().into_iter();
        let is_over_all = |it: &Collective| it.participants.first().len() == 4;
        found
            .filter(|it| it.operation == "all_reduce" && is_over_all(it))
            .map(|it| it.operand_bytes)
            .collect()
    };
    assert_eq!(over_all(""), [0; 0]);
    let model = model();
    let between = model.parameters().iter().filter(|spec| spec.adds_gradients(true));
    let between: usize = between.map(|spec| spec.shape.size_bytes()).sum();
    let found = over_all(", sequence_parallel: true");
    assert_eq!((found.len(), found.iter().sum::<u64>()), (SMALL, between as u64), "{found:?}");
    let sharded = over_all(", sequence_parallel: true, fsdp: full_shard");
    // The squares of the shards of divided parameters are added up, too.
    let more = (SMALL + 1, between as u64 + 4);
    assert_eq!((sharded.len(), sharded.iter().sum::<u64>()), more, "{sharded:?}");
}

/// Neuron's compiler accepts at most 12 distinct sets of replica groups, or 16 with a newer runtime, in a program, and
/// no permutation among cores that are not neighbours.
#[test]
fn a_program_has_few_sets_of_groups_and_permutes_nothing() {
    let job = Recorded::of_job(
        "resources: {cores: 8}\nparallel: {tensor: 2, sequence_parallel: true, fsdp: full_shard}\n\
         train: {gradient_accumulation_steps: 2}",
    );
    for program in [Program::Accumulate, Program::Update, Program::Evaluate] {
        let collectives = job.record(program).collectives();
        let sets: HashSet<String> =
            collectives.iter().map(|it| format!("{:?}", it.participants)).collect();
        assert!(sets.len() <= 3, "{program:?}: {sets:?}");
        assert!(collectives.iter().all(|it| it.operation != "collective_permute"));
    }
}

#[test]
fn recomputed_layers_gather_twice_too() {
    let sections = "resources: {cores: 2}\nparallel: {fsdp: full_shard}\n\
                    train: {gradient_checkpointing: true}";
    let found = Recorded::of_job(sections).shard_collectives(Program::Train);
    assert_eq!(found.matches('A').count(), SHARDED + 4, "{found}");
    assert_eq!(found.matches('R').count(), SHARDED, "{found}");
}

#[test]
fn sharded_gradients_are_scattered_with_each_batch() {
    let job = |fsdp: &str| {
        Recorded::of_job(&format!(
            "resources: {{cores: 2}}\nparallel: {{fsdp: {fsdp}}}\n\
             train: {{gradient_accumulation_steps: 2}}"
        ))
    };
    let collectives = |fsdp| {
        let job = job(fsdp);
        [Program::Accumulate, Program::Update].map(|program| job.shard_collectives(program))
    };
    let (gather, scatter) = ("A".repeat(SHARDED), "R".repeat(SHARDED));
    let [batch, update] = collectives("shard_optimizer");
    assert_eq!((batch.as_str(), update.matches('R').count()), ("", SHARDED));
    assert_eq!(collectives("shard_grad_op"), [scatter, gather]);
    assert_eq!(collectives("full_shard"), ["AAAAAARARARARR", ""]);
    let sums = |fsdp| job(fsdp).programs.states[0].bytes(&job(fsdp).recorder).gradient_sums;
    let whole = sums("shard_optimizer");
    assert_eq!(sums("no"), whole);
    let saved = (SHARDED * 2048 * 16 * 4 / 2) as u64;
    assert_eq!([sums("shard_grad_op"), sums("full_shard")], [whole - saved, whole - saved]);
}

#[test]
fn an_optimizer_of_whole_parameters_is_refused_shards_of_them() {
    let job = |fsdp: &str| {
        Recorded::try_of_job(&format!(
            "resources: {{cores: 2}}\nparallel: {{fsdp: {fsdp}}}\ntrain: {{optim: adafactor}}"
        ))
    };
    assert_eq!(job("shard_optimizer").unwrap().shard_collectives(Program::Train), "");
    for fsdp in ["shard_grad_op", "full_shard"] {
        let error = job(fsdp).err().unwrap().to_string();
        assert!(
            error.contains(&format!("parallel.fsdp of the job file names \"{fsdp}\"")),
            "{error}"
        );
        assert!(error.contains("adamw_torch reads shards"), "{error}");
    }
}

#[test]
fn evaluations_change_nothing() {
    let job = Recorded::of_job("resources: {cores: 2}");
    let evaluation = job.record(Program::Evaluate);
    assert!(evaluation.assigned().is_empty());
    assert_eq!(evaluation.fetched(), ["logits", "loss_sum", "weight_sum", "loss_divisor"]);
    assert_eq!(job.record(Program::Predict).fetched(), ["logits"]);
}

/// The programs of a job of `stages`, each with the recorder that declared its variables.
fn in_stages(job: &JobFile, model: &Arc<Model>) -> RunResult<(JobPrograms, Vec<Recorder>)> {
    in_stages_on("cpu", job, model)
}

fn in_stages_on(
    platform: &str,
    job: &JobFile,
    model: &Arc<Model>,
) -> RunResult<(JobPrograms, Vec<Recorder>)> {
    let mesh = mesh(job)?;
    let recorder = |_| Recorder::expected(mesh.of_stage(), platform, GpuOptions::default());
    let mut recorders: Vec<Recorder> = (0..mesh.size(Axis::Pipeline)).map(recorder).collect();
    let inputs = ModelInputs { token_type_ids: true, attention_mask: true, position_ids: false };
    let config = recipe::step_config(job)?;
    let programs = JobPrograms::declare(&config, model, inputs, Readout::Logits, &mut recorders)?;
    Ok((programs, recorders))
}

const TWO_STAGES: &str = "resources: {cores: 4}\nparallel: {pipeline: 2, microbatches: 2}";

#[test]
fn stages_hold_and_update_each_parameter_once() {
    let (programs, recorders) = in_stages(&job(TWO_STAGES), &model()).unwrap();
    let owned = |stage: usize| {
        let owned = |index: &usize| programs.states[stage].parameter(*index).is_some();
        (0..model().parameters().len()).filter(owned).count()
    };
    assert!(programs.loans.is_empty(), "{:?}", programs.loans);
    assert_eq!(owned(0) + owned(1), model().parameters().len());
    let parts = |program| programs.parts_of(shape(program)).into_iter();
    let record = |part: ProgramShape| {
        let stage = programs.stage_of(&part);
        (stage, programs.record(&recorders[stage], part).unwrap())
    };
    let keys: Vec<String> = parts(Program::Accumulate).map(|part| part.key()).collect();
    let expect =
        ["forward_step-part0-2x8", "accumulate_step-part1-2x8", "accumulate_step-part0-2x8"];
    assert_eq!(keys, expect);
    for (_, pass) in parts(Program::Accumulate).map(record) {
        assert!(pass.collectives().is_empty(), "micro-batches communicate in the update alone");
    }
    let updates: Vec<_> = parts(Program::Update).map(record).collect();
    assert_eq!(updates.len(), 4, "sums and update of each stage");
    for (stage, update) in &updates[..2] {
        assert_eq!(update.fetched(), ["loss_sum", "weight_sum", "square_sum"]);
        let large = if *stage == 0 { 3 } else { 2 };
        assert_eq!(
            update.collectives().len(),
            large + 4,
            "a layer's small ones, others, and loss and weights"
        );
        assert_eq!(update.assigned().len(), owned(*stage));
    }
    for (stage, update) in &updates[2..] {
        assert_eq!(update.collectives().len(), 0);
        // Value, two moments and the sums, which begin the next step as zeros.
        assert_eq!(update.assigned().len(), 4 * owned(*stage) + 2);
    }
}

/// The forward and the backward pass of the first of two stages, each with its dots, of which none is in a kernel.
fn first_stage(sections: &str) -> [(RecordedStep, usize); 2] {
    let (programs, recorders) = in_stages_on("neuron", &job(sections), &model()).unwrap();
    let parts = programs.parts_of(shape(Program::Accumulate));
    [Program::Forward, Program::Accumulate].map(|program| {
        let is_pass = |part: &&ProgramShape| part.program == program && part.chunk == Some(0);
        let pass = programs.record(&recorders[0], *parts.iter().find(is_pass).unwrap()).unwrap();
        let dots = recorders[0].lower(&pass).text.matches("stablehlo.dot_general").count();
        (pass, dots)
    })
}

#[test]
fn a_backward_pass_reads_what_the_forward_pass_keeps() {
    let [(forward, forward_dots), (backward, backward_dots)] = first_stage(TWO_STAGES);
    assert!(
        backward_dots <= 2 * forward_dots,
        "{backward_dots} dots, of which some are computed again"
    );
    let kept = |step: &RecordedStep| -> u64 {
        let read = step.arguments().into_iter().filter(|it| it.name.starts_with("kept."));
        read.map(|it| it.shape.size_bytes() as u64).sum()
    };
    assert_eq!((forward.kept_bytes(), kept(&forward)), (kept(&backward), 0));
    // Two rows of eight positions of 16 features.
    assert_eq!(forward.sent_bytes(), 2 * 8 * 16 * 4);

    let recomputed = format!("{TWO_STAGES}\ntrain: {{gradient_checkpointing: true}}");
    let [(checkpointed, _), (_, dots)] = first_stage(&recomputed);
    assert!(dots > 2 * forward_dots, "{dots} dots");
    assert!(4 * checkpointed.kept_bytes() < forward.kept_bytes(), "the layer's input is kept");
}

#[test]
fn a_tied_parameter_belongs_to_the_first_stage_that_reads_it() {
    let config = serde_json::json!({
        "model_type": "bert", "vocab_size": 2048, "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32,
        "type_vocab_size": 2,
    });
    let config = ModelConfig::new("config.json", config.as_object().unwrap().clone());
    let model: Arc<Model> = registry::build(config, Task::MaskedLm).unwrap().into();
    let (programs, recorders) = in_stages(&job(TWO_STAGES), &model).unwrap();
    let [loan] = programs.loans[..] else { panic!("{:?}", programs.loans) };
    let name = &model.parameters()[loan.parameter].name;
    assert_eq!(name, "bert.embeddings.word_embeddings.weight");
    assert_eq!((loan.owner, loan.borrower), (0, 1));
    let slots = |stage: usize| programs.states[stage].bytes(&recorders[stage]).slots_whole;
    let all: usize = model.parameters().iter().map(|spec| spec.shape.size_bytes()).sum();
    assert_eq!(slots(0) + slots(1), 2 * all as u64, "the borrower has no moments of it");
}

#[test]
fn more_stages_than_layers_are_refused() {
    let job = job("resources: {cores: 3}\nparallel: {pipeline: 3}");
    let error = in_stages(&job, &model()).err().unwrap().to_string();
    assert!(error.contains("the model has 2 layers") && error.contains("is 2"), "{error}");
}
