//! Probes what a plugin can do, once a client, by running tiny programs: the presence
//! of an entry says little, since many answer UNIMPLEMENTED.

use crate::capabilities::Capabilities;
use crate::client::Client;
use crate::device::Device;
use crate::error::{Result, if_implemented};
use crate::kernel::{Kernel, KernelCall, KernelError};
use crate::program::{CompileOptions, Executable, ExecuteOptions};

const VALUES: [f32; 4] = [1.0, -2.0, 0.5, 4.0];
const DOUBLED: [f32; 4] = [2.0, -4.0, 1.0, 8.0];
const PROGRAM: &str = "
module @capability_probe {
  func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}";

const CALLING_PROGRAM: &str = "
module @custom_call_probe {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = stablehlo.custom_call @traind.probe(%x)
      {api_version = 4 : i32, backend_config = {factor = 2.0 : f32}}
      : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}";

struct Doubling;

impl Kernel for Doubling {
    const NAME: &'static str = "traind.probe";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let (x, factor) = (call.operand::<f32>(0)?, call.attribute::<f32>("factor")?);
        for (y, x) in call.result::<f32>(0)?.iter_mut().zip(x) {
            *y = factor * x;
        }
        Ok(())
    }
}

impl Client {
    /// Compiles and runs a program of one instruction on the first device, the
    /// first time it is asked. An error here means that nothing would run.
    pub fn capabilities(&self) -> Result<&Capabilities> {
        if let Some(known) = self.0.capabilities.get() {
            return Ok(known);
        }
        let found = self.probe()?;
        Ok(self.0.capabilities.get_or_init(|| found))
    }

    fn probe(&self) -> Result<Capabilities> {
        let executable = self.compile(PROGRAM, &CompileOptions::default())?;
        let device = executable.devices().next();
        let device = device.as_ref();
        let program = executable.program();
        Ok(Capabilities {
            donation: self.probe_donation(&executable, device)?,
            executable_serialization: self.probe_serialization(&executable, device),
            cost_analysis: program.cost_analysis()?.is_some(),
            compiled_memory_stats: program.compiled_memory_stats()?.is_some(),
            optimized_program: if_implemented(program.optimized_program())?.is_some(),
            // A plugin of a newer version may refuse the size of its arguments.
            device_memory_stats: device
                .is_some_and(|device| device.memory_stats().is_ok_and(|stats| stats.is_some())),
            custom_calls: self.probe_custom_calls(),
            copy_to_memory: device.map_or(Ok(Vec::new()), |device| self.probe_copies(device))?,
        })
    }

    fn probe_donation(&self, executable: &Executable, device: Option<&Device>) -> Result<bool> {
        let Some(device) = device else {
            return Ok(false);
        };
        let argument = self.buffer_from_slice(&VALUES, &[VALUES.len()], device)?;
        let outputs = executable.execute(&[[&argument]], &ExecuteOptions::default())?;
        let result = match outputs.first().and_then(|outputs| outputs.buffers.first()) {
            Some(buffer) => buffer.to_vec::<f32>()?,
            None => Vec::new(),
        };
        Ok(result == DOUBLED && argument.is_deleted()?)
    }

    /// Any failure means that the cache must do without.
    fn probe_serialization(&self, executable: &Executable, device: Option<&Device>) -> bool {
        executable
            .program()
            .serialize()
            .and_then(|bytes| self.deserialize(&bytes, None))
            .and_then(|loaded| self.probe_donation(&loaded, device))
            .is_ok()
    }

    /// Any failure means that programs must do without.
    fn probe_custom_calls(&self) -> bool {
        let run = || -> Result<bool> {
            if !self.register_kernel::<Doubling>()? {
                return Ok(false);
            }
            let executable = self.compile(CALLING_PROGRAM, &CompileOptions::default())?;
            let Some(device) = executable.devices().next() else { return Ok(false) };
            let argument = self.buffer_from_slice(&VALUES, &[VALUES.len()], &device)?;
            let outputs = executable.execute(&[[&argument]], &ExecuteOptions::default())?;
            let result = outputs.first().and_then(|outputs| outputs.buffers.first());
            Ok(result.map(|buffer| buffer.to_vec::<f32>()).transpose()? == Some(DOUBLED.to_vec()))
        };
        run().unwrap_or(false)
    }

    fn probe_copies(&self, device: &Device) -> Result<Vec<String>> {
        let buffer = self.buffer_from_slice(&VALUES, &[VALUES.len()], device)?;
        let default = device.default_memory();
        let others = device.memories().filter(|memory| Some(memory) != default.as_ref());
        let copies_to = |memory: &crate::memory::Memory| {
            let copy = buffer.copy_to_memory(memory).and_then(|copy| copy.to_vec::<f32>());
            copy.is_ok_and(|copy| copy == VALUES)
        };
        Ok(others.filter(copies_to).map(|memory| memory.kind().to_owned()).collect())
    }
}
