//! Shared by the tests: a client, a program, a run.

use traind_pjrt::{
    Buffer, Client, CompileOptions, CreateOptions, Element, Executable, ExecuteOptions, Plugin,
};

pub(crate) fn cpu_plugin() -> Plugin {
    let path = traind_pjrt::installed_plugin("cpu")
        .filter(|path| path.is_file())
        .expect("the CPU plugin is not installed: run `traind plugins install cpu`");
    Plugin::load(path).unwrap()
}

pub(crate) fn cpu_client(device_count: i64) -> Client {
    let options = CreateOptions::new().with("cpu_device_count", device_count);
    Client::new(cpu_plugin(), &options).unwrap()
}

/// `y = x + x` over four floats; `attributes` is what stands after the argument.
pub(crate) fn doubling(attributes: &str) -> String {
    format!(
        "module @doubling {{
           func.func @main(%x: tensor<4xf32> {attributes}) -> tensor<4xf32> {{
             %y = stablehlo.add %x, %x : tensor<4xf32>
             return %y : tensor<4xf32>
           }}
         }}"
    )
}

pub(crate) fn compile(client: &Client, program: &str, num_replicas: usize) -> Executable {
    client.compile(program, &CompileOptions::replicas(num_replicas)).unwrap()
}

/// Two replicas add up their four floats.
pub(crate) const SUM_OF_TWO: &str = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = \"stablehlo.all_reduce\"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}";

/// The same number of values on every device of the client, one argument each.
pub(crate) fn arguments<T: Element>(client: &Client, values: &[Vec<T>]) -> Vec<[Buffer; 1]> {
    let place = |(device, values): (_, &Vec<T>)| {
        [client.buffer_from_slice(values, &[values.len()], &device).unwrap()]
    };
    client.devices().zip(values).map(place).collect()
}

/// The first output of every device.
pub(crate) fn first_outputs<T: Element>(
    executable: &Executable,
    arguments: &[[Buffer; 1]],
) -> Vec<Vec<T>> {
    let outputs = executable.execute(arguments, &ExecuteOptions::default()).unwrap();
    outputs.iter().map(|outputs| outputs.buffers[0].to_vec().unwrap()).collect()
}
