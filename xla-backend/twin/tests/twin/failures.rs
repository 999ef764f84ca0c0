//! Failures of plugin, compiler, runtime and host: a job's failure names code, core, meaning and remedy, a restart
//! happens where it may help, and no core stays held.

use traind_proto::v1::{Failure, JobState};
use traind_tests::{Draft, Host};

use crate::installed;

const INSTANCE: &str = "trn1.2xlarge";

fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("resources.platform", "neuron")
        .set("model.config_overrides", "{num_hidden_layers: 1}")
        .set("train.max_steps", 3)
        .set("train.do_eval", false)
        .set("resources.max_restarts", 1)
}

/// Runs a job that fails. Returns the failure and the number of attempts.
async fn failed(host: &Host, name: &str) -> (Failure, u32) {
    let history = host.run(&draft(host, name)).await;
    assert_eq!(history.job.state(), JobState::Failed, "{:?}", history.job);
    let cores = host.cores().await;
    assert!(cores.iter().all(|core| core.job_id.is_empty()), "{cores:?}");
    (history.job.failure.clone().unwrap(), history.job.attempt)
}

/// Runs a job with options of the twin; its folder has their name.
async fn check(host: &Host, options: &str, reason: &str, attempts: u32, parts: &[&str]) {
    installed::set_options(host, &format!("instance={INSTANCE},{options}"));
    let (failure, found) = failed(host, &options.replace(['=', ','], "-")).await;
    assert_eq!((failure.reason.as_str(), found), (reason, attempts), "{options}: {failure:?}");
    for part in parts {
        assert!(failure.message.contains(part), "{options}: {failure:?}");
    }
}

#[tokio::test]
async fn failures_of_devices_and_settings_are_explained() {
    let host = installed::host(1, INSTANCE, "").await;
    let core = "on ND 0:NC 0: ";
    let parts = ["NRT 1006 (EXEC_OOB)", core, "outside of a tensor"];
    check(&host, "fail_status=1006,fail_at=3", "INTERNAL", 1, &parts).await;
    let parts = ["NRT 1202", core, "replace the instance"];
    check(&host, "fail_status=1202", "DEVICE_FAILED", 2, &parts).await;
    let parts = ["NRT 1300", core, "a status that traind does not know", "nrt_status.h"];
    check(&host, "fail_status=1300", "DEVICE_FAILED", 2, &parts).await;
    let parts = ["NRT 4 (RESOURCE)", core, "per_device_train_batch_size"];
    check(&host, "memory_full_at=1", "OUT_OF_MEMORY", 1, &parts).await;
    let parts = ["struct_size", "libneuronxla 3.0 or newer"];
    check(&host, "version_2=true", "PLUGIN_INVALID", 1, &parts).await;
    let parts = ["driver", "aws-neuronx-dkms"];
    check(&host, "driver=2.26.5.0", "PLUGIN_INVALID", 1, &parts).await;
}

