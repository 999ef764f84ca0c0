//! Stages of a pipeline train, evaluate and predict what one core does, and checkpoints know no stages.

use traind_tests::{Draft, Host};

use super::one_core::{CLASSIFICATION, Job, LANGUAGE_MODEL, STEPS, results};

const CLASSIFICATION_OF_THREE_LAYERS: Job = Job {
    model: "{num_hidden_layers: 3, num_attention_heads: 4, intermediate_size: 2048, \
            hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1}",
    ..CLASSIFICATION
};
const LANGUAGE_MODEL_OF_FOUR_LAYERS: Job = Job {
    model: "{n_layer: 4, n_head: 4, n_inner: 2048, resid_pdrop: 0.1, embd_pdrop: 0.1, \
            attn_pdrop: 0.1}",
    ..LANGUAGE_MODEL
};

/// A job on `data` x `tensor` x `stages` cores, with `rows` rows on each core of the data axis.
fn draft(job: &Job, host: &Host, name: &str, mesh: [u32; 3], rows: u32) -> Draft {
    let [data, tensor, stages] = mesh;
    job.draft(host, name, data, tensor, rows)
        .set("resources.cores", data * tensor * stages)
        .set("parallel.pipeline", stages)
}

#[tokio::test]
async fn a_classifier_in_uneven_stages_trains_as_on_one_core() {
    let (host, job) = (Host::started(8).await, CLASSIFICATION_OF_THREE_LAYERS);
    let expect = results(&host, &job.draft(&host, "one", 1, 1, 8)).await;
    assert_eq!(expect.losses.len(), STEPS);
    let two = draft(&job, &host, "p2", [1, 1, 2], 8);
    results(&host, &two).await.assert_equal(&expect, "P2");
    // Each continues from a checkpoint of the one before.
    let all = draft(&job, &host, "d2-t2-p2", [2, 2, 2], 2)
        .set("train.gradient_accumulation_steps", 2)
        .set("parallel.shard_optimizer_state", true)
        .set("parallel.sequence_parallel", true)
        .set("parallel.placement", "PTD")
        .set("parallel.offload", "optimizer")
        .set("train.resume_from_checkpoint", two.path("out/checkpoint-2").display());
    results(&host, &all).await.assert_equal(&expect, "D2 T2 P2");
    let one = job
        .draft(&host, "one-again", 1, 1, 8)
        .set("train.resume_from_checkpoint", all.path("out/checkpoint-4").display());
    results(&host, &one).await.assert_equal(&expect, "one core after D2 T2 P2");
}

/// Adapters of a stage are beside its layers, and draw what they would on one core. Checkpoints hold those of
/// all stages.
#[tokio::test]
async fn adapters_in_stages_train_as_on_one_core() {
    let (host, job) = (Host::started(8).await, CLASSIFICATION_OF_THREE_LAYERS);
    let adapted = |draft: Draft| {
        draft
            .set("peft", "{method: lora, r: 4, lora_dropout: 0.1, use_dora: true, merge: true}")
            .set("train.learning_rate", 1e-2)
    };
    let expect = results(&host, &adapted(job.draft(&host, "one", 1, 1, 8))).await;
    let two = adapted(draft(&job, &host, "p2", [1, 1, 2], 8));
    results(&host, &two).await.assert_equal(&expect, "P2");
    let saved = two.path("out/checkpoint-2");
    let all = adapted(draft(&job, &host, "d2-t2-p2", [2, 2, 2], 4))
        .set("parallel.fsdp", "full_shard")
        .set("parallel.sequence_parallel", true)
        .set("train.resume_from_checkpoint", saved.display());
    results(&host, &all).await.assert_equal(&expect, "D2 T2 P2");
    let one = adapted(job.draft(&host, "one-again", 1, 1, 8))
        .set("train.resume_from_checkpoint", all.path("out/checkpoint-4").display());
    results(&host, &one).await.assert_equal(&expect, "one core after D2 T2 P2");
}

/// The first stage has nothing to train.
#[tokio::test]
async fn a_stage_without_adapters_passes_states_on() {
    let (host, job) = (Host::started(2).await, LANGUAGE_MODEL_OF_FOUR_LAYERS);
    let of_last_layer =
        "{method: lora, target_modules: [c_attn], layers_to_transform: [3], merge: true}";
    let one = job.draft(&host, "one", 1, 1, 8).set("peft", of_last_layer);
    let expect = results(&host, &one).await;
    let two = draft(&job, &host, "p2", [1, 1, 2], 8).set("peft", of_last_layer);
    results(&host, &two).await.assert_equal(&expect, "P2");
}

/// The embeddings of the first stage are also the head of the last.
#[tokio::test]
async fn a_language_model_in_interleaved_stages_trains_as_on_one_core() {
    let (host, job) = (Host::started(2).await, LANGUAGE_MODEL_OF_FOUR_LAYERS);
    let expect = results(&host, &job.draft(&host, "one", 1, 1, 8)).await;
    let two = |name| {
        draft(&job, &host, name, [1, 1, 2], 8)
            .set("parallel.pipeline_interleave", 2)
            .set("parallel.microbatches", 4)
    };
    let found = results(&host, &two("p2")).await;
    found.assert_equal(&expect, "P2 interleaved");
    // What is in host memory meanwhile comes back with the same bits.
    let offloaded = two("offloaded")
        .set("parallel.offload", "[activations, optimizer]")
        .set("parallel.activation_loading_horizon", 1);
    results(&host, &offloaded).await.assert_same_bits(&found, "offloaded");
}
