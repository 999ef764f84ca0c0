//! The functions that the twin answers itself.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use traind_neuron::Version;

use super::compiling::{compile, rounding_seed};
use super::errors::{self, INTERNAL, INVALID_ARGUMENT, RESOURCE_EXHAUSTED};
use super::failures::injected;
use super::processes::{self, Processes};
use super::records::*;
use super::table::{INNER_PLUGIN, inner, place};
use super::{execution, limit, serialized, structures};
use crate::machine::hold;
use crate::options::NullEvents;
use crate::{Machine, Options};

const NAMED_VALUE_SIZE: usize = 56;
const INT64: c_int = 1;
/// More than an event needs, so that a few executions show it.
const LEAKED_BYTES: usize = 64 << 10;
const ABSENT: &[&str] = &[
    "PJRT_LoadedExecutable_GetDeviceAssignment",
    "PJRT_Client_CreateBuffersForAsyncHostToDevice",
    "PJRT_Client_CreateUninitializedBuffer",
];
/// Functions of which nothing is public.
const ANALYSIS: &[&str] = &[
    "PJRT_Executable_GetCostAnalysis",
    "PJRT_Executable_GetCompiledMemoryStats",
    "PJRT_Executable_OptimizedProgram",
    "PJRT_TopologyDescription_Create",
    "PJRT_Compile",
];
/// Executables depend on it, and so it names the options that change programs.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let options = STARTED.get().map(|it| it.options.clone()).unwrap_or_default();
    let (version, rounding) = (options.versions().plugin, rounding_seed());
    let Options { inexact, donation, .. } = options;
    format!(
        "{version} (twin that compares indices, inexact={inexact}, donation={donation:?}, rounding={rounding:?})"
    )
});
/// The error of a client whose runtime has said why.
const NO_DEVICES: &str = "PJRT_Client_Create: error condition nullptr != (args)->client->Error(): Init: error \
                          condition !(num_devices > 0):";
const REGISTER: &str = "NEURON_FORCE_PJRT_PLUGIN_REGISTRATION";

/// The facts that a client found when it was made.
pub(super) struct Started {
    pub options: Options,
    pub machine: Machine,
    /// The numbers of its cores on the host.
    pub cores: Vec<u32>,
    /// Whether it holds them: else it only compiles for them.
    pub has_cores: bool,
    pub processes: Processes,
    /// Locks of the cores.
    _held: Vec<File>,
}

impl Started {
    /// The kind of the cores as the plugin names it.
    fn kind(&self) -> &str {
        match self.options.kind.as_str() {
            "" => self.machine.kind.kind,
            kind => kind,
        }
    }
}

pub(super) static STARTED: OnceLock<Started> = OnceLock::new();
/// The one memory of each device.
static MEMORIES: LazyLock<Mutex<HashMap<usize, Box<usize>>>> = LazyLock::new(Mutex::default);

/// Answers a call of an entry.
///
/// # Safety
/// `args` are the arguments of that entry.
pub(super) unsafe fn call(index: usize, name: &str, args: *mut c_void) -> *mut c_void {
    // SAFETY: the caller passes the arguments of this entry, here and below.
    let pass_on = || unsafe { inner(index)(args) };
    let analysis = STARTED.get().is_some_and(|started| started.options.analysis);
    if ABSENT.contains(&name) || (ANALYSIS.contains(&name) && !analysis) {
        return errors::unimplemented(name);
    }
    // SAFETY: as above.
    if let Some(error) = unsafe { structures::of_wrong_size(name, args) } {
        return error;
    }
    // SAFETY: as above.
    if let Some(answer) = unsafe { processes::answer(name, args, pass_on) } {
        return answer;
    }
    // SAFETY: as above.
    unsafe {
        match name {
            "PJRT_Error_Destroy" | "PJRT_Error_Message" | "PJRT_Error_GetCode" => {
                of_error(name, args).unwrap_or_else(pass_on)
            }
            "PJRT_Client_Create" => create(args, pass_on),
            "PJRT_Client_PlatformName" => with_text(args, pass_on, "neuron"),
            "PJRT_Client_PlatformVersion" => with_text(args, pass_on, &VERSION),
            "PJRT_DeviceDescription_Kind" => {
                with_text(args, pass_on, STARTED.get().map_or("", Started::kind))
            }
            "PJRT_Device_LocalHardwareId" => hardware_id(args, pass_on),
            "PJRT_Device_AddressableMemories" => memories(args, pass_on),
            // The same on every device.
            "PJRT_Memory_Id" => {
                let error = pass_on();
                (*args.cast::<SubjectNumber>()).number = 0;
                error
            }
            "PJRT_Device_MemoryStats" => memory_stats(args),
            "PJRT_Client_Compile" => compile(args).unwrap_or_else(pass_on),
            "PJRT_Executable_Serialize" => serialized::stamp(args, pass_on),
            "PJRT_Executable_DeserializeAndLoad" => serialized::load(args, pass_on),
            "PJRT_LoadedExecutable_Execute" if STARTED.get().is_some_and(|it| !it.has_cores) => {
                errors::new(INTERNAL, "nrt_execute failed: NRT_UNINITIALIZED status=13")
            }
            "PJRT_LoadedExecutable_Execute" => {
                if (*args.cast::<Execute>()).events.is_null()
                    && let Err(error) = without_events()
                {
                    return error;
                }
                std::thread::sleep(dispatch_time());
                let start = Instant::now();
                let error = injected().or_else(|| execution::execute(args));
                let error = error.unwrap_or_else(pass_on);
                if error.is_null() {
                    limit::watch(&*args.cast::<Execute>(), start);
                }
                error
            }
            "PJRT_Event_Await" | "PJRT_Event_Error" | "PJRT_Event_OnReady"
            | "PJRT_Event_Destroy" => limit::answer(name, args, pass_on).unwrap_or_else(pass_on),
            _ => pass_on(),
        }
    }
}

