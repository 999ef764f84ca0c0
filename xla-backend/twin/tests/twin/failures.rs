//! Failures of plugin, compiler, runtime and host: a job's failure names code, core, meaning and remedy, a restart happens
//! where it may help, and no core stays held.

use traind_proto::v1::{Failure, JobState};
use traind_tests::{Draft, Host};

use crate::installed;

fn draft(host: &Host) -> Draft {
    Draft::new(host, "tiny")
        .set("resources.platform", "neuron")
        .set("model.config_overrides", "{num_hidden_layers: 1}")
        .set("train.max_steps", 3)
        .set("train.do_eval", false)
        .set("resources.max_restarts", 1)
}

/// Runs a job that fails. Returns the failure and the number of attempts.
async fn failed(host: &Host) -> (Failure, u32) {
    let history = host.run(&draft(host)).await;
    assert_eq!(history.job.state(), JobState::Failed, "{:?}", history.job);
    let cores = host.cores().await;
    assert!(cores.iter().all(|core| core.job_id.is_empty()), "{cores:?}");
    (history.job.failure.clone().unwrap(), history.job.attempt)
}

async fn check(options: &str, reason: &str, attempts: u32, parts: &[&str]) {
    let host = installed::host(1, "trn1.2xlarge", options).await;
    let (failure, found) = failed(&host).await;
    assert_eq!((failure.reason.as_str(), found), (reason, attempts), "{options}: {failure:?}");
    for part in parts {
        assert!(failure.message.contains(part), "{options}: {failure:?}");
    }
}

#[tokio::test]
async fn statuses_of_the_runtime_name_core_meaning_and_remedy() {
    let core = "on ND 0:NC 0: ";
    check(
        "fail_status=1006,fail_at=3",
        "INTERNAL",
        1,
        &["NRT 1006 (EXEC_OOB)", core, "outside of a tensor"],
    )
    .await;
    let remedy = "NEURON_RT_ENABLE_DGE_NOTIFICATIONS=0";
    check("fail_status=1204", "PLUGIN_INVALID", 1, &["NRT 1204", core, remedy]).await;
    check("fail_status=1202", "DEVICE_FAILED", 2, &["NRT 1202", core, "replace the instance"])
        .await;
    let remedy = "per_device_train_batch_size";
    check("memory_full_at=1", "OUT_OF_MEMORY", 1, &["NRT 4 (RESOURCE)", core, remedy]).await;
}

#[tokio::test]
async fn a_step_that_waits_for_ever_ends_by_the_runtimes_limit() {
    let mut host = installed::stopped_host(1, "trn1.2xlarge", "hang_at=2");
    let mut variables = installed::environment(&host, "instance=trn1.2xlarge,hang_at=2");
    variables.push(("NEURON_RT_EXEC_TIMEOUT".to_owned(), "1".to_owned()));
    host.set_environment(variables);
    host.start().await;
    let (failure, attempts) = failed(&host).await;
    assert_eq!((failure.reason.as_str(), attempts), ("DEVICE_FAILED", 2));
    assert!(failure.message.contains("NRT 5 (TIMEOUT) on ND 0:NC 0"), "{failure:?}");
    assert!(failure.message.contains("NEURON_RT_EXEC_TIMEOUT"), "{failure:?}");
}

#[tokio::test]
async fn settings_that_do_not_fit_end_a_job_at_once() {
    let remedy = "libneuronxla 3.0 or newer";
    check("version_2=true", "PLUGIN_INVALID", 1, &["struct_size", remedy]).await;
    check("driver=2.26.5.0", "PLUGIN_INVALID", 1, &["driver", "aws-neuronx-dkms"]).await;
    check("compile_code=EOOM002", "COMPILE_FAILED", 1, &["NCC_EOOM002", "per_device_train"]).await;
}

/// Another process holds the core, until it ends.
#[tokio::test]
async fn a_busy_core_is_tried_again() {
    let host = installed::host(1, "trn1.2xlarge", "").await;
    std::fs::create_dir_all(host.path("twin/locks")).unwrap();
    let lock = std::fs::File::create(host.path("twin/locks/core0")).unwrap();
    lock.lock().unwrap();
    let (failure, attempts) = failed(&host).await;
    assert_eq!((failure.reason.as_str(), attempts), ("DEVICE_FAILED", 2), "{failure:?}");
    for part in ["NRT 4 (RESOURCE) on lnc0-lnc0", "neuron-ls"] {
        assert!(failure.message.contains(part), "{failure:?}");
    }
}

/// All statuses of the runtime and all codes of the compiler: `scripts/soak/neuron` runs it.
#[tokio::test]
#[ignore = "takes minutes"]
async fn every_status_and_code_is_explained() {
    for code in traind_neuron::RUNTIME {
        let options = format!("fail_status={}", code.status);
        let host = installed::host(1, "trn1.2xlarge", &options).await;
        let (failure, attempts) = failed(&host).await;
        assert_eq!(attempts, 1 + u32::from(code.cause.may_pass()), "{failure:?}");
        let name = format!("NRT {} ({}) on ND 0:NC 0", code.status, code.name);
        for part in [name.as_str(), code.meaning, code.remedy] {
            assert!(failure.message.contains(part), "{part}: {failure:?}");
        }
    }
    // Others are prefixes of codes.
    for code in traind_neuron::COMPILER.iter().filter(|code| code.code.len() == 7) {
        let options = format!("compile_code={}", code.code);
        let host = installed::cold_host(1, "trn1.2xlarge", &options).await;
        let (failure, attempts) = failed(&host).await;
        assert_eq!((failure.reason.as_str(), attempts), ("COMPILE_FAILED", 1), "{failure:?}");
        for part in [code.code, code.meaning, code.remedy] {
            assert!(failure.message.contains(part), "{part}: {failure:?}");
        }
    }
}
