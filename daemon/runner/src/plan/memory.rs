//! Memory of one core: parameters, gradients, optimizer state and activations, by the programs that the
//! run will compile.

use traind_job_file::JobFile;
use traind_job_file::commands::CoreMemory;
use traind_loader::{BatchAxis, BatchSizes};
use traind_xla::analysis::Collective;
use traind_xla::runtime::{RecordedStep, Recorder};
use traind_xla::verify::neuron::{Finding, add_distinct};

use super::PlannedModel;
use super::declared::CheckedProgram;
use super::program_figures::{ProgramFigures, counted};
use super::stages::Stages;
use super::{groups, neuron};
use crate::data::predictions;
use crate::error::RunResult;
use crate::state::StateBytes;
use crate::step::{JobPrograms, PipelineOrder, Program, ProgramShape};

/// The costs of the recorded programs of a job.
pub(super) struct Recordings {
    /// The memory of a core of the fullest stage.
    pub memory: CoreMemory,
    /// The unsharded optimizer state of all stages, as in a checkpoint.
    pub optimizer_bytes_whole: u64,
    /// The traffic of stages, without those that are equal to others.
    pub stages: Vec<Traffic>,
    pub pipeline_order: PipelineOrder,
    /// Operations that Neuron's compiler computes in another type: of each problem the first.
    pub warnings: Vec<Finding>,
}

/// The messages of the cores of a stage in a training step.
pub(super) struct Traffic {
    pub stage: usize,
    /// The collectives of the stage's programs, each with how often it is in a program.
    pub collectives: Vec<(Program, Collective, u64)>,
    /// Bytes of a core to other stages with each batch.
    pub batch_bytes: u64,
    /// Bytes of a core to other stages at the end of the step.
    pub update_bytes: u64,
}

/// Returns the bytes that a recorded program takes besides variables.
pub(super) type Measure<'a> = dyn Fn(&Recorder, &RecordedStep) -> RunResult<u64> + 'a;

impl Recordings {
    /// Estimates what programs take, from excerpts of the model where its layers are equal.
    pub(super) fn of(job: &JobFile, planned: &PlannedModel) -> RunResult<Recordings> {
        let stages = Stages::in_excerpts(job, planned)?;
        Recordings::with_figures(job, planned, &stages, &|shape| stages.figures(shape))
    }

    /// Returns the memory by the bytes that `measure` returns of programs, all of which are recorded whole.
    pub(super) fn measured(
        job: &JobFile,
        planned: &PlannedModel,
        measure: &Measure<'_>,
    ) -> RunResult<Recordings> {
        let stages = Stages::whole(job, planned)?;
        Recordings::with_figures(job, planned, &stages, &|shape| {
            let checked = stages.declared()?.record(shape)?;
            let CheckedProgram { recorder, step, warnings, instructions } = checked;
            let (bytes, kept_bytes) = (measure(recorder, &step)?, step.kept_bytes());
            let collectives = counted(step.collectives());
            Ok(ProgramFigures { bytes, kept_bytes, collectives, warnings, instructions })
        })
    }

