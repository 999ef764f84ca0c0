//! The ways from a stage to others: copies to cores of the same host, or messages to another host.

use std::ops::Range;
use std::sync::mpsc::Sender;

use traind_pjrt::Buffer;
use traind_xla::Shape;
use traind_xla::runtime::{LocalCores, pack};

use super::far_stages::{FarStages, Tag};
use crate::error::{Error, Result};
use crate::step::{Direction, LastChunk, Pass};

/// A value of each core, `[tensor][core]`.
pub(super) type CoreTensors = Vec<Vec<Buffer>>;

/// A message to a stage.
pub(super) enum Message {
    /// The tensors that a pass reads, on the cores of its stage.
    Near(Pass, CoreTensors),
    /// The tensors that a pass reads, as bytes from a stage on another host.
    Far(Pass, Vec<u8>),
    /// Another stage of this host has failed.
    Failed,
    /// The exchange with another host has failed.
    Lost(Error),
}

/// The passes after the current one whose values a stage expects from other hosts.
const EXPECTED_AHEAD: usize = 2;

/// Where the stages of a batch are.
pub(super) struct Links {
    /// The number of stages on all hosts.
    pub stages: usize,
    /// The stages of this host.
    pub own: Range<usize>,
    /// The cores of each of these.
    pub cores: Vec<LocalCores>,
    pub senders: Vec<Sender<Message>>,
    pub far: Option<FarStages>,
    /// The shapes of the states between chunks, on a core.
    pub shapes: Vec<Shape>,
}

impl Links {
    /// The place of a stage among those of this host.
    fn near(&self, stage: usize) -> Option<usize> {
        self.own.contains(&stage).then(|| stage - self.own.start)
    }

    /// Hands the tensors that a pass of stage `own` leaves to the stage that reads them.
    pub(super) fn send(&self, own: usize, pass: Pass, sent: &CoreTensors) -> Result<()> {
        if sent.is_empty() {
            return Ok(());
        }
        let chunk = match pass.direction {
            Direction::Forward => pass.chunk + 1,
            Direction::Backward => pass.chunk - 1,
        };
        let (stage, to) = (chunk % self.stages, Pass { chunk, ..pass });
        match (self.near(stage), &self.far) {
            (Some(near), _) => self.copy(near, to, sent),
            (None, Some(far)) => {
                let inbox = self.senders[own].clone();
                let failed = move |error| drop(inbox.send(Message::Lost(error)));
                far.send(far.place_of(stage), Tag::Pass(to), pack(sent)?, failed)
            }
            (None, None) => Ok(()),
        }
    }

    fn copy(&self, near: usize, pass: Pass, sent: &CoreTensors) -> Result<()> {
        let copy = |tensor: &Vec<Buffer>| -> Result<Vec<Buffer>> {
            let cores = tensor.iter().enumerate();
            Ok(cores
                .map(|(core, buffer)| self.cores[near].receive(core, buffer))
                .collect::<Result<_, _>>()?)
        };
        let tensors = sent.iter().map(copy).collect::<Result<_>>()?;
        // A stage that has ended before it reads the tensors has failed, with an error of its own.
        let _ = self.senders[near].send(Message::Near(pass, tensors));
        Ok(())
    }

    /// Copies the bytes of a stage on another host to the cores of stage `own`.
    pub(super) fn unpack(&self, own: usize, packed: &[u8]) -> Result<CoreTensors> {
        Ok(self.cores[own].unpack(&self.shapes.iter().collect::<Vec<_>>(), packed)?)
    }

    /// Expects what the passes of stage `own` read from other hosts, up to a few passes after that at `place`.
    pub(super) fn expect(
        &self,
        own: usize,
        place: usize,
        passes: &[Pass],
        last: LastChunk,
    ) -> Result<()> {
        let Some(far) = &self.far else { return Ok(()) };
        let first = if place == 0 { 0 } else { place + EXPECTED_AHEAD };
        let ahead = passes.iter().take(place + EXPECTED_AHEAD + 1).skip(first);
        for (pass, from) in ahead.filter_map(|pass| pass.reads(last)) {
            let stage = from % self.stages;
            if self.near(stage).is_some() {
                continue;
            }
            let inbox = self.senders[own].clone();
            let length = self.cores[own].packed_bytes(&self.shapes);
            let arrived = move |bytes: Result<Vec<u8>>| {
                let message = bytes.map_or_else(Message::Lost, |it| Message::Far(pass, it));
                drop(inbox.send(message));
            };
            far.expect(far.place_of(stage), Tag::Pass(pass), length, arrived)?;
        }
        Ok(())
    }
}
