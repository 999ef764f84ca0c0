//! The same replica of every host gets the parts of all, joined. As with `all_reduce_hosts`, MPI carries it where a
//! program ends at its host.

use traind_mpi::Collective;

use super::over_hosts::storage;
use super::{ReduceKind, replica_groups};
use crate::error::Result;
use crate::graph::Shape;
use crate::ops::{
    Backward, Lower, Op, Operation, Participants, Problem, ResultStorage, check_axis, operands,
};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct AllGatherHosts {
    hosts: usize,
}

impl Tensor {
    /// Joins the tensors that the same replica of each of `hosts` has along axis 0, in the order of hosts.
    pub fn all_gather_hosts(&self, hosts: usize) -> Result<Tensor> {
        self.apply(AllGatherHosts { hosts }, &[])
    }
}

impl Op for AllGatherHosts {
    fn name(&self) -> &'static str {
        "all_gather_hosts"
    }

    fn storage(&self) -> ResultStorage {
        storage(self.hosts)
    }

    fn participants(&self) -> Option<Participants> {
        Some(Participants::Hosts(self.hosts))
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        check_axis(0, x)?;
        let mut whole = x.clone();
        whole.dims[0] *= self.hosts;
        Ok(whole)
    }
}

impl Operation for AllGatherHosts {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.cotangent.reduce_scatter_hosts(ReduceKind::Sum, self.hosts)?)])
    }
}

impl Lower for AllGatherHosts {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        if self.hosts == 1 {
            return inputs[0].clone();
        }
        let Some(groups) = emitter.groups_over_hosts() else {
            return emitter.exchange_with_hosts(&inputs[0], Collective::AllGather, result);
        };
        let attributes = format!("all_gather_dim = 0 : i64, {}", replica_groups(&groups));
        emitter.generic("all_gather", &[&inputs[0]], &attributes, "", result)
    }
}
