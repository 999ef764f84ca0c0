//! Executables stored and loaded again.

use crate::support::{arguments, compile, cpu_client, doubling, first_outputs};
use traind_pjrt::{CompileOptions, Error};

#[test]
fn a_loaded_executable_computes_the_same() {
    let client = cpu_client(2);
    let compiled = compile(&client, &doubling(""), 2);
    let loaded = client.deserialize(&compiled.program().serialize().unwrap(), None).unwrap();
    assert_eq!(loaded.num_devices(), 2);
    assert_eq!(loaded.program().num_outputs(), 1);
    let values = [vec![1.0f32, 2.0, 3.0, 4.0], vec![5.0, 6.0, 7.0, 8.0]];
    let arguments = arguments(&client, &values);
    let expected = [[2.0, 4.0, 6.0, 8.0], [10.0, 12.0, 14.0, 16.0]];
    assert_eq!(first_outputs::<f32>(&loaded, &arguments), expected);
    assert_eq!(
        loaded.program().output_shapes().unwrap(),
        compiled.program().output_shapes().unwrap()
    );
}

#[test]
fn a_loaded_executable_outlives_its_maker() {
    let serialized = compile(&cpu_client(1), &doubling(""), 1).program().serialize().unwrap();
    let client = cpu_client(1);
    let loaded = client.deserialize(&serialized, Some(&CompileOptions::default())).unwrap();
    let arguments = arguments(&client, &[vec![1.0f32, 2.0, 3.0, 4.0]]);
    assert_eq!(first_outputs::<f32>(&loaded, &arguments), [[2.0, 4.0, 6.0, 8.0]]);
}

#[test]
fn bytes_that_are_not_an_executable_are_an_error() {
    let client = cpu_client(1);
    let error = client.deserialize(b"not an executable", None).unwrap_err();
    assert!(matches!(error, Error::Plugin { .. }), "{error}");
}