/// Refuses an execution that asks for no events of completion, or lets it leak.
fn without_events() -> Result<(), *mut c_void> {
    match STARTED.get().map(|started| started.options.null_events) {
        Some(NullEvents::Works) => Ok(()),
        Some(NullEvents::Leaks) => {
            std::hint::black_box(vec![1_u8; LEAKED_BYTES].leak());
            Ok(())
        }
        _ => {
            let text = "error condition !(args->device_complete_events != nullptr):";
            Err(errors::new(INVALID_ARGUMENT, text))
        }
    }
}

/// The time that an execution takes besides computing.
fn dispatch_time() -> Duration {
    Duration::from_micros(STARTED.get().map_or(0, |started| started.options.dispatch_us))
}

/// # Safety
/// `args` are those of an entry about an error.
unsafe fn of_error(name: &str, args: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: the promise above.
    let error = unsafe { (*args.cast::<OfError>()).error };
    if !errors::is_own(error) {
        return None;
    }
    match name {
        "PJRT_Error_Destroy" => errors::destroy(error),
        // SAFETY: as above.
        "PJRT_Error_GetCode" => unsafe { (*args.cast::<ErrorCode>()).code = errors::code(error) },
        _ => {
            let (text, size) = errors::text(error);
            // SAFETY: as above.
            let args = unsafe { &mut *args.cast::<OfError>() };
            (args.text, args.size) = (text, size);
        }
    }
    Some(std::ptr::null_mut())
}

/// # Safety
/// `args` are those of `PJRT_Client_Create`.
unsafe fn create(args: *mut c_void, pass_on: impl Fn() -> *mut c_void) -> *mut c_void {
    let cores = match start() {
        Ok(cores) => cores,
        Err((code, text)) => return errors::new(code, &text),
    };
    let option = NamedValue {
        head: [NAMED_VALUE_SIZE, 0],
        name: c"cpu_device_count".as_ptr(),
        name_size: c"cpu_device_count".count_bytes(),
        kind: INT64,
        value: cores as i64,
        value_size: 1,
    };
    // SAFETY: the promise above; the option lives until the call returns.
    let create = unsafe { &mut *args.cast::<ClientCreate>() };
    (create.options, create.count) = (&raw const option, 1);
    let error = pass_on();
    (create.options, create.count) = (std::ptr::null(), 0);
    execution::note_client(create.client);
    error
}

/// Initializes the runtime, once, and returns the number of cores of all processes.
fn start() -> Result<usize, (c_int, String)> {
    if let Some(started) = STARTED.get() {
        return Ok(started.processes.total());
    }
    let invalid = |text: String| (INVALID_ARGUMENT, text);
    let options = Options::of_environment().map_err(invalid)?;
    check_version(options.version_2).map_err(invalid)?;
    let of_runtime = |text: String| errors::logged(&options, text, NO_DEVICES);
    let driver = check_driver(&options.driver, options.runtime().map_err(invalid)?);
    driver.map_err(|text| invalid(of_runtime(text)))?;
    let machine = Machine::of_environment(&options).map_err(invalid)?;
    let [visible, count] =
        ["NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"].map(|name| std::env::var(name).ok());
    let cores = machine.visible(visible.as_deref(), count.as_deref()).map_err(invalid)?;
    std::thread::sleep(Duration::from_millis(options.init_ms));
    let is_registered = std::env::var(REGISTER).is_ok_and(|value| value == "1");
    let has_cores = !(options.compiles_without_cores && is_registered);
    let folder = std::env::var_os("TRAIND_TWIN_LOCKS").map(PathBuf::from).filter(|_| has_cores);
    let held = folder.map(|folder| hold(&folder, &cores, machine.kind)).transpose();
    let held = held.map_err(|text| (RESOURCE_EXHAUSTED, of_runtime(text)))?.unwrap_or_default();
    let processes = Processes::of_environment(cores.len()).map_err(invalid)?;
    let met = processes.meet(Duration::from_millis(options.meet_ms));
    met.map_err(|text| (INTERNAL, of_runtime(text)))?;
    let count = processes.total();
    write_profile().map_err(|error| (INTERNAL, error.to_string()))?;
    register_indices().map_err(|text| (INTERNAL, text))?;
    let _ = STARTED.set(Started { options, machine, cores, has_cores, processes, _held: held });
    Ok(count)
}

