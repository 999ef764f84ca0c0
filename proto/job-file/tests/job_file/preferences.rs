//! Keys of conversations and of preferences.

use crate::check;

fn check_task(task: &str, rest: &str, expect: &str) {
    let model = format!("model: {{name_or_path: ./llama, task: {task}}}");
    check(&format!("{model}\ndata: {{train: a.jsonl}}\n{rest}"), expect);
}

#[test]
fn keys_of_pairs() {
    check_task("dpo", "dpo: {loss_type: ipo, beta: 0.2, disable_dropout: false}", "");
    check_task("dpo", "dpo: {loss_type: robust, label_smoothing: 0.1}", "");
    check_task(
        "dpo",
        "dpo: {loss_type: [sigmoid, bco_pair, sft], loss_weights: [0.8, 0.2, 1]}",
        "",
    );
    check_task("dpo", "dpo: {loss_type: [aot, exo_pair], label_smoothing: 0.001}", "");
    check_task("dpo", "dpo: {loss_type: discopop, discopop_tau: 0.1, ld_alpha: 0}", "");
    check_task(
        "dpo",
        "dpo: {f_divergence_type: alpha_divergence, f_alpha_divergence_coef: 0.7, use_weighting: true}",
        "",
    );
    check_task("dpo", "dpo: {ref_model_name_or_path: org/name}\npeft: {method: lora}", "");
    check_task("dpo", "parallel: {pipeline: 2}\nresources: {cores: 2}", "");
}

#[test]
fn settings_of_pairs_that_do_not_fit() {
    for (rest, expect) in [
        (
            "dpo: {loss_type: hinge, label_smoothing: 0.1}",
            "line 3: dpo.label_smoothing: applies to the losses `robust`, `exo_pair`, `aot` and \
             `aot_unpaired`, not to `hinge`",
        ),
        (
            "dpo: {loss_type: exo_pair}",
            "line 3: dpo.label_smoothing: must be above 0 for the loss `exo_pair`, such as 0.001",
        ),
        ("dpo: {loss_type: []}", "line 3: dpo.loss_type: must have at least one value"),
        (
            "dpo: {loss_type: [sigmoid, sft], loss_weights: [1]}",
            "line 3: dpo.loss_weights: has 1 weight, but dpo.loss_type has 2 losses",
        ),
        (
            "dpo: {loss_type: [sigmoid, aot], use_weighting: true}",
            "line 3: dpo.use_weighting: does not apply to the loss `aot`, which has pairs of ranks, \
             not of rows",
        ),
        (
            "dpo: {loss_type: [ipo, nca_pair], f_divergence_type: forward_kl}",
            "line 3: dpo.f_divergence_type: must be reverse_kl for the loss `nca_pair`, not \
             forward_kl",
        ),
        (
            "dpo: {f_alpha_divergence_coef: 0.7}",
            "line 3: dpo.f_alpha_divergence_coef: applies to alpha_divergence, not to reverse_kl",
        ),
        (
            "dpo: {loss_type: [hinge, sft], discopop_tau: 0.1}",
            "line 3: dpo.discopop_tau: applies to the loss `discopop`, not to `hinge`, `sft`",
        ),
        ("dpo: {ld_alpha: 1.5}", "line 3: dpo.ld_alpha: must be at least 0 and at most 1, not 1.5"),
        ("dpo: {beta: 0}", "line 3: dpo.beta: must be above 0, not 0"),
        (
            "dpo: {ref_model_name_or_path: a/b/c}",
            "line 3: dpo.ref_model_name_or_path: `a/b/c` is neither a folder that exists nor a \
             hub id such as `org/name`",
        ),
        (
            "dpo: {label_smoothing: 0.5}",
            "line 3: dpo.label_smoothing: must be at least 0 and below 0.5, not 0.5",
        ),
        (
            "train: {neftune_noise_alpha: 5}",
            "line 3: train.neftune_noise_alpha: is not supported for dpo, whose reference has no noise",
        ),
        (
            "train: {label_smoothing_factor: 0.1}",
            "line 3: train.label_smoothing_factor: applies to classes and tokens; the loss `robust` has \
             dpo.label_smoothing",
        ),
    ] {
        check_task("dpo", rest, expect);
    }
    check_task("sft", "dpo: {beta: 0.2}", "line 3: dpo.beta: applies to dpo, not to sft");
    check_task(
        "sft",
        "dpo: {ref_model_name_or_path: ./a}",
        "line 3: dpo.ref_model_name_or_path: applies to dpo, not to sft",
    );
    check(
        "model: {name_or_path: ./llama, task: dpo}\ndata: {train: a.jsonl, chosen: prompt}",
        "line 2: data.chosen: column `prompt` is `data.prompt` already",
    );
}

