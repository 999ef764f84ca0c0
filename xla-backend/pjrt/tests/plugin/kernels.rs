//! Kernels of ours inside programs.

use std::time::Duration;

use crate::support::{arguments, compile, cpu_client, first_outputs};
use traind_pjrt::{ExecuteOptions, Kernel, KernelCall, KernelError, KernelTimes};

/// Adds the product of two matrices to a third one, in its memory if it may.
struct AddProduct;

impl Kernel for AddProduct {
    const NAME: &'static str = "test.add_product";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let (x, w) = (call.operand::<f32>(0)?, call.operand::<f32>(1)?);
        let (depth, columns) = (call.operand_dims(0)?[1], call.operand_dims(1)?[1]);
        let factor = call.attribute::<f64>("factor")? as f32;
        assert_eq!(
            call.attribute::<i32>("factor").unwrap_err().0.split(' ').next(),
            Some("attribute")
        );
        for (index, sum) in call.updated::<f32>(2, 0)?.iter_mut().enumerate() {
            let (row, column) = (index / columns, index % columns);
            for place in 0..depth {
                *sum += factor * x[row * depth + place] * w[place * columns + column];
            }
        }
        Ok(())
    }
}

/// Fails in the manner that the attribute names.
struct Failing;

impl Kernel for Failing {
    const NAME: &'static str = "test.failing";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        match call.attribute::<i64>("manner")? {
            0 => panic!("out of luck"),
            1 => call.operand::<i32>(0).map(drop),
            2 => call.operand::<f32>(1).map(drop),
            3 => call.result::<f32>(0).and(call.result::<f32>(0)).map(drop),
            4 => call.attribute::<f32>("absent").map(drop),
            _ => call.operand::<f32>(0).map(drop),
        }
    }
}

fn adding_product(donated: bool) -> String {
    let (argument, call) = match donated {
        true => (
            "{tf.aliasing_output = 0 : i32}",
            ", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], \
             operand_index = 2, operand_tuple_indices = []>]",
        ),
        false => ("", ""),
    };
    format!(
        "func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>, %y: tensor<2x2xf32> {argument})
             -> tensor<2x2xf32> {{
           %z = stablehlo.custom_call @test.add_product(%x, %w, %y)
             {{api_version = 4 : i32, backend_config = {{factor = 2.0 : f64}}{call}}}
             : (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
           return %z : tensor<2x2xf32>
         }}"
    )
}

#[test]
fn a_kernel_computes_on_slices_and_in_place() {
    let client = cpu_client(1);
    assert!(client.capabilities().unwrap().custom_calls);
    assert!(client.register_kernel::<AddProduct>().unwrap());
    assert!(client.register_kernel::<AddProduct>().unwrap());
    let device = client.device(0).unwrap();
    for donated in [false, true] {
        let executable = compile(&client, &adding_product(donated), 1);
        let x = client.buffer_from_slice(&[1f32, 2., 3., 4., 5., 6.], &[2, 3], &device).unwrap();
        let w = client.buffer_from_slice(&[1f32, 0., 0., 1., 1., 1.], &[3, 2], &device).unwrap();
        let y = client.buffer_from_slice(&[1f32, 1., 1., 1.], &[2, 2], &device).unwrap();
        let outputs = executable.execute(&[[&x, &w, &y]], &ExecuteOptions::default()).unwrap();
        assert_eq!(outputs[0].buffers[0].to_vec::<f32>().unwrap(), [9., 11., 21., 23.]);
        assert_eq!(y.is_deleted().unwrap(), donated);
    }
}

#[test]
fn calls_are_timed_while_they_are_recorded() {
    struct Waiting;
    impl Kernel for Waiting {
        const NAME: &'static str = "test.waiting";

        fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
            std::thread::sleep(WAIT);
            call.result::<f32>(0)?.copy_from_slice(call.operand::<f32>(0)?);
            Ok(())
        }
    }
    const WAIT: Duration = Duration::from_millis(2);
    let client = cpu_client(2);
    client.register_kernel::<Waiting>().unwrap();
    let text = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
           %y = stablehlo.custom_call @test.waiting(%x)
             {api_version = 4 : i32, backend_config = {call = 7 : i64}}
             : (tensor<3xf32>) -> tensor<3xf32>
           return %y : tensor<3xf32>
         }";
    let executable = compile(&client, text, 2);
    let values = [vec![1f32, 2., 3.], vec![4., 5., 6.]];
    let execute = || first_outputs::<f32>(&executable, &arguments(&client, &values));
    execute();
    let record = KernelTimes::start().unwrap();
    assert!(KernelTimes::start().is_none(), "there is one record at a time");
    execute();
    let recorded = record.finish();
    execute();
    let own = recorded.times.iter().filter(|time| time.kernel == "test.waiting");
    let mut devices = Vec::new();
    for time in own {
        assert_eq!((time.call, time.bytes), (Some(7), 2 * 3 * 4));
        assert!(time.end - time.start >= WAIT, "{time:?}");
        devices.push(time.device.unwrap());
    }
    devices.sort_unstable();
    assert_eq!((devices, recorded.lost), (vec![0, 1], 0));
    assert!(KernelTimes::start().unwrap().finish().times.is_empty());
}

#[test]
fn kernels_run_on_all_devices_and_survive_serialization() {
    struct Negating;
    impl Kernel for Negating {
        const NAME: &'static str = "test.negating";
        fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
            let x = call.operand::<f32>(0)?;
            call.result::<f32>(0)?.iter_mut().zip(x).for_each(|(y, x)| *y = -x);
            Ok(())
        }
    }
    let client = cpu_client(2);
    client.register_kernel::<Negating>().unwrap();
    let executable = compile(&client, &calling("test.negating", "{}"), 2);
    let loaded = client.deserialize(&executable.program().serialize().unwrap(), None).unwrap();
    for executable in [executable, loaded] {
        let values = [vec![1f32, 2., 3., 4.], vec![5., 6., 7., 8.]];
        let negated = first_outputs::<f32>(&executable, &arguments(&client, &values));
        assert_eq!(negated, values.map(|list| list.iter().map(|x| -x).collect::<Vec<_>>()));
    }
}

#[test]
fn a_kernel_that_fails_or_panics_fails_the_execution() {
    let client = cpu_client(1);
    client.register_kernel::<Failing>().unwrap();
    let expected = [
        "panicked: out of luck",
        "does not hold i32",
        "there is no buffer 1",
        "result 0 was taken before",
        "there is no attribute absent",
    ];
    for (manner, expected) in expected.into_iter().enumerate() {
        let program = calling("test.failing", &format!("{{manner = {manner} : i64}}"));
        let executable = compile(&client, &program, 1);
        let arguments = arguments(&client, &[vec![0f32; 4]]);
        let run = executable.execute(&arguments, &ExecuteOptions::default());
        let error = run.and_then(|outputs| outputs[0].buffers[0].to_vec::<f32>()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("kernel test.failing") && text.contains(expected), "{text}");
    }
}

#[test]
fn a_kernel_that_nobody_registered_fails_at_compilation() {
    let client = cpu_client(1);
    let program = calling("test.absent", "{}");
    let error = client.compile(&program, &traind_pjrt::CompileOptions::default()).unwrap_err();
    assert!(error.to_string().contains("test.absent"), "{error}");
}

fn calling(target: &str, attributes: &str) -> String {
    format!(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
           %y = stablehlo.custom_call @{target}(%x)
             {{api_version = 4 : i32, backend_config = {attributes}}}
             : (tensor<4xf32>) -> tensor<4xf32>
           return %y : tensor<4xf32>
         }}"
    )
}
