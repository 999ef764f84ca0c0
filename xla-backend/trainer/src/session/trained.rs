//! The values that training changes, as one thing that can be started anew, put aside, and copied in the middle of a
//! step.

use std::collections::BTreeMap;
use std::sync::Arc;

use traind_pjrt::Buffer;
use traind_xla::Shape;
use traind_xla::runtime::{HostArray, LazyDevice, Variable};

use super::Session;
use super::start::check_shape;
use crate::error::{Error, Result};
use crate::state::{TrainState, TrainedStart};

/// Trained values that were put aside, on the cores: parameters, slots, sums of a step and loss scale.
#[derive(Debug)]
pub struct TrainedValues {
    /// `[stage][variable][core]`
    stages: Vec<Vec<Vec<Buffer>>>,
}

/// The sums over the batches of a step that has not ended, by stage, name and core.
pub(crate) type StepSums = BTreeMap<String, HostArray>;

impl Session {
    /// Puts other trained values on the cores.
    pub(crate) fn start_trained(&mut self, start: &TrainedStart) -> Result<()> {
        self.each_stage(|state, device| state.start_trained(device, start)).map(drop)
    }

    /// Puts other trained values on the cores with the sums of a step that has begun, or leaves those that are there
    /// where a core fails.
    pub(crate) fn replace_trained(
        &mut self,
        start: &TrainedStart,
        sums: Option<&StepSums>,
    ) -> Result<()> {
        let former = self.put_aside()?;
        let started = self.start_trained(start);
        let placed = started.and_then(|()| sums.map_or(Ok(()), |sums| self.set_step_sums(sums)));
        if placed.is_err() {
            self.put_back(former)?;
        }
        placed
    }

    /// Takes the trained values, without which no program runs until others are there.
    pub(crate) fn put_aside(&mut self) -> Result<TrainedValues> {
        let stages = self.each_stage(|state, device| {
            Ok(state.trained_variables().map(|variable| device.take(variable)).collect())
        })?;
        Ok(TrainedValues { stages })
    }

    /// Returns trained values to where they were taken.
    pub(crate) fn put_back(&mut self, values: TrainedValues) -> Result<()> {
        let mut stages = values.stages.into_iter();
        self.each_stage(|state, device| {
            let buffers = stages.next().unwrap_or_default();
            let pairs = state.trained_variables().zip(buffers);
            pairs
                .into_iter()
                .try_for_each(|(variable, buffers)| Ok(device.set_buffers(variable, buffers)?))
        })
        .map(drop)
    }

    /// Copies to the host the sums over the batches of a step that has not ended.
    pub(crate) fn step_sums(&self) -> Result<StepSums> {
        self.map_sums(|device, variable, core| Ok(device.value(variable, core)?))
    }

    /// The shapes of these sums.
    pub(crate) fn step_sum_shapes(&self) -> Result<BTreeMap<String, Shape>> {
        self.map_sums(|device, variable, _| Ok(device.shape(variable).clone()))
    }

    /// Returns a value for each sum of each core by stage, name and core.
    fn map_sums<T>(
        &self,
        value: impl Fn(&LazyDevice, Variable, usize) -> Result<T>,
    ) -> Result<BTreeMap<String, T>> {
        let mut values = BTreeMap::new();
        let states = self.programs.states.iter().zip(&self.devices);
        for (stage, (state, device)) in states.enumerate() {
            for variable in state.sums() {
                for core in 0..device.cores().len() {
                    let name = sum_name(stage, device, variable, core);
                    values.insert(name, value(device, variable, core)?);
                }
            }
        }
        Ok(values)
    }

    /// Puts sums with the names and shapes of [`Session::step_sum_shapes`] on the cores.
    pub(crate) fn set_step_sums(&mut self, sums: &StepSums) -> Result<()> {
        let mut stage = 0;
        self.each_stage(|state, device| {
            for variable in state.sums() {
                let cores = 0..device.cores().len();
                let names = cores.map(|core| sum_name(stage, device, variable, core));
                let values: Vec<&HostArray> = names.filter_map(|name| sums.get(&name)).collect();
                device.set_per_core(variable, &values)?;
            }
            stage += 1;
            Ok(())
        })
        .map(drop)
    }

    fn each_stage<T>(
        &mut self,
        mut work: impl FnMut(&TrainState, &mut LazyDevice) -> Result<T>,
    ) -> Result<Vec<T>> {
        let programs = Arc::clone(&self.programs);
        let stages = programs.states.iter().zip(&mut self.devices);
        stages.map(|(state, device)| work(state, device)).collect()
    }

    /// Returns the arrays of trained parameters by name, from those of all parameters that are saved, in their order.
    pub(crate) fn trained_of_saved(
        &self,
        arrays: Vec<HostArray>,
    ) -> Result<BTreeMap<String, HostArray>> {
        let (specs, expected) = (self.model().parameters(), self.saved().count());
        if arrays.len() != expected {
            return Err(Error::Count { what: "parameters", found: arrays.len(), expected });
        }
        let arrays = self.saved().zip(arrays).filter(|(place, _)| specs[*place].trainable);
        let arrays: Vec<(usize, HostArray)> = arrays.collect();
        arrays.iter().try_for_each(|(place, array)| check_shape(&specs[*place], array))?;
        let arrays = arrays.into_iter();
        Ok(arrays.map(|(place, array)| (specs[place].name.clone(), array)).collect())
    }
}

fn sum_name(stage: usize, device: &LazyDevice, variable: Variable, core: usize) -> String {
    format!("{stage}.{}.{core}", device.recorder().name(variable))
}
