//! Compile options, and running on the devices that they name.

use crate::support::{cpu_client, doubling};
use traind_pjrt::{CompileOptions, Error, ErrorCode, ExecuteOptions, OptionOverride};

const REPLICA_ID: &str = "func.func @main() -> tensor<ui32> {
  %id = stablehlo.replica_id : tensor<ui32>
  return %id : tensor<ui32>
}";

#[test]
fn replicas_run_on_the_devices_assigned() {
    let client = cpu_client(4);
    let ids: Vec<i32> = [3, 1].map(|index| client.device(index).unwrap().id()).into();
    let options = CompileOptions::replicas(2).on_devices(ids.clone());
    let executable = client.compile(REPLICA_ID, &options).unwrap();
    let found: Vec<i32> = executable.devices().map(|device| device.id()).collect();
    assert_eq!(found, ids);
    let outputs = executable
        .execute::<[traind_pjrt::Buffer; 0], _>(&[[], []], &ExecuteOptions::default())
        .unwrap();
    for (replica, outputs) in outputs.iter().enumerate() {
        let buffer = &outputs.buffers[0];
        assert_eq!(buffer.to_vec::<u32>().unwrap(), [replica as u32]);
        assert_eq!(buffer.device().id(), ids[replica]);
        outputs.done.wait().unwrap();
    }
}

#[test]
fn assignments_that_would_abort_the_plugin_are_refused() {
    let client = cpu_client(2);
    let first = client.device(0).unwrap().id();
    let refused = [
        (CompileOptions::replicas(0), "num_replicas"),
        (CompileOptions::replicas(3), "num_replicas"),
        (CompileOptions::replicas(2).on_devices([first]), "device_ids"),
        (CompileOptions::replicas(2).on_devices([first, first]), "device_ids"),
        (CompileOptions::replicas(1).on_devices([999]), "device_ids"),
    ];
    for (options, expected) in refused {
        let error = client.compile(doubling(""), &options).unwrap_err();
        assert!(
            matches!(&error, Error::CompileOption { field, .. } if *field == expected),
            "{error}"
        );
    }
}

#[test]
fn flags_can_be_overridden_and_unknown_ones_are_errors() {
    let client = cpu_client(1);
    let with = |flag, value| CompileOptions::default().with_override(flag, value);
    let known = with("xla_cpu_enable_fast_math", OptionOverride::Bool(false));
    client.compile(doubling(""), &known).unwrap();
    let level = with("xla_backend_optimization_level", OptionOverride::Int64(1));
    client.compile(doubling(""), &level).unwrap();
    let unknown = with("xla_no_such_flag", OptionOverride::Bool(true));
    let error = client.compile(doubling(""), &unknown).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.to_string().contains("xla_no_such_flag"), "{error}");
}

#[test]
fn encoding_is_deterministic_and_tells_options_apart() {
    let client = cpu_client(2);
    let flags = ["xla_b", "xla_a", "xla_c"];
    let with_flags = |order: [usize; 3]| {
        let options = CompileOptions::default();
        let set = |options: CompileOptions, i: usize| {
            options.with_override(flags[i], OptionOverride::Int64(i as i64))
        };
        order.into_iter().fold(options, set).encode(&client).unwrap()
    };
    assert_eq!(with_flags([0, 1, 2]), with_flags([2, 0, 1]));
    let replicas = |count| CompileOptions::replicas(count).encode(&client).unwrap();
    assert_ne!(replicas(1), replicas(2));
}
