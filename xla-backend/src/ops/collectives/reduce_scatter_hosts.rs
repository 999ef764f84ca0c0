//! The same replica of every host gets its part of the sum, or of an extreme, of all their values. As with
//! `all_reduce_hosts`, MPI carries it where a program ends at its host.

use traind_mpi::Collective;

use super::over_hosts::{combine, storage};
use super::{ReduceKind, check_added, part_of, replica_groups};
use crate::error::Result;
use crate::graph::Shape;
use crate::ops::{Backward, Lower, Op, Operation, Participants, Problem, ResultStorage, operands};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct ReduceScatterHosts {
    kind: ReduceKind,
    hosts: usize,
}

impl Tensor {
    /// Combines the tensor over the same replica of all `hosts` and cuts the result along axis 0; host
    /// number n gets the n-th part. Values in half precision are combined in float32.
    pub fn reduce_scatter_hosts(&self, kind: ReduceKind, hosts: usize) -> Result<Tensor> {
        combine(self, ReduceScatterHosts { kind, hosts })
    }
}

impl Op for ReduceScatterHosts {
    fn name(&self) -> &'static str {
        "reduce_scatter_hosts"
    }

    fn storage(&self) -> ResultStorage {
        storage(self.hosts)
    }

    fn participants(&self) -> Option<Participants> {
        Some(Participants::Hosts(self.hosts))
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        check_added(x)?;
        part_of(x, 0, self.hosts)
    }
}

impl Operation for ReduceScatterHosts {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        self.kind.check_differentiable(self.name())?;
        Ok(vec![Some(at.cotangent.all_gather_hosts(self.hosts)?)])
    }
}

impl Lower for ReduceScatterHosts {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        if self.hosts == 1 {
            return inputs[0].clone();
        }
        let Some(groups) = emitter.groups_over_hosts() else {
            let collective = Collective::ReduceScatter(self.kind.reduction());
            return emitter.exchange_with_hosts(&inputs[0], collective, result);
        };
        let attributes = format!("scatter_dimension = 0 : i64, {}", replica_groups(&groups));
        let combine = Emitter::region(self.kind.operation(), result.dtype);
        emitter.generic("reduce_scatter", &[&inputs[0]], &attributes, &combine, result)
    }
}
