//! From a lowered program to an executable: in memory, from disk, or compiled.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use traind_neuron::{Cause, Generation, InstalledCompiler, LogPlace};
use traind_pjrt::{Client, CompileOptions, Error as PjrtError, Executable};

use super::platform::with_platform_options;
use super::{ExecutableCache, LocalCores, refusals};
use crate::error::Result;
use crate::kernels::KERNELS_VERSION;
use crate::mesh::Mesh;
use crate::stablehlo::Program;
use crate::verify::neuron::{self, Finding};

/// The source of an executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExecutableSource {
    /// Another step of this process compiled it.
    Memory,
    /// The cache on the disk has it.
    Disk,
    /// It was compiled now.
    Compiled,
}

/// The source of an executable and the seconds that it took.
#[derive(Clone, Copy, Debug)]
pub struct CompileReport {
    /// The place where the executable was found.
    pub source: ExecutableSource,
    /// The time that this took, in seconds.
    pub seconds: f64,
}

impl CompileReport {
    fn new(source: ExecutableSource, took: Duration) -> CompileReport {
        CompileReport { source, seconds: took.as_secs_f64() }
    }
}

/// Compiles each program once a process and, with a cache folder, once a host.
#[derive(Debug)]
pub struct Compiler {
    cores: LocalCores,
    disk: Option<ExecutableCache>,
    memory: Mutex<HashMap<String, Arc<Entry>>>,
}

/// The executable of a key. The thread that makes it holds the lock.
type Entry = Mutex<Option<Arc<Executable>>>;

impl Compiler {
    /// Creates a compiler for the programs of `cores`, which keeps executables on `disk` if that is given.
    pub fn new(cores: LocalCores, disk: Option<ExecutableCache>) -> Compiler {
        Compiler { cores, disk, memory: Mutex::default() }
    }

    /// Creates a compiler of programs for one device of this process. By default, they would be for the first one of
    /// all processes.
    pub(super) fn for_first_device(
        client: &Client,
        disk: Option<&ExecutableCache>,
    ) -> Result<Compiler> {
        let cores = LocalCores::of_host(client.clone(), Mesh::data_parallel(1)?)?;
        Ok(Compiler::new(cores, disk.cloned()))
    }

    /// Returns the cores whose programs it compiles.
    pub fn cores(&self) -> &LocalCores {
        &self.cores
    }

    /// The executable of `program`. Several threads may compile at once; those that ask for the same
    /// program wait for the first of them.
    pub fn compile(&self, program: &Program) -> Result<(Arc<Executable>, CompileReport)> {
        let start = Instant::now();
        let key = self.key(program)?;
        let entry = self.entry(&key);
        let mut entry = lock(&entry);
        if let Some(executable) = &*entry {
            let report = CompileReport::new(ExecutableSource::Memory, start.elapsed());
            return Ok((Arc::clone(executable), report));
        }
        let (executable, source) = match self.on_disk(&key)? {
            Some(executable) => (executable, ExecutableSource::Disk),
            None => self.compile_alone(program, &key)?,
        };
        let executable = entry.insert(executable.into());
        Ok((Arc::clone(executable), CompileReport::new(source, start.elapsed())))
    }

    /// Operations of a program that Neuron's compiler computes in another type, with the same results; none for other
    /// platforms.
    pub(super) fn warnings(&self, program: &Program) -> Vec<Finding> {
        let core = traind_neuron::core_kind(self.cores.device(0).kind());
        let check = |core| {
            let limits = neuron::Limits::of_core(core);
            neuron::check(&program.text, &limits, &program.origins).warnings
        };
        core.map_or_else(Vec::new, check)
    }

    fn entry(&self, key: &str) -> Arc<Entry> {
        Arc::clone(lock(&self.memory).entry(key.to_owned()).or_default())
    }

