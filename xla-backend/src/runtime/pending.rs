//! Results of a step that may still be running.

use std::collections::BTreeMap;
use std::sync::Arc;
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
    /// `[local core][sent value]`
    pub(super) sent: Vec<Vec<Buffer>>,
    /// `[local core][kept value]`
    pub(super) kept: Vec<Vec<Buffer>>,
    /// `[local core]`
    pub(super) completed: Vec<Vec<Event>>,
    pub(super) time: HandOver,
    /// The buffers that the assigned variables had before. The step has taken them over; some
    /// plugins wait for the step when they are dropped, so they are kept until it has ended.
    pub(super) retired: Vec<Buffer>,
}

/// The time that handing a step over took, by its parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandOver {
    /// Binding arguments and giving the program to the cores.
    pub dispatch: Duration,
    /// Computing within the call: some plugins run a program before they return.
    pub compute: Duration,
}

impl HandOver {
    /// A call that returns with every core done was itself the computation.
    pub(super) fn split(
        bind: Duration,
        call: Duration,
        completed: &[Vec<Event>],
    ) -> Result<HandOver> {
        for event in completed.iter().flatten() {
            if !event.is_ready()? {
                return Ok(HandOver { dispatch: bind + call, compute: Duration::ZERO });
            }
        }
        Ok(HandOver { dispatch: bind, compute: call })
    }
}

/// The values that a step fetched, on the host.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Arrays by name, one a local core.
    values: BTreeMap<String, Vec<HostArray>>,
}

impl Pending {
    /// The time that handing the step over took.
    pub fn hand_over(&self) -> HandOver {
        self.time
    }

    /// Takes the values that the step sends, `[value][local core]`.
    pub fn take_sent(&mut self) -> Vec<Vec<Buffer>> {
        by_value(std::mem::take(&mut self.sent))
    }

    /// Takes the values that the first half of a step keeps for the second one, `[value][local core]`.
    pub fn take_kept(&mut self) -> Vec<Vec<Buffer>> {
        by_value(std::mem::take(&mut self.kept))
    }

    /// Blocks until every core has run the step.
    pub fn wait(&self) -> Result<()> {
        self.completed.iter().flatten().try_for_each(|event| Ok(event.wait()?))
    }

    /// Calls `callback` once when every core has run the step, on a thread of the plugin's or, if they have already,
    /// on this one. It should be short, and must not panic.
    pub fn on_completed(&self, callback: impl FnOnce() + Send + Sync + 'static) -> Result<()> {
        call_when_ready(self.completed.iter().flatten(), callback)
    }

    /// Calls what `callback` returns for each local core once when that has run the step, as
    /// [`Pending::on_completed`] does.
    pub fn on_core_completed<F>(&self, callback: impl Fn(usize) -> F) -> Result<()>
    where
        F: FnOnce() + Send + Sync + 'static,
    {
        let mut cores = self.completed.iter().enumerate();
        cores.try_for_each(|(core, events)| call_when_ready(events, callback(core)))
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

fn by_value(cores: Vec<Vec<Buffer>>) -> Vec<Vec<Buffer>> {
    let mut values: Vec<Vec<Buffer>> = Vec::new();
    for core in cores {
        values.resize_with(core.len(), Vec::new);
        values.iter_mut().zip(core).for_each(|(value, buffer)| value.push(buffer));
    }
    values
}

/// Calls `callback` when the last of the events is ready.
fn call_when_ready<'a>(
    events: impl IntoIterator<Item = &'a Event>,
    callback: impl FnOnce() + Send + Sync + 'static,
) -> Result<()> {
    let last = Arc::new(CallOnDrop(Some(callback)));
    for event in events {
        let last = Arc::clone(&last);
        event.on_ready(move |_| drop(last))?;
    }
    Ok(())
}

struct CallOnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for CallOnDrop<F> {
    fn drop(&mut self) {
        if let Some(callback) = self.0.take() {
            callback();
        }
    }
}

impl Fetched {
    /// The values of some cores alone, in their order.
    pub fn of_cores(mut self, cores: &[usize]) -> Fetched {
        for values in self.values.values_mut() {
            *values = cores.iter().map(|core| values[*core].clone()).collect();
        }
        self
    }

    /// Joins the values of parts of a batch, of the same cores: arrays by rows, scalars by their sum.
    pub fn join(parts: Vec<Fetched>) -> Result<Fetched> {
        let mut parts = parts.into_iter();
        let mut joined = parts.next().map(|part| part.values).unwrap_or_default();
        for part in parts {
            for (name, values) in part.values {
                let Some(before) = joined.get_mut(&name) else { continue };
                for (one, other) in before.iter_mut().zip(values) {
                    *one = one.joined(&other)?;
                }
            }
        }
        Ok(Fetched { values: joined })
    }

    /// The value of `name` on each local core.
    pub fn per_core(&self, name: &str) -> Result<&[HostArray]> {
        let values = self.values.get(name).map(Vec::as_slice);
        values.ok_or_else(|| Error::NotFetched { name: name.to_owned() })
    }

    /// A scalar that is the same on every core.
    pub fn scalar_f32(&self, name: &str) -> Result<f32> {
        Ok(self.per_core(name)?[0].to_f32()?[0])
    }
}
