//! The variables of the launchers that start one runner on each host: the one table that translates them
//! into rank, size and coordinator.
//!
//! Launchers can be nested, as `mpirun` in an allocation of Slurm. The first launcher of the table that set
//! its variables is the innermost one, and gives rank and size.

mod slurm;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::address::Address;

/// The port of the rendezvous where a launcher names a host alone.
pub const DEFAULT_PORT: u16 = 7733;

/// The place of this process among the hosts of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub launcher: &'static str,
    pub rank: u32,
    pub size: u32,
    /// The address of host 0; `None` where the launcher does not name it.
    pub coordinator: Option<Address>,
}

/// A variable of a launcher that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    #[error("{variable} is {value:?}, and must be {expected}")]
    Variable { variable: &'static str, value: String, expected: &'static str },
    #[error("{launcher} set {variable}, and {missing} is missing")]
    Missing { launcher: &'static str, variable: &'static str, missing: &'static str },
    #[error("{launcher} says that this is host {rank} of {size}, which must count from 0")]
    Rank { launcher: &'static str, rank: u32, size: u32 },
}

/// The variables of one launcher.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    /// A variable that must be set besides, where others set the same rank.
    marker: Option<&'static str>,
    coordinator: fn(&Variables<'_>) -> Result<Option<Address>, LaunchError>,
}

/// The innermost launchers first.
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        name: "traind",
        rank: "TRAIND_HOST_RANK",
        size: "TRAIND_HOSTS",
        marker: None,
        coordinator: |at| at.address("TRAIND_COORDINATOR"),
    },
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        marker: None,
        coordinator: |_| Ok(None),
    },
    Launcher {
        name: "MPICH",
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        marker: None,
        coordinator: |_| Ok(None),
    },
    Launcher {
        name: "Slurm",
        rank: "SLURM_PROCID",
        size: "SLURM_NTASKS",
        marker: Some("SLURM_STEP_NODELIST"),
        coordinator: slurm::coordinator,
    },
    Launcher {
        name: "LeaderWorkerSet",
        rank: "LWS_WORKER_INDEX",
        size: "LWS_GROUP_SIZE",
        marker: None,
        coordinator: |at| at.host("LWS_LEADER_ADDRESS"),
    },
    Launcher {
        name: "Kubeflow",
        rank: "PET_NODE_RANK",
        size: "PET_NNODES",
        marker: None,
        coordinator: |at| at.host_and_port("PET_MASTER_ADDR", "PET_MASTER_PORT"),
    },
    Launcher {
        name: "Kubernetes",
        rank: "JOB_COMPLETION_INDEX",
        size: "TRAIND_HOSTS",
        marker: Some("TRAIND_SUBDOMAIN"),
        coordinator: first_pod,
    },
    Launcher {
        name: "torchrun",
        rank: "RANK",
        size: "WORLD_SIZE",
        marker: Some("MASTER_ADDR"),
        coordinator: |at| at.host_and_port("MASTER_ADDR", "MASTER_PORT"),
    },
];

impl Placement {
    /// Returns the place that `variable` gives by the names of environment variables; `None` where no
    /// launcher set its own.
    pub fn of(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Placement>, LaunchError> {
        let variables = Variables(variable);
        let mut matching = LAUNCHERS.iter().filter(|launcher| launcher.is_present(&variables));
        let Some(innermost) = matching.next() else { return Ok(None) };
        let mut placement = innermost.placement(&variables)?;
        for outer in matching {
            if placement.coordinator.is_some() {
                break;
            }
            let same = outer.placement(&variables)?;
            if (same.rank, same.size) == (placement.rank, placement.size) {
                placement.coordinator = same.coordinator;
            }
        }
        if let Some(given) = variables.address("TRAIND_COORDINATOR")? {
            placement.coordinator = Some(given);
        }
        Ok(Some(placement))
    }

    /// Returns the place that the environment of this process gives.
    pub fn of_environment() -> Result<Option<Placement>, LaunchError> {
        Placement::of(&|name| std::env::var(name).ok())
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {} of {}, by {}", self.rank, self.size, self.launcher)
    }
}

impl Launcher {
    fn is_present(&self, at: &Variables<'_>) -> bool {
        let marked = self.marker.is_none_or(|marker| at.get(marker).is_some());
        at.get(self.rank).is_some() && marked
    }

    fn placement(&self, at: &Variables<'_>) -> Result<Placement, LaunchError> {
        let (launcher, missing) = (self.name, self.size);
        let rank = at.count(self.rank)?.unwrap_or_default();
        let size = at.count(self.size)?;
        let size = size.ok_or(LaunchError::Missing { launcher, variable: self.rank, missing })?;
        if rank >= size {
            return Err(LaunchError::Rank { launcher, rank, size });
        }
        Ok(Placement { launcher, rank, size, coordinator: (self.coordinator)(at)? })
    }
}

/// The pod with index 0 of an Indexed Job or JobSet, whose headless service is `TRAIND_SUBDOMAIN`. Names
/// of pods end with their index.
fn first_pod(at: &Variables<'_>) -> Result<Option<Address>, LaunchError> {
    let [name, index, subdomain] =
        ["HOSTNAME", "JOB_COMPLETION_INDEX", "TRAIND_SUBDOMAIN"].map(|name| at.get(name));
    let (Some(name), Some(index), Some(subdomain)) = (name, index, subdomain) else {
        return Ok(None);
    };
    let expected = "the name of a pod, which ends with its index";
    let refused = || LaunchError::Variable { variable: "HOSTNAME", value: name.clone(), expected };
    let job = name.strip_suffix(&format!("-{index}")).ok_or_else(refused)?;
    Ok(Some(Address { host: format!("{job}-0.{subdomain}"), port: DEFAULT_PORT }))
}

/// The environment of a process.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn count(&self, variable: &'static str) -> Result<Option<u32>, LaunchError> {
        let Some(value) = self.get(variable) else { return Ok(None) };
        let count = value.parse();
        let expected = "a whole number";
        count.map(Some).map_err(|_| LaunchError::Variable { variable, value, expected })
    }

    /// An address with a port.
    fn address(&self, variable: &'static str) -> Result<Option<Address>, LaunchError> {
        let Some(value) = self.get(variable) else { return Ok(None) };
        let expected = "HOST:PORT";
        let address = value.parse();
        address.map(Some).map_err(|_| LaunchError::Variable { variable, value, expected })
    }

    /// A host, at the default port.
    fn host(&self, variable: &str) -> Result<Option<Address>, LaunchError> {
        Ok(self.get(variable).map(|host| Address { host, port: DEFAULT_PORT }))
    }

    fn host_and_port(
        &self,
        host: &str,
        variable: &'static str,
    ) -> Result<Option<Address>, LaunchError> {
        let Some(host) = self.get(host) else { return Ok(None) };
        let Some(value) = self.get(variable) else {
            return Ok(Some(Address { host, port: DEFAULT_PORT }));
        };
        let expected = "a port";
        let port = value.parse();
        let port = port.map_err(|_| LaunchError::Variable { variable, value, expected })?;
        Ok(Some(Address { host, port }))
    }
}
