//! Libraries and programs that cannot exchange data. Those that can are tested with the programs of two
//! hosts, in `xla-backend/tests/hosts`.

// Helpers of tests may unwrap as the tests do.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use traind_mpi::{Error, HostCollective, Process, World};
use traind_pjrt::{Client, CompileOptions, CreateOptions, ExecuteOptions, Plugin};

fn cpu_plugin() -> PathBuf {
    traind_pjrt::installed_plugin("cpu").unwrap()
}

fn start(library: &Path) -> Error {
    World::start(library, Process { rank: 0, size: 1, group: 0, pmi: None }, 1).unwrap_err()
}

/// All refusals are in one test, because a process starts MPI once.
#[test]
fn libraries_that_are_not_of_the_abi_are_refused_by_name() {
    let absent = start(Path::new("/absent/libmpi_abi.so.1"));
    assert!(matches!(&absent, Error::Library { .. }), "{absent}");
    assert!(absent.to_string().starts_with("load the MPI library /absent/"), "{absent}");
    let other = start(&cpu_plugin());
    assert!(matches!(&other, Error::NotTheAbi { symbol: "MPI_Abi_get_version", .. }), "{other}");
    assert!(other.to_string().contains("`traind plugins install mpi`"), "{other}");
    assert!(matches!(World::current(), Err(Error::NotStarted)));
}

#[test]
fn a_program_that_reduces_across_hosts_needs_them() {
    let options = CreateOptions::new().with("cpu_device_count", 1);
    let client = Client::new(Plugin::load(cpu_plugin()).unwrap(), &options).unwrap();
    assert!(client.register_deferred_kernel::<HostCollective>().unwrap());
    let cases = [
        ([0, 0], "MPI was not started"),
        ([1, 9], "there is no reduction 9"),
        ([7, 0], "there is no collective 7"),
    ];
    for ([collective, reduction], expected) in cases {
        let program = format!(
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
               %y = stablehlo.custom_call @traind.mpi_collective(%x)
                 {{api_version = 4 : i32, backend_config =
                  {{collective = {collective} : i64, reduction = {reduction} : i64}}}}
                 : (tensor<4xf32>) -> tensor<4xf32>
               return %y : tensor<4xf32>
             }}"
        );
        let executable = client.compile(&program, &CompileOptions::default()).unwrap();
        let device = client.device(0).unwrap();
        let x = client.buffer_from_slice(&[1f32; 4], &[4], &device).unwrap();
        let run = executable.execute(&[[&x]], &ExecuteOptions::default());
        let error = run.and_then(|outputs| outputs[0].buffers[0].to_vec::<f32>()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
