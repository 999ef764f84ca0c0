//! Variables, steps and their execution.

use std::collections::HashMap;
use std::time::Instant;

use rayon::prelude::*;
use traind_pjrt::{Buffer, ExecuteOptions};

use super::cores::{CoreInputs, LocalCores, check_count, download};
use super::host_memory::{HostMemory, HostVariables};
use super::packed::pack;
use super::pending::HandOver;
use super::recorder::Recorder;
use super::recording::{Argument, Recording, StepInput};
use super::step_compiler::{CompiledStep, Step, StepCompiler};
use super::variable::Variable;
use super::{Compiler, ExecutableCache, HostArray, Pending};
use crate::error::{Error, Result};
use crate::graph::Shape;
use crate::kernels::{GpuOptions, are_all_processors, enable_kernels};

/// The fewest bytes of a value that are copied to all cores at once. Memory that is used for the first time is cleared
/// by the kernel, which takes longer than the copy.
const UPLOADED_AT_ONCE_MIN: usize = 1 << 20;

/// Runs recorded steps on the cores of this process.
#[derive(Debug)]
pub struct LazyDevice {
    cores: LocalCores,
    compiler: StepCompiler,
    /// `[variable][local core]`; empty for a variable that has no value.
    buffers: Vec<Vec<Buffer>>,
    on_host: HostVariables,
    steps: HashMap<String, Step>,
    /// The number of programs launched so far.
    launches: usize,
}

impl LazyDevice {
    /// A device of these cores, whose compiled programs are kept on `disk`.
    pub fn new(
        cores: LocalCores,
        disk: Option<ExecutableCache>,
        options: GpuOptions,
    ) -> LazyDevice {
        let client = cores.client();
        let (platform, kernels) = (client.platform_name(), enable_kernels(client, options));
        let mut recorder = Recorder::new(cores.mesh().clone(), platform, options, kernels);
        recorder.suit(cores.traits());
        if are_all_processors(cores.len()) {
            recorder.multiply_by_kernel();
        }
        LazyDevice {
            compiler: StepCompiler::new(recorder, Compiler::new(cores.clone(), disk)),
            cores,
            buffers: Vec::new(),
            on_host: HostVariables::default(),
            steps: HashMap::new(),
            launches: 0,
        }
    }

    /// Makes this a device whose programs XLA compiles as a whole.
    pub fn without_kernels(mut self) -> LazyDevice {
        self.recorder_mut().disable_kernels();
        self
    }

    /// Returns the recorder of the device's programs.
    pub fn recorder(&self) -> &Recorder {
        self.compiler.recorder()
    }

    /// Declares variables, which have no value until one is set.
    pub fn recorder_mut(&mut self) -> &mut Recorder {
        self.compiler.recorder_mut()
    }

    /// Returns the device's compiler, which other threads may use while the device runs steps. It
    /// does not know variables that are declared later.
    pub fn compiler(&self) -> StepCompiler {
        self.compiler.clone()
    }

    /// Returns the cores that run the steps.
    pub fn cores(&self) -> &LocalCores {
        &self.cores
    }

    /// Keeps the values of a variable that has none yet in host memory. Steps that read it get a copy
    /// on the cores, and what they assign is copied back.
    pub fn keep_on_host(&mut self, variable: Variable, memory: HostMemory) {
        self.on_host.insert(variable, memory);
    }

    /// A variable with the same value on every core.
    pub fn variable(&mut self, value: &HostArray) -> Result<Variable> {
        let name = format!("variable{}", self.recorder().len());
        let variable = self.recorder_mut().declare(name, value.shape().clone());
        self.set(variable, value)?;
        Ok(variable)
    }

    /// Returns the shape of a variable on one core.
    pub fn shape(&self, variable: Variable) -> &Shape {
        self.recorder().shape(variable)
    }

    /// Copies a variable's value on one local core to the host, after the steps that
    /// were handed over before.
    pub fn value(&self, variable: Variable, core: usize) -> Result<HostArray> {
        download(&self.buffers(variable)?[core], self.shape(variable))
    }

    /// Replaces a variable's value on every core.
    pub fn set(&mut self, variable: Variable, value: &HostArray) -> Result<()> {
        self.set_per_core(variable, &vec![value; self.cores.len()])
    }

