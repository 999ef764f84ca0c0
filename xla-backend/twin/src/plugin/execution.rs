//! Executes programs of several processes. The wrapped plugin has no collectives across processes: each process
//! computes the replicas of all, from the arguments that the processes exchange before, and returns the results of its
//! own.

use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::behaviour::STARTED;
use super::errors::{self, INTERNAL};
use super::failures::time_limit;
use super::processes::{self, Processes};
use super::records::{
    BufferShape, Execute, FromHost, SubjectList, SubjectNumber, SubjectPointer, ToHost,
};
use super::table::{Failure, call, call_on};

/// The wrapped plugin's client, which makes the buffers of other processes.
static CLIENT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Notes the client that was made.
pub(super) fn note_client(client: *mut c_void) {
    CLIENT.store(client, Ordering::Relaxed);
}

/// Executes a program that has replicas of other processes. `None` for other programs.
///
/// # Safety
/// `args` are those of `PJRT_LoadedExecutable_Execute`.
pub(super) unsafe fn execute(args: *mut c_void) -> Option<*mut c_void> {
    let processes = processes::several()?;
    // SAFETY: the promise above, here and below.
    unsafe {
        let args = &mut *args.cast::<Execute>();
        let devices = processes::devices_of(args.executable);
        let own: Vec<usize> =
            (0..devices.len()).filter(|at| processes.has_device(devices[*at])).collect();
        if own.len() == devices.len() {
            return None;
        }
        let answer = execute_all(processes, args, &devices, &own);
        Some(answer.err().unwrap_or(std::ptr::null_mut()))
    }
}

/// # Safety
/// `args` are those of an execution on `devices`, of which the places `own` are this process's.
unsafe fn execute_all(
    processes: &Processes,
    args: &mut Execute,
    devices: &[*mut c_void],
    own: &[usize],
) -> Result<(), Failure> {
    // SAFETY: the promise above, here and below.
    unsafe {
        let lists: Vec<&[*mut c_void]> = (0..args.devices)
            .map(|at| std::slice::from_raw_parts(*args.arguments.add(at), args.count))
            .collect();
        let first = lists.first().copied().unwrap_or_default();
        let mut sent = Vec::new();
        for buffer in lists.iter().copied().flatten() {
            sent.extend(bytes(*buffer)?);
        }
        let received = processes.exchange(&sent, time_limit()).map_err(not_exchanged)?;
        let mut replicas = Replicas::new(devices.len(), outputs(args.executable)?);
        let mut places = vec![0; received.len()];
        for (at, device) in devices.iter().enumerate() {
            if let Some(index) = own.iter().position(|own| *own == at) {
                replicas.arguments.push(lists[index].to_vec());
                continue;
            }
            let process = processes.of(*device);
            let behind = received[process].get(places[process]..).unwrap_or_default();
            let (made, size) = buffers(first, behind, *device)?;
            places[process] += size;
            replicas.made.extend(&made);
            replicas.arguments.push(made);
        }
        replicas.run(args, own)
    }
}

/// Arguments, results and events of all replicas. Those of other processes are destroyed in the end.
struct Replicas {
    arguments: Vec<Vec<*mut c_void>>,
    outputs: Vec<Vec<*mut c_void>>,
    events: Vec<*mut c_void>,
    /// Buffers of other processes' arguments.
    made: Vec<*mut c_void>,
}

impl Replicas {
    fn new(count: usize, outputs: usize) -> Replicas {
        let null = std::ptr::null_mut();
        let outputs = vec![vec![null; outputs]; count];
        Replicas { arguments: Vec::new(), outputs, events: vec![null; count], made: Vec::new() }
    }