    /// An executable that the plugin no longer takes is compiled anew; one for which something is in use would be so in
    /// vain.
    fn on_disk(&self, key: &str) -> Result<Option<Executable>> {
        let Some(serialized) = self.disk.as_ref().and_then(|disk| disk.get(key)) else {
            return Ok(None);
        };
        match self.cores.client().deserialize(&serialized, None) {
            Ok(executable) => Ok(Some(executable)),
            Err(error) if is_in_use(&error) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    /// Compiles a program, unless another process that shares the cache does so: then waits for its
    /// executable.
    fn compile_alone(
        &self,
        program: &Program,
        key: &str,
    ) -> Result<(Executable, ExecutableSource)> {
        let _lock = self.disk.as_ref().and_then(|disk| disk.lock(key));
        match self.on_disk(key)? {
            Some(executable) => Ok((executable, ExecutableSource::Disk)),
            None => {
                let log = LogPlace::of_stderr();
                let compiled = refusals::compile_once(self.disk.as_ref(), key, || {
                    self.compile_and_store(program, key)
                });
                let kind = self.cores.device(0).kind();
                let located = |error| refusals::located(error, program, kind, log.as_ref());
                Ok((compiled.map_err(located)?, ExecutableSource::Compiled))
            }
        }
    }

    fn compile_and_store(&self, program: &Program, key: &str) -> Result<Executable> {
        let executable = self.cores.client().compile(&program.text, &self.options())?;
        // Some plugins cannot serialize; they keep caches of their own.
        if let Some(disk) = &self.disk
            && let Ok(serialized) = executable.program().serialize()
        {
            disk.put(key, &serialized)?;
        }
        Ok(executable)
    }

    fn options(&self) -> CompileOptions {
        let job = self.cores.job();
        let options = CompileOptions::replicas(job.device_ids().len())
            .on_devices(job.device_ids().iter().copied());
        with_platform_options(options, self.cores.client().platform_name())
    }

    /// Everything that determines an executable: the program, the options and
    /// devices, the plugin, and the host that its code was made for.
    fn key(&self, program: &Program) -> Result<String> {
        let client = self.cores.client();
        let mut hash = blake3::Hasher::new();
        let mut add = |part: &[u8]| {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(program.text.as_bytes());
        add(&self.options().encode(client)?);
        add(client.platform_name().as_bytes());
        add(client.platform_version().as_bytes());
        add(self.cores.device(0).kind().as_bytes());
        add(KERNELS_VERSION.as_bytes());
        add(&host_features());
        add(std::env::var("XLA_FLAGS").unwrap_or_default().as_bytes());
        if client.platform_name() == "neuron" {
            let kind = self.cores.device(0).kind();
            let parts = neuron_toolchain(kind, |name| std::env::var_os(name));
            parts.iter().for_each(|part| add(part));
        }
        Ok(hash.finalize().to_hex().to_string())
    }
}

/// The parts that an executable for NeuronCores of a kind depends on besides the plugin: its compiler is another
/// package, found by `PATH`. A target that has cores of that kind changes nothing.
fn neuron_toolchain(kind: &str, variable: impl Fn(&str) -> Option<OsString>) -> Vec<Vec<u8>> {
    const VARIABLES: [&str; 2] = ["NEURON_CC_FLAGS", "NEURON_LOGICAL_NC_CONFIG"];
    let bytes = |text: OsString| text.as_encoded_bytes().to_vec();
    let is_own = |target: &OsString| {
        let core = traind_neuron::core_kind(kind);
        let generation = Generation::of_device(&target.to_string_lossy());
        core.is_some_and(|core| {
            generation.and_then(|it| it.core_kind(core.logical_config)) == Some(core)
        })
    };
    let target = variable("NEURON_PLATFORM_TARGET_OVERRIDE").filter(|target| !is_own(target));
    let set = VARIABLES.map(|name| bytes(variable(name).unwrap_or_default()));
    let set = set.into_iter().chain([bytes(target.unwrap_or_default())]);
    let compiler = variable("PATH").and_then(|path| InstalledCompiler::find(&path));
    let version = compiler.map(|it| it.version.unwrap_or_else(|| it.program.display().to_string()));
    set.chain([version.unwrap_or_default().into_bytes()]).collect()
}

/// Whether a plugin misses what another process has, such as the port of Neuron's collectives.
fn is_in_use(error: &PjrtError) -> bool {
    traind_neuron::explain(&error.to_string()).is_some_and(|it| it.cause == Cause::Busy)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The instruction sets of this host: executables hold machine code, and a
/// cache folder may be shared by unlike hosts.
fn host_features() -> Vec<u8> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let features =
        cpuinfo.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    features.unwrap_or_default().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neuron_executables_depend_on_flags_and_the_compilers_version() {
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().join("lib/python3.11/site-packages");
        let install = |version: &str| {
            let _ = std::fs::remove_dir_all(&packages);
            let name = format!("neuronx_cc-{version}.dist-info");
            std::fs::create_dir_all(packages.join(name)).unwrap();
        };
        install("2.26.6360");
        std::fs::create_dir_all(folder.path().join("bin")).unwrap();
        std::fs::write(folder.path().join("bin/neuronx-cc"), "").unwrap();
        let found = |set: &'static str, to: &'static str| {
            neuron_toolchain("NC_v2", |name| match name {
                "PATH" => Some(folder.path().join("bin").into_os_string()),
                _ => (name == set).then(|| to.into()),
            })
        };
        let before = found("", "");
        assert_eq!(before, found("", ""));
        assert_ne!(before, found("NEURON_CC_FLAGS", "-O1"));
        assert_ne!(before, found("NEURON_LOGICAL_NC_CONFIG", "1"));
        assert_ne!(before, found("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2"));
        for own in ["trn1", "inf2"] {
            assert_eq!(before, found("NEURON_PLATFORM_TARGET_OVERRIDE", own));
        }
        install("2.27.5334");
        assert_ne!(before, found("", ""));
    }
}
