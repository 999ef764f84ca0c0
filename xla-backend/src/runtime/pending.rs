//! Results of a step that may still be running.

use std::collections::BTreeMap;
use std::time::Duration;

use traind_pjrt::{Buffer, Event};

use super::HostArray;
use super::cores::download;
use crate::error::{Error, Result};
use crate::graph::Shape;

/// A dispatched step. Dropping it abandons its fetched values only; the
/// assigned variables are updated all the same.
#[derive(Debug)]
pub struct Pending {
    pub(super) names: Vec<String>,
    pub(super) shapes: Vec<Shape>,
    /// `[core][fetched value]`
    pub(super) buffers: Vec<Vec<Buffer>>,
    pub(super) completed: Vec<Event>,
    pub(super) time: HandOver,
}

/// Where the time of handing a step over went.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandOver {
    /// Binding arguments and giving the program to the cores.
    pub dispatch: Duration,
    /// Computing within the call: some plugins run a program before they return.
    pub compute: Duration,
}

impl HandOver {
    /// A call that returns with every core done was itself the computation.
    pub(super) fn split(bind: Duration, call: Duration, completed: &[Event]) -> Result<HandOver> {
        for event in completed {
            if !event.is_ready()? {
                return Ok(HandOver { dispatch: bind + call, compute: Duration::ZERO });
            }
        }
        Ok(HandOver { dispatch: bind, compute: call })
    }

    /// Whether the step was done when the call returned.
    pub fn was_done(&self) -> bool {
        !self.compute.is_zero()
    }
}

/// What a step fetched, on the host.
#[derive(Debug)]
pub struct Fetched {
    /// By name, an array a core.
    values: BTreeMap<String, Vec<HostArray>>,
}

impl Pending {
    /// How long handing the step over took.
    pub fn hand_over(&self) -> HandOver {
        self.time
    }

    /// Blocks until every core has run the step.
    pub fn wait(&self) -> Result<()> {
        self.completed.iter().try_for_each(|event| Ok(event.wait()?))
    }

    /// Waits, then copies the fetched values of every core.
    pub fn fetch(self) -> Result<Fetched> {
        self.wait()?;
        let mut values: BTreeMap<String, Vec<HostArray>> = BTreeMap::new();
        for buffers in &self.buffers {
            for ((name, shape), buffer) in self.names.iter().zip(&self.shapes).zip(buffers) {
                values.entry(name.clone()).or_default().push(download(buffer, shape)?);
            }
        }
        Ok(Fetched { values })
    }
}

impl Fetched {
    /// The value of `name` on each core.
    pub fn per_core(&self, name: &str) -> Result<&[HostArray]> {
        let missing = || Error::NotFetched { name: name.to_owned() };
        self.values.get(name).map(Vec::as_slice).ok_or_else(missing)
    }

    /// A scalar that is the same on every core.
    pub fn scalar_f32(&self, name: &str) -> Result<f32> {
        Ok(self.per_core(name)?[0].to_f32()?[0])
    }
}
