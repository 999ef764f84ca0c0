//! Masked and causal language models.

use std::path::Path;

use tonic_types::StatusExt;
use traind_tests::Host;
use traind_tests::model::Weights;

use super::{TaskJob, architecture, assert_pipeline_tag, rows, train};

pub(super) fn masked() -> TaskJob {
    TaskJob {
        task: "masked-lm",
        fixture: "bert-masked-lm",
        data: "{train: train.jsonl, validation: validation.jsonl, line_by_line: true, mlm_probability: 0.3}",
        files: files(),
    }
}

pub(super) fn causal() -> TaskJob {
    TaskJob {
        task: "causal-lm",
        fixture: "gpt2-causal-lm",
        data: "{train: train.jsonl, validation: validation.jsonl, block_size: 16}",
        files: files(),
    }
}

fn replaced() -> TaskJob {
    let task = "replaced-token-detection";
    TaskJob { task, fixture: "electra-masked-lm", ..masked() }
}

fn files() -> Vec<(&'static str, String)> {
    vec![("train.jsonl", rows::lines(1, 80)), ("validation.jsonl", rows::lines(2, 40))]
}

#[tokio::test]
async fn language_models_learn_and_report_their_perplexity() {
    let host = Host::started(2).await;
    let table = [
        (masked(), "BertForMaskedLM", "fill-mask"),
        (causal(), "GPT2LMHeadModel", "text-generation"),
    ];
    for (job, class, tag) in table {
        let draft = job
            .draft(&host, job.task)
            .set("resources.cores", 2)
            .set("train.num_train_epochs", 25)
            .set("train.learning_rate", 1e-2);
        let (metrics, output) = train(&host, &draft, 0.9).await;
        let (loss, perplexity) = (metrics["eval_loss"], metrics["eval_perplexity"]);
        assert!((perplexity - loss.exp()).abs() <= 1e-9 * perplexity, "{metrics:?}");
        assert!(perplexity > 1.0 && perplexity < 100.0, "{metrics:?}");
        assert!(metrics["eval_accuracy"] > 0.02 && metrics["eval_accuracy"] < 1.0, "{metrics:?}");
        assert_eq!(architecture(&output), class);
        assert_pipeline_tag(&output, tag);
    }
}

/// The output has a folder for each of the two models, and a job that starts from it finds both.
#[tokio::test]
async fn a_generator_and_the_discriminator_of_its_tokens_learn_together() {
    let host = Host::started(2).await;
    let draft = replaced()
        .draft(&host, "pretrained")
        .set("resources.cores", 2)
        .set("data.pad_to_multiple_of", 8)
        .set("train.num_train_epochs", 12)
        .set("train.learning_rate", 1e-2);
    let (metrics, output) = train(&host, &draft, 0.95).await;
    assert_eq!(architecture(&output), "ElectraForPreTraining");
    let generator = output.json("generator/config.json");
    assert_eq!(generator["architectures"][0], "ElectraForMaskedLM");
    assert_eq!(generator["hidden_size"], 4);
    assert!(output.folder().join("generator/tokenizer.json").exists());
    let logged = output.trainer_state().series("discriminator_accuracy");
    assert!(logged.iter().all(|accuracy| (0.0..=1.0).contains(accuracy)), "{logged:?}");

    let again = replaced()
        .draft(&host, "evaluated")
        .set("model.name_or_path", output.folder().display())
        .set("resources.cores", 2)
        .set("data.pad_to_multiple_of", 8)
        .set("train.do_train", false);
    let found = host.complete(&again).await.job.metrics;
    for name in ["loss", "generator_loss", "discriminator_loss", "discriminator_accuracy"] {
        let name = format!("eval_{name}");
        let (found, expect) = (found[&name], metrics[&name]);
        assert!((found - expect).abs() <= 1e-5 * expect.abs(), "{name}: {found}, {expect}");
    }
    check_adapters(&host, output.folder()).await;
}

