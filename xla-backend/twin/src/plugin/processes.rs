//! Several processes, each of which drives some of the cores: how they meet, and whose a device is. Programs over
//! several processes are compiled, and not executed.

use std::ffi::{c_int, c_void};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use super::behaviour::STARTED;
use super::errors;
use super::records::{SubjectList, SubjectNumber, SubjectPointer};
use super::table::{inner, place};

const COUNTS: &str = "NEURON_PJRT_PROCESSES_NUM_DEVICES";
const INDEX: &str = "NEURON_PJRT_PROCESS_INDEX";
const ROOT: &str = "NEURON_RT_ROOT_COMM_ID";
const RETRY: Duration = Duration::from_millis(5);

/// The number of cores of each process, and which of them this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Processes {
    counts: Vec<usize>,
    index: usize,
}

impl Processes {
    /// The processes of the environment for a process with `own` cores: this one alone if the variables are not set.
    pub(super) fn of_environment(own: usize) -> Result<Processes, String> {
        let [counts, index] = [COUNTS, INDEX].map(|name| std::env::var(name).ok());
        Processes::parse(counts.as_deref(), index.as_deref(), own)
    }

    fn parse(counts: Option<&str>, index: Option<&str>, own: usize) -> Result<Processes, String> {
        let (counts, index) = match (counts, index) {
            (None, None) => return Ok(Processes { counts: vec![own], index: 0 }),
            (Some(counts), Some(index)) => (counts, index),
            _ => return Err(format!("{COUNTS} and {INDEX} have to be set together")),
        };
        let parsed: Result<Vec<usize>, _> = counts.split(',').map(|it| it.trim().parse()).collect();
        let counts = parsed.map_err(|_| format!("invalid {COUNTS}: {counts}"))?;
        let index: usize = index.parse().map_err(|_| format!("invalid {INDEX}: {index}"))?;
        match counts.get(index) {
            Some(count) if *count == own => Ok(Processes { counts, index }),
            Some(count) => {
                Err(format!("{COUNTS} has {count} devices of this process, which has {own}"))
            }
            None => Err(format!("{INDEX} is {index}, and {COUNTS} has {} processes", counts.len())),
        }
    }

    /// The cores of all processes.
    pub(super) fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    fn is_alone(&self) -> bool {
        self.counts.len() == 1
    }

    fn first(&self) -> usize {
        self.counts[..self.index].iter().sum()
    }

    fn own(&self) -> usize {
        self.counts[self.index]
    }

    /// The process of the device with this id.
    fn of_device(&self, id: usize) -> usize {
        let mut end = 0;
        let ends = self.counts.iter().map(|count| {
            end += count;
            end
        });
        ends.take_while(|end| *end <= id).count()
    }

    /// Waits until all processes have met at the root's address. Where another program has its port, they wait in vain.
    pub(super) fn meet(&self, limit: Duration) -> Result<(), String> {
        if self.is_alone() {
            return Ok(());
        }
        let root = std::env::var(ROOT).map_err(|_| format!("NRT_INVALID: {ROOT} is not set"))?;
        let met = match self.index {
            0 => self.gather(&root, Instant::now() + limit),
            _ => self.join(&root, Instant::now() + limit),
        };
        met.map_err(|_| {
            format!("Timeout waiting for incoming connection (waited {} sec)", limit.as_secs())
        })
    }

    fn gather(&self, root: &str, deadline: Instant) -> io::Result<()> {
        let listener = again(deadline, || TcpListener::bind(root))?;
        listener.set_nonblocking(true)?;
        let others = (1..self.counts.len()).map(|_| again(deadline, || Ok(listener.accept()?.0)));
        let others: io::Result<Vec<TcpStream>> = others.collect();
        others?.iter_mut().try_for_each(|other| other.write_all(&[1]))
    }

    fn join(&self, root: &str, deadline: Instant) -> io::Result<()> {
        let address = root.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
        let mut stream = again(deadline, || TcpStream::connect(address))?;
        let left = deadline.saturating_duration_since(Instant::now()).max(RETRY);
        stream.set_read_timeout(Some(left))?;
        stream.read_exact(&mut [0])
    }
}

/// Tries until the deadline.
fn again<T>(deadline: Instant, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => thread::sleep(RETRY),
            result => return result,
        }
    }
}