    /// Replaces a variable's value by one that differs from core to core: one value a local core.
    pub fn set_per_core(&mut self, variable: Variable, values: &[&HostArray]) -> Result<()> {
        let expected = self.shape(variable);
        if let Some(other) = values.iter().find(|value| value.shape() != expected) {
            return Err(Error::Value {
                name: self.recorder().name(variable).to_owned(),
                expected: expected.clone(),
                got: other.shape().to_string(),
            });
        }
        let buffers = self.upload(variable, values)?;
        self.buffers.resize_with(self.recorder().len(), Vec::new);
        self.buffers[variable.index()] = buffers;
        Ok(())
    }

    /// Copies a variable's value to the cores of another device of the same mesh: one buffer a core.
    pub fn copy_to(&self, variable: Variable, cores: &LocalCores) -> Result<Vec<Buffer>> {
        let buffers = self.buffers(variable)?.iter().enumerate();
        buffers.map(|(core, buffer)| cores.receive(core, buffer)).collect()
    }

    /// The bytes of a variable's value on all cores, after the steps that were handed over before.
    pub fn packed(&self, variable: Variable) -> Result<Vec<u8>> {
        pack(&[self.buffers(variable)?])
    }

    /// Replaces a variable's value by buffers on its cores.
    pub fn set_buffers(&mut self, variable: Variable, buffers: Vec<Buffer>) -> Result<()> {
        check_count("values of a variable", self.cores.len(), buffers.len())?;
        self.buffers.resize_with(self.recorder().len(), Vec::new);
        self.buffers[variable.index()] = buffers;
        Ok(())
    }

    /// Takes a variable's value from it: one buffer a core, none if it has no value. It has none until one is set.
    pub fn take(&mut self, variable: Variable) -> Vec<Buffer> {
        self.buffers.get_mut(variable.index()).map(std::mem::take).unwrap_or_default()
    }

    /// Frees the memory of a variable, which has no value until one is set.
    pub fn clear(&mut self, variable: Variable) {
        self.take(variable);
    }

    /// Returns whether a variable has a value.
    pub fn has_value(&self, variable: Variable) -> bool {
        self.buffers(variable).is_ok()
    }

    fn buffers(&self, variable: Variable) -> Result<&[Buffer]> {
        let buffers = self.buffers.get(variable.index()).filter(|buffers| !buffers.is_empty());
        let name = || self.recorder().name(variable).to_owned();
        Ok(buffers.ok_or_else(|| Error::NoValue { variable: name() })?)
    }

    /// Returns whether a step is installed under `key`.
    pub fn is_prepared(&self, key: &str) -> bool {
        self.steps.contains_key(key)
    }

