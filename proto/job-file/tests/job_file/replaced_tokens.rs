//! Keys of ELECTRA's pre-training.

use crate::check;

fn check_task(task: &str, model: &str, rest: &str, expect: &str) {
    let model = format!("model: {{name_or_path: ./electra, task: {task}{model}}}");
    check(&format!("{model}\ndata: {{train: a.txt, line_by_line: true}}\n{rest}"), expect);
}

#[test]
fn keys_of_replaced_tokens() {
    let settings = "replaced_token_detection: {discriminator_weight: 25, generator_weight: 2, temperature: 0.5, \
                    generator_hidden_size: 0.5, generator_layers: 0.5, tie_embeddings: false}";
    for (model, rest, expect) in [
        ("", "", ""),
        ("", settings, ""),
        (", generator: ./generator", "replaced_token_detection: {tie_embeddings: true}", ""),
        ("", "parallel: {tensor: 2}\nresources: {cores: 4}", ""),
        (
            ", generator: org/generator",
            "replaced_token_detection: {generator_layers: 0.5}",
            "line 3: replaced_token_detection.generator_layers: is decided by the model of model.generator; remove \
             one of the two",
        ),
        (
            "",
            "replaced_token_detection: {discriminator_weight: 0, generator_weight: 0}",
            "line 3: replaced_token_detection.discriminator_weight: is 0 as generator_weight is: nothing is learned",
        ),
        (
            "",
            "replaced_token_detection: {temperature: 0}",
            "line 3: replaced_token_detection.temperature: must be above 0, not 0",
        ),
        ("", "parallel: {pipeline: 2}\nresources: {cores: 2}", ""),
        (
            "",
            "parallel: {pipeline: 2, tensor: 2, sequence_parallel: true}\nresources: {cores: 4}",
            "line 3: parallel.sequence_parallel: cannot be combined with parallel.pipeline for \
             replaced-token-detection",
        ),
        (
            "",
            "peft: {method: lora, use_dora: true, modules_to_save: [discriminator_predictions]}",
            "",
        ),
        (
            "",
            "peft: {method: lora, trainable_token_indices: [3]}",
            "line 3: peft.trainable_token_indices: is not supported for replaced-token-detection, whose two models \
             read one embedding",
        ),
        (
            "",
            "train: {loss: focal}",
            "line 3: train.loss: applies to labels, not to replaced-token-detection",
        ),
        (
            "",
            "train: {label_smoothing_factor: 0.1}",
            "line 3: train.label_smoothing_factor: applies to classes and tokens, not to \
             replaced-token-detection",
        ),
    ] {
        check_task("replaced-token-detection", model, rest, expect);
    }
    check_shares();
    let expect = "line 3: replaced_token_detection.temperature: applies to replaced-token-detection, not to \
                  masked-lm";
    check_task("masked-lm", "", "replaced_token_detection: {temperature: 2}", expect);
    let expect = "line 1: model.generator: applies to replaced-token-detection, not to masked-lm";
    check_task("masked-lm", ", generator: ./generator", "", expect);
}

fn check_shares() {
    let check_task = |task: &str, data: &str, expect: &str| {
        let model = format!("model: {{name_or_path: ./electra, task: {task}}}");
        check(&format!("{model}\ndata: {{train: a.txt{data}}}"), expect);
    };
    check_task("masked-lm", ", mask_replace_prob: 1, random_replace_prob: 0", "");
    check_task(
        "replaced-token-detection",
        ", mask_replace_prob: 0.5, random_replace_prob: 0.5",
        "",
    );
    let expect = "line 2: data.mask_replace_prob: and data.random_replace_prob add up to 1.05, and must to 1 at most";
    check_task("masked-lm", ", mask_replace_prob: 0.95", expect);
    let expect = "line 2: data.mask_replace_prob: applies to masked-lm and replaced-token-detection, not to causal-lm";
    check_task("causal-lm", ", mask_replace_prob: 1", expect);
    let expect = "line 2: data.random_replace_prob: applies to single tokens; with data.whole_word_mask, all become the \
                  mask token";
    check_task("masked-lm", ", whole_word_mask: true, random_replace_prob: 0", expect);
}
