//! A rectangular part of a tensor.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{Dims, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct Slice {
    starts: Vec<usize>,
    limits: Vec<usize>,
    strides: Vec<usize>,
}

impl Tensor {
    /// The elements `start..limit` along `axis`.
    pub fn slice(&self, axis: usize, start: usize, limit: usize) -> Result<Tensor> {
        let mut starts = vec![0; self.rank()];
        let mut limits = self.dims().to_vec();
        if let (Some(from), Some(to)) = (starts.get_mut(axis), limits.get_mut(axis)) {
            (*from, *to) = (start, limit);
        } else {
            // The shape rule refuses the extra axis and names it.
            starts.resize(axis + 1, start);
            limits.resize(axis + 1, limit);
        }
        let strides = vec![1; starts.len()];
        self.slice_strided(&starts, &limits, &strides)
    }

    /// Every `strides[i]`-th element of `starts[i]..limits[i]` along axis `i`.
    pub fn slice_strided(
        &self,
        starts: &[usize],
        limits: &[usize],
        strides: &[usize],
    ) -> Result<Tensor> {
        let [starts, limits, strides] = [starts, limits, strides].map(<[usize]>::to_vec);
        self.apply(Slice { starts, limits, strides }, &[])
    }
}

impl Op for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        let ranks = [self.starts.len(), self.limits.len(), self.strides.len()];
        if ranks != [x.rank(); 3] {
            return Err(format!("takes {} ranges, got {ranks:?}", x.rank()).into());
        }
        let mut dims = Dims::new();
        for axis in 0..x.rank() {
            let (start, limit) = (self.starts[axis], self.limits[axis]);
            if start > limit || limit > x.dims[axis] || self.strides[axis] == 0 {
                let range = format!("{start}..{limit} by {}", self.strides[axis]);
                return Err(format!("axis {axis} has no range {range}").into());
            }
            dims.push((limit - start).div_ceil(self.strides[axis]));
        }
        Ok(x.with_dims(dims))
    }
}

impl Operation for Slice {
    /// Pads the cotangent, so that each element is back in its place.
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (whole, part) = (at.inputs[0].dims(), at.output.dims());
        let interior: Dims = self.strides.iter().map(|stride| stride - 1).collect();
        let behind = |axis: usize| {
            let span = part[axis] + part[axis].saturating_sub(1) * interior[axis];
            whole[axis] - self.starts[axis] - span
        };
        let high: Dims = (0..whole.len()).map(behind).collect();
        Ok(vec![Some(at.cotangent.pad_all(&self.starts, &high, &interior, 0.0)?)])
    }
}

impl Lower for Slice {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let ranges: Vec<String> = (0..result.rank())
            .map(|axis| match (self.starts[axis], self.limits[axis], self.strides[axis]) {
                (start, limit, 1) => format!("{start}:{limit}"),
                (start, limit, stride) => format!("{start}:{limit}:{stride}"),
            })
            .collect();
        let (x, ranges) = (&inputs[0], ranges.join(", "));
        let types = format!("({}) -> {}", x.shape.mlir(), result.mlir());
        emitter.emit(&format!("stablehlo.slice {} [{ranges}] : {types}", x.name()), result)
    }
}