    /// Records and compiles a step without running it. Several threads may do so at once.
    pub fn compile<E: From<Error>>(
        &self,
        inputs: &[StepInput],
        record: impl FnOnce(&mut Recording<'_>) -> Result<(), E>,
    ) -> Result<CompiledStep, E> {
        Ok(self.compiler.compile(self.recorder().record(inputs, record)?)?)
    }

    /// Makes a compiled step ready to run. `key` stands for everything that the
    /// recorded program depends on.
    pub fn install(&mut self, key: &str, compiled: CompiledStep) {
        self.steps.insert(key.to_owned(), compiled.step);
    }

    /// Replays the prepared step `key` on every core: binds variables and
    /// inputs, hands the program over, and swaps the assigned variables. The
    /// cores may still be running when this returns.
    pub fn mark_step(&mut self, key: &str, inputs: &CoreInputs) -> Result<Pending> {
        let inputs: Vec<Vec<&Buffer>> = inputs.iter().map(|core| core.iter().collect()).collect();
        self.mark_step_with(key, &inputs)
    }

    /// Replays the prepared step `key` as [`mark_step`](Self::mark_step) does, with inputs `[local core][input]` that
    /// others keep.
    pub fn mark_step_with(&mut self, key: &str, inputs: &[Vec<&Buffer>]) -> Result<Pending> {
        let start = Instant::now();
        self.launches += 1;
        let options =
            ExecuteOptions { launch_id: self.cores.launch_id(self.launches), ..Default::default() };
        let step = self.steps.get(key).ok_or_else(|| Error::NotPrepared { key: key.to_owned() })?;
        self.check_inputs(step, inputs)?;
        let loaded = self.load(step)?;
        let arguments = self.arguments(step, inputs, &loaded)?;
        let dispatch = start.elapsed();
        let run = step.executable.execute(&arguments, &options)?;
        let call = start.elapsed() - dispatch;
        let assigned = step.recorded.assigned.len();
        let fetched = step.recorded.fetched.len();
        let mut copies = Vec::with_capacity(self.cores.len());
        let mut sent = Vec::with_capacity(self.cores.len());
        let mut kept = Vec::with_capacity(self.cores.len());
        let mut completed = Vec::with_capacity(self.cores.len());
        let mut swapped: Vec<Vec<Buffer>> = (0..assigned).map(|_| Vec::new()).collect();
        for mut core in run {
            let mut events = vec![core.done];
            // Some plugins report a program as done when they have queued it.
            if let Some(output) = core.buffers.first() {
                events.push(output.ready_event()?);
            }
            completed.push(events);
            let mut fetches = core.buffers.split_off(assigned);
            let mut left = fetches.split_off(fetched);
            kept.push(left.split_off(step.recorded.sent));
            sent.push(left);
            copies.push(fetches.iter().map(Buffer::start_copy_to_host).collect::<Result<_, _>>()?);
            for (slot, output) in swapped.iter_mut().zip(core.buffers) {
                slot.push(output);
            }
        }
        let mut retired = Vec::with_capacity(assigned * self.cores.len());
        for (variable, buffers) in step.recorded.assigned.iter().zip(swapped) {
            // What is copied to the host leaves the cores when the copy is made.
            let buffers = match self.on_host.memory_of(*variable) {
                Some(memory) => memory.unload(&buffers)?,
                None => buffers,
            };
            retired.append(&mut std::mem::replace(&mut self.buffers[variable.index()], buffers));
        }
        Ok(Pending {
            names: step.recorded.fetched.clone(),
            shapes: step.recorded.fetched_shapes.clone(),
            copies,
            sent,
            kept,
            time: HandOver::split(dispatch, call, &completed)?,
            completed,
            retired,
        })
    }

    fn check_inputs(&self, step: &Step, inputs: &[Vec<&Buffer>]) -> Result<()> {
        check_count("cores given inputs", self.cores.len(), inputs.len())?;
        let arguments = step.recorded.arguments.iter();
        let expected = arguments.filter(|argument| matches!(argument, Argument::Input(_))).count();
        inputs.iter().try_for_each(|core| check_count("inputs of the step", expected, core.len()))
    }

    /// Copies to the cores what a step reads of the variables in host memory, by variable.
    fn load(&self, step: &Step) -> Result<HashMap<usize, Vec<Buffer>>> {
        let mut loaded = HashMap::new();
        for argument in &step.recorded.arguments {
            if let Argument::Variable(variable) = *argument
                && let Some(memory) = self.on_host.memory_of(variable)
            {
                loaded.insert(variable.index(), memory.load(self.buffers(variable)?)?);
            }
        }
        Ok(loaded)
    }

    fn arguments<'a>(
        &'a self,
        step: &Step,
        inputs: &[Vec<&'a Buffer>],
        loaded: &'a HashMap<usize, Vec<Buffer>>,
    ) -> Result<Vec<Vec<&'a Buffer>>> {
        let argument = |core: usize, argument: &Argument| match *argument {
            Argument::Variable(variable) => match loaded.get(&variable.index()) {
                Some(copies) => Ok(&copies[core]),
                None => Ok(&self.buffers(variable)?[core]),
            },
            Argument::Input(index) => Ok(inputs[core][index]),
        };
        (0..self.cores.len())
            .map(|core| step.recorded.arguments.iter().map(|it| argument(core, it)).collect())
            .collect()
    }

