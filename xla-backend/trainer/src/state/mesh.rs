//! The mesh that cores form: the one source of how many data shards and stages there are.

use traind_xla::mesh::{Axis, HostGrid, Mesh, Placement};

use crate::error::Result;

/// How the cores of one or several hosts divide the work. The default is one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshConfig {
    /// Cores of each host that see different rows.
    pub data: usize,
    /// Cores of a host that share each layer.
    pub tensor: usize,
    /// Pipeline stages of each host.
    pub pipeline: usize,
    /// The order of the axes over a host's cores.
    pub placement: Placement,
    /// Hosts with the same stages, which see different rows.
    pub data_hosts: usize,
    /// Hosts with different stages.
    pub pipeline_hosts: usize,
}

impl Default for MeshConfig {
    fn default() -> MeshConfig {
        MeshConfig {
            data: 1,
            tensor: 1,
            pipeline: 1,
            placement: Placement::default(),
            data_hosts: 1,
            pipeline_hosts: 1,
        }
    }
}

impl MeshConfig {
    /// The mesh of the first host.
    pub fn mesh(&self) -> Result<Mesh> {
        self.mesh_of_host(0)
    }

    /// The mesh of a host.
    pub fn mesh_of_host(&self, host: usize) -> Result<Mesh> {
        let mesh = Mesh::new(self.data, self.tensor, self.pipeline, self.placement)?;
        Ok(mesh.on_grid(self.grid(), host)?)
    }

    /// The pipeline stages of all hosts.
    pub fn stages(&self) -> usize {
        self.pipeline * self.pipeline_hosts
    }

    /// The hosts along each axis, in the order of the placement.
    fn grid(&self) -> HostGrid {
        let slower = self.placement.order().into_iter().find(|axis| *axis != Axis::Tensor);
        HostGrid {
            data: self.data_hosts,
            pipeline: self.pipeline_hosts,
            pipeline_is_slower: slower == Some(Axis::Pipeline),
        }
    }
}
