//! The cores of a job as a grid with named axes, and the replica groups that a
//! collective over some of those axes runs in.
//!
//! A job over several hosts has the same grid on each, whose replicas run its programs. The hosts
//! form a grid themselves: they are the slowest factors of the `data` and the `pipeline` axis, so
//! each has a share of every batch and some of the stages. Cores that share layers are on one host.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::error::{Error, Result};

/// An axis of the mesh of cores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Axis {
    /// Copies of the model, each with a share of the batch.
    Data,
    /// Shares of each layer.
    Tensor,
    /// Stages of consecutive layers.
    Pipeline,
}

/// The order of the axes over the cores, under the names of SageMaker's model parallel library.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// One copy of the model on neighbouring cores: `DPT`.
    #[default]
    Cluster,
    /// One copy of the model as far apart as can be: `TPD`.
    Spread,
    /// The axes by how fast they vary with the core number, the slowest first.
    Order([Axis; 3]),
}

/// The place of a replica on each axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Coordinates {
    /// The place on the `data` axis.
    pub data: usize,
    /// The place on the `tensor` axis.
    pub tensor: usize,
    /// The place on the `pipeline` axis.
    pub pipeline: usize,
}

/// The hosts of a job: those along `data` have the same stages and other rows, those along `pipeline`
/// the same rows and other stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostGrid {
    /// The hosts along the `data` axis.
    pub data: usize,
    /// The hosts along the `pipeline` axis.
    pub pipeline: usize,
    /// Whether the hosts along `pipeline` are the far ones, instead of neighbours.
    pub pipeline_is_slower: bool,
}

/// The cores of one host, and the place of that host among those of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mesh {
    grid: HostGrid,
    /// This host's number.
    host: usize,
    /// The cores of the `data` axis on this host.
    data: usize,
    tensor: usize,
    pipeline: usize,
    /// Slowest first.
    order: [Axis; 3],
}

impl Axis {
    /// All axes, in the order of [`Coordinates`].
    pub const ALL: [Axis; 3] = [Axis::Data, Axis::Tensor, Axis::Pipeline];

    fn letter(self) -> char {
        match self {
            Axis::Data => 'D',
            Axis::Tensor => 'T',
            Axis::Pipeline => 'P',
        }
    }
}

/// Writes the name that a job file has for the axis.
impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Axis::Data => "data",
            Axis::Tensor => "tensor",
            Axis::Pipeline => "pipeline",
        })
    }
}

impl Placement {
    /// The axes, the slowest first.
    pub fn order(self) -> [Axis; 3] {
        match self {
            Placement::Cluster => [Axis::Data, Axis::Pipeline, Axis::Tensor],
            Placement::Spread => [Axis::Tensor, Axis::Pipeline, Axis::Data],
            Placement::Order(order) => order,
        }
    }
}

/// `cluster`, `spread`, or the letters D, P and T in an order of one's own.
impl FromStr for Placement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Placement> {
        let refused = || Error::Placement { placement: text.to_owned() };
        match text {
            "cluster" => return Ok(Placement::Cluster),
            "spread" => return Ok(Placement::Spread),
            _ => {}
        }
        let axis = |letter| Axis::ALL.into_iter().find(|axis| axis.letter() == letter);
        let axes: Option<Vec<Axis>> = text.chars().map(axis).collect();
        let order: [Axis; 3] = axes.and_then(|a| a.try_into().ok()).ok_or_else(refused)?;
        if !Axis::ALL.iter().all(|axis| order.contains(axis)) {
            return Err(refused());
        }
        Ok(Placement::Order(order))
    }
}

impl Coordinates {
    /// The first of this host's cores that see the rows of its data shard `data`.
    pub fn of_data_shard(data: usize) -> Coordinates {
        Coordinates { data, ..Coordinates::default() }
    }

    /// The coordinate on one axis.
    pub fn along(&self, axis: Axis) -> usize {
        match axis {
            Axis::Data => self.data,
            Axis::Tensor => self.tensor,
            Axis::Pipeline => self.pipeline,
        }
    }

    fn along_mut(&mut self, axis: Axis) -> &mut usize {
        match axis {
            Axis::Data => &mut self.data,
            Axis::Tensor => &mut self.tensor,
            Axis::Pipeline => &mut self.pipeline,
        }
    }
}

impl HostGrid {
    /// Hosts that all have all stages.
    pub const fn of_data(hosts: usize) -> HostGrid {
        HostGrid { data: hosts, pipeline: 1, pipeline_is_slower: false }
    }

    /// Returns the number of hosts.
    pub fn count(self) -> usize {
        self.data * self.pipeline
    }

    /// The place of a host along `data` and along `pipeline`.
    pub fn place(self, host: usize) -> (usize, usize) {
        match self.pipeline_is_slower {
            true => (host % self.data, host / self.data),
            false => (host / self.pipeline, host % self.pipeline),
        }
    }

    /// The hosts that have the same stages, by their place along `pipeline`.
    pub fn groups(self) -> Vec<Vec<usize>> {
        let group = |pipeline| (0..self.data).map(|data| self.host(data, pipeline)).collect();
        (0..self.pipeline).map(group).collect()
    }

    /// The host at a place along `data` and along `pipeline`.
    pub fn host(self, data: usize, pipeline: usize) -> usize {
        match self.pipeline_is_slower {
            true => pipeline * self.data + data,
            false => data * self.pipeline + pipeline,
        }
    }
}

