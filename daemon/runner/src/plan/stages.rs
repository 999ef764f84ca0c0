//! The different stages of a job's pipeline, with what their state and programs take.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use traind_job_file::JobFile;

use super::PlannedModel;
use super::declared::Declared;
use super::excerpts::DeclaredExcerpts;
use super::program_figures::{ProgramFigures, estimated};
use crate::error::RunResult;
use crate::recipe;
use crate::state::{Pipeline, StateBytes};
use crate::step::{JobPrograms, ProgramShape};

pub(super) struct Stages<'a> {
    job: &'a JobFile,
    planned: &'a PlannedModel,
    /// The job's programs, without variables.
    outline: Declared,
    /// The first of equal stages, and how many there are.
    pub kinds: Vec<(usize, u64)>,
    excerpts: Option<DeclaredExcerpts>,
    /// The job's programs, with the variables of the first of equal stages.
    whole: OnceCell<Declared>,
}

impl<'a> Stages<'a> {
    /// The stages of a job, of which excerpts are recorded where the model has equal layers.
    pub(super) fn in_excerpts(
        job: &'a JobFile,
        planned: &'a PlannedModel,
    ) -> RunResult<Stages<'a>> {
        let stages = Stages::whole(job, planned)?;
        let is_kind = |stage: usize| stages.kinds.iter().any(|(first, _)| *first == stage);
        let excerpts = DeclaredExcerpts::of(job, planned, stages.pipeline(), is_kind)?;
        Ok(Stages { excerpts, ..stages })
    }

    /// The stages of a job, all of which is recorded.
    pub(super) fn whole(job: &'a JobFile, planned: &'a PlannedModel) -> RunResult<Stages<'a>> {
        let pipeline = recipe::pipeline(job, planned.model.as_ref())?;
        let kinds = kinds(planned, &pipeline);
        let outline = Declared::of(job, planned, pipeline, |_| false)?;
        Ok(Stages { job, planned, outline, kinds, excerpts: None, whole: OnceCell::new() })
    }

    /// The job's programs, without variables.
    pub(super) fn programs(&self) -> &JobPrograms {
        &self.outline.programs
    }

    fn pipeline(&self) -> &Pipeline {
        &self.outline.programs.pipeline
    }

    /// Returns the bytes of the state of a stage, and those of all of its variables.
    pub(super) fn state(&self, stage: usize) -> RunResult<(StateBytes, u64)> {
        match &self.excerpts {
            Some(excerpts) => Ok(excerpts.state(stage)),
            None => Ok(self.declared()?.state(stage)),
        }
    }

    /// The bytes of the variables of the core that has the most.
    pub(super) fn variable_bytes(&self) -> RunResult<u64> {
        let of_stage = |(stage, _): &(usize, u64)| -> RunResult<u64> {
            let (state, bytes) = self.state(*stage)?;
            Ok(bytes - state.offloaded)
        };
        let bytes = self.kinds.iter().map(of_stage).collect::<RunResult<Vec<_>>>()?;
        Ok(bytes.into_iter().max().unwrap_or(0))
    }

    /// The bytes of [`JobPrograms::lent_bytes`].
    pub(super) fn lent_bytes(&self, stage: usize) -> RunResult<u64> {
        match &self.excerpts {
            Some(excerpts) => Ok(excerpts.lent_bytes(stage)),
            None => Ok(self.declared()?.programs.lent_bytes(stage)),
        }
    }

    /// The parts of a program that are those of a stage.
    pub(super) fn parts(&self, shape: ProgramShape, stage: usize) -> RunResult<Vec<ProgramShape>> {
        let programs = match &self.excerpts {
            Some(_) => self.programs(),
            // Its state says in how many parts it is updated.
            None => &self.declared()?.programs,
        };
        let parts = programs.parts_of(shape).into_iter();
        Ok(parts.filter(|part| programs.stage_of(part) == stage).collect())
    }

    /// Estimates what a program takes.
    pub(super) fn figures(&self, shape: ProgramShape) -> RunResult<ProgramFigures> {
        let found = self.excerpts.as_ref().map(|it| it.figures(shape)).transpose()?.flatten();
        found.map_or_else(|| estimated(self.declared()?, shape), Ok)
    }

    /// All of the first of equal stages.
    pub(super) fn declared(&self) -> RunResult<&Declared> {
        if let Some(declared) = self.whole.get() {
            return Ok(declared);
        }
        let is_kind = |stage: usize| self.kinds.iter().any(|(first, _)| *first == stage);
        let pipeline = self.pipeline().clone();
        let declared = Declared::of(self.job, self.planned, pipeline, is_kind)?;
        Ok(self.whole.get_or_init(|| declared))
    }
}

/// The first of equal stages, and how many there are. The first keeps the activations of the most micro-batches.
fn kinds(planned: &PlannedModel, pipeline: &Pipeline) -> Vec<(usize, u64)> {
    let runs = traind_models::runs_of_layers(planned.model.as_ref());
    let chunks = &pipeline.chunks;
    // Layers by run, and whether a chunk has more than layers.
    let kind = |chunk: usize| {
        let layers = chunks.layers(chunk);
        let within = runs
            .iter()
            .map(|run| run.end.min(layers.end).saturating_sub(run.start.max(layers.start)));
        (within.collect::<Vec<_>>(), chunks.is_first(chunk), chunks.is_last(chunk))
    };
    let mut found: BTreeMap<Vec<_>, (usize, u64)> = BTreeMap::new();
    for stage in 0..pipeline.stages {
        let kind = pipeline.chunks_of(stage).map(kind).collect();
        found.entry(kind).or_insert((stage, 0)).1 += 1;
    }
    let mut kinds: Vec<(usize, u64)> = found.into_values().collect();
    kinds.sort_unstable();
    kinds
}
