//! Results of a step that may still be running.

use std::collections::BTreeMap;
use std::time::Duration;

use traind_pjrt::{Buffer, Event, HostCopy};

use super::HostArray;
use crate::error::{Error, Result};
use crate::graph::Shape;

/// A dispatched step. Dropping it abandons its fetched values only; the
/// assigned variables are updated all the same.
#[derive(Debug)]
pub struct Pending {
    pub(super) names: Vec<String>,
    pub(super) shapes: Vec<Shape>,
    /// `[local core][fetched value]`, under way since the step was dispatched: a copy that begins when
    /// the step has ended may queue behind the next one.
    pub(super) copies: Vec<Vec<HostCopy>>,
    pub(super) completed: Vec<Event>,
    pub(super) time: HandOver,
    /// What the assigned variables held before. The step took it over, and some plugins wait for
    /// the step when it is dropped: so it is kept until then.
    pub(super) retired: Vec<Buffer>,
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
}

/// What a step fetched, on the host.
#[derive(Debug)]
pub struct Fetched {
    /// By name, an array a local core.
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
        drop(self.retired);
        let mut values: BTreeMap<String, Vec<HostArray>> = BTreeMap::new();
        for copies in self.copies {
            for ((name, shape), copy) in self.names.iter().zip(&self.shapes).zip(copies) {
                let value = HostArray::from_bytes(shape.clone(), copy.wait()?)?;
                values.entry(name.clone()).or_default().push(value);
            }
        }
        Ok(Fetched { values })
    }
}

impl Fetched {
    /// The value of `name` on each local core.
    pub fn per_core(&self, name: &str) -> Result<&[HostArray]> {
        let missing = || Error::NotFetched { name: name.to_owned() };
        self.values.get(name).map(Vec::as_slice).ok_or_else(missing)
    }

    /// A scalar that is the same on every core.
    pub fn scalar_f32(&self, name: &str) -> Result<f32> {
        Ok(self.per_core(name)?[0].to_f32()?[0])
    }
}
