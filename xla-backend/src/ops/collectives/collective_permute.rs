//! Each replica sends its tensor to at most one other.

use std::sync::Arc;

use super::dense_rows;
use crate::error::Result;
use crate::graph::Shape;
use crate::ops::{Backward, Lower, Op, Operation, Participants, Problem, ResultStorage, operands};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

/// Pairs of source and target.
#[derive(Debug)]
struct CollectivePermute {
    pairs: Arc<[(usize, usize)]>,
}

impl Tensor {
    /// Moves the tensor from the first to the second replica of each pair; a
    /// replica that is no target gets zeros.
    pub fn collective_permute(&self, pairs: &[(usize, usize)]) -> Result<Tensor> {
        self.apply(CollectivePermute { pairs: pairs.into() }, &[])
    }
}

fn has_duplicate(replicas: impl Iterator<Item = usize>) -> bool {
    let mut replicas: Vec<usize> = replicas.collect();
    replicas.sort_unstable();
    replicas.windows(2).any(|pair| pair[0] == pair[1])
}

impl Op for CollectivePermute {
    fn name(&self) -> &'static str {
        "collective_permute"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn participants(&self) -> Option<Participants> {
        Some(Participants::Pairs(self.pairs.clone()))
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        let sources = self.pairs.iter().map(|pair| pair.0);
        let targets = self.pairs.iter().map(|pair| pair.1);
        if self.pairs.is_empty() || has_duplicate(sources) || has_duplicate(targets) {
            return Err(format!("{:?} does not pair sources with targets", self.pairs).into());
        }
        Ok(x.clone())
    }
}

impl Operation for CollectivePermute {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let back: Vec<(usize, usize)> = self.pairs.iter().map(|&(from, to)| (to, from)).collect();
        Ok(vec![Some(at.cotangent.collective_permute(&back)?)])
    }
}

impl Lower for CollectivePermute {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let pairs: Vec<Vec<usize>> = self.pairs.iter().map(|&(from, to)| vec![from, to]).collect();
        let pairs = emitter.on_every_host(&pairs);
        let attributes = format!("source_target_pairs = {}", dense_rows(&pairs));
        emitter.generic("collective_permute", &[&inputs[0]], &attributes, "", result)
    }
}
