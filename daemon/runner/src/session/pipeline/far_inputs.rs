//! The inputs that a stage keeps in host memory, because their backward passes are far away.

use std::collections::HashMap;

use traind_xla::runtime::HostMemory;

use super::stage::CoreTensors;
use crate::error::RunResult;
use crate::step::{Direction, Pass, backward_places};

pub(super) struct FarInputs {
    memory: HostMemory,
    /// Passes between the load of an input and its backward pass.
    horizon: usize,
    /// The place of each backward pass, by chunk and micro-batch.
    ends: HashMap<(usize, usize), usize>,
    inputs: HashMap<Pass, CoreTensors>,
}

impl FarInputs {
    /// For a stage with these passes.
    pub(super) fn new(memory: HostMemory, horizon: usize, passes: &[Pass]) -> FarInputs {
        FarInputs { memory, horizon, ends: backward_places(passes), inputs: HashMap::new() }
    }

    /// Moves the input of the forward pass at `place` to the host; returns it if it is needed soon.
    pub(super) fn unload(
        &mut self,
        place: usize,
        pass: Pass,
        input: CoreTensors,
    ) -> RunResult<Option<CoreTensors>> {
        let end = self.ends.get(&(pass.chunk, pass.micro));
        // It would be loaded before the next pass.
        if end.is_none_or(|end| *end <= place + 1 + self.horizon) {
            return Ok(Some(input));
        }
        let copies = input.iter().map(|tensor| self.memory.unload(tensor));
        self.inputs.insert(pass, copies.collect::<Result<_, _>>()?);
        Ok(None)
    }

    /// Starts to load the input for which it is time before the pass at `place`, with its forward pass.
    pub(super) fn load(
        &mut self,
        place: usize,
        passes: &[Pass],
    ) -> RunResult<Option<(Pass, CoreTensors)>> {
        let Some(next) = passes.get(place + self.horizon) else { return Ok(None) };
        let forward = Pass { direction: Direction::Forward, ..*next };
        if next.direction == Direction::Forward {
            return Ok(None);
        }
        let Some(input) = self.inputs.remove(&forward) else { return Ok(None) };
        let copies = input.iter().map(|tensor| self.memory.load(tensor));
        Ok(Some((forward, copies.collect::<Result<_, _>>()?)))
    }
}
