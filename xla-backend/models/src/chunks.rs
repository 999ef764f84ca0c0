//! A model in chunks of consecutive layers, each of which is traced by itself: those of a pipeline.

use std::ops::Range;

use traind_xla::ops::random::Random;
use traind_xla::{DType, Shape, Trace};

use crate::error::Result;
use crate::model::{Batch, Forward, HiddenStates, InputDim, Lengths, Model, ParameterTensors};
use crate::parameters::{ParameterSpec, Stage};

/// How the layers of a model are divided. The first chunk also has the embeddings, and the last one
/// the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    layers: usize,
    count: usize,
}

impl Chunks {
    /// `count` chunks of as many layers each as the others, or one more. `None` where a chunk would
    /// have no layer.
    pub fn of_layers(layers: usize, count: usize) -> Option<Chunks> {
        (count == 1 || (1..=layers).contains(&count)).then_some(Chunks { layers, count })
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The layers of a chunk.
    pub fn layers(&self, chunk: usize) -> Range<usize> {
        let first = |chunk| chunk * self.layers / self.count;
        first(chunk)..first(chunk + 1)
    }

    pub fn is_first(&self, chunk: usize) -> bool {
        chunk == 0
    }

    pub fn is_last(&self, chunk: usize) -> bool {
        chunk + 1 == self.count
    }

    /// The chunks that read a parameter, in their order.
    pub fn readers(&self, spec: &ParameterSpec) -> Vec<usize> {
        (0..self.count).filter(|chunk| self.reads(*chunk, spec)).collect()
    }

    fn reads(&self, chunk: usize, spec: &ParameterSpec) -> bool {
        spec.stages.iter().any(|stage| match stage {
            Stage::Embeddings => self.is_first(chunk),
            Stage::Layer(layer) => self.layers(chunk).contains(layer),
            Stage::Head => self.is_last(chunk),
        })
    }

    /// Traces a chunk but for the head. `states` are those of the chunk before; the first has none.
    pub fn states(
        &self,
        model: &dyn Model,
        chunk: usize,
        cx: &Forward<'_>,
        states: Option<HiddenStates>,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let states = states.map_or_else(|| model.embeddings(cx, batch), Ok)?;
        model.layers(cx, self.layers(chunk), states, batch)
    }

    /// The number of random draws that the chunks before one make, with or without noise on embeddings.
    pub fn draws_before(&self, model: &dyn Model, chunk: usize, has_noise: bool) -> Result<u32> {
        if self.is_first(chunk) {
            return Ok(0);
        }
        let trace = Trace::new();
        let scalar = || trace.scalar(0.0, DType::U32);
        let random = Random::new(&scalar()?, &scalar()?, &scalar()?)?.with_rows(1);
        let positions = model.max_positions().min(2);
        let lengths = Lengths { positions, target_positions: positions };
        let layers = self.layers(chunk).start;
        let drawn = (&random, has_noise);
        untrained_states(&trace, model, (1, lengths), layers, Some(drawn))?;
        Ok(random.sites())
    }

    /// The shapes of the states between chunks: those that the head reads, then those of a source.
    pub fn state_shapes(
        &self,
        model: &dyn Model,
        rows: usize,
        lengths: Lengths,
    ) -> Result<Vec<Shape>> {
        let states = untrained_states(&Trace::new(), model, (rows, lengths), 0, None)?;
        Ok(states.tensors().map(|tensor| tensor.shape().clone()).collect())
    }
}

/// The states behind the first `layers` of a model for a batch of rows and lengths, all of whose values
/// are parameters of the trace.
fn untrained_states(
    trace: &Trace,
    model: &dyn Model,
    (rows, lengths): (usize, Lengths),
    layers: usize,
    random: Option<(&Random, bool)>,
) -> Result<HiddenStates> {
    let mut parameters = Vec::new();
    for spec in model.parameters() {
        parameters.push((&spec.name, trace.parameter(&spec.name, spec.shape.clone())?));
    }
    let parameters = ParameterTensors::new(parameters);
    let magnitude = trace.scalar(0.0, DType::F32)?;
    let has_noise = random.is_some_and(|(_, has_noise)| has_noise);
    let cx = Forward {
        trace,
        parameters: &parameters,
        random: random.map(|(random, _)| random),
        gradient_checkpointing: false,
        adapters: Some(model.adapters()),
        cache: None,
        embedding_noise: has_noise.then_some(&magnitude),
    };
    let mut batch = Batch::new();
    for input in model.inputs() {
        let dims = input.dims.iter().map(|dim| match dim {
            InputDim::Rows => rows,
            InputDim::Positions => lengths.positions,
            InputDim::TargetPositions => lengths.target_positions,
            InputDim::Size(size) => *size,
        });
        let shape = Shape::new(input.dtype, dims.collect::<Vec<_>>());
        batch.insert(input.name, trace.parameter(input.name, shape)?);
    }
    let states = model.embeddings(&cx, &batch)?;
    model.layers(&cx, 0..layers, states, &batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_each_layer_once_and_differ_by_one() {
        for (layers, count) in [(12, 4), (7, 3), (5, 5), (2, 1), (0, 1)] {
            let chunks = Chunks::of_layers(layers, count).unwrap();
            let ranges: Vec<_> = (0..count).map(|chunk| chunks.layers(chunk)).collect();
            let all: Vec<usize> = ranges.iter().cloned().flatten().collect();
            assert_eq!(all, (0..layers).collect::<Vec<_>>());
            let sizes = || ranges.iter().map(ExactSizeIterator::len);
            assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1, "{ranges:?}");
        }
        assert!(Chunks::of_layers(3, 4).is_none() && Chunks::of_layers(3, 0).is_none());
    }
}
