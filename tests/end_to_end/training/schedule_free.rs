//! Schedule-free AdamW, which trains other weights than those that are evaluated and saved.

use std::path::Path;

use traind_tests::model::Weights;
use traind_tests::{Draft, Host};

fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("train.optim", "schedule_free_adamw")
        .set("train.lr_scheduler_type", "constant")
        .set("train.warmup_steps", 2)
        .set("train.max_steps", 6)
        .set("train.save_steps", 3)
}

fn weights(draft: &Draft) -> Vec<u8> {
    std::fs::read(draft.output("out").folder().join("model.safetensors")).unwrap()
}

fn losses(draft: &Draft) -> Vec<f64> {
    draft.output("out").trainer_state().series("loss")
}

#[tokio::test]
async fn the_average_is_evaluated_and_saved_and_training_resumes_exactly() {
    let host = Host::started(1).await;
    let whole =
        draft(&host, "whole").set("train.eval_strategy", "steps").set("train.eval_steps", 2);
    let history = host.complete(&whole).await;
    let model = whole.output("out").folder().to_owned();

    let evaluated = Draft::new(&host, "evaluated")
        .set("model.name_or_path", model.display())
        .set("train.do_train", false);
    let loss = |history: &traind_tests::History| history.finished().metrics["eval_loss"];
    let (found, expect) = (loss(&host.complete(&evaluated).await), loss(&history));
    assert!((found - expect).abs() <= 1e-6 * expect, "{found} for {expect}");

    // Evaluations change nothing.
    let quiet = draft(&host, "quiet");
    host.complete(&quiet).await;
    assert_eq!(weights(&quiet), weights(&whole));

    let checkpoint = model.join("checkpoint-3");
    let resumed = draft(&host, "resumed").set("train.resume_from_checkpoint", checkpoint.display());
    let history = host.complete(&resumed).await;
    assert_eq!(history.resumed()[0].step, 3);
    assert_eq!(weights(&resumed), weights(&whole));
    let read = |file: &Path| Weights::read(file.to_owned());
    let saved = read(&checkpoint.join("model.safetensors"));
    let state = read(&checkpoint.join("optimizer.safetensors"));
    let name = "classifier.weight";
    let trained = state.values(&format!("{name}.trained"));
    assert_ne!(saved.values(name), trained, "the average is not what is trained");
}

#[tokio::test]
async fn cores_that_share_the_state_train_as_one() {
    let host = Host::started(2).await;
    let one = draft(&host, "one");
    host.complete(&one).await;
    for (name, fsdp) in [("two", "shard_optimizer"), ("sharded", "full_shard")] {
        let two = draft(&host, name)
            .set("resources.cores", 2)
            .set("train.per_device_train_batch_size", 4)
            .set("parallel.fsdp", fsdp);
        host.complete(&two).await;
        for (found, expect) in losses(&two).iter().zip(losses(&one)) {
            assert!((found - expect).abs() <= 1e-5 * expect, "{fsdp}: {found} for {expect}");
        }
        let saved = |draft: &Draft| {
            let file = draft.output("out").folder().join("model.safetensors");
            Weights::read(file).values("classifier.weight")
        };
        let (found, expect) = (saved(&two), saved(&one));
        let close = found.iter().zip(&expect).all(|(a, b)| (a - b).abs() <= 1e-5);
        assert!(close, "{fsdp}: {found:?} for {expect:?}");
    }
}
