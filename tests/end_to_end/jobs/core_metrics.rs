//! Metrics of a core while a job trains on it.

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
