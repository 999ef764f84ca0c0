//! Kernels whose results arrive after their calls have returned.

use crate::support::{arguments, compile, cpu_client, first_outputs};
use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;
use traind_pjrt::{
    CompileOptions, DeferredCall, DeferredKernel, ExecuteOptions, KernelCall, KernelError,
    UpdatedArrays,
};

const DEVICES: usize = 4;

/// Each device gets the values of the device behind it, once all devices have called.
struct Rotating {
    device: usize,
}

static WAITING: Mutex<Vec<(usize, DeferredCall)>> = Mutex::new(Vec::new());

impl DeferredKernel for Rotating {
    const NAME: &'static str = "test.rotating";

    fn of_call(call: &KernelCall<'_>) -> Result<Rotating, KernelError> {
        Ok(Rotating { device: call.device_ordinal()? })
    }

    fn start(self, call: DeferredCall) {
        let mut waiting = WAITING.lock().unwrap();
        waiting.push((self.device, call));
        if waiting.len() == DEVICES {
            let calls = std::mem::take(&mut *waiting);
            thread::spawn(move || rotate(calls));
        }
    }
}

fn rotate(mut calls: Vec<(usize, DeferredCall)>) {
    calls.sort_by_key(|(device, _)| *device);
    let values: Vec<Vec<f32>> =
        calls.iter_mut().map(|(_, call)| call.buffers(0, 0).unwrap().0.to_vec()).collect();
    for (device, mut call) in calls {
        call.buffers(0, 0).unwrap().1.copy_from_slice(&values[(device + 1) % DEVICES]);
        call.finish(Ok(()));
    }
}

/// Ends in the manner that the attribute names.
struct Failing {
    manner: i64,
}

impl DeferredKernel for Failing {
    const NAME: &'static str = "test.failing_later";

    fn of_call(call: &KernelCall<'_>) -> Result<Failing, KernelError> {
        Ok(Failing { manner: call.attribute("manner")? })
    }

    fn start(self, mut call: DeferredCall) {
        match self.manner {
            0 => call.finish(Err("no luck".into())),
            1 => panic!("before the call is finished"),
            2 => drop(thread::spawn(move || drop(call))),
            _ => {
                let outcome = call.buffers::<i32>(0, 0).map(drop);
                call.finish(outcome);
            }
        }
    }
}

fn calling(target: &str, attributes: &str, times: usize) -> String {
    let calls: String = (0..times)
        .map(|time| {
            format!(
                "%{} = stablehlo.custom_call @{target}(%{time})
                   {{api_version = 4 : i32, backend_config = {attributes}}}
                   : (tensor<4xf32>) -> tensor<4xf32>\n",
                time + 1
            )
        })
        .collect();
    format!(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
           %0 = stablehlo.add %x, %x : tensor<4xf32>
           {calls}
           return %{times} : tensor<4xf32>
         }}"
    )
}

/// No call ends before all devices have called, many times in each run.
#[test]
fn calls_of_all_devices_wait_for_each_other() {
    const TIMES: usize = 50;
    let client = cpu_client(DEVICES as i64);
    assert!(client.register_deferred_kernel::<Rotating>().unwrap());
    let executable = compile(&client, &calling("test.rotating", "{}", TIMES), DEVICES);
    let values: Vec<Vec<f32>> = (0..DEVICES).map(|device| vec![device as f32; 4]).collect();
    let arguments = arguments(&client, &values);
    for _ in 0..20 {
        let found = first_outputs::<f32>(&executable, &arguments);
        let expected = |device| vec![2.0 * ((device + TIMES) % DEVICES) as f32; 4];
        assert_eq!(found, (0..DEVICES).map(expected).collect::<Vec<_>>());
    }
}

#[test]
fn a_call_that_fails_later_fails_the_execution() {
    let client = cpu_client(1);
    client.register_deferred_kernel::<Failing>().unwrap();
    let expected = ["no luck", "was abandoned", "was abandoned", "does not hold i32"];
    for (manner, expected) in expected.into_iter().enumerate() {
        let attributes = format!("{{manner = {manner} : i64}}");
        let executable = compile(&client, &calling("test.failing_later", &attributes, 1), 1);
        let arguments = arguments(&client, &[vec![0f32; 4]]);
        let run = executable.execute(&arguments, &ExecuteOptions::default());
        let error = run.and_then(|outputs| outputs[0].buffers[0].to_vec::<f32>()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("kernel test.failing_later") && text.contains(expected), "{text}");
    }
}