impl Mesh {
    /// A mesh of `data` × `tensor` × `pipeline` cores, each at least 1.
    pub fn new(data: usize, tensor: usize, pipeline: usize, placement: Placement) -> Result<Mesh> {
        let (grid, order) = (HostGrid::of_data(1), placement.order());
        let mesh = Mesh { grid, host: 0, data, tensor, pipeline, order };
        if [data, tensor, pipeline].contains(&0) {
            return Err(Error::Mesh {
                axes: mesh.to_string(),
                problem: "every axis has at least one core".to_owned(),
            });
        }
        Ok(mesh)
    }

    /// A mesh with the data axis alone.
    pub fn data_parallel(cores: usize) -> Result<Mesh> {
        Mesh::new(cores, 1, 1, Placement::Cluster)
    }

    /// The mesh that host number `host` has in a job of `hosts` such meshes, which all have all stages.
    pub fn on_hosts(self, hosts: usize, host: usize) -> Result<Mesh> {
        self.on_grid(HostGrid::of_data(hosts), host)
    }

    /// The mesh that host number `host` has in a job of such meshes, which form `grid`.
    pub fn on_grid(self, grid: HostGrid, host: usize) -> Result<Mesh> {
        if host < grid.count() {
            return Ok(Mesh { grid, host, ..self });
        }
        let problem = format!("there is no host {host} among {}", grid.count());
        Err(Error::Mesh { axes: self.to_string(), problem })
    }

    /// The hosts of the job.
    pub fn grid(&self) -> HostGrid {
        self.grid
    }

    /// The number of this host among all, from 0.
    pub fn host(&self) -> usize {
        self.host
    }

    /// The number of hosts that have the same stages: those that reductions reach.
    pub fn hosts(&self) -> usize {
        self.grid.data
    }

    /// The place of this host among those with the same stages.
    pub fn data_place(&self) -> usize {
        self.grid.place(self.host).0
    }

    /// The place of this host among those with the same rows.
    pub fn pipeline_place(&self) -> usize {
        self.grid.place(self.host).1
    }

    /// The numbers of the hosts that have the same stages, this one's among them.
    pub fn hosts_with_own_stages(&self) -> Vec<usize> {
        self.grid.groups().swap_remove(self.pipeline_place())
    }

    /// The pipeline stages of this host, among those of the job.
    pub fn own_stages(&self) -> Range<usize> {
        let first = self.pipeline_place() * self.pipeline;
        first..first + self.pipeline
    }

    /// The number of this host's cores along an axis.
    pub fn size(&self, axis: Axis) -> usize {
        match axis {
            Axis::Data => self.data,
            Axis::Tensor => self.tensor,
            Axis::Pipeline => self.pipeline,
        }
    }

    /// Shares of a batch: how many cores, on all hosts, see different rows.
    pub fn data_shards(&self) -> usize {
        self.hosts() * self.data
    }

    /// The shares of a batch that this host's cores see.
    pub fn own_data_shards(&self) -> Range<usize> {
        let first = self.data_place() * self.data;
        first..first + self.data
    }

    /// The share of a batch that a core of this host sees, among those of all hosts.
    pub fn data_shard(&self, coordinates: Coordinates) -> usize {
        self.data_place() * self.data + coordinates.data
    }

    /// The number of this host's cores, each of which runs one replica.
    pub fn replica_count(&self) -> usize {
        self.data * self.tensor * self.pipeline
    }

    /// The mesh of the cores of one pipeline stage.
    pub fn of_stage(&self) -> Mesh {
        Mesh { pipeline: 1, ..self.clone() }
    }

    /// The place of a replica; `replica` is below [`Mesh::replica_count`].
    pub fn coordinates(&self, replica: usize) -> Coordinates {
        let mut coordinates = Coordinates::default();
        let mut rest = replica;
        for &axis in self.order.iter().rev() {
            *coordinates.along_mut(axis) = rest % self.size(axis);
            rest /= self.size(axis);
        }
        coordinates
    }

    /// The replica that stands there.
    pub fn replica(&self, coordinates: Coordinates) -> usize {
        self.order
            .iter()
            .fold(0, |number, &axis| number * self.size(axis) + coordinates.along(axis))
    }

    /// The axes along which replicas differ.
    pub fn axes_between(&self, replicas: &[usize]) -> Vec<Axis> {
        let places: Vec<_> = replicas.iter().map(|&replica| self.coordinates(replica)).collect();
        let differs = |axis: &Axis| {
            places.windows(2).any(|pair| pair[0].along(*axis) != pair[1].along(*axis))
        };
        Axis::ALL.into_iter().filter(differs).collect()
    }

    /// This host's replicas that differ along `axes` alone, one group for each place
    /// on the other axes; groups and their members ascend.
    pub fn groups(&self, axes: &[Axis]) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        // The place of a group, by its first member.
        let mut places = vec![None; self.replica_count()];
        for replica in 0..self.replica_count() {
            let mut first = self.coordinates(replica);
            for &axis in axes {
                *first.along_mut(axis) = 0;
            }
            let place = *places[self.replica(first)].get_or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[place].push(replica);
        }
        groups
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.grid.count(), self.grid.pipeline) {
            (1, _) => {}
            (hosts, 1) => write!(f, "{hosts} hosts × ")?,
            (hosts, far) => write!(f, "{hosts} hosts, {far} of them in a pipeline, × ")?,
        }
        write!(f, "data {} × tensor {} × pipeline {}", self.data, self.tensor, self.pipeline)
    }
}