/// Adapters of the two models in `pretrained` stand in a folder each, and a job continues from them. A new generator
/// has no weights to be adapted.
async fn check_adapters(host: &Host, pretrained: &Path) {
    let draft = |name: &str, model: &Path| {
        replaced()
            .draft(host, name)
            .set("model.name_or_path", model.display())
            .set("data.pad_to_multiple_of", 8)
            .set("train.max_steps", 1)
    };
    let adapted = draft("adapted", pretrained).set("peft.method", "lora");
    host.complete(&adapted).await;
    let output = adapted.output("out");
    for (folder, base) in
        [("", pretrained.to_owned()), ("generator/", pretrained.join("generator"))]
    {
        let config = output.json(&format!("{folder}adapter_config.json"));
        assert_eq!(config["base_model_name_or_path"], base.display().to_string());
        let tensors = Weights::read(output.folder().join(folder).join("adapter_model.safetensors"));
        let names = tensors.header;
        let names = names.as_object().unwrap().keys().filter(|name| *name != "__metadata__");
        assert!(names.clone().count() > 0);
        assert!(
            names.clone().all(|name| name.starts_with("base_model.model.electra.")),
            "{folder}"
        );
    }
    let again = draft("continued", pretrained)
        .set("peft.method", "lora")
        .set("peft.adapter_name_or_path", output.folder().display())
        .set("peft.merge", true);
    host.complete(&again).await;
    assert!(again.path("out/generator/model.safetensors").exists());

    let new = replaced().draft(host, "new").set("peft.method", "lora");
    let error = host.create(&new).await.unwrap_err();
    let violations = error.get_error_details();
    let violations = &violations.bad_request().unwrap().field_violations;
    assert_eq!(violations[0].field, "peft.method", "{violations:?}");
}

/// Texts are concatenated, so that every block is full and no row is padded.
#[tokio::test]
async fn masked_blocks_have_one_length() {
    let host = Host::started(1).await;
    let mut job = masked();
    job.data = "{train: train.jsonl, validation_split: 0.2, block_size: 12, whole_word_mask: true}";
    let draft = job.draft(&host, "blocks");
    let history = host.complete(&draft).await;
    let lengths = history.data().into_iter().map(|data| data.lengths.unwrap());
    assert!(lengths.clone().all(|of| of.p50 == 12 && of.max == 12), "{:?}", history.data());
    let compiled: Vec<u32> =
        history.compiled().iter().map(|program| program.bucket_length).collect();
    assert_eq!(compiled, [12, 12]);
    let [train, validation] = history.data()[..] else { panic!("{:?}", history.data()) };
    assert_eq!(validation.rows, (train.rows + validation.rows).div_ceil(5));
}

/// With so few masked tokens most steps have none. Their loss and gradients are 0.
#[tokio::test]
async fn a_step_without_labels_is_skipped() {
    let host = Host::started(1).await;
    let mut job = masked();
    job.data = "{train: train.jsonl, line_by_line: true, mlm_probability: 0.002}";
    for (name, accumulated) in [("one", 1), ("several", 2)] {
        let draft = job
            .draft(&host, name)
            .set("train.gradient_accumulation_steps", accumulated)
            .set("train.per_device_train_batch_size", 8 / accumulated);
        host.complete(&draft).await;
        let state = draft.output("out").trainer_state();
        let (losses, norms) = (state.series("loss"), state.series("grad_norm"));
        let (without, with): (Vec<_>, Vec<_>) =
            losses.into_iter().zip(norms).partition(|(loss, _)| *loss == 0.0);
        assert!(without.len() > 4, "{without:?}, {with:?}");
        assert!(without.iter().all(|(_, norm)| *norm == 0.0), "{without:?}");
        assert!(with.iter().all(|(loss, norm)| *loss > 1.0 && *norm > 0.0), "{with:?}");
    }
}

/// The Trainer divides the smoothed loss by the same count as the plain loss, which for causal models
/// includes the first label of each block.
#[tokio::test]
async fn tiny_label_smoothing_changes_losses_by_a_tiny_amount() {
    let host = Host::started(1).await;
    let mut losses = Vec::new();
    for (name, factor) in [("plain", 0.0), ("smoothed", 1e-6)] {
        let draft = causal()
            .draft(&host, name)
            .set("train.max_steps", 3)
            .set("train.label_smoothing_factor", factor);
        host.complete(&draft).await;
        losses.push(draft.output("out").trainer_state().series("loss"));
    }
    for (plain, smoothed) in losses[0].iter().zip(&losses[1]) {
        assert!((plain - smoothed).abs() < 1e-4 * plain, "{losses:?}");
    }
}
