//! One stage of a pipeline while a batch passes: launches the passes in their order, each when the
//! tensors that it reads have arrived from other stages.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use traind_pjrt::Buffer;
use traind_xla::runtime::{CoreInputs, LazyDevice, Pending};

use super::far_activations::FarActivations;
use super::links::{CoreTensors, Links, Message};
use super::timeline::Timeline;
use super::turns::Turns;
use super::{Ended, launch, no_inputs};
use crate::error::Result;
use crate::step::{Direction, LastChunk, Pass};

/// The ways to the other stages. Dropping them before the stage is done makes those of this host fail too.
pub(super) struct Outbox<'a> {
    pub links: &'a Links,
    /// Present where the stages of this host launch their passes in turn.
    pub turns: Option<&'a Turns>,
    /// The place of the stage among those of this host.
    pub own: usize,
    /// Whether all passes are launched.
    pub is_done: bool,
}

/// A stage and its part of a batch.
pub(super) struct StageRun<'a> {
    pub device: &'a mut LazyDevice,
    pub passes: Vec<Pass>,
    /// The values by micro-batch.
    pub inputs: &'a [CoreInputs],
    /// The key of the program of a pass.
    pub key: &'a (dyn Fn(Pass) -> String + Sync),
    /// The key of the program that runs before the first backward pass of the last chunk, where rows are compared.
    pub compare: Option<String>,
    /// Whether there are backward passes.
    pub trains: bool,
    pub last: LastChunk,
    /// Present where activations are kept in host memory.
    pub far: Option<FarActivations>,
    pub timeline: Timeline,
    pub inbox: Receiver<Message>,
    pub outbox: Outbox<'a>,
}

impl StageRun<'_> {
    /// Launches all passes; returns their programs in the same order. `Err(None)`: another stage has
    /// failed.
    pub(super) fn run(mut self) -> Ended<Vec<Pending>> {
        let mut received = Received::default();
        let mut launched = Vec::with_capacity(self.passes.len());
        let passes = std::mem::take(&mut self.passes);
        for (place, pass) in passes.iter().enumerate() {
            let Outbox { links, own, .. } = self.outbox;
            links.expect(own, place, &passes, self.last).map_err(Some)?;
            let far = self.far.as_mut();
            let near = far.map(|far| far.load(place, &passes)).transpose().map_err(Some)?;
            if let Some((forward, tensors)) = near.flatten() {
                received.keep(forward, tensors);
            }
            launched.extend(self.launch(place, *pass, &mut received)?);
        }
        self.outbox.is_done = true;
        Ok(launched)
    }

    fn launch(
        &mut self,
        place: usize,
        pass: Pass,
        received: &mut Received,
    ) -> Ended<impl Iterator<Item = Pending> + use<>> {
        let mut tensors = self.read(pass, received)?;
        let turns = self.outbox.turns;
        let mut launch = || {
            let compared = self.compare_before(pass)?;
            Ok((compared, self.mark_step(pass, &tensors).map_err(Some)?))
        };
        let (compared, mut launched) = match turns {
            Some(turns) => turns.launch(pass, launch)?,
            None => launch()?,
        };
        if pass.direction == Direction::Forward && self.is_passed_twice(pass.chunk) {
            tensors.extend(launched.take_kept());
            let near = match &mut self.far {
                Some(far) => far.unload(place, pass, tensors).map_err(Some)?,
                None => Some(tensors),
            };
            near.into_iter().for_each(|tensors| received.keep(pass, tensors));
        }
        let Outbox { links, own, .. } = self.outbox;
        links.send(own, pass, &launched.take_sent()).map_err(Some)?;
        Ok(compared.into_iter().chain([launched]))
    }

    /// Compares the rows of all micro-batches, if `pass` is the first that needs it.
    fn compare_before(&mut self, pass: Pass) -> Ended<Option<Pending>> {
        let needs_it = pass.direction == Direction::Backward && pass.chunk == self.last.chunk;
        let Some(key) = self.compare.take_if(|_| needs_it) else { return Ok(None) };
        let inputs = no_inputs(self.device);
        launch(self.device, &key, &inputs).map(Some)
    }

    /// Whether a chunk has a forward and a backward pass. In training, the last may have a backward pass alone.
    fn is_passed_twice(&self, chunk: usize) -> bool {
        self.trains && (chunk != self.last.chunk || self.last.passes_forward)
    }

    /// The tensors that a pass reads besides its inputs: states, the gradients of those that the chunk handed on, and
    /// what its forward pass has kept.
    fn read(&self, pass: Pass, received: &mut Received) -> Ended<CoreTensors> {
        if pass.is_first(self.last) {
            return if pass.chunk == 0 {
                Ok(Vec::new())
            } else {
                self.take(pass.forward(), received)
            };
        }
        let mut tensors = self.take(pass.forward(), received)?;
        if pass.reads(self.last).is_none() {
            return Ok(tensors);
        }
        let gradients = self.take(pass, received)?;
        let states = if pass.chunk == 0 { 0 } else { gradients.len() };
        tensors.splice(states..states, gradients);
        Ok(tensors)
    }

    /// The tensors for `pass`, when they are there.
    fn take(&self, pass: Pass, received: &mut Received) -> Ended<CoreTensors> {
        loop {
            if let Some(tensors) = received.0.remove(&pass) {
                return Ok(tensors);
            }
            let Outbox { links, own, .. } = self.outbox;
            match self.inbox.recv() {
                Ok(Message::Near(of, tensors)) => received.keep(of, tensors),
                Ok(Message::Far(of, packed)) => {
                    received.keep(of, links.unpack(own, &packed).map_err(Some)?);
                }
                Ok(Message::Lost(error)) => return Err(Some(error)),
                Ok(Message::Failed) | Err(_) => return Err(None),
            }
        }
    }

    fn mark_step(&mut self, pass: Pass, tensors: &CoreTensors) -> Result<Pending> {
        let mut inputs: Vec<Vec<&Buffer>> =
            self.inputs[pass.micro].iter().map(|core| core.iter().collect()).collect();
        for tensor in tensors {
            inputs.iter_mut().zip(tensor).for_each(|(core, buffer)| core.push(buffer));
        }
        let start = Instant::now();
        let launched = self.device.mark_step_with(&(self.key)(pass), &inputs)?;
        self.timeline.follow(pass, start, &launched)?;
        Ok(launched)
    }
}

impl Drop for Outbox<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.turns.iter().for_each(|turns| turns.fail());
            self.links.senders.iter().for_each(|sender| drop(sender.send(Message::Failed)));
        }
    }
}

/// Tensors that have arrived, or that a later pass reads again.
#[derive(Default)]
struct Received(HashMap<Pass, CoreTensors>);

impl Received {
    fn keep(&mut self, pass: Pass, tensors: CoreTensors) {
        self.0.insert(pass, tensors);
    }
}
