//! The same replica of every host with the same stages gets the sum, or an extreme, of all their values. XLA's programs
//! for CPU devices end at their process, so that MPI carries this one; on other platforms one program spans all hosts.

use traind_mpi::Collective;

use super::over_hosts::{combine, storage};
use super::{ReduceKind, check_added, emit_all_reduce};
use crate::error::Result;
use crate::graph::Shape;
use crate::mesh::{Axis, Mesh};
use crate::ops::{Backward, Lower, Op, Operation, Participants, Problem, ResultStorage, operands};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

/// A smaller tensor is not worth two collectives of its own within a host.
const SCATTERED_ELEMENTS_MIN: usize = 1 << 12;

#[derive(Debug)]
struct AllReduceHosts {
    kind: ReduceKind,
    hosts: usize,
}

impl Tensor {
    /// Combines the tensor element by element with those of the same replica of all `hosts` with the same stages.
    /// Values in half precision are combined in float32.
    pub fn all_reduce_hosts(&self, kind: ReduceKind, hosts: usize) -> Result<Tensor> {
        combine(self, AllReduceHosts { kind, hosts })
    }

    /// Combines the tensor element by element over the cores of the job that differ along `axes`
    /// alone: those of all hosts where `data` is one of them. Each core of a host then exchanges its
    /// part of the host's result with the other hosts, and gathers those of the others.
    pub fn all_reduce_over(&self, kind: ReduceKind, mesh: &Mesh, axes: &[Axis]) -> Result<Tensor> {
        let groups = mesh.groups(axes);
        let members = groups.first().map_or(1, Vec::len);
        let hosts = mesh.hosts();
        if hosts == 1 || !axes.contains(&Axis::Data) {
            return self.all_reduce(kind, &groups);
        }
        if members == 1 {
            return self.all_reduce_hosts(kind, hosts);
        }
        let elements = self.shape().element_count();
        if elements < SCATTERED_ELEMENTS_MIN {
            return self.all_reduce(kind, &groups)?.all_reduce_hosts(kind, hosts);
        }
        let flat = self.reshape(&[elements])?;
        let padding = elements.next_multiple_of(members) - elements;
        let padded = if padding == 0 { flat } else { flat.pad(0, 0, padding, 0.0)? };
        let part = padded.reduce_scatter(kind, 0, &groups)?.all_reduce_hosts(kind, hosts)?;
        let whole = part.all_gather(0, &groups)?;
        let whole = if padding == 0 { whole } else { whole.slice(0, 0, elements)? };
        whole.reshape(self.dims())
    }
}

impl Op for AllReduceHosts {
    fn name(&self) -> &'static str {
        "all_reduce_hosts"
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
        Ok(x.clone())
    }
}

impl Operation for AllReduceHosts {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        self.kind.check_differentiable(self.name())?;
        Ok(vec![Some(at.cotangent.all_reduce_hosts(ReduceKind::Sum, self.hosts)?)])
    }
}

impl Lower for AllReduceHosts {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        if self.hosts == 1 {
            return inputs[0].clone();
        }
        match emitter.groups_over_hosts() {
            Some(groups) => emit_all_reduce(emitter, self.kind, &inputs[0], &groups),
            None => {
                let collective = Collective::AllReduce(self.kind.reduction());
                emitter.exchange_with_hosts(&inputs[0], collective, result)
            }
        }
    }
}