    fn with_figures(
        job: &JobFile,
        planned: &PlannedModel,
        stages: &Stages<'_>,
        figures: &dyn Fn(ProgramShape) -> RunResult<ProgramFigures>,
    ) -> RunResult<Recordings> {
        let shapes = shapes(job, stages.programs(), planned)?;
        let (mut memories, mut traffic, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
        let mut optimizer_bytes_whole = 0;
        for (stage, count) in &stages.kinds {
            let (state, variables) = stages.state(*stage)?;
            optimizer_bytes_whole += count * state.slots_whole;
            let figures = |shape: ProgramShape| -> RunResult<ProgramFigures> {
                let found = figures(shape)?;
                neuron::check_instructions(planned.neuron.as_ref(), &found.instructions)?;
                Ok(found)
            };
            let steps = stage_steps(stages, &shapes, *stage, &figures)?;
            for step in &steps {
                add_distinct(&mut warnings, step.warnings.iter().cloned());
                let collectives = step.collectives.iter().map(|(collective, _)| collective);
                groups::check(job, collectives, planned.neuron.as_ref())?;
            }
            let temporary = steps.iter().map(|step| step.temporary_bytes).max().unwrap_or(0);
            let kept = steps.iter().map(|step| step.host_bytes).max().unwrap_or(0);
            let memory = stage_memory(&state, variables, temporary);
            memories.push(CoreMemory { host_bytes: state.offloaded + kept, ..memory });
            traffic.push(Traffic::of(stages, &shapes, *stage, steps)?);
        }
        let host_bytes = memories.iter().map(|stage| stage.host_bytes).max().unwrap_or(0);
        let fullest = memories.into_iter().max_by_key(|stage| stage.bytes_per_core);
        let fullest = fullest.unwrap_or_else(|| stage_memory(&StateBytes::default(), 0, 0));
        let memory = CoreMemory { host_bytes, ..fullest };
        let rows = job.train.per_device_train_batch_size as usize;
        let pipeline_order = stages.programs().pipeline_order(rows);
        Ok(Recordings { memory, optimizer_bytes_whole, stages: traffic, pipeline_order, warnings })
    }
}

impl Traffic {
    fn of(
        stages: &Stages<'_>,
        shapes: &[ProgramShape],
        stage: usize,
        steps: Vec<StageStep>,
    ) -> RunResult<Traffic> {
        let steps = steps.into_iter().filter(|step| step.program != Program::Evaluate);
        let collectives = steps.flat_map(|step| {
            let program = step.program;
            step.collectives.into_iter().map(move |(it, count)| (program, it, count))
        });
        let batch = shapes.iter().find(|shape| shape.program == Program::Accumulate);
        let sent = |batch: &ProgramShape| stages.programs().sent_bytes(batch.sizes, stage);
        Ok(Traffic {
            stage,
            collectives: collectives.collect(),
            batch_bytes: batch.map_or(Ok(0), sent)?,
            update_bytes: stages.lent_bytes(stage)?,
        })
    }
}

/// The memory of a core of the job's fullest stage.
pub(crate) fn of(job: &JobFile, planned: &PlannedModel) -> RunResult<CoreMemory> {
    Ok(Recordings::of(job, planned)?.memory)
}

/// `variables` last from step to step, some of them in host memory, `temporary` bytes are what the largest program
/// takes besides.
fn stage_memory(state: &StateBytes, variables: u64, temporary: u64) -> CoreMemory {
    // Sums of gradients are variables, other gradients live within one program.
    let gradients = match state.gradient_sums {
        0 => state.gradients.min(temporary),
        sums => sums,
    };
    let bytes_per_core = variables - state.offloaded + temporary;
    CoreMemory {
        weights_bytes: state.parameters,
        reference_bytes: state.reference,
        gradients_bytes: gradients,
        optimizer_bytes: state.slots,
        activations_bytes: bytes_per_core - state.parameters - gradients - state.slots,
        bytes_per_core,
        host_bytes: 0,
    }
}

/// The programs of the job for its longest rows.
fn shapes(
    job: &JobFile,
    programs: &JobPrograms,
    planned: &PlannedModel,
) -> RunResult<Vec<ProgramShape>> {
    let train = &job.train;
    let sizes = |rows: u32| batch_sizes(job, planned, rows);
    let mut shapes = Vec::new();
    if train.do_train {
        shapes = programs.step_programs().shapes([sizes(train.per_device_train_batch_size)?]);
    }
    if job.evaluates() || job.data.test.is_some() {
        let sizes = sizes(train.per_device_eval_batch_size)?;
        shapes.push(ProgramShape::of_batch(Program::Evaluate, sizes));
    }
    Ok(shapes)
}

/// The sizes of a core's batch of the job's longest rows.
pub(super) fn batch_sizes(
    job: &JobFile,
    planned: &PlannedModel,
    rows: u32,
) -> RunResult<BatchSizes> {
    let [positions, target_positions] = planned.lengths(job)?;
    let sizes = BatchSizes::of_rows(rows as usize)
        .with(BatchAxis::Positions, positions)
        .with(BatchAxis::TargetPositions, target_positions);
    Ok(predictions::masked_share(job).map_or(sizes, |share| share.with_sizes(sizes)))
}

/// A recorded program of a stage.
struct StageStep {
    /// The program that it is a part of, or a comparison, which a batch has one of.
    program: Program,
    /// Bytes besides variables, with what a pipeline keeps between programs, and what an update
    /// loads from host memory.
    temporary_bytes: u64,
    /// The bytes that a pipeline keeps in host memory between programs.
    host_bytes: u64,
    collectives: Vec<(Collective, u64)>,
    warnings: Vec<Finding>,
}

/// The programs of a stage.
fn stage_steps(
    stages: &Stages<'_>,
    shapes: &[ProgramShape],
    stage: usize,
    figures: &dyn Fn(ProgramShape) -> RunResult<ProgramFigures>,
) -> RunResult<Vec<StageStep>> {
    let mut steps = Vec::new();
    for shape in shapes {
        let parts = stages.parts(*shape, stage)?.into_iter();
        let parts = parts.map(|part| Ok((part, figures(part)?))).collect::<RunResult<Vec<_>>>()?;
        let kept = parts.iter().filter_map(|(part, found)| Some((part.chunk?, found.kept_bytes)));
        let kept = kept.filter(|(_, bytes)| *bytes > 0).collect();
        for (part, ProgramFigures { bytes, collectives, warnings, .. }) in parts {
            let [kept, host_bytes] = match part.program {
                Program::Forward | Program::Embed | Program::Compare | Program::Accumulate => {
                    stages.programs().kept_bytes(shape.sizes, stage, &kept)?
                }
                Program::Update => [stages.state(stage)?.0.loaded, 0],
                _ => [0; 2],
            };
            let program = match part.program {
                Program::Compare => Program::Compare,
                _ => shape.program,
            };
            let temporary_bytes = bytes + kept;
            steps.push(StageStep { program, temporary_bytes, host_bytes, collectives, warnings });
        }
    }
    Ok(steps)
}
