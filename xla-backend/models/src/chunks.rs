//! A model in chunks of consecutive layers, each of which is traced by itself: those of a pipeline.

use std::ops::Range;
use std::sync::Arc;

use traind_xla::ops::random::Random;
use traind_xla::{DType, Shape, Tensor, Trace};

use crate::error::Result;
use crate::model::{Batch, Forward, HiddenStates, InputDim, Lengths, Model, ParameterTensors};
use crate::parameters::{ParameterSpec, Stage};

/// How the layers of a model are divided. The first chunk also has the embeddings, and the last one
/// the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    layers: Arc<[Range<usize>]>,
    /// Whether some layers are in no chunk, so that the chunks compute something else than the model.
    is_excerpt: bool,
}

impl Chunks {
    /// `count` chunks of as many layers each as the others, or one more. `None` where a chunk would
    /// have no layer.
    pub fn of_layers(layers: usize, count: usize) -> Option<Chunks> {
        let first = |chunk| chunk * layers / count;
        let layers_of = |chunk| first(chunk)..first(chunk + 1);
        (count == 1 || (1..=layers).contains(&count))
            .then(|| Chunks { layers: (0..count).map(layers_of).collect(), is_excerpt: false })
    }

    /// Returns as many chunks with some of the layers of each.
    pub(crate) fn with_layers(&self, layers: impl Iterator<Item = Range<usize>>) -> Chunks {
        Chunks { layers: layers.collect(), is_excerpt: true }
    }

    /// Returns the number of chunks.
    pub fn count(&self) -> usize {
        self.layers.len()
    }

    /// The layers of a chunk.
    pub fn layers(&self, chunk: usize) -> Range<usize> {
        self.layers[chunk].clone()
    }

    /// Returns whether a chunk begins with the embeddings.
    pub fn is_first(&self, chunk: usize) -> bool {
        chunk == 0
    }

    /// Returns whether a chunk ends with the head.
    pub fn is_last(&self, chunk: usize) -> bool {
        chunk + 1 == self.count()
    }

    /// The chunks that read a parameter, in their order.
    pub fn readers(&self, spec: &ParameterSpec) -> Vec<usize> {
        let chunks = spec.stages.iter().filter_map(|stage| match stage {
            Stage::Embeddings => Some(0),
            Stage::Layer(layer) => self.chunk_of(*layer),
            Stage::Head => Some(self.count() - 1),
        });
        let mut readers: Vec<usize> = chunks.collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }

    /// The chunk that a layer is in, if there is one.
    fn chunk_of(&self, layer: usize) -> Option<usize> {
        let chunk = self.layers.partition_point(|layers| layers.end <= layer);
        self.layers.get(chunk).filter(|layers| layers.contains(&layer)).map(|_| chunk)
    }

    /// Traces a chunk but for the head. `states` are those of the chunk before; the first has none.
    pub fn states(
        &self,
        model: &Model,
        chunk: usize,
        cx: &Forward<'_>,
        states: Option<HiddenStates>,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let states = states.map_or_else(|| model.embeddings(cx, batch), Ok)?;
        model.layers(cx, self.layers(chunk), states, batch)
    }

    /// The number of random draws that the chunks before one make, with or without noise on embeddings. An
    /// excerpt draws other numbers than the model.
    pub fn draws_before(&self, model: &Model, chunk: usize, has_noise: bool) -> Result<u32> {
        if self.is_first(chunk) || self.is_excerpt {
            return Ok(0);
        }
        let trace = Trace::new();
        let scalar = || trace.scalar(0.0, DType::U32);
        let random = Random::new(&scalar()?, &scalar()?, &scalar()?)?.with_rows(1);
        let positions = model.max_positions().min(2);
        let lengths = Lengths { target_positions: positions, ..Lengths::of(positions) };
        let layers = self.layers(chunk).start;
        let drawn = (&random, has_noise);
        untrained_states(&trace, model, 1, lengths, layers, Some(drawn))?;
        Ok(random.sites())
    }

    /// The shapes of the states between chunks on each of the cores that divide the positions: those that the head
    /// reads, then those of a source.
    pub fn state_shapes(
        &self,
        model: &Model,
        rows: usize,
        lengths: Lengths,
        position_shares: usize,
    ) -> Result<Vec<Shape>> {
        let states = untrained_states(&Trace::new(), model, rows, lengths, 0, None)?;
        let of_core = |tensor: &Tensor| match tensor.dims() {
            &[tokens, width] => {
                let positions = (tokens / rows).div_ceil(position_shares);
                Shape::new(tensor.dtype(), [rows * positions, width])
            }
            _ => tensor.shape().clone(),
        };
        Ok(states.tensors().map(of_core).collect())
    }
}

/// The states behind the first `layers` of a model for a batch of rows and lengths, all of whose values
/// are parameters of the trace.
fn untrained_states(
    trace: &Trace,
    model: &Model,
    rows: usize,
    lengths: Lengths,
    layers: usize,
    random: Option<(&Random, bool)>,
) -> Result<HiddenStates> {
    let mut parameters = Vec::new();
    let is_read = |stage: &Stage| match stage {
        Stage::Embeddings => true,
        Stage::Layer(layer) => *layer < layers,
        Stage::Head => false,
    };
    for spec in model.parameters().iter().filter(|spec| spec.stages.iter().any(is_read)) {
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