/// A compile takes minutes: a program that the compiler refused is refused at once when it comes again, until the file
/// that remembers it is removed.
#[tokio::test]
async fn a_refused_program_is_not_compiled_again() {
    let mut host = Host::cold(1);
    installed::install(&mut host, INSTANCE, "");
    // The sandbox leaves the compiler its run folder, and not `/tmp`.
    for root in installed::folders(&host) {
        host.add_options(&["--allow-root", root.to_str().unwrap()]);
    }
    host.start().await;
    let started = host.path("twin/locks/compiling");
    // The host's memory may have been another job's, so this is no refusal.
    let parts = ["F137: the compiler was killed", "add swap space"];
    check(&host, "compile_code=F137", "HOST_MEMORY_FULL", 2, &parts).await;
    let parts =
        ["NCC_EUOC002", "does not support", "At fault is the matrix product in the embeddings"];
    check(&host, "compile_code=EUOC002", "COMPILE_FAILED", 1, &parts).await;

    installed::set_options(&host, &format!("instance={INSTANCE}"));
    std::fs::remove_file(&started).unwrap();
    let (failure, attempts) = failed(&host, "again").await;
    assert_eq!((failure.reason.as_str(), attempts), ("COMPILE_FAILED", 1), "{failure:?}");
    for part in ["NCC_EUOC002", "was not started", ".refused", "At fault is the matrix product"] {
        assert!(failure.message.contains(part), "{failure:?}");
    }
    assert!(!started.exists(), "the programs that try the device are in the cache, too");

    let executables = std::fs::read_dir(host.path("cache/executables")).unwrap().flatten();
    let refused = executables
        .map(|it| it.path())
        .filter(|it| it.extension().is_some_and(|it| it == "refused"));
    refused.for_each(|path| std::fs::remove_file(path).unwrap());
    let history = host.complete(&draft(&host, "compiled")).await;
    let run = host.path("state/jobs").join(&history.job.id);
    assert!(run.join("log-neuron-cc.txt").is_file());
    let names = std::fs::read_dir(run).unwrap().flatten().map(|it| it.file_name());
    let left: Vec<_> = names.filter(|it| it.to_string_lossy().starts_with("neuronxcc-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The texts of runtime and compiler are on standard error alone, which is the log of the runner.
#[tokio::test]
async fn codes_of_the_log_explain_errors_without_one() {
    let host = installed::cold_host(1, INSTANCE, "").await;
    // Before the program is in the cache.
    let parts =
        ["NCC_EUOC002", "does not support", "At fault is the matrix product in the embeddings"];
    check(&host, "errors=brief,compile_code=EUOC002", "COMPILE_FAILED", 1, &parts).await;
    let core = "on ND 0:NC 0: ";
    let parts = ["NRT 1202 (EXEC_HW_ERR_NC_UE)", core, "replace the instance", "status=1202"];
    check(&host, "errors=brief,fail_status=1202", "DEVICE_FAILED", 2, &parts).await;
    let parts = ["driver", "aws-neuronx-dkms", "num_devices"];
    check(&host, "errors=brief,driver=2.26.5.0", "PLUGIN_INVALID", 1, &parts).await;
}

/// The sandbox has no `/tmp`, where the plugin may compile whatever `TMPDIR` is.
#[tokio::test]
async fn a_plugin_that_compiles_below_tmp_is_explained_in_the_sandbox() {
    let mut host = Host::cold(1);
    installed::install(&mut host, INSTANCE, "");
    for root in installed::folders(&host) {
        host.add_options(&["--allow-root", root.to_str().unwrap()]);
    }
    host.start().await;
    let parts = ["below /tmp", "a further --allow-root", "neuroncc_compile_workdir"];
    check(&host, "work_folder=tmp", "COMPILE_FAILED", 1, &parts).await;
}

/// Runs a job whose executions may take `limit` seconds.
async fn check_limit(options: &str, limit: &str) {
    let mut host = installed::stopped_host(1, INSTANCE, options);
    let options = format!("instance={INSTANCE},{options}");
    let mut variables = installed::environment(&host, &options);
    variables.push(("NEURON_RT_EXEC_TIMEOUT".to_owned(), limit.to_owned()));
    host.set_environment(variables);
    host.start().await;
    let (failure, attempts) = failed(&host, "late").await;
    assert_eq!((failure.reason.as_str(), attempts), ("DEVICE_FAILED", 2), "{failure:?}");
    assert!(failure.message.contains("NRT 5 (TIMEOUT) on ND 0:NC 0"), "{failure:?}");
    assert!(failure.message.contains("NEURON_RT_EXEC_TIMEOUT"), "{failure:?}");
}

#[tokio::test]
async fn a_step_that_waits_for_ever_ends_by_the_runtimes_limit() {
    check_limit("hang_at=2", "5").await;
}

/// No execution is that fast.
#[tokio::test]
async fn an_execution_that_takes_longer_than_the_runtimes_limit_fails() {
    check_limit("", "0.000000001").await;
}

/// Another process holds the core, until it ends.
#[tokio::test]
async fn a_busy_core_is_tried_again() {
    let host = installed::host(1, INSTANCE, "").await;
    std::fs::create_dir_all(host.path("twin/locks")).unwrap();
    let lock = std::fs::File::create(host.path("twin/locks/core0")).unwrap();
    lock.lock().unwrap();
    let (failure, attempts) = failed(&host, "busy").await;
    assert_eq!((failure.reason.as_str(), attempts), ("DEVICE_FAILED", 2), "{failure:?}");
    for part in ["NRT 4 (RESOURCE) on lnc0-lnc0", "neuron-ls"] {
        assert!(failure.message.contains(part), "{failure:?}");
    }
}

/// All statuses of the runtime and all codes of the compiler: `scripts/soak/neuron` runs it.
#[tokio::test]
#[ignore = "takes minutes"]
async fn every_status_and_code_is_explained() {
    let host = installed::host(1, INSTANCE, "").await;
    for code in traind_neuron::RUNTIME {
        let options = format!("instance={INSTANCE},fail_status={}", code.status);
        installed::set_options(&host, &options);
        let (failure, attempts) = failed(&host, code.name).await;
        assert_eq!(attempts, 1 + u32::from(code.cause.may_pass()), "{failure:?}");
        let name = format!("NRT {} ({}) on ND 0:NC 0", code.status, code.name);
        for part in [name.as_str(), code.meaning, code.remedy] {
            assert!(failure.message.contains(part), "{part}: {failure:?}");
        }
    }
    // Others are prefixes of codes.
    let whole = || traind_neuron::COMPILER.iter().filter(|code| code.code.len() == 7);
    for code in whole() {
        let options = format!("compile_code={}", code.code);
        let host = installed::cold_host(1, INSTANCE, &options).await;
        let (failure, attempts) = failed(&host, code.code).await;
        assert_eq!((failure.reason.as_str(), attempts), ("COMPILE_FAILED", 1), "{failure:?}");
        for part in [code.code, code.meaning, code.remedy] {
            assert!(failure.message.contains(part), "{part}: {failure:?}");
        }
    }
    let (statuses, codes) = (traind_neuron::RUNTIME.len(), whole().count());
    println!("{statuses} statuses and {codes} codes: each with meaning, remedy and restarts");
}
