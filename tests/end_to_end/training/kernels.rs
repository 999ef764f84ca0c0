//! Kernels change losses by no more than float32 rounding, and the job says whether programs call them.

use traind_tests::{Draft, Host, UNOPTIMIZED};

/// The losses of a job with dropout, and its only message about kernels.
async fn losses_and_message(host: &Host) -> (Vec<f64>, String) {
    let dropout = "{hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1}";
    let draft = Draft::new(host, "kernels").set("train.max_steps", 6);
    let draft = draft.set("model.config_overrides", dropout);
    let history = host.complete(&draft).await;
    let messages = history.log_messages().into_iter().filter(|message| message.contains("kernels"));
    let [message] = messages.collect::<Vec<_>>()[..] else { panic!("{:?}", history.events) };
    (draft.output("out").trainer_state().series("loss"), message.to_owned())
}

#[tokio::test]
async fn kernels_change_losses_by_rounding_alone_and_can_be_switched_off() {
    let host = Host::started_optimized(1).await;
    let (losses, message) = losses_and_message(&host).await;
    assert!(message.starts_with("Programs call "), "{message}");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        assert!(message.starts_with("Programs call traind's kernels"), "{message}");
    }
    let off = [("TRAIND_KERNELS", "off".to_owned()), (UNOPTIMIZED.0, String::new())];
    let host = Host::started_with_environment(1, off.to_vec()).await;
    let (plain, message) = losses_and_message(&host).await;
    assert_eq!(message, "Programs call no kernels: TRAIND_KERNELS is off");
    assert_eq!((losses.len(), plain.len()), (6, 6));
    for (step, (loss, plain)) in losses.iter().zip(&plain).enumerate() {
        assert!((loss - plain).abs() <= 1e-5 * plain, "step {}: {loss}, {plain}", step + 1);
    }
}
