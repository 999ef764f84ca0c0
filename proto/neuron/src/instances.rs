//! EC2 instances with NeuronCores.

use crate::Generation;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instance {
    pub name: &'static str,
    pub generation: Generation,
    pub devices: u32,
    /// The memory of each device.
    pub memory_bytes: u64,
    /// Bytes a second of all its network adapters; assumed where AWS publishes none.
    pub network_rate: f64,
}

impl Instance {
    /// The number of logical cores of `logical_config` physical ones.
    pub fn cores(&self, logical_config: u32) -> u32 {
        self.devices * self.generation.physical_cores() / logical_config.max(1)
    }

    /// The devices that `device` has links to: its neighbours in a torus of 4 x 4, or in a ring.
    pub fn connected_to(&self, device: u32) -> Vec<u32> {
        let side = 4;
        let mut others: Vec<u32> = match self.devices {
            0 | 1 => Vec::new(),
            16 => {
                let (row, column) = (device / side, device % side);
                let at = |row: u32, column: u32| row % side * side + column % side;
                vec![
                    at(row + side - 1, column),
                    at(row + 1, column),
                    at(row, column + side - 1),
                    at(row, column + 1),
                ]
            }
            devices => vec![(device + devices - 1) % devices, (device + 1) % devices],
        };
        others.sort_unstable();
        others.dedup();
        others
    }
}

const GIB: u64 = 1 << 30;
/// Bytes a second of one Gbit/s.
const GBIT: f64 = 1e9 / 8.0;

const fn of(
    name: &'static str,
    generation: Generation,
    devices: u32,
    memory_gib: u64,
    network_gbit: f64,
) -> Instance {
    let (memory_bytes, network_rate) = (memory_gib * GIB, network_gbit * GBIT);
    Instance { name, generation, devices, memory_bytes, network_rate }
}

/// Trainium3's largest host has four devices.
pub const INSTANCES: &[Instance] = &[
    of("trn1.2xlarge", Generation::Trainium1, 1, 32, 12.5),
    of("trn1.32xlarge", Generation::Trainium1, 16, 32, 800.0),
    of("trn1n.32xlarge", Generation::Trainium1, 16, 32, 1600.0),
    of("inf2.xlarge", Generation::Inferentia2, 1, 32, 15.0),
    of("inf2.8xlarge", Generation::Inferentia2, 1, 32, 25.0),
    of("inf2.24xlarge", Generation::Inferentia2, 6, 32, 50.0),
    of("inf2.48xlarge", Generation::Inferentia2, 12, 32, 100.0),
    of("trn2.3xlarge", Generation::Trainium2, 1, 96, 200.0),
    of("trn2.48xlarge", Generation::Trainium2, 16, 96, 3200.0),
    of("trn3", Generation::Trainium3, 4, 144, 800.0),
];

pub fn instance(name: &str) -> Option<&'static Instance> {
    INSTANCES.iter().find(|instance| instance.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_have_their_cores() {
        let cores = |name, config| instance(name).unwrap().cores(config);
        assert_eq!(cores("trn1.2xlarge", 1), 2);
        assert_eq!(cores("trn1.32xlarge", 1), 32);
        assert_eq!((cores("trn2.48xlarge", 1), cores("trn2.48xlarge", 2)), (128, 64));
        assert_eq!(cores("inf2.48xlarge", 1), 24);
        assert_eq!(instance("p5.48xlarge"), None);
    }

    #[test]
    fn links_are_mutual() {
        for instance in INSTANCES {
            for device in 0..instance.devices {
                for other in instance.connected_to(device) {
                    let back = instance.connected_to(other);
                    assert!(other != device && back.contains(&device), "{}", instance.name);
                }
            }
        }
        assert_eq!(instance("trn1.32xlarge").unwrap().connected_to(0), [1, 3, 4, 12]);
    }

    #[test]
    fn a_core_has_its_share_of_the_memory() {
        for instance in INSTANCES {
            let generation = instance.generation;
            let kind = generation.core_kind(generation.default_logical_config()).unwrap();
            let cores = u64::from(generation.physical_cores() / kind.logical_config);
            assert_eq!(instance.memory_bytes / cores, kind.memory_bytes, "{}", instance.name);
        }
    }
}
