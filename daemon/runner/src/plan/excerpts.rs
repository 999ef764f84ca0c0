//! The costs of programs, from those of excerpts of the model: of equal layers two or three are recorded,
//! however many there are.

use traind_job_file::JobFile;
use traind_models::Excerpts;
use traind_xla::analysis::{Collective, MemoryProfile};
use traind_xla::verify::neuron::{Finding, Instructions, add_distinct};

use super::PlannedModel;
use super::declared::{CheckedProgram, Declared};
use super::program_figures::{ProgramFigures, counted};
use crate::error::RunResult;
use crate::state::{Pipeline, StateBytes};
use crate::step::ProgramShape;

/// The programs of a job's excerpts.
pub(super) struct DeclaredExcerpts {
    shortest: Declared,
    /// Each with a further layer, and by chunk the number of such layers that the shortest lacks.
    longer: Vec<(Declared, Vec<usize>)>,
}

struct Recorded {
    input_bytes: u64,
    kept_bytes: u64,
    profile: MemoryProfile,
    collectives: Vec<(Collective, u64)>,
    warnings: Vec<Finding>,
    instructions: Instructions,
}

impl DeclaredExcerpts {
    /// The excerpts of those stages of a job that are `wanted`; `None` where there are none that are much
    /// shorter.
    pub(super) fn of(
        job: &JobFile,
        planned: &PlannedModel,
        pipeline: &Pipeline,
        wanted: impl Fn(usize) -> bool,
    ) -> RunResult<Option<DeclaredExcerpts>> {
        // The parts of an update have as many layers each as make them equal, and groups may give some layers another
        // optimizer than others.
        let differs = job.train.param_groups.iter().any(|group| group.optim.is_some());
        if job.parallel.offload.optimizer || differs {
            return Ok(None);
        }
        // One program updates all chunks of a stage.
        let is_uniform = pipeline.chunks_per_stage() > 1;
        let is_sharded = job.parallel.sharding().shards_parameters();
        let (model, chunks) = (planned.model.as_ref(), &pipeline.chunks);
        let excerpts = Excerpts::of(model, chunks, is_uniform, is_sharded);
        let Some(Excerpts { shortest, longer }) = excerpts else { return Ok(None) };
        let declared = |chunks| Declared::of(job, planned, pipeline.with_chunks(chunks), &wanted);
        let longer = longer.into_iter().map(|it| Ok((declared(it.chunks)?, it.missing)));
        let longer = longer.collect::<RunResult<_>>()?;
        Ok(Some(DeclaredExcerpts { shortest: declared(shortest)?, longer }))
    }

    /// Returns the bytes of the state of a stage, and those of all of its variables.
    pub(super) fn state(&self, stage: usize) -> (StateBytes, u64) {
        let (shortest, least) = self.shortest.state(stage);
        let (mut state, mut bytes) = (shortest, least);
        for (longer, missing) in &self.longer {
            let (times, (longer, more)) = (missing[stage] as u64, longer.state(stage));
            state = state.plus_growth(&shortest, &longer, times);
            bytes += times * (more - least);
        }
        (state, bytes)
    }

    /// [`lent_bytes`](crate::step::JobPrograms::lent_bytes), which layers that are left out take no part in.
    pub(super) fn lent_bytes(&self, stage: usize) -> u64 {
        self.shortest.programs.lent_bytes(stage)
    }

    /// Returns the costs of a program; `None` where the excerpts' programs differ in more than repeated layers.
    pub(super) fn figures(&self, shape: ProgramShape) -> RunResult<Option<ProgramFigures>> {
        let shortest = Recorded::of(&self.shortest, shape)?;
        let (mut input_bytes, mut kept_bytes) = (shortest.input_bytes, shortest.kept_bytes);
        let mut collectives = shortest.collectives.clone();
        let (mut profiles, mut warnings) = (Vec::new(), shortest.warnings);
        let mut instructions = shortest.instructions.clone();
        for (longer, missing) in &self.longer {
            // A stage's own programs are those of its first chunk.
            let times = missing[shape.chunk.unwrap_or(0)] as u64;
            if times > 0 {
                let longer = Recorded::of(longer, shape)?;
                let counted = &shortest.collectives;
                if add(&mut collectives, counted, longer.collectives, times).is_none() {
                    return Ok(None);
                }
                input_bytes += times * (longer.input_bytes - shortest.input_bytes);
                kept_bytes += times * (longer.kept_bytes - shortest.kept_bytes);
                instructions =
                    instructions.plus_growth(&shortest.instructions, &longer.instructions, times);
                profiles.push((longer.profile, times));
                add_distinct(&mut warnings, longer.warnings);
            }
        }
        let peak = shortest.profile.extrapolated(&profiles);
        Ok(peak.map(|peak| ProgramFigures {
            bytes: input_bytes + peak,
            kept_bytes,
            collectives,
            warnings,
            instructions,
        }))
    }
}

impl Recorded {
    fn of(declared: &Declared, shape: ProgramShape) -> RunResult<Recorded> {
        let CheckedProgram { recorder, step, warnings, instructions } = declared.record(shape)?;
        Ok(Recorded {
            input_bytes: step.input_bytes(),
            kept_bytes: step.kept_bytes(),
            profile: recorder.memory_profile(&step),
            collectives: counted(step.collectives()),
            warnings,
            instructions,
        })
    }
}

/// Adds to `collectives` those that `longer` has besides `shortest`, so many times. `None` where it has
/// fewer.
fn add(
    collectives: &mut Vec<(Collective, u64)>,
    shortest: &[(Collective, u64)],
    longer: Vec<(Collective, u64)>,
    times: u64,
) -> Option<()> {
    for (collective, count) in longer {
        let same = |(other, _): &&(Collective, u64)| *other == collective;
        let more = count.checked_sub(shortest.iter().find(same).map_or(0, |(_, count)| *count))?;
        match collectives.iter_mut().find(|(other, _)| *other == collective) {
            Some((_, count)) => *count += times * more,
            None => collectives.push((collective, times * more)),
        }
    }
    Some(())
}

#[cfg(test)]
mod tests;
