//! The programs of a job with their variables, ready to be recorded without a device.

use traind_job_file::JobFile;
use traind_xla::runtime::{RecordedStep, Recorder};
use traind_xla::verify::neuron::{Finding, Instructions, Limits};

use super::PlannedModel;
use super::neuron::{self, Checked};
use crate::error::RunResult;
use crate::recipe::{embedding, gpu_options, mesh, step_config};
use crate::state::{Pipeline, StateBytes};
use crate::step::{DeclaredStages, JobPrograms, ProgramShape};
use crate::tasks::embedding_width;

pub(super) struct Declared {
    /// The recorder of each stage.
    pub recorders: Vec<Recorder>,
    pub programs: JobPrograms,
    neuron: Option<Limits>,
}

/// A program that NeuronCores can run, if they are to.
pub(super) struct CheckedProgram<'a> {
    /// The recorder of its stage.
    pub recorder: &'a Recorder,
    pub step: RecordedStep,
    /// Operations that Neuron's compiler computes in another type.
    pub warnings: Vec<Finding>,
    /// Instructions of Neuron's compiler, of which longer programs have more; none for other platforms.
    pub instructions: Instructions,
}

impl Declared {
    /// The job's programs for `pipeline`, which may have other layers than the job's. Only stages that are
    /// `wanted` have variables.
    pub(super) fn of(
        job: &JobFile,
        planned: &PlannedModel,
        pipeline: Pipeline,
        wanted: impl Fn(usize) -> bool,
    ) -> RunResult<Declared> {
        let (platform, mesh) = (job.resources.platform.to_string(), mesh(job)?);
        let recorder = || Recorder::expected(mesh.of_stage(), &platform, gpu_options(job));
        let mut recorders: Vec<Recorder> = (0..pipeline.stages).map(|_| recorder()).collect();
        let PlannedModel { model, inputs, readout, neuron, .. } = planned;
        let places = pipeline.places(model.as_ref()).into_iter().enumerate();
        let places = places.map(|(stage, places)| if wanted(stage) { places } else { Vec::new() });
        let stages = DeclaredStages { places: places.collect(), pipeline };
        let mut config = step_config(job)?;
        let width = embedding_width(model.as_ref());
        config.forward.embedding = embedding::planned_objective(job, width)?;
        let programs =
            JobPrograms::declare_stages(&config, model, stages, *inputs, *readout, &mut recorders)?;
        Ok(Declared { recorders, programs, neuron: neuron.clone() })
    }

    /// Returns the bytes of the state of a stage, and those of all of its variables.
    pub(super) fn state(&self, stage: usize) -> (StateBytes, u64) {
        let recorder = &self.recorders[stage];
        (self.programs.state(stage).bytes(recorder), recorder.variable_bytes() as u64)
    }

    /// Records a program. Fails if NeuronCores cannot run it, and are to.
    pub(super) fn record(&self, shape: ProgramShape) -> RunResult<CheckedProgram<'_>> {
        let recorder = &self.recorders[self.programs.stage_of(&shape)];
        let step = self.programs.record(recorder, shape)?;
        let Checked { warnings, instructions } = match &self.neuron {
            Some(limits) => neuron::check(limits, recorder, &step)?,
            None => Checked::default(),
        };
        Ok(CheckedProgram { recorder, step, warnings, instructions })
    }
}
