//! The stand-ins of the compiler and the tools, and how the daemon sees the instances.

use std::fs;
use std::process::{Command, Output};

use traind_neuron::{INSTANCES, Instance};

use crate::installed::{self, PROGRAM};

fn compile(program: &str, arguments: &[&str]) -> (Output, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let compiler = folder.path().join("neuronx-cc");
    std::os::unix::fs::symlink(PROGRAM, &compiler).unwrap();
    fs::write(folder.path().join("file.code"), program).unwrap();
    let mut command = Command::new(compiler);
    command.current_dir(folder.path()).env_remove("TRAIND_TWIN_OPTIONS");
    command.args(["compile", "--framework=XLA", "--output=file.neff", "file.code"]).args(arguments);
    (command.output().unwrap(), folder)
}

const GOOD: &str = "func.func public @main(%arg0: tensor<4xf32>) -> (tensor<4xf32>) {\n\
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}\n";

#[test]
fn the_compiler_prints_and_writes_as_the_real_one() {
    // Values stand behind `=` or by themselves.
    let (output, folder) =
        compile(GOOD, &["--target=trn1", "-O1", "--verbose", "error", "--native-int64"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), ".\nCompiler status PASS\n");
    assert!(folder.path().join("file.neff").is_file());
    assert!(folder.path().join("log-neuron-cc.txt").is_file());
}

#[test]
fn the_compiler_refuses_with_codes_and_statuses() {
    let bad = GOOD.replace("4xf32", "4xf64");
    for (program, arguments, status, text) in [
        (bad.as_str(), &["--target=trn1"][..], 70, "[NCC_ESPP004]"),
        (GOOD, &["--target=trn1", "--lnc=2"], 70, "[NCC_EARG001]"),
        (GOOD, &["--target=trn1", "--fast"], 2, "unrecognized arguments: --fast"),
        (GOOD, &["--target=p5"], 70, "invalid target"),
        (GOOD, &["--target=trn1", "--lnc=many"], 2, "argument --lnc"),
        (GOOD, &["--target=trn1", "--verbose"], 2, "--verbose: expected one argument"),
    ] {
        let (output, _folder) = compile(program, arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{errors}");
        assert!(errors.contains(text), "{errors}");
    }
}

/// The file says for which cores it is, and the runtime refuses to load it on others.
#[test]
fn programs_for_cores_of_another_size_are_compiled_and_not_loaded() {
    let (output, folder) = compile(GOOD, &["--target=trn2", "--lnc=1"]);
    assert!(output.status.success(), "{output:?}");
    let loaded = fs::read_to_string(folder.path().join("file.neff")).unwrap();
    assert!(loaded.contains("NRT_LOAD_NOT_ENOUGH_NC") && loaded.contains("--lnc=1"), "{loaded}");
    let (_output, folder) = compile(GOOD, &["--target=trn1"]);
    assert_eq!(fs::read_to_string(folder.path().join("file.neff")).unwrap(), "");
}

#[tokio::test]
async fn the_daemon_finds_the_cores_of_all_instances() {
    for Instance { name, generation, .. } in INSTANCES {
        let configs = [1, 2].into_iter().filter(|config| generation.core_kind(*config).is_some());
        for config in configs {
            let instance = traind_neuron::instance(name).unwrap();
            let cores = instance.cores(config);
            let mut host = installed::stopped_host(cores, name, "");
            let mut variables = installed::environment(&host, &format!("instance={name}"));
            let is_default = config == generation.default_logical_config();
            let named = || ("NEURON_LOGICAL_NC_CONFIG".to_owned(), config.to_string());
            variables.extend((!is_default).then(named));
            host.set_environment(variables);
            host.start().await;
            let found = host.cores().await;
            assert_eq!(found.len() as u32, cores, "{name} with {config}");
            let device = format!("{generation:?}");
            assert!(found.iter().all(|core| core.device.contains(&device)), "{found:?}");
        }
    }
}
