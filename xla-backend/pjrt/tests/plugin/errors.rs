//! Calls that must fail, and say why.

use crate::support::{SUM_OF_TWO, arguments, compile, cpu_client, doubling, first_outputs};
use traind_pjrt::{Buffer, CompileOptions, Error, ErrorCode, ExecuteOptions};

#[test]
fn a_malformed_program_is_an_error_with_the_parsers_words() {
    let client = cpu_client(1);
    let compile = |program: &str| client.compile(program, &CompileOptions::default()).unwrap_err();
    let error = compile("func.func @main() -> tensor<2xf32> { return %nothing : tensor<2xf32> }");
    assert_eq!(error.call(), Some("PJRT_Client_Compile"));
    assert!(matches!(&error, Error::Plugin { message, .. } if !message.is_empty()), "{error}");
    compile("");
    compile("\0\u{1}not a program");
    // The client still works.
    client.compile(doubling(""), &CompileOptions::default()).unwrap();
}

#[test]
fn a_program_whose_shapes_disagree_is_an_error() {
    let client = cpu_client(1);
    let program = "func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
      %z = stablehlo.add %x, %y : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
      return %z : tensor<2xf32>
    }";
    let error = client.compile(program, &CompileOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Plugin { .. }), "{error}");
}

#[test]
fn argument_lists_must_match_the_devices() {
    let client = cpu_client(2);
    let executable = compile(&client, &doubling(""), 2);
    let arguments = arguments(&client, &[vec![1.0f32; 4], vec![1.0f32; 4]]);
    let options = ExecuteOptions::default();
    let error = executable.execute(&arguments[..1], &options).unwrap_err();
    assert_eq!(error, Error::DeviceCount { expected: 2, found: 1 });
    let uneven: [&[Buffer]; 2] = [&arguments[0], &[]];
    let error = executable.execute(&uneven, &options).unwrap_err();
    assert_eq!(error, Error::ArgumentCount { device: 1, expected: 1, found: 0 });
}

#[test]
fn arguments_that_the_program_does_not_take_are_refused() {
    let client = cpu_client(1);
    let executable = compile(&client, &doubling(""), 1);
    let options = ExecuteOptions::default();
    let device = client.device(0).unwrap();
    let right = client.buffer_from_slice(&[1.0f32; 4], &[4], &device).unwrap();
    let short = client.buffer_from_slice(&[1.0f32; 3], &[3], &device).unwrap();
    let error = executable.execute(&[[&right, &right]], &options).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    let error = executable.execute(&[[&short]], &options).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    executable.execute(&[[&right]], &options).unwrap();
}

/// Before this was checked, the other device waited for ever, and so did the client.
#[test]
fn devices_that_disagree_start_nothing() {
    let client = cpu_client(2);
    let executable = compile(&client, SUM_OF_TWO, 2);
    let options = ExecuteOptions::default();
    let uneven = arguments(&client, &[vec![1.0f32; 4], vec![1.0f32; 3]]);
    let error = executable.execute(&uneven, &options).unwrap_err();
    assert!(matches!(error, Error::ArgumentShape { device: 1, argument: 0, .. }), "{error}");
    let right = arguments(&client, &[vec![1.0f32; 4], vec![2.0f32; 4]]);
    let error = executable.execute(&[&right[0], &right[0]], &options).unwrap_err();
    assert!(matches!(error, Error::ArgumentDevice { device: 1, argument: 0, .. }), "{error}");
    assert_eq!(first_outputs::<f32>(&executable, &right), [[3.0; 4], [3.0; 4]]);
}

/// The CPU plugin never starts another program of several devices after this.
#[test]
fn a_launch_that_failed_is_remembered() {
    let client = cpu_client(2);
    let (both, one) = (compile(&client, SUM_OF_TWO, 2), compile(&client, &doubling(""), 1));
    let wrong = arguments(&client, &[vec![1.0f32; 3], vec![1.0f32; 3]]);
    let cause = both.execute(&wrong, &ExecuteOptions::default()).unwrap_err();
    let right = arguments(&client, &[vec![1.0f32; 4], vec![2.0f32; 4]]);
    let error = both.execute(&right, &ExecuteOptions::default()).unwrap_err();
    assert_eq!(error, Error::LaunchFailedBefore { cause: cause.to_string() });
    assert_eq!(first_outputs::<f32>(&one, &right[..1]), [[2.0; 4]]);
}

#[test]
fn arguments_of_another_client_are_refused() {
    let (client, other) = (cpu_client(1), cpu_client(1));
    let executable = compile(&client, &doubling(""), 1);
    let foreign = arguments(&other, &[vec![1.0f32; 4]]);
    let error = executable.execute(&foreign, &ExecuteOptions::default()).unwrap_err();
    assert!(matches!(error, Error::ForeignHandle { .. }), "{error}");
}
