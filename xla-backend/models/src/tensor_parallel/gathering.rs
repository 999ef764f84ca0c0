//! A divided parameter in a trace: the whole from the parts of all cores, and a core's part of the whole. Layers need
//! neither; an update that reads whole matrices does.

use std::ops::Range;

use traind_xla::Tensor;

use super::Sharding;
use super::sharding::Divided;
use crate::error::Result;

impl Sharding {
    /// The whole of a tensor that is divided as the parameter is. `groups` are those of the cores that share layers.
    pub fn gather(&self, part: &Tensor, groups: &[Vec<usize>]) -> Result<Tensor> {
        let Some(divided) = &self.divided else { return Ok(part.clone()) };
        let joined = part.all_gather(divided.dimension, groups)?;
        let size = self.whole_shape().dims[divided.dimension];
        let runs = merged(divided.places(size, part.dims()[divided.dimension]));
        divided.pieces(&joined, &runs)
    }

    /// This core's part of a whole tensor. `index`, a u32 scalar, is its place among the cores that share layers.
    pub fn take(&self, whole: &Tensor, index: &Tensor) -> Result<Tensor> {
        let Some(divided) = &self.divided else { return Ok(whole.clone()) };
        let (axis, size) = (divided.dimension, whole.dims()[divided.dimension]);
        let held = self.held_shape().dims[axis];
        let of_core = |core| -> Result<Tensor> {
            let runs = merged(divided.ranges(size, core));
            if runs.is_empty() {
                return Ok(whole.trace().full(0.0, self.held_shape())?);
            }
            let part = divided.pieces(whole, &runs)?;
            let lacking = held - part.dims()[axis];
            if lacking == 0 { Ok(part) } else { Ok(part.pad(axis, 0, lacking, 0.0)?) }
        };
        let parts = (0..divided.cores).map(of_core).collect::<Result<Vec<_>>>()?;
        let joined = whole.trace().concatenate(&parts.iter().collect::<Vec<_>>(), axis)?;
        Ok(joined.dynamic_slice(axis, &index.mul_scalar(held as f64)?, held)?)
    }
}

impl Divided {
    /// The places of the whole dimension of `size` in the joined parts, each of `held`, in the order of the whole. The
    /// first of copies counts.
    fn places(&self, size: usize, held: usize) -> Vec<Range<usize>> {
        let of_core = |core: usize| {
            let mut place = core * held;
            self.ranges(size, core).into_iter().map(move |whole| {
                place += whole.len();
                (whole.start, place - whole.len()..place)
            })
        };
        let mut places: Vec<_> = (0..self.cores).flat_map(of_core).collect();
        places.retain(|(_, place)| !place.is_empty());
        places.sort_by_key(|(start, place)| (*start, place.start));
        places.dedup_by_key(|(start, _)| *start);
        places.into_iter().map(|(_, place)| place).collect()
    }

    /// The pieces of a tensor at `runs` of the dimension, joined.
    fn pieces(&self, tensor: &Tensor, runs: &[Range<usize>]) -> Result<Tensor> {
        let axis = self.dimension;
        if let [run] = runs {
            let is_all = *run == (0..tensor.dims()[axis]);
            return if is_all {
                Ok(tensor.clone())
            } else {
                Ok(tensor.slice(axis, run.start, run.end)?)
            };
        }
        let piece = |run: &Range<usize>| tensor.slice(axis, run.start, run.end);
        let pieces = runs.iter().map(piece).collect::<Result<Vec<_>, _>>()?;
        Ok(tensor.trace().concatenate(&pieces.iter().collect::<Vec<_>>(), axis)?)
    }
}

/// Ranges of which none begins where the one before ends.
fn merged(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match merged.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => merged.push(range),
        }
    }
    merged
}