/// Lets programs compare their indices.
fn register_indices() -> Result<(), String> {
    let path = std::env::var_os(INNER_PLUGIN).unwrap_or_default();
    super::indices::register(Path::new(&path))
}

/// Writes a file where the runtime writes its profile, if it is to.
fn write_profile() -> std::io::Result<()> {
    let read = |name: &str| std::env::var_os(format!("NEURON_RT_INSPECT_{name}"));
    if read("ENABLE").is_none_or(|value| value != "1") {
        return Ok(());
    }
    let folder = read("OUTPUT_DIR").map_or_else(|| PathBuf::from("output"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("pid_{}.ntrace.pb", std::process::id())), "twin")
}

/// The version that the client asks for has to be the one whose sizes it passes, and one that the plugin serves.
fn check_version(version_2: bool) -> Result<(), String> {
    let plugin = if version_2 { Version::new(2, 2) } else { Version::new(3, 0) };
    let asked = std::env::var("NEURON_INTERNAL_PJRT_C_API_VERSION").unwrap_or_default();
    let asked = Version::parse(&asked);
    let fits = asked == Some(traind_neuron::CLIENT_API)
        && traind_neuron::api_problem(plugin, traind_neuron::CLIENT_API).is_none();
    match fits {
        true => Ok(()),
        false => {
            Err("[PJRT_Client_Create] wrapper: error condition !(args->struct_size == ss):"
                .to_owned())
        }
    }
}

/// The runtime refuses drivers that are too old for it.
fn check_driver(driver: &str, runtime: Version) -> Result<(), String> {
    let loaded = Version::parse(driver).ok_or("Unable to determine Neuron Driver version")?;
    match traind_neuron::driver_problem(loaded, runtime) {
        Some(_) => Err(format!(
            "NRT:nrt_init Incompatible Neuron Driver version {driver} for runtime {runtime}"
        )),
        None => Ok(()),
    }
}

/// # Safety
/// `args` have a subject, and a text with its size as results.
unsafe fn with_text(
    args: *mut c_void,
    pass_on: impl Fn() -> *mut c_void,
    text: &'static str,
) -> *mut c_void {
    let error = pass_on();
    // SAFETY: the promise above.
    let args = unsafe { &mut *args.cast::<SubjectText>() };
    (args.text, args.size) = (text.as_ptr().cast(), text.len());
    error
}

/// # Safety
/// `args` are those of `PJRT_Device_LocalHardwareId`.
unsafe fn hardware_id(args: *mut c_void, pass_on: impl Fn() -> *mut c_void) -> *mut c_void {
    let error = pass_on();
    if let Some(started) = STARTED.get().filter(|started| started.options.reversed) {
        // SAFETY: the promise above.
        let args = unsafe { &mut *args.cast::<SubjectNumber>() };
        args.number = started.cores.len() as c_int - 1 - args.number;
    }
    error
}

/// The default memory alone.
///
/// # Safety
/// `args` are those of `PJRT_Device_AddressableMemories`.
unsafe fn memories(args: *mut c_void, pass_on: impl Fn() -> *mut c_void) -> *mut c_void {
    let error = pass_on();
    // SAFETY: the promise above.
    let args = unsafe { &mut *args.cast::<Memories>() };
    let mut default = SubjectPointer::of(args.device);
    // SAFETY: these are the arguments of that entry.
    let failed = unsafe { inner(place("PJRT_Device_DefaultMemory"))((&raw mut default).cast()) };
    if !failed.is_null() || default.result.is_null() {
        return error;
    }
    let mut known = MEMORIES.lock().unwrap_or_else(PoisonError::into_inner);
    let list =
        known.entry(args.device as usize).or_insert_with(|| Box::new(default.result as usize));
    (args.memories, args.count) = ((&raw const **list).cast(), 1);
    error
}

/// # Safety
/// `args` are those of `PJRT_Device_MemoryStats`.
unsafe fn memory_stats(args: *mut c_void) -> *mut c_void {
    let limit = STARTED.get().map_or(0, |started| started.machine.kind.memory_bytes as i64);
    // SAFETY: the promise above.
    let stats = unsafe { &mut *args.cast::<MemoryStats>() };
    (stats.in_use, stats.limit, stats.has_limit) = (0, limit, true);
    std::ptr::null_mut()
}
