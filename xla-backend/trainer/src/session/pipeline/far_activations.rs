//! The activations that a stage keeps in host memory, because their backward passes are far away: the states that a
//! chunk read, and what its forward pass keeps.

use std::collections::HashMap;

use traind_xla::runtime::HostMemory;

use super::links::CoreTensors;
use crate::error::Result;
use crate::step::{Direction, Pass, backward_places};

pub(super) struct FarActivations {
    memory: HostMemory,
    /// Passes between the load of activations and their backward pass.
    horizon: usize,
    /// The place of each backward pass, by chunk and micro-batch.
    ends: HashMap<(usize, usize), usize>,
    activations: HashMap<Pass, CoreTensors>,
}

impl FarActivations {
    /// Makes the activations of a stage with these passes.
    pub(super) fn new(memory: HostMemory, horizon: usize, passes: &[Pass]) -> FarActivations {
        FarActivations {
            memory,
            horizon,
            ends: backward_places(passes),
            activations: HashMap::new(),
        }
    }

    /// Moves the activations of the forward pass at `place` to the host; returns them if they are needed soon.
    pub(super) fn unload(
        &mut self,
        place: usize,
        pass: Pass,
        activations: CoreTensors,
    ) -> Result<Option<CoreTensors>> {
        let end = self.ends.get(&(pass.chunk, pass.micro));
        // They would be loaded before the next pass.
        if end.is_none_or(|end| *end <= place + 1 + self.horizon) {
            return Ok(Some(activations));
        }
        let copies = activations.iter().map(|tensor| self.memory.unload(tensor));
        self.activations.insert(pass, copies.collect::<Result<_, _>>()?);
        Ok(None)
    }

    /// Starts to load the activations for which it is time before the pass at `place`, with their forward pass.
    pub(super) fn load(
        &mut self,
        place: usize,
        passes: &[Pass],
    ) -> Result<Option<(Pass, CoreTensors)>> {
        let Some(next) = passes.get(place + self.horizon) else { return Ok(None) };
        let forward = Pass { direction: Direction::Forward, ..*next };
        if next.direction == Direction::Forward {
            return Ok(None);
        }
        let Some(activations) = self.activations.remove(&forward) else { return Ok(None) };
        let copies = activations.iter().map(|tensor| self.memory.load(tensor));
        Ok(Some((forward, copies.collect::<Result<_, _>>()?)))
    }
}