#[test]
fn keys_of_other_preferences() {
    check_task("reward", "reward: {center_rewards_coefficient: 0.01, disable_dropout: false}", "");
    check_task("orpo", "orpo: {beta: 0.2}\ntrain: {neftune_noise_alpha: 5}", "");
    check_task("cpo", "cpo: {loss_type: simpo, simpo_gamma: 1, label_smoothing: 0.1}", "");
    check_task("cpo", "cpo: {loss_type: alphapo, alpha: 0.25, cpo_alpha: 0}", "");
    check_task("kto", "kto: {desirable_weight: 1.5, ref_model_name_or_path: org/name}", "");
    check_task(
        "kto",
        "kto: {loss_type: apo_zero_unpaired}\ntrain: {per_device_train_batch_size: 1}",
        "",
    );
    for (task, rest, expect) in [
        (
            "dpo",
            "reward: {center_rewards_coefficient: 1}",
            "line 3: reward.center_rewards_coefficient: applies to reward, not to dpo",
        ),
        ("cpo", "orpo: {beta: 1}", "line 3: orpo.beta: applies to orpo, not to cpo"),
        ("orpo", "kto: {beta: 1}", "line 3: kto.beta: applies to kto, not to orpo"),
        (
            "cpo",
            "cpo: {simpo_gamma: 1}",
            "line 3: cpo.simpo_gamma: does not apply to the loss `sigmoid`",
        ),
        (
            "cpo",
            "cpo: {loss_type: hinge, label_smoothing: 0.1}",
            "line 3: cpo.label_smoothing: does not apply to the loss `hinge`",
        ),
        (
            "cpo",
            "cpo: {loss_type: alphapo, cpo_alpha: 0.5}",
            "line 3: cpo.cpo_alpha: does not apply to the loss `alphapo`",
        ),
        (
            "cpo",
            "train: {label_smoothing_factor: 0.1}",
            "line 3: train.label_smoothing_factor: applies to classes and tokens, not to cpo; cpo has \
             cpo.label_smoothing",
        ),
        ("reward", "train: {loss: mse}", "line 3: train.loss: applies to labels, not to reward"),
        (
            "kto",
            "train: {per_device_train_batch_size: 1}",
            "line 3: train.per_device_train_batch_size: must be at least 2 for the loss `kto`, which reads each \
             prompt with the completion of another row; with 2 and half of train.gradient_accumulation_steps, a step has as \
             many rows",
        ),
        (
            "kto",
            "train: {neftune_noise_alpha: 5}",
            "line 3: train.neftune_noise_alpha: is not supported for kto, whose reference has no noise",
        ),
    ] {
        check_task(task, rest, expect);
    }
    check(
        "model: {name_or_path: ./llama, task: reward}\ndata: {train: a.jsonl, margin: chosen}",
        "line 2: data.margin: column `chosen` is `data.chosen` already",
    );
}

#[test]
fn keys_of_conversations() {
    let check_task = |task: &str, rest: &str, expect: &str| {
        check(&format!("model: {{name_or_path: ./llama, task: {task}}}\n{rest}"), expect);
    };
    let all = "data: {train: a.jsonl, packing: true, packing_strategy: wrapped, \
               assistant_only_loss: true, completion_only_loss: false, eos_token: '</s>'}";
    check_task("sft", all, "");
    for key in ["packing: true", "completion_only_loss: false", "eval_packing: true"] {
        let name = key.split(':').next().unwrap();
        let expect = format!("line 2: data.{name}: applies to sft, not to causal-lm");
        check_task("causal-lm", &format!("data: {{train: a.jsonl, {key}}}"), &expect);
    }
    check_task(
        "causal-lm",
        "data: {train: a.jsonl, eos_token: '</s>'}",
        "line 2: data.eos_token: applies to sft and preferences, not to causal-lm",
    );
    check_task(
        "sft",
        "data: {train: a.jsonl, validation_split: 0.1, packing: true, eval_packing: false}",
        "line 2: data.eval_packing: differs from data.packing, but data.validation_split takes rows \
         that are packed already; data.validation names files",
    );
    check_task(
        "sft",
        "data: {train: a.jsonl, messages: prompt}",
        "line 2: data.prompt: column `prompt` is `data.messages` already",
    );
    check_task(
        "sft",
        "data: {train: a.jsonl, test: b.jsonl}\ntrain: {do_predict: true}",
        "line 3: train.do_predict: is true, but sft has nothing to predict per row",
    );
    check_task(
        "sft",
        "data: {train: a.jsonl, block_size: 8}",
        "line 2: data.block_size: applies to masked-lm, replaced-token-detection and causal-lm, not to sft",
    );
}
