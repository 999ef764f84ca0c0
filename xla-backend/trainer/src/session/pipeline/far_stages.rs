//! The stages of other hosts. MPI moves values from host memory to host memory, in messages beside those of programs.
//!
//! Sending never waits, and each pass is expected before it is needed. So a stage waits for nothing but the values of
//! its next pass, as in a pipeline within a host, and hosts wait for each other in no circle.

use std::ops::Range;
use std::sync::mpsc::channel;

use traind_mpi::{Peer, World};
use traind_xla::mesh::{HostGrid, Mesh};

use crate::error::{Error, Result};
use crate::step::{Direction, Pass};

/// Tags of messages that are not a pass's, whose tags begin at 0.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tag {
    /// The values that a pass reads, by the chunk and the direction. Micro-batches pass a chunk in their order.
    Pass(Pass),
    /// The sums of stages over their cores.
    Sums,
    /// The gradient sums of borrowed parameters.
    Borrowed,
    /// The values of borrowed parameters.
    Lent,
}

/// The hosts with the same rows and other stages.
#[derive(Clone, Copy, Debug)]
pub(super) struct FarStages {
    world: &'static World,
    grid: HostGrid,
    /// The place of this host among them.
    place: usize,
    /// The place of this host among those with the same stages.
    data: usize,
    stages_per_host: usize,
}

impl Tag {
    fn number(self) -> u32 {
        match self {
            Tag::Pass(Pass { direction, chunk, .. }) => {
                2 * chunk as u32 + u32::from(direction == Direction::Backward)
            }
            Tag::Sums => Peer::TAG_MAX,
            Tag::Borrowed => Peer::TAG_MAX - 1,
            Tag::Lent => Peer::TAG_MAX - 2,
        }
    }
}

impl FarStages {
    /// The hosts among which `mesh` of a host is one; `None` where each host has all stages.
    pub(super) fn of_mesh(mesh: &Mesh, stages: usize) -> Result<Option<FarStages>> {
        let (grid, (data, place)) = (mesh.grid(), mesh.grid().place(mesh.host()));
        if grid.pipeline == 1 {
            return Ok(None);
        }
        let world = World::current().map_err(of_mpi)?;
        let stages_per_host = stages / grid.pipeline;
        Ok(Some(FarStages { world, grid, place, data, stages_per_host }))
    }

    /// The number of hosts, and the place of this one.
    pub(super) fn places(&self) -> (Range<usize>, usize) {
        (0..self.grid.pipeline, self.place)
    }

    /// The place of the host that has a stage.
    pub(super) fn place_of(&self, stage: usize) -> usize {
        stage / self.stages_per_host
    }

    fn peer(&self, place: usize, tag: Tag) -> Peer {
        Peer { rank: self.grid.host(self.data, place), tag: tag.number() }
    }

    /// Begins to send bytes to the host at `place`. `failed` is called where that cannot be done.
    pub(super) fn send(
        &self,
        place: usize,
        tag: Tag,
        bytes: Vec<u8>,
        failed: impl FnOnce(Error) + Send + 'static,
    ) -> Result<()> {
        let taken = move |outcome: traind_mpi::Result<Vec<u8>>| {
            if let Err(error) = outcome {
                failed(of_mpi(error));
            }
        };
        self.world.send(self.peer(place, tag), bytes, taken).map_err(of_mpi)
    }

    /// Expects bytes from the host at `place`, with which `then` is called.
    pub(super) fn expect(
        &self,
        place: usize,
        tag: Tag,
        length: usize,
        then: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) -> Result<()> {
        let arrived = move |outcome: traind_mpi::Result<Vec<u8>>| then(outcome.map_err(of_mpi));
        self.world.receive(self.peer(place, tag), length, arrived).map_err(of_mpi)
    }

    /// Waits for bytes from the host at `place`.
    pub(super) fn receive(&self, place: usize, tag: Tag, length: usize) -> Result<Vec<u8>> {
        let (sender, receiver) = channel();
        self.expect(place, tag, length, move |arrived| drop(sender.send(arrived)))?;
        receiver.recv().map_err(|_| of_mpi(traind_mpi::Error::Ended))?
    }

    /// The bytes that all of these hosts give, in their order. They all give as many.
    pub(super) fn gather(&self, tag: Tag, own: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let (places, own_place) = self.places();
        for place in places.clone().filter(|place| *place != own_place) {
            // The others then wait until the watch ends them, with this host's error.
            self.send(place, tag, own.clone(), |_| {})?;
        }
        let of_place = |place| match place == own_place {
            true => Ok(own.clone()),
            false => self.receive(place, tag, own.len()),
        };
        places.map(of_place).collect()
    }
}

fn of_mpi(error: traind_mpi::Error) -> Error {
    Error::Device(error.into())
}
