//! Values that wait in host memory which the device reads by itself, such as pinned pages, while no program
//! needs them.

use std::collections::BTreeMap;

use traind_pjrt::{Buffer, Error as PjrtError, Memory};

use super::cores::LocalCores;
use super::variable::Variable;
use crate::error::Result;

/// PJRT's name of the kind of memory.
const KIND: &str = "pinned_host";

/// The host memory that the cores of this process reach.
#[derive(Clone, Debug)]
pub struct HostMemory {
    /// The memories of each local core: the host's, and the device's own.
    cores: Vec<[Memory; 2]>,
}

impl HostMemory {
    /// Fails where the platform has no such memory.
    pub fn of(cores: &LocalCores) -> Result<HostMemory> {
        let memories = |core| -> Result<[Memory; 2]> {
            let device = cores.device(core);
            let host = device.memory(KIND)?;
            let own = device.default_memory().ok_or_else(|| PjrtError::NoSuchMemory {
                kind: "device".to_owned(),
                available: vec![KIND.to_owned()],
            })?;
            Ok([host, own])
        };
        Ok(HostMemory { cores: (0..cores.len()).map(memories).collect::<Result<_>>()? })
    }

    /// The host's memory, as a local core reaches it.
    pub(super) fn of_core(&self, core: usize) -> &Memory {
        &self.cores[core][0]
    }

    /// Starts to copy a value of each core to the host.
    pub fn unload(&self, buffers: &[Buffer]) -> Result<Vec<Buffer>> {
        self.copies(buffers, 0)
    }

    /// Starts to copy such a value back to the cores.
    pub fn load(&self, buffers: &[Buffer]) -> Result<Vec<Buffer>> {
        self.copies(buffers, 1)
    }

    fn copies(&self, buffers: &[Buffer], place: usize) -> Result<Vec<Buffer>> {
        let copies = buffers.iter().zip(&self.cores);
        Ok(copies
            .map(|(buffer, memories)| buffer.copy_to_memory(&memories[place]))
            .collect::<Result<_, _>>()?)
    }
}

/// The variables whose values are in host memory between steps.
#[derive(Debug, Default)]
pub(super) struct HostVariables(BTreeMap<usize, HostMemory>);

impl HostVariables {
    pub(super) fn insert(&mut self, variable: Variable, memory: HostMemory) {
        self.0.insert(variable.index(), memory);
    }

    pub(super) fn memory_of(&self, variable: Variable) -> Option<&HostMemory> {
        self.0.get(&variable.index())
    }
}