    fn upload(&self, variable: Variable, values: &[&HostArray]) -> Result<Vec<Buffer>> {
        check_count("values of a variable", self.cores.len(), values.len())?;
        let memory = self.on_host.memory_of(variable);
        let upload = |(core, value): (usize, &&HostArray)| match memory {
            Some(memory) => self.cores.upload_to(memory.of_core(core).into(), value),
            None => self.cores.upload(core, value),
        };
        match self.shape(variable).size_bytes() < UPLOADED_AT_ONCE_MIN {
            true => values.iter().enumerate().map(upload).collect(),
            false => values.par_iter().enumerate().map(upload).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use traind_pjrt::{Client, CreateOptions, Plugin};

    use super::*;
    use crate::autodiff::gradients;
    use crate::mesh::Mesh;
    use crate::runtime::{Half, RecordedStep};

    fn local_cores() -> LocalCores {
        let plugin = Plugin::load(traind_pjrt::installed_plugin("cpu").unwrap()).unwrap();
        let options = CreateOptions::new().with("cpu_device_count", 2);
        let client = Client::new(plugin, &options).unwrap();
        LocalCores::of_host(client, Mesh::data_parallel(2).unwrap()).unwrap()
    }

    /// A state through a layer, which a first program does, and the layer's gradient, which a second one does.
    fn pass_both_ways(at: &mut Recording<'_>, layer: Variable, gradient: Variable) -> Result<()> {
        let layer = at.read(layer)?;
        let missing = || Error::NotFetched { name: "states".to_owned() };
        let states = at.input("states").cloned().ok_or_else(missing)?;
        let passed = states.mul(&layer)?.layer_norm(&layer, &layer, 1e-5)?.tanh()?;
        at.send(&passed);
        at.divide();
        let loss = passed.mul(&passed)?.sum(&[0])?;
        at.assign(gradient, &gradients(&loss, &[&layer])?[0])
    }

    #[test]
    fn the_halves_of_a_step_compute_what_the_whole_step_does() {
        let cores = local_cores();
        let mut device = LazyDevice::new(cores.clone(), None, GpuOptions::default());
        let values = HostArray::from_f32(&[4], &[1.0, -2.0, 3.0, 0.5]).unwrap();
        let [layer, gradient] = ["layer", "gradient"]
            .map(|it| device.recorder_mut().declare(it, values.shape().clone()));
        let inputs = [StepInput::new("states", values.shape().clone())];
        let record = |at: &mut Recording<'_>| pass_both_ways(at, layer, gradient);
        let recorder = device.recorder().clone();
        let whole = recorder.record(&inputs, record).unwrap();
        let [first, second] = [Half::First, Half::Second]
            .map(|half| recorder.record_half(half, &inputs, record).unwrap());
        let names = |step: &RecordedStep| -> Vec<String> {
            step.arguments().into_iter().map(|argument| argument.name).collect()
        };
        assert_eq!(names(&first), ["states", "layer"]);
        assert_eq!(first.sent_bytes(), 16);
        assert!(names(&second).contains(&"kept.0".to_owned()), "{:?}", names(&second));
        assert!(second.assigned() == [gradient] && first.assigned().is_empty());

        let compiler = device.compiler();
        for (key, step) in [("whole", whole), ("first", first), ("second", second)] {
            device.install(key, compiler.compile(step).unwrap());
        }
        let states: Vec<Buffer> = (0..2).map(|core| cores.upload(core, &values).unwrap()).collect();
        let mut found = Vec::new();
        for keys in [&["whole"][..], &["first", "second"]] {
            device.set(layer, &values).unwrap();
            device.set(gradient, &HostArray::zeros(values.shape().clone())).unwrap();
            let mut kept: Vec<Vec<Buffer>> = Vec::new();
            for key in keys {
                let inputs = (0..2).map(|core| {
                    std::iter::once(&states[core])
                        .chain(kept.iter().map(|value| &value[core]))
                        .collect()
                });
                let mut pending = device.mark_step_with(key, &inputs.collect::<Vec<_>>()).unwrap();
                kept = pending.take_kept();
            }
            found.push(device.value(gradient, 1).unwrap().to_f32().unwrap());
        }
        assert_eq!(found[0], found[1]);
        assert!(found[0].iter().all(|gradient| gradient.abs() > 1e-3), "{found:?}");
    }

    #[test]
    fn a_variable_in_host_memory_is_on_the_cores_for_its_steps_alone() {
        let cores = local_cores();
        let mut device = LazyDevice::new(cores.clone(), None, GpuOptions::default());
        let start = HostArray::from_f32(&[3], &[1.0, 2.0, 3.0]).unwrap();
        let kept = device.recorder_mut().declare("kept", start.shape().clone());
        device.keep_on_host(kept, HostMemory::of(&cores).unwrap());
        device.set(kept, &start).unwrap();
        let kinds = |device: &LazyDevice| -> Vec<String> {
            let buffers = device.buffers(kept).unwrap().iter();
            buffers.map(|buffer| buffer.memory().unwrap().kind().to_owned()).collect()
        };
        assert_eq!(kinds(&device), ["pinned_host"; 2]);
        let step = device.compile(&[], |at| -> Result<()> {
            let twice = at.read(kept)?.mul_scalar(2.0)?;
            at.assign(kept, &twice)
        });
        device.install("double", step.unwrap());
        for _ in 0..3 {
            device.mark_step("double", &vec![Vec::new(), Vec::new()]).unwrap().wait().unwrap();
            assert_eq!(kinds(&device), ["pinned_host"; 2]);
        }
        for core in 0..2 {
            let value = device.value(kept, core).unwrap().to_f32().unwrap();
            assert_eq!(value, [8.0, 16.0, 24.0]);
        }
    }
}
