//! Jobs on CPUs whose layers compute no padding.

use traind_tests::{Draft, Host};

/// Losses and norms of gradients, with dropout, of a job whose batches are padded to one length, and of the same job
/// without padding in its layers.
#[tokio::test]
async fn a_job_without_padding_trains_as_with_padding() {
    let host = Host::started(2).await;
    let mut states = Vec::new();
    for (name, is_padded, cores) in
        [("padded", true, 1), ("packed", false, 1), ("on_two", false, 2)]
    {
        let mut draft = Draft::new(&host, name).with_long_rows().set("resources.cores", cores);
        if is_padded {
            draft = draft.set("data.padded_lengths_max", 1);
        }
        let draft = draft.set("train.per_device_train_batch_size", 16 / cores);
        let history = host.complete(&draft).await;
        let is_packed =
            history.log_messages().iter().any(|log| log.contains("without its padding"));
        assert_eq!(is_packed, !is_padded, "{name}: {:?}", history.log_messages());
        states.push(draft.output("out").trainer_state());
    }
    for key in ["loss", "grad_norm", "eval_loss"] {
        let expect = states[0].series(key);
        assert!(!expect.is_empty(), "{key}");
        for state in &states[1..] {
            for (found, expect) in state.series(key).iter().zip(&expect) {
                assert!((found - expect).abs() <= 2e-4 * expect.abs(), "{key}: {found}, {expect}");
            }
        }
    }
}
