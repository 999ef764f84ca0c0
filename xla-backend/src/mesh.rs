//! The cores of a job as a grid with named axes, and the replica groups that a
//! collective over some of those axes runs in.
//!
//! A job over several hosts has the same grid on each, whose replicas run its programs.
//! The hosts are the slowest factor of the `data` axis: each has a share of every batch.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::error::{Error, Result};

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
    pub data: usize,
    pub tensor: usize,
    pub pipeline: usize,
}

/// The cores of one host, and the place of that host among those of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mesh {
    hosts: usize,
    /// This host's number.
    host: usize,
    /// On this host.
    data: usize,
    tensor: usize,
    pipeline: usize,
    /// Slowest first.
    order: [Axis; 3],
}

impl Axis {
    pub const ALL: [Axis; 3] = [Axis::Data, Axis::Tensor, Axis::Pipeline];

    fn letter(self) -> char {
        match self {
            Axis::Data => 'D',
            Axis::Tensor => 'T',
            Axis::Pipeline => 'P',
        }
    }
}

/// As in a job file.
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
    fn order(self) -> [Axis; 3] {
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

impl Mesh {
    /// A mesh of `data` × `tensor` × `pipeline` cores, each at least 1.
    pub fn new(data: usize, tensor: usize, pipeline: usize, placement: Placement) -> Result<Mesh> {
        let mesh = Mesh { hosts: 1, host: 0, data, tensor, pipeline, order: placement.order() };
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

    /// The mesh that host number `host` has in a job of `hosts` such meshes.
    pub fn on_hosts(self, hosts: usize, host: usize) -> Result<Mesh> {
        if host < hosts {
            return Ok(Mesh { hosts, host, ..self });
        }
        let problem = format!("there is no host {host} among {hosts}");
        Err(Error::Mesh { axes: self.to_string(), problem })
    }

    /// The number of hosts of the job.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// The number of this host, from 0.
    pub fn host(&self) -> usize {
        self.host
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
        self.hosts * self.data
    }

    /// The shares of a batch that this host's cores see.
    pub fn own_data_shards(&self) -> Range<usize> {
        self.host * self.data..(self.host + 1) * self.data
    }

    /// The share of a batch that a core of this host sees, among those of all hosts.
    pub fn data_shard(&self, coordinates: Coordinates) -> usize {
        self.host * self.data + coordinates.data
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
        if self.hosts > 1 {
            write!(f, "{} hosts × ", self.hosts)?;
        }
        write!(f, "data {} × tensor {} × pipeline {}", self.data, self.tensor, self.pipeline)
    }
}