    /// # Safety
    /// `args` are those of an execution, of whose replicas the places `own` are this process's.
    unsafe fn run(mut self, args: &Execute, own: &[usize]) -> Result<(), Failure> {
        let arguments: Vec<_> = self.arguments.iter().map(Vec::as_ptr).collect();
        let outputs: Vec<_> = self.outputs.iter_mut().map(Vec::as_mut_ptr).collect();
        let mut all = *args;
        (all.arguments, all.devices) = (arguments.as_ptr(), arguments.len());
        (all.outputs, all.events) = (outputs.as_ptr(), self.events.as_mut_ptr());
        // SAFETY: these are the arguments of that entry; its lists live until the call has returned, and the caller's
        // lists have a place for each of its replicas.
        unsafe {
            call("PJRT_LoadedExecutable_Execute", (&raw mut all).cast())?;
            for (index, at) in own.iter().enumerate() {
                let outputs = std::mem::take(&mut self.outputs[*at]);
                let list = *args.outputs.add(index);
                list.copy_from_nonoverlapping(outputs.as_ptr(), outputs.len());
                if !args.events.is_null() {
                    let event = std::mem::replace(&mut self.events[*at], std::ptr::null_mut());
                    *args.events.add(index) = event;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        let buffers = self.outputs.iter().flatten().chain(&self.made);
        let named = buffers.map(|buffer| ("PJRT_Buffer_Destroy", *buffer));
        let events = self.events.iter().map(|event| ("PJRT_Event_Destroy", *event));
        for (name, subject) in named.chain(events).filter(|(_, subject)| !subject.is_null()) {
            // SAFETY: the wrapped plugin made them, and nothing else has them.
            let _ = unsafe { call_on(name, subject) };
        }
    }
}

/// The bytes of a buffer, row by row.
///
/// # Safety
/// `buffer` is one of the wrapped plugin.
unsafe fn bytes(buffer: *mut c_void) -> Result<Vec<u8>, Failure> {
    let mut args = ToHost::of(buffer);
    // SAFETY: these are the arguments of that entry: the first call asks for the size, and the copy ends before `data`.
    unsafe {
        call("PJRT_Buffer_ToHostBuffer", (&raw mut args).cast())?;
        let mut data = vec![0; args.size];
        args.data = data.as_mut_ptr().cast();
        call("PJRT_Buffer_ToHostBuffer", (&raw mut args).cast())?;
        wait(args.event)?;
        Ok(data)
    }
}

/// Makes buffers like others on a device, one after the other from `data`. Returns their size, too.
///
/// # Safety
/// `like` are buffers, and `device` is a device of the wrapped plugin.
unsafe fn buffers(
    like: &[*mut c_void],
    data: &[u8],
    device: *mut c_void,
) -> Result<(Vec<*mut c_void>, usize), Failure> {
    let (mut made, mut start) = (Vec::new(), 0);
    for buffer in like {
        let mut kind = SubjectNumber::of(*buffer);
        let (mut dims, mut size) = (SubjectList::of(*buffer), ToHost::of(*buffer));
        // SAFETY: these are the arguments of those entries; the data are copied during the call.
        unsafe {
            call("PJRT_Buffer_ElementType", (&raw mut kind).cast())?;
            call("PJRT_Buffer_Dimensions", (&raw mut dims).cast())?;
            call("PJRT_Buffer_ToHostBuffer", (&raw mut size).cast())?;
            let own = data.get(start..start + size.size).ok_or_else(other_arguments)?;
            let client = CLIENT.load(Ordering::Relaxed);
            let (kind, dims, rank) = (kind.number, dims.items.cast(), dims.count);
            let shape = BufferShape { kind, dims, rank };
            let mut args = FromHost::of(client, device, own.as_ptr().cast(), shape);
            call("PJRT_Client_BufferFromHostBuffer", (&raw mut args).cast())?;
            wait(args.done)?;
            made.push(args.buffer);
            start += size.size;
        }
    }
    Ok((made, start))
}

/// Waits for an event and destroys it.
///
/// # Safety
/// `event` is one of the wrapped plugin that nothing else has.
unsafe fn wait(event: *mut c_void) -> Result<(), Failure> {
    // SAFETY: these are the arguments of those entries.
    unsafe {
        let waited = call_on("PJRT_Event_Await", event);
        call_on("PJRT_Event_Destroy", event)?;
        waited
    }
}

/// The number of results of each replica.
///
/// # Safety
/// `executable` is a loaded executable of the wrapped plugin.
unsafe fn outputs(executable: *mut c_void) -> Result<usize, Failure> {
    let mut args = SubjectPointer::of(executable);
    // SAFETY: these are the arguments of those entries.
    unsafe {
        call("PJRT_LoadedExecutable_GetExecutable", (&raw mut args).cast())?;
        let mut count = SubjectPointer::of(args.result);
        call("PJRT_Executable_NumOutputs", (&raw mut count).cast())?;
        call_on("PJRT_Executable_Destroy", args.result)?;
        Ok(count.result as usize)
    }
}

/// The runtime's error where another process did not take part.
fn not_exchanged(error: io::Error) -> Failure {
    let is_late = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    let text = match STARTED.get() {
        Some(started) if is_late => super::failures::late(started, time_limit()),
        _ => format!("nrt_execute failed: NRT_NETWORK_PROXY_FAILURE status=1206 ({error})"),
    };
    errors::new(INTERNAL, &text)
}

fn other_arguments() -> Failure {
    errors::new(INTERNAL, "nrt_execute failed: NRT_EXEC_BAD_INPUT status=1002")
}
