//! Metrics of a core while a job trains on it.

use traind_proto::v1::CoreUsage;
use traind_tests::{Draft, Host};

#[tokio::test]
async fn a_core_reports_flops_memory_and_steps() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "metrics").endless().set("resources.cores", 2);
    let job = host.create(&draft).await.unwrap();
    host.until_past(&job.id, 50).await;
    let cores = host.cores().await;
    let usages: Vec<_> = cores.iter().map(|core| core.usage.unwrap()).collect();
    for usage in &usages {
        assert_eq!(usage.max_steps, 1_000_000);
        // Only the compiler's count includes the optimizer, the norms and the activations.
        assert!(usage.model_tflops > 0.0, "{usage:?}");
        assert!(usage.tflops > usage.model_tflops, "{usage:?}");
        assert_eq!(usage.model_flops_utilization_percent, 0.0, "the peak of a CPU is unknown");
        let memory = usage.memory.unwrap();
        // AdamW stores two values per parameter, and a step a few constants.
        let adam = 2 * memory.parameters_bytes;
        assert!((adam..adam + 64).contains(&memory.optimizer_bytes), "{memory:?}");
        assert!(memory.temporary_bytes > 0, "{memory:?}");
        let sum = memory.parameters_bytes
            + memory.optimizer_bytes
            + memory.temporary_bytes
            + memory.code_bytes;
        assert_eq!(usage.memory_used_bytes, sum);
        assert!(usage.memory_total_bytes > sum, "{usage:?}");
    }
    let output = host.cli(&host.path(""), &["cores"]).stdout;
    assert!(output.contains("TFLOP/S") && output.contains("metrics"), "{output}");
    host.cancel(&job.id).await;
    let history = host.watch(&job.id).await;
    let kind = &history.started().device_kind;
    assert!(!kind.is_empty() && *kind == cores[0].device, "{kind} of {cores:?}");
}

#[tokio::test]
async fn cores_of_a_pipeline_report_their_stages_and_what_they_send() {
    let host = Host::started(4).await;
    let draft = Draft::new(&host, "stages")
        .set("resources.cores", 4)
        .set("parallel.tensor", 2)
        .set("parallel.pipeline", 2)
        .set("parallel.microbatches", 4);
    let gate = host.gate("stages", 3);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    let usages: Vec<CoreUsage> =
        host.cores().await.iter().map(|core| core.usage.unwrap()).collect();
    let stages: Vec<_> = usages.iter().map(|usage| usage.stage.unwrap()).collect();
    assert_eq!(stages.iter().map(|it| it.stage).collect::<Vec<_>>(), [0, 0, 1, 1]);
    for (usage, stage) in usages.iter().zip(&stages) {
        assert_eq!(stage.stages, 2);
        // Each stage waits, the second at the start of a batch and the first at its end.
        assert!(stage.bubble_percent > 0.0 && stage.bubble_percent < 100.0, "{stage:?}");
        let sent = usage.communication.unwrap();
        let rates = [sent.tensor_bytes_per_second, sent.pipeline_bytes_per_second];
        assert!(rates.iter().all(|rate| *rate > 0.0), "{sent:?}");
        assert_eq!([sent.data_bytes_per_second, sent.hosts_bytes_per_second], [0.0; 2]);
    }
    let output = host.cli(&host.path(""), &["cores"]).stdout;
    assert!(output.contains("stage 1, bubble") && output.contains("tensor"), "{output}");
    gate.open();
    host.cancel(&job.id).await;
    host.watch(&job.id).await;
}
