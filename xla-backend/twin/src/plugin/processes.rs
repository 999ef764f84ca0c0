//! Several processes, each of which drives some of the cores: how they meet and exchange bytes, and whose a device is.

use std::ffi::{c_int, c_void};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::behaviour::STARTED;
use super::records::{SubjectList, SubjectNumber, SubjectPointer};
use super::table::{inner, place};

const COUNTS: &str = "NEURON_PJRT_PROCESSES_NUM_DEVICES";
const INDEX: &str = "NEURON_PJRT_PROCESS_INDEX";
const ROOT: &str = "NEURON_RT_ROOT_COMM_ID";
const RETRY: Duration = Duration::from_millis(5);
/// The words of a twin at the root's port, by which others know that it is a twin's.
const GREETING: &[u8; 4] = b"twin";
const GREETING_MAX: Duration = Duration::from_secs(1);

/// The number of cores of each process, and which of them this one is.
#[derive(Debug)]
pub(super) struct Processes {
    counts: Vec<usize>,
    index: usize,
    /// Connections to the others from the first process, in their order; to that one from another.
    links: Mutex<Vec<TcpStream>>,
}

impl Processes {
    /// The processes of the environment for a process with `own` cores: this one alone if the variables are not set.
    pub(super) fn of_environment(own: usize) -> Result<Processes, String> {
        let [counts, index] = [COUNTS, INDEX].map(|name| std::env::var(name).ok());
        Processes::parse(counts.as_deref(), index.as_deref(), own)
    }

    fn parse(counts: Option<&str>, index: Option<&str>, own: usize) -> Result<Processes, String> {
        let (counts, index) = match (counts, index) {
            (None, None) => return Ok(Processes::new(vec![own], 0)),
            (Some(counts), Some(index)) => (counts, index),
            _ => return Err(format!("{COUNTS} and {INDEX} have to be set together")),
        };
        let parsed: Result<Vec<usize>, _> = counts.split(',').map(|it| it.trim().parse()).collect();
        let counts = parsed.map_err(|_| format!("invalid {COUNTS}: {counts}"))?;
        let index: usize = index.parse().map_err(|_| format!("invalid {INDEX}: {index}"))?;
        match counts.get(index) {
            Some(count) if *count == own => Ok(Processes::new(counts, index)),
            Some(count) => {
                Err(format!("{COUNTS} has {count} devices of this process, which has {own}"))
            }
            None => Err(format!("{INDEX} is {index}, and {COUNTS} has {} processes", counts.len())),
        }
    }

    fn new(counts: Vec<usize>, index: usize) -> Processes {
        Processes { counts, index, links: Mutex::default() }
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

    /// The process of the device with this id.
    fn of_device(&self, id: usize) -> usize {
        let mut end = 0;
        let ends = self.counts.iter().map(|count| {
            end += count;
            end
        });
        ends.take_while(|end| *end <= id).count()
    }

    /// Takes the root's port for the collectives of one process, once, as the runtime does: several processes have met
    /// there. Where another program has the port, it waits in vain. Twins share theirs.
    pub(super) fn open_root(&self, limit: Duration) -> Result<(), String> {
        static IS_OPEN: Mutex<bool> = Mutex::new(false);
        let root = std::env::var(ROOT).map_err(|_| format!("NRT_INVALID: {ROOT} is not set"))?;
        let mut is_open = IS_OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_alone() && !*is_open {
            again(Instant::now() + limit, || share(&root)).map_err(|_| in_vain(limit))?;
            *is_open = true;
        }
        Ok(())
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
        met.map_err(|_| in_vain(limit))
    }

    fn gather(&self, root: &str, deadline: Instant) -> io::Result<()> {
        let listener = again(deadline, || TcpListener::bind(root))?;
        listener.set_nonblocking(true)?;
        let mut others = Vec::new();
        for _ in 1..self.counts.len() {
            let mut other = again(deadline, || Ok(listener.accept()?.0))?;
            other.set_nonblocking(false)?;
            other.set_read_timeout(Some(left(deadline)))?;
            others.push((read_number(&mut other)?, other));
        }
        others.sort_by_key(|(index, _)| *index);
        let mut links: Vec<TcpStream> = others.into_iter().map(|(_, other)| other).collect();
        links.iter_mut().try_for_each(|other| other.write_all(&[1]))?;
        self.keep(links);
        Ok(())
    }

    fn join(&self, root: &str, deadline: Instant) -> io::Result<()> {
        let address = root.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
        let mut stream = again(deadline, || TcpStream::connect(address))?;
        stream.set_read_timeout(Some(left(deadline)))?;
        stream.write_all(&(self.index as u64).to_le_bytes())?;
        stream.read_exact(&mut [0])?;
        self.keep(vec![stream]);
        Ok(())
    }

    fn keep(&self, links: Vec<TcpStream>) {
        *self.links.lock().unwrap_or_else(PoisonError::into_inner) = links;
    }

    /// Sends bytes to all other processes, and returns those of each, its own included. All processes call it in the
    /// same order.
    pub(super) fn exchange(&self, own: &[u8], limit: Duration) -> io::Result<Vec<Vec<u8>>> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.iter().try_for_each(|link| link.set_read_timeout(Some(limit)))?;
        if self.index > 0 {
            let root = links.first_mut().ok_or(io::ErrorKind::NotConnected)?;
            send(root, own)?;
            return self.counts.iter().map(|_| receive(root)).collect();
        }
        let others: io::Result<Vec<Vec<u8>>> = links.iter_mut().map(receive).collect();
        let all: Vec<Vec<u8>> = std::iter::once(own.to_vec()).chain(others?).collect();
        for link in links.iter_mut() {
            all.iter().try_for_each(|bytes| send(link, bytes))?;
        }
        Ok(all)
    }