#[test]
fn a_call_without_its_attribute_fails_at_once() {
    let client = cpu_client(1);
    client.register_deferred_kernel::<Failing>().unwrap();
    let executable = compile(&client, &calling("test.failing_later", "{}", 1), 1);
    let arguments = arguments(&client, &[vec![0f32; 4]]);
    let run = executable.execute(&arguments, &ExecuteOptions::default());
    let error = run.and_then(|outputs| outputs[0].buffers[0].to_vec::<f32>()).unwrap_err();
    assert!(error.to_string().contains("there is no attribute manner"), "{error}");
}

/// Adds operand 1 to operand 0 in place, and keeps the number of the execution.
struct Adding {
    run: i64,
}

static RUNS: Mutex<Vec<i64>> = Mutex::new(Vec::new());

impl DeferredKernel for Adding {
    const NAME: &'static str = "test.adding";

    fn of_call(call: &KernelCall<'_>) -> Result<Adding, KernelError> {
        Ok(Adding { run: call.run_id()? })
    }

    fn start(self, mut call: DeferredCall) {
        RUNS.lock().unwrap().push(self.run);
        let outcome = call.updated_arrays::<f32>(1..2).map(|arrays| {
            let UpdatedArrays { mut updated, read } = arrays;
            updated[0].iter_mut().zip(read[0]).for_each(|(sum, addend)| *sum += addend);
        });
        call.finish(outcome);
    }
}

/// The result is in the memory of operand 0 if the program says so, and begins as its copy otherwise.
#[test]
fn a_call_updates_an_operand_and_knows_its_execution() {
    let client = cpu_client(DEVICES as i64);
    client.register_deferred_kernel::<Adding>().unwrap();
    let in_place = "output_operand_aliases = [#stablehlo.output_operand_alias<
        output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>],";
    for aliases in [in_place, ""] {
        let program = format!(
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
               %y = stablehlo.add %x, %x : tensor<4xf32>
               %z = stablehlo.custom_call @test.adding(%y, %x)
                 {{{aliases} api_version = 4 : i32, backend_config = {{}}}}
                 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
               return %z : tensor<4xf32>
             }}"
        );
        let executable = compile(&client, &program, DEVICES);
        let values: Vec<Vec<f32>> = (0..DEVICES).map(|device| vec![device as f32; 4]).collect();
        for _ in 0..2 {
            let found = first_outputs::<f32>(&executable, &arguments(&client, &values));
            let expected = |device| vec![3.0 * device as f32; 4];
            assert_eq!(found, (0..DEVICES).map(expected).collect::<Vec<_>>());
        }
    }
    let mut runs = std::mem::take(&mut *RUNS.lock().unwrap());
    runs.sort_unstable();
    let (of_each, distinct) = (runs.chunks(DEVICES), runs.iter().collect::<HashSet<_>>());
    assert_eq!(distinct.len(), 4, "{runs:?}");
    assert!(of_each.into_iter().all(|run| run.iter().all(|id| *id == run[0])), "{runs:?}");
}

/// Writes the number of the device that calls.
struct Numbering {
    device: usize,
}

impl DeferredKernel for Numbering {
    const NAME: &'static str = "test.numbering";

    fn of_call(call: &KernelCall<'_>) -> Result<Numbering, KernelError> {
        Ok(Numbering { device: call.device_ordinal()? })
    }

    fn start(self, mut call: DeferredCall) {
        call.buffers::<f32>(0, 0).unwrap().1.fill(self.device as f32);
        call.finish(Ok(()));
    }
}

/// The devices of a program need not be the first ones of the client.
#[test]
fn a_call_knows_the_device_among_those_of_the_client() {
    let client = cpu_client(DEVICES as i64);
    client.register_deferred_kernel::<Numbering>().unwrap();
    let ids: Vec<i32> = client.devices().map(|device| device.id()).collect();
    for chosen in [[2, 3], [3, 1], [0, 2]] {
        let options = CompileOptions::replicas(2).on_devices(chosen.map(|index| ids[index]));
        let executable = client.compile(calling("test.numbering", "{}", 1), &options).unwrap();
        let place = |index: usize| {
            let device = client.device(index).unwrap();
            [client.buffer_from_slice(&[0f32; 4], &[4], &device).unwrap()]
        };
        let found = first_outputs::<f32>(&executable, &chosen.map(place));
        assert_eq!(found, chosen.map(|index| vec![index as f32; 4]));
    }
}
