//! The weights that are evaluated and saved, where the optimizer trains others.
//!
//! Schedule-free optimizers take gradients beside the average that is the model. The average is made on the host,
//! and the trained weights are kept there, so that they return to the cores with the same bits.

use traind_models::ParameterSpec;
use traind_models::weights::{ArrayPart, ArrayParts};

use super::Session;
use crate::error::Result;
use crate::state::{HeldSlot, trained_name};

impl Session {
    /// Puts the weights to evaluate and to save on the cores.
    pub fn begin_evaluation(&mut self) -> Result<()> {
        if self.optimizers().evaluated_offset().is_none() || self.trained.is_some() {
            return Ok(());
        }
        let trained = self.values()?;
        self.replace(&self.evaluated(&trained)?)?;
        self.trained = Some(trained);
        Ok(())
    }

    /// Returns to the weights that are trained.
    pub fn end_evaluation(&mut self) -> Result<()> {
        match self.trained.take() {
            Some(trained) => self.replace(&trained),
            None => Ok(()),
        }
    }

    /// Replaces the saved parameters of this host's stages, and what stages of other hosts borrow of them.
    fn replace(&mut self, parts: &ArrayParts) -> Result<()> {
        self.set_held_parameters(parts)?;
        self.return_loans()
    }

    /// Copies to the host what this host saves of the parameters that are saved.
    pub fn saved_parameters(&self) -> Result<ArrayParts> {
        let held = self.values()?;
        let evaluated = if self.trained.is_some() { held } else { self.evaluated(&held)? };
        Ok(self.saved_here(evaluated))
    }

    /// Copies to the host what this host saves of the optimizer's slots, and of the trained weights where they are
    /// not those that are saved.
    pub fn saved_slots(&self) -> Result<ArrayParts> {
        let mut slots = self.slots_where(HeldSlot::is_saved_here)?;
        if self.optimizers().evaluated_offset().is_none() {
            return Ok(slots);
        }
        let held = match &self.trained {
            Some(trained) => trained.clone(),
            None => self.values()?,
        };
        let is_other = |name: &str| {
            let spec = self.spec(name).filter(|spec| spec.trainable);
            spec.is_some_and(|spec| self.optimizers().of(spec).evaluated_offset().is_some())
        };
        let trained = self.saved_here(held).into_iter().filter(|(name, _)| is_other(name));
        slots.extend(trained.map(|(name, part)| (trained_name(&name), part)));
        Ok(slots)
    }

    fn spec(&self, name: &str) -> Option<&ParameterSpec> {
        self.model().parameters().iter().find(|spec| spec.name == name)
    }

    /// The weights to evaluate, from those that are trained.
    fn evaluated(&self, trained: &ArrayParts) -> Result<ArrayParts> {
        let Some((slot, factor)) = self.optimizers().evaluated_offset() else {
            return Ok(trained.clone());
        };
        let suffix = format!(".{slot}");
        let slots = self.slots_where(|held| held.name.ends_with(&suffix))?;
        let evaluated = trained.iter().map(|(name, part)| {
            let moved = match slots.get(&format!("{name}{suffix}")) {
                Some(distance) => moved(part, distance, factor as f32)?,
                None => part.clone(),
            };
            Ok((name.clone(), moved))
        });
        evaluated.collect()
    }
}

/// `part + factor · distance`, all of float32.
fn moved(part: &ArrayPart, distance: &ArrayPart, factor: f32) -> Result<ArrayPart> {
    let value = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
    let mut moved = Vec::with_capacity(part.bytes().len());
    for range in part.ranges() {
        let values = part.elements(range.clone())?.as_chunks().0;
        let distances = distance.elements(range.clone())?.as_chunks().0;
        let pairs = values.iter().zip(distances);
        moved.extend(pairs.flat_map(|(at, to)| (value(at) + factor * value(to)).to_le_bytes()));
    }
    Ok(part.with_bytes(moved)?)
}
