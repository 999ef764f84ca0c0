//! The instance that the twin stands for, and the cores that a process gets.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::Path;

use traind_neuron::{CoreKind, Instance, instance};

use crate::Options;

/// An instance with the logical configuration of its cores.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub instance: &'static Instance,
    pub kind: &'static CoreKind,
}

impl Machine {
    /// The instance of the options, with the logical configuration in the environment.
    pub fn of_environment(options: &Options) -> Result<Machine, String> {
        let config = std::env::var("NEURON_LOGICAL_NC_CONFIG").ok();
        Machine::new(&options.instance, config.as_deref())
    }

    pub fn new(name: &str, config: Option<&str>) -> Result<Machine, String> {
        let found = instance(name).ok_or_else(|| format!("there is no instance {name}"))?;
        let default = found.generation.default_logical_config();
        let config = config.map_or(Some(default), |config| config.parse().ok());
        let kind = config.and_then(|config| found.generation.core_kind(config));
        let kind = kind.ok_or_else(|| format!("{name} has no such NEURON_LOGICAL_NC_CONFIG"))?;
        Ok(Machine { instance: found, kind })
    }

    /// Logical cores of the instance, and of a device.
    pub fn cores(&self) -> u32 {
        self.instance.cores(self.kind.logical_config)
    }

    pub fn cores_per_device(&self) -> u32 {
        self.instance.generation.physical_cores() / self.kind.logical_config
    }

    /// The cores that the runtime gives to a process with these variables.
    pub(crate) fn visible(
        &self,
        cores: Option<&str>,
        count: Option<&str>,
    ) -> Result<Vec<u32>, String> {
        let all: Vec<u32> = (0..self.cores()).collect();
        let chosen = match (cores, count.and_then(|count| count.parse::<usize>().ok())) {
            (Some(cores), _) => contiguous(cores)?,
            (None, Some(count)) if count > 0 => all.iter().copied().take(count).collect(),
            _ => all.clone(),
        };
        match chosen.iter().all(|core| all.contains(core)) {
            true if chosen.is_empty() => Err("error condition !(num_devices > 0):".to_owned()),
            true => Ok(chosen),
            false => {
                Err(format!("NEURON_RT_VISIBLE_CORES has cores that {} lacks", self.instance.name))
            }
        }
    }
}

/// Parses a range of cores; a list with gaps is refused.
fn contiguous(text: &str) -> Result<Vec<u32>, String> {
    let invalid = || format!("Invalid NEURON_RT_VISIBLE_CORES: {text}");
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| invalid());
        cores.extend(number(first)?..=number(last)?);
    }
    match cores.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
        true => Ok(cores),
        false => Err(invalid()),
    }
}

/// Holds cores for this process until it ends, by locks on files in `folder`. Fails if another process has one.
pub(crate) fn hold(folder: &Path, cores: &[u32], kind: &CoreKind) -> Result<Vec<File>, String> {
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let hold = |core: &u32| {
        let path = folder.join(format!("core{core}"));
        // The file names the process that has the core.
        let open = File::options().create(true).write(true).truncate(false).open(path);
        let file = open.map_err(|error| error.to_string())?;
        match file.try_lock() {
            Ok(()) => name_holder(&file).map(|()| file).map_err(|error| error.to_string()),
            Err(TryLockError::WouldBlock) => Err(format!(
                "NRT:nrt_allocate_neuron_cores Logical Neuron Core(s) not available - Requested:lnc{core}-lnc{core} \
                 Available:0 Logical Core size:{} (cores busy, ret=-16)",
                kind.logical_config
            )),
            Err(TryLockError::Error(error)) => Err(error.to_string()),
        }
    };
    cores.iter().map(hold).collect()
}

fn name_holder(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    write!(file, "{}", std::process::id())
}

/// The processes that hold cores, by core: those that the files in `folder` name and that live.
pub(crate) fn holders(folder: &Path) -> BTreeMap<u32, u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let holder = |entry: fs::DirEntry| {
        let core = entry.file_name().to_str()?.strip_prefix("core")?.parse().ok()?;
        let process: u32 = fs::read_to_string(entry.path()).ok()?.trim().parse().ok()?;
        Path::new("/proc").join(process.to_string()).exists().then_some((core, process))
    };
    entries.filter_map(holder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_have_logical_cores() {
        let cores = |name, config| Machine::new(name, config).map(|it| (it.cores(), it.kind.kind));
        assert_eq!(cores("trn1.32xlarge", None), Ok((32, "NC_v2")));
        assert_eq!(cores("trn2.48xlarge", None), Ok((64, "NC_v3d")));
        assert_eq!(cores("trn2.48xlarge", Some("1")), Ok((128, "NC_v3")));
        assert!(cores("trn1.32xlarge", Some("2")).is_err() && cores("p5", None).is_err());
    }

    #[test]
    fn processes_get_ranges() {
        let machine = Machine::new("trn1.32xlarge", None).unwrap();
        assert_eq!(machine.visible(Some("8-10"), None), Ok(vec![8, 9, 10]));
        assert_eq!(machine.visible(None, Some("2")), Ok(vec![0, 1]));
        assert_eq!(machine.visible(None, Some("0")).unwrap().len(), 32);
        assert!(
            machine.visible(Some("3,5,6"), None).is_err()
                && machine.visible(Some("32"), None).is_err()
        );
    }
    #[test]
    fn cores_have_one_holder_which_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let kind = Machine::new("trn1.2xlarge", None).unwrap().kind;
        let held = hold(folder.path(), &[1], kind).unwrap();
        assert_eq!(holders(folder.path()), [(1, std::process::id())].into());
        assert!(hold(folder.path(), &[0, 1], kind).unwrap_err().contains("Requested:lnc1-lnc1"));
        drop(held);
        fs::write(folder.path().join("core1"), u32::MAX.to_string()).unwrap();
        fs::write(folder.path().join("compiling"), "1").unwrap();
        assert!(!holders(folder.path()).contains_key(&1), "a process that has ended");
    }
}