fn processes() -> Option<&'static Processes> {
    STARTED.get().map(|started| &started.processes).filter(|processes| !processes.is_alone())
}

/// Answers entries about processes and devices. `None` for others, and if this process is alone.
///
/// # Safety
/// `args` are the arguments of the entry `name`, which `pass_on` calls.
pub(super) unsafe fn answer(
    name: &str,
    args: *mut c_void,
    pass_on: impl Fn() -> *mut c_void,
) -> Option<*mut c_void> {
    let processes = processes()?;
    // SAFETY: the promise above, here and below.
    unsafe {
        match name {
            "PJRT_Client_ProcessIndex" => {
                let error = pass_on();
                (*args.cast::<SubjectNumber>()).number = processes.index as c_int;
                Some(error)
            }
            "PJRT_DeviceDescription_ProcessIndex" => {
                let error = pass_on();
                let args = &mut *args.cast::<SubjectNumber>();
                args.number = processes.of_device(description_id(args.subject)) as c_int;
                Some(error)
            }
            "PJRT_Device_LocalHardwareId" => {
                let error = pass_on();
                let args = &mut *args.cast::<SubjectNumber>();
                let id = args.number as usize;
                // Those of other processes are not known.
                let is_own = processes.of_device(id) == processes.index;
                args.number = if is_own { (id - processes.first()) as c_int } else { -1 };
                Some(error)
            }
            "PJRT_Client_AddressableDevices" | "PJRT_LoadedExecutable_AddressableDevices" => {
                let error = pass_on();
                keep_own(processes, &mut *args.cast::<SubjectList>());
                Some(error)
            }
            "PJRT_LoadedExecutable_Execute" => refuse_execution(processes, args),
            _ => None,
        }
    }
}

/// Keeps the devices of this process, which follow each other.
///
/// # Safety
/// `list` is one of devices.
unsafe fn keep_own(processes: &Processes, list: &mut SubjectList) {
    // SAFETY: the plugin returned a list of devices.
    let is_own = |place: &usize| unsafe {
        processes.of_device(device_id(*list.items.add(*place))) == processes.index
    };
    let own: Vec<usize> = (0..list.count).filter(is_own).collect();
    list.count = own.len();
    if let Some(first) = own.first() {
        // SAFETY: it is a place in the list.
        list.items = unsafe { list.items.add(*first) };
    }
}

/// # Safety
/// `args` are those of `PJRT_LoadedExecutable_Execute`.
unsafe fn refuse_execution(processes: &Processes, args: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: the promise above: the executable comes first.
    let subject = unsafe { (*args.cast::<SubjectPointer>()).subject };
    let mut list = SubjectList::of(subject);
    let entry = place("PJRT_LoadedExecutable_AddressableDevices");
    // SAFETY: these are the arguments of that entry.
    unsafe { inner(entry)((&raw mut list).cast()) };
    (list.count > processes.own())
        .then(|| errors::unimplemented("the twin executes no programs of several processes"))
}

/// # Safety
/// `device` is a device of the wrapped plugin.
unsafe fn device_id(device: *mut c_void) -> usize {
    let mut args = SubjectPointer::of(device);
    // SAFETY: these are the arguments of that entry.
    unsafe {
        inner(place("PJRT_Device_GetDescription"))((&raw mut args).cast());
        description_id(args.result)
    }
}

/// # Safety
/// `description` is one of a device of the wrapped plugin.
unsafe fn description_id(description: *mut c_void) -> usize {
    let mut args = SubjectNumber::of(description);
    // SAFETY: these are the arguments of that entry.
    unsafe { inner(place("PJRT_DeviceDescription_Id"))((&raw mut args).cast()) };
    args.number as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_belong_to_processes_by_their_numbers() {
        let parse = |index: &str| Processes::parse(Some("2,4"), Some(index), 4);
        let second = parse("1").unwrap();
        assert_eq!((second.total(), second.first(), second.own()), (6, 2, 4));
        assert_eq!((0..6).map(|id| second.of_device(id)).collect::<Vec<_>>(), [0, 0, 1, 1, 1, 1]);
        assert!(parse("0").unwrap_err().contains("2 devices of this process, which has 4"));
        assert!(parse("2").unwrap_err().contains("2 processes"));
        assert!(Processes::parse(Some("2,2"), None, 2).unwrap_err().contains("set together"));
        assert!(Processes::parse(None, None, 3).unwrap().is_alone());
    }
}
