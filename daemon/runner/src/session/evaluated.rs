//! The weights that are evaluated and saved, where the optimizer trains others.
//!
//! Schedule-free optimizers take gradients beside the average that is the model. The average is made on the host,
//! and the trained weights are kept there, so that they return to the cores with the same bits.

use traind_xla::runtime::HostArray;

use super::Session;
use crate::error::RunResult;
use crate::state::{SlotArrays, trained_name};

impl Session {
    /// Puts the weights to evaluate and to save on the cores.
    pub(crate) fn begin_evaluation(&mut self) -> RunResult<()> {
        if self.optimizer().evaluated_offset().is_none() || self.trained.is_some() {
            return Ok(());
        }
        let trained = self.values(self.saved())?;
        self.set_saved_parameters(&self.evaluated(&trained)?)?;
        self.trained = Some(trained);
        Ok(())
    }

    /// Returns to the weights that are trained.
    pub(crate) fn end_evaluation(&mut self) -> RunResult<()> {
        match self.trained.take() {
            Some(trained) => self.set_saved_parameters(&trained),
            None => Ok(()),
        }
    }

    /// Copies to the host the parameters that are saved, in the model's order.
    pub(crate) fn saved_parameters(&self) -> RunResult<Vec<HostArray>> {
        let held = self.values(self.saved())?;
        if self.trained.is_some() { Ok(held) } else { self.evaluated(&held) }
    }

    /// Adds the weights that are trained to `slots`, where the saved ones are others.
    pub(super) fn add_trained(&self, slots: &mut SlotArrays) -> RunResult<()> {
        if self.optimizer().evaluated_offset().is_none() {
            return Ok(());
        }
        let specs = self.programs.train.forward.model.parameters();
        let held = match &self.trained {
            Some(trained) => trained.clone(),
            None => self.values(self.saved())?,
        };
        for (place, array) in self.saved().zip(held) {
            if specs[place].trainable {
                slots.insert(trained_name(&specs[place].name), array);
            }
        }
        Ok(())
    }

    /// The weights to evaluate, from those that are trained.
    fn evaluated(&self, trained: &[HostArray]) -> RunResult<Vec<HostArray>> {
        let Some((slot, factor)) = self.optimizer().evaluated_offset() else {
            return Ok(trained.to_vec());
        };
        let slots = self.slots_named(slot)?;
        let specs = self.programs.train.forward.model.parameters();
        let names = self.saved().map(|place| format!("{}.{slot}", specs[place].name));
        let evaluated = names.zip(trained).map(|(name, array)| match slots.get(&name) {
            Some(distance) => moved(array, distance, factor as f32),
            None => Ok(array.clone()),
        });
        evaluated.collect()
    }
}

/// `array + factor · distance`
fn moved(array: &HostArray, distance: &HostArray, factor: f32) -> RunResult<HostArray> {
    let (values, distance) = (array.to_f32()?, distance.to_f32()?);
    let pairs = values.iter().zip(&distance);
    let moved: Vec<f32> = pairs.map(|(value, distance)| value + factor * distance).collect();
    Ok(HostArray::from_f32(&array.shape().dims, &moved)?)
}
