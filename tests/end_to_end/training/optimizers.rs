//! Muon, and groups of parameters with settings of their own.

use traind_tests::model::Weights;
use traind_tests::{Draft, Host};

const GROUPS: &str = "[{match: classifier, learning_rate: 2.0e-2, weight_decay: 0.1}, \
                       {match: '*embeddings*', optim: sgd, optim_args: {momentum: 0.9}}]";

/// A job whose matrices are large enough to be sharded.
fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("model.from_config", true)
        .set("model.config_overrides", "{intermediate_size: 1024}")
        .set("train.optim", "muon")
        .set("train.optim_args", "{adjust_lr_fn: match_rms_adamw}")
        .set("train.param_groups", GROUPS)
        .set("train.max_steps", 4)
        .set("train.save_steps", 2)
}

fn weights(draft: &Draft) -> Weights {
    Weights::read(draft.path("out/model.safetensors"))
}

#[tokio::test]
async fn muon_with_groups_resumes_exactly_and_on_another_mesh() {
    let host = Host::started(2).await;
    let whole = draft(&host, "whole");
    host.complete(&whole).await;
    let state = Weights::read(whole.path("out/checkpoint-2/optimizer.safetensors"));
    let query = "bert.encoder.layer.0.attention.self.query.weight";
    for slot in [
        format!("{query}.momentum_buffer"),
        "classifier.weight.exp_avg_sq".to_owned(),
        "bert.embeddings.word_embeddings.weight.momentum_buffer".to_owned(),
    ] {
        assert!(state.values(&slot).iter().any(|value| *value != 0.0), "{slot}");
    }
    let expect = weights(&whole).values(query);
    let resume = |name: &str| {
        let checkpoint = whole.path("out/checkpoint-2");
        draft(&host, name).set("train.resume_from_checkpoint", checkpoint.display())
    };
    let same = resume("same");
    host.complete(&same).await;
    assert_eq!(weights(&same).values(query), expect);

    let sharded = resume("sharded")
        .set("resources.cores", 2)
        .set("parallel.fsdp", "full_shard")
        .set("train.per_device_train_batch_size", 4);
    host.complete(&sharded).await;
    let found = weights(&sharded).values(query);
    let far = found.iter().zip(&expect).map(|(left, right)| (left - right).abs());
    let far = far.fold(0.0, f32::max);
    assert!(far < 1e-4, "{far}");

    let other = resume("other").set("train.param_groups", "[{match: classifier, optim: sgd}]");
    let failure = host.run(&other).await.job.failure.unwrap();
    assert!(failure.message.contains("train.param_groups"), "{}", failure.message);
}

#[tokio::test]
async fn a_group_without_parameters_is_refused_at_submission() {
    let host = Host::started(1).await;
    let draft =
        Draft::new(&host, "job").set("train.param_groups", "[{match: lm_head, learning_rate: 1}]");
    let status = host.create(&draft).await.unwrap_err();
    let message = format!("{status:?}");
    assert!(message.contains("`lm_head` matches no parameter of the model"), "{message}");
}