    /// The process of a device of the wrapped plugin.
    ///
    /// # Safety
    /// `device` is such a device.
    pub(super) unsafe fn of(&self, device: *mut c_void) -> usize {
        // SAFETY: the promise above.
        self.of_device(unsafe { device_id(device) })
    }

    /// Whether a device is this process's.
    ///
    /// # Safety
    /// `device` is a device of the wrapped plugin.
    pub(super) unsafe fn has_device(&self, device: *mut c_void) -> bool {
        // SAFETY: the promise above.
        unsafe { self.of(device) == self.index }
    }
}

fn send(link: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    link.write_all(&(bytes.len() as u64).to_le_bytes())?;
    link.write_all(bytes)
}

fn receive(link: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; read_number(link)? as usize];
    link.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_number(link: &mut TcpStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    link.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The runtime's words where a process met no other.
fn in_vain(limit: Duration) -> String {
    format!("Timeout waiting for incoming connection (waited {} sec)", limit.as_secs())
}

/// Takes an address until this process ends, unless another twin has it.
fn share(root: &str) -> io::Result<()> {
    let Ok(listener) = TcpListener::bind(root) else { return greet(root) };
    thread::spawn(move || {
        for mut other in listener.incoming().flatten() {
            let _ = other.write_all(GREETING);
        }
    });
    Ok(())
}

/// Whether a twin has an address.
fn greet(root: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(root)?;
    stream.set_read_timeout(Some(GREETING_MAX))?;
    let mut said = [0; GREETING.len()];
    stream.read_exact(&mut said)?;
    if said == *GREETING { Ok(()) } else { Err(io::ErrorKind::AddrInUse.into()) }
}

/// The time to the deadline; streams take no limit of zero.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(RETRY)
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

/// The processes, if this one is not alone.
pub(super) fn several() -> Option<&'static Processes> {
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
    let processes = several()?;
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
                // Devices of other processes are not known.
                let is_own = processes.of_device(id) == processes.index;
                args.number = if is_own { (id - processes.first()) as c_int } else { -1 };
                Some(error)
            }
            "PJRT_Client_AddressableDevices" | "PJRT_LoadedExecutable_AddressableDevices" => {
                let error = pass_on();
                keep_own(processes, &mut *args.cast::<SubjectList>());
                Some(error)
            }
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
    let is_own = |place: &usize| unsafe { processes.has_device(*list.items.add(*place)) };
    let own: Vec<usize> = (0..list.count).filter(is_own).collect();
    list.count = own.len();
    if let Some(first) = own.first() {
        // SAFETY: it is a place in the list.
        list.items = unsafe { list.items.add(*first) };
    }
}

/// The devices of an executable, those of other processes included.
///
/// # Safety
/// `executable` is a loaded executable of the wrapped plugin.
pub(super) unsafe fn devices_of(executable: *mut c_void) -> Vec<*mut c_void> {
    let mut list = SubjectList::of(executable);
    let entry = place("PJRT_LoadedExecutable_AddressableDevices");
    // SAFETY: these are the arguments of that entry, which returns a list of that many devices.
    unsafe {
        inner(entry)((&raw mut list).cast());
        (0..list.count).map(|at| *list.items.add(at)).collect()
    }
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
        assert_eq!((second.total(), second.first()), (6, 2));
        assert_eq!((0..6).map(|id| second.of_device(id)).collect::<Vec<_>>(), [0, 0, 1, 1, 1, 1]);
        assert!(parse("0").unwrap_err().contains("2 devices of this process, which has 4"));
        assert!(parse("2").unwrap_err().contains("2 processes"));
        assert!(Processes::parse(Some("2,2"), None, 2).unwrap_err().contains("set together"));
        assert!(Processes::parse(None, None, 3).unwrap().is_alone());
    }

    #[test]
    fn processes_exchange_what_they_have() {
        let root = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let deadline = Instant::now() + Duration::from_secs(180);
        let run = |index: usize| {
            let processes = Processes::new(vec![1; 3], index);
            match index {
                0 => processes.gather(&root, deadline).unwrap(),
                _ => processes.join(&root, deadline).unwrap(),
            }
            // The bytes of each process have another size, and one has none.
            let own = |index: usize| vec![index as u8; 100_000 * index];
            let found = processes.exchange(&own(index), Duration::from_secs(180)).unwrap();
            assert!(found == [own(0), own(1), own(2)], "process {index}");
            processes
        };
        let run = &run;
        thread::scope(|scope| {
            let others = [1, 2].map(|index| scope.spawn(move || run(index)));
            let first = run(0);
            let others = others.map(|other| other.join().unwrap());
            drop(others);
            // The others ended.
            assert!(first.exchange(&[], Duration::from_secs(20)).is_err());
        });
    }
}
