//! Running an executable on all of its devices at once.
#![allow(unsafe_code)]

use super::arguments;
use crate::buffer::{Buffer, read_shape};
use crate::dtype::Shape;
use crate::error::Result;
use crate::event::Event;
use crate::ffi::{CStruct, ExecuteOptionsStruct, LoadedExecutableExecuteArgs, RawBuffer, RawEvent};
use crate::handle::Handle;
use crate::program::Executable;
use std::borrow::Borrow;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Settings of one execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecuteOptions {
    /// Identifies the launch: devices that meet in a collective must be of one
    /// launch, and where several hosts take part, all of them give the same.
    /// `None` counts up within this process.
    pub launch_id: Option<i32>,
    /// Arguments which the program would take over, and which must stay.
    pub non_donatable_inputs: Vec<usize>,
}

/// The results of an execution on one device. The buffers can be used at once, before
/// the device is done.
#[derive(Debug)]
pub struct DeviceOutputs {
    /// The results of the program, in their order.
    pub buffers: Vec<Buffer>,
    /// Ready when the device has run the whole program, or failed to.
    pub done: Event,
}

impl Executable {
    /// Starts the program on its devices: `arguments[device][argument]`, devices in
    /// the order of [`Executable::devices`]. Arguments that the program donates are
    /// deleted when this returns.
    ///
    /// Plugins start devices one by one. Where one of several is refused, the others
    /// wait for it in their collectives, and so do all launches after that. So what
    /// can be checked is checked first, and once the plugin refuses a program of
    /// several devices, the client starts no more of them.
    pub fn execute<L, B>(
        &self,
        arguments: &[L],
        options: &ExecuteOptions,
    ) -> Result<Vec<DeviceOutputs>>
    where
        L: AsRef<[B]>,
        B: Borrow<Buffer>,
    {
        let launched = self.checked_launch(arguments, options, Completion::Events)?;
        self.own_outputs(launched)
    }

    /// Starts the program without asking for events of completion, which not every plugin allows, and returns the
    /// results of each device: to find out what a plugin does then. Everything else asks for them.
    pub fn execute_without_events<L, B>(&self, arguments: &[L]) -> Result<Vec<Vec<Buffer>>>
    where
        L: AsRef<[B]>,
        B: Borrow<Buffer>,
    {
        let launched =
            self.checked_launch(arguments, &ExecuteOptions::default(), Completion::Unknown)?;
        let devices = launched.outputs.into_iter().zip(&self.device_indices);
        devices.map(|(buffers, &device)| self.own_buffers(buffers, device)).collect()
    }

    fn checked_launch<L, B>(
        &self,
        arguments: &[L],
        options: &ExecuteOptions,
        completion: Completion,
    ) -> Result<Launched>
    where
        L: AsRef<[B]>,
        B: Borrow<Buffer>,
    {
        arguments::check(self, arguments)?;
        self.launch(&pointer_lists(arguments), options, completion).map_err(|error| {
            if self.num_devices() > 1 {
                // Only the first cause counts.
                let _ = self.client.launch_failure.set(error.to_string());
            }
            arguments::find_deleted(arguments).unwrap_or(error)
        })
    }

    fn launch(
        &self,
        argument_lists: &[Vec<*mut RawBuffer>],
        options: &ExecuteOptions,
        completion: Completion,
    ) -> Result<Launched> {
        let num_devices = argument_lists.len();
        let mut launched = Launched {
            outputs: vec![vec![ptr::null_mut(); self.program().num_outputs()]; num_devices],
            events: vec![ptr::null_mut(); num_devices],
        };
        let arguments: Vec<_> = argument_lists.iter().map(Vec::as_ptr).collect();
        let outputs: Vec<_> = launched.outputs.iter_mut().map(Vec::as_mut_ptr).collect();
        let kept: Vec<i64> = options.non_donatable_inputs.iter().map(|&i| i as i64).collect();
        let mut raw_options = ExecuteOptionsStruct {
            launch_id: options.launch_id.unwrap_or_else(next_launch_id),
            non_donatable_input_indices: kept.as_ptr(),
            num_non_donatable_input_indices: kept.len(),
            ..ExecuteOptionsStruct::new()
        };
        let mut args = LoadedExecutableExecuteArgs {
            executable: self.loaded.as_ptr(),
            options: &raw mut raw_options,
            argument_lists: arguments.as_ptr(),
            num_devices,
            num_args: argument_lists.first().map_or(0, Vec::len),
            output_lists: outputs.as_ptr(),
            device_complete_events: match completion {
                Completion::Events => launched.events.as_mut_ptr(),
                Completion::Unknown => ptr::null_mut(),
            },
            ..LoadedExecutableExecuteArgs::new()
        };
        // SAFETY: every list has the length that is given for it, all buffers are
        // live and of this client, and all of it outlives the call.
        unsafe { self.client.plugin().call(&mut args) }?;
        Ok(launched)
    }

    fn own_outputs(&self, launched: Launched) -> Result<Vec<DeviceOutputs>> {
        let devices = launched.outputs.into_iter().zip(launched.events);
        devices
            .zip(&self.device_indices)
            .map(|((buffers, event), &device_index)| {
                let buffers = self.own_buffers(buffers, device_index)?;
                // SAFETY: the execution gave us this event to own.
                let done =
                    unsafe { Event::new::<LoadedExecutableExecuteArgs>(&self.client, event) }?;
                Ok(DeviceOutputs { buffers, done })
            })
            .collect()
    }

    fn own_buffers(
        &self,
        pointers: Vec<*mut RawBuffer>,
        device_index: usize,
    ) -> Result<Vec<Buffer>> {
        let own = |pointer| {
            // SAFETY: the execution gave us this buffer to own.
            unsafe { Handle::new::<LoadedExecutableExecuteArgs>(self.client.plugin(), pointer) }
        };
        let handles = pointers.into_iter().map(own).collect::<Result<Vec<_>>>()?;
        let shapes = self.shapes_of_outputs(&handles)?;
        let buffers = handles.into_iter().zip(shapes).map(|(handle, shape)| Buffer {
            handle,
            shape: Arc::clone(shape),
            device_index,
            client: Arc::clone(&self.client),
        });
        Ok(buffers.collect())
    }

    /// Outputs have the same shapes every time, so that the plugin is asked once.
    fn shapes_of_outputs(&self, outputs: &[Handle<RawBuffer>]) -> Result<&[Arc<Shape>]> {
        if let Some(shapes) = self.output_shapes.get() {
            return Ok(shapes);
        }
        let shapes = outputs.iter().map(|output| read_shape(output).map(Arc::new));
        let shapes = shapes.collect::<Result<_>>()?;
        Ok(self.output_shapes.get_or_init(|| shapes))
    }
}

/// How a launch says that its devices are done.
#[derive(Clone, Copy)]
enum Completion {
    /// By an event of each device.
    Events,
    /// Not at all, besides by the readiness of its results.
    Unknown,
}

struct Launched {
    outputs: Vec<Vec<*mut RawBuffer>>,
    events: Vec<*mut RawEvent>,
}

/// Another number for each launch, by which kernels know it. Never 0, which stands for no launch at all.
fn next_launch_id() -> i32 {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    (NEXT.fetch_add(1, Ordering::Relaxed) & i32::MAX).max(1)
}

fn pointer_lists<L, B>(arguments: &[L]) -> Vec<Vec<*mut RawBuffer>>
where
    L: AsRef<[B]>,
    B: Borrow<Buffer>,
{
    arguments
        .iter()
        .map(|list| list.as_ref().iter().map(|buffer| buffer.borrow().handle.as_ptr()).collect())
        .collect()
}
