//! Keys that must fit each other.

use traind_choices::{LabelsKind, Loss};

use crate::check;

#[test]
fn fields_that_do_not_fit_each_other() {
    check(
        "data: {train: a.csv}\ntrain:\n  eval_strategy: epoch",
        "line 3: train.eval_strategy: is `epoch`, but there is no data.validation",
    );
    check("data: {train: a.csv}\ntrain:\n  eval_strategy: no", "");
    check(
        "data: {train: a.csv, text: body, label: body}",
        "line 1: data.label: column `body` is `data.text` already",
    );
    check(
        "data: {train: a.csv, text: body, text_pair: body}",
        "line 1: data.text_pair: column `body` is `data.text` already",
    );
    check(
        "data: {train: a.csv, label_map: {a: x, b: y}}",
        "line 3: model.num_labels: is 3, but data.label_map has 2 classes",
    );
    check(
        "resources: {cores: 4}\nparallel: {data: 2}",
        "line 2: parallel: data x tensor x pipeline is 2, but resources.cores is 4; data 4 x tensor 1 x \
         pipeline 1 works",
    );
    check(
        "parallel: {sequence_parallel_enabled: true}",
        "line 1: parallel.sequence_parallel_enabled: is read as `sequence_parallel`\n\
         line 1: parallel.sequence_parallel: has no effect with parallel.tensor: 1, which divides no \
         layers",
    );
    check(
        "parallel: {offload: [optimizer, activations]}",
        "line 1: parallel.offload: moves what the stages of a pipeline keep, and parallel.pipeline \
         is 1; train.gradient_checkpointing keeps fewer activations",
    );
    check("resources: {cores: 2}\nparallel: {offload: [optimizer, activations], pipeline: 2}", "");
    check(
        "resources: {cores: 2}\nparallel: {offload_activations: true, pipeline: 2}",
        "line 2: parallel.offload_activations: is read as `offload`",
    );
    check(
        "resources: {cores: 2}\nparallel: {pipeline: 2, ddp: true, active_microbatches: 3}",
        "line 2: parallel.ddp: has no effect: the cores that `tensor` and `pipeline` leave are \
         data-parallel in any case\n\
         line 2: parallel.active_microbatches: has no effect: a stage has at most as many \
         micro-batches in flight as there are stages",
    );
    check(
        "parallel: {offload: optimizer, activation_loading_horizon: 2}",
        "line 1: parallel.activation_loading_horizon: has no effect without parallel.offload: \
         activations",
    );
    check(
        "parallel: {offload: [weights]}",
        "line 1: parallel.offload: must be activations, optimizer or both, not `weights`",
    );
    check(
        "model: {name_or_path: ./bert, task: sequence-classification, num_labels: 2, revision: main}",
        "line 1: model.revision: applies to a hub id, not to a folder",
    );
    check(
        "train: {lr_scheduler_type: constant, warmup_steps: 10}",
        "line 1: train.warmup_steps: has no effect with the scheduler `constant`; \
         `constant_with_warmup` warms up",
    );
    // This optimizer warms up by itself.
    check("train: {lr_scheduler_type: constant, warmup_steps: 5, optim: schedule_free_adamw}", "");
    let long = "x".repeat(129);
    check(&format!("name: {long}"), "line 1: name: must have at most 128 characters");
    check("name: \"a\\nb\"", "line 1: name: must be one line without control characters");
}

/// Cores that share layers are neighbours where no axis with several cores varies faster.
#[test]
fn neuron_cores_that_share_layers_are_neighbours() {
    let check_order = |platform: &str, mesh: &str, order: &str, works: Option<&str>| {
        let resources = format!("resources: {{platform: {platform}, cores: 8}}");
        let said = works.map_or(String::new(), |works| {
            format!(
                "line 2: parallel.placement: puts the cores that share layers apart, and on neuron \
                 they must be neighbours; `{works}` makes them so"
            )
        });
        check(&format!("{resources}\nparallel: {{{mesh}, placement: {order}}}"), &said);
    };
    let whole = "tensor: 2, pipeline: 2";
    for (order, works) in [
        ("cluster", None),
        ("DPT", None),
        ("PDT", None),
        ("spread", Some("PDT")),
        ("TPD", Some("PDT")),
        ("TDP", Some("DPT")),
        ("DTP", Some("DPT")),
        ("PTD", Some("PDT")),
    ] {
        check_order("neuron", whole, order, works);
        check_order("cuda", whole, order, None);
    }
    check_order("neuron", "tensor: 2", "DTP", None);
    check_order("neuron", "tensor: 2", "PTD", Some("PDT"));
    check_order("neuron", "tensor: 8", "spread", None);
    check_order("neuron", "pipeline: 2", "spread", None);
}

#[test]
fn the_planner_chooses_all_of_a_mesh_or_nothing() {
    check("parallel: auto", "");
    check("parallel: {auto: true, placement: spread}", "");
    let chosen = "is chosen by the planner with parallel.auto; set only one of the two";
    check(
        "parallel: {auto: true, tensor: 2, fsdp: full_shard}\nresources: {cores: 2}",
        &format!("line 1: parallel.tensor: {chosen}\nline 1: parallel.fsdp: {chosen}"),
    );
}

#[test]
fn the_placement_has_sagemaker_s_name_too() {
    check(
        "parallel: {placement_strategy: spread}",
        "line 1: parallel.placement_strategy: is read as `placement`",
    );
}

#[test]
fn adapters_and_frozen_weights_that_do_not_fit() {
    check("peft: {method: lora, r: 4, target_modules: all-linear}\ntrain: {bf16: true}", "");
    check("peft: {r: 4}", "line 1: peft.method: is required in this section, for example `lora`");
    check(
        "peft: {method: lora, r: 4, adapter_name_or_path: ./first, merge: true}",
        "line 1: peft.r: is set by the adapter of peft.adapter_name_or_path; leave it out",
    );
    check(
        "peft: {method: lora, target_modules: all-linear, layers_to_transform: 1}",
        "line 1: peft.layers_to_transform: cannot be combined with `all-linear`: name the modules",
    );
    check(
        "peft: {method: lora, target_modules: q_proj}",
        "line 1: peft.target_modules: must be a list of names or `all-linear`, not `q_proj`",
    );
    check(
        "peft: {method: lora}\ntrain: {freeze: [embeddings]}",
        "line 2: train.freeze: has no effect beside adapters, which freeze all other weights",
    );
    check(
        "model: {name_or_path: ./bert, task: masked-lm, from_config: true}\npeft: {method: lora}",
        "line 1: model.from_config: initializes random weights, which adapters alone would not save; set peft.merge",
    );
    check(
        "model: {name_or_path: ./bert, task: masked-lm, dtype: bfloat16}",
        "line 1: model.dtype: applies to weights that are not trained, and all are: set peft or \
         train.freeze; train.bf16 computes in bfloat16",
    );
}

#[test]
fn keys_of_pairs() {
    let check_task = |task: &str, rest: &str, expect: &str| {
        let model = format!("model: {{name_or_path: ./llama, task: {task}}}");
        check(&format!("{model}\ndata: {{train: a.jsonl}}\n{rest}"), expect);
    };
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
    let check_task = |task: &str, rest: &str, expect: &str| {
        let model = format!("model: {{name_or_path: ./llama, task: {task}}}");
        check(&format!("{model}\ndata: {{train: a.jsonl}}\n{rest}"), expect);
    };
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
fn keys_of_scored_passages() {
    let check_task = |task: &str, data: &str, rest: &str, expect: &str| {
        let model = format!("model: {{name_or_path: ./bert, task: {task}}}");
        check(&format!("{model}\ndata: {{train: a.jsonl{data}}}\n{rest}"), expect);
    };
    check_task("reranker", "", "", "");
    check_task("reranker", ", texts: [q, p], label: score", "reranker: {pos_weight: 4}", "");
    let lambda = "reranker: {loss: lambda, list_size: 8, weighting_scheme: ndcg_loss2pp, mu: 5, k: 4, sigma: 2, \
                  eps: 1.0e-6, reduction_log: natural}";
    check_task("reranker", ", texts: [q, docs]", lambda, "");
    check_task("reranker", ", texts: [q, p, n, m]", "reranker: {loss: margin_mse}", "");
    for (data, rest, expect) in [
        (
            ", texts: [q]",
            "",
            "line 2: data.texts: has 1 column, and a row has a query and at least one passage",
        ),
        (", texts: [q, q]", "", "line 2: data.texts: column `q` has two meanings"),
        (
            ", texts: [q, p]",
            "reranker: {loss: list_net}",
            "line 2: data.texts: has 2 columns, and the loss `list_net` compares passages: name more of them, \
             or set reranker.list_size where they are lists",
        ),
        (
            ", texts: [q, p]",
            "reranker: {loss: margin_mse}",
            "line 2: data.texts: has 2 columns, and the loss `margin_mse` compares passages: name more of them",
        ),
        (
            ", texts: [q, p, n]",
            "reranker: {loss: cross_entropy}",
            "line 2: data.texts: has 3 columns, and the loss `cross_entropy` needs 2",
        ),
        (
            ", texts: [q, p, n]",
            "reranker: {list_size: 4}",
            "line 2: data.texts: has 3 columns, but reranker.list_size is for a list of passages in one column",
        ),
        (
            "",
            "reranker: {loss: margin_mse, list_size: 4}",
            "line 3: reranker.list_size: does not apply to the loss `margin_mse`, whose passages are columns",
        ),
        ("", "reranker: {loss: mse, k: 3}", "line 3: reranker.k: does not apply to the loss `mse`"),
        (
            "",
            "reranker: {loss: lambda, list_size: 4, weighting_scheme: none, mu: 3}",
            "line 3: reranker.mu: applies to the weighting scheme `ndcg_loss2pp`, not to `none`",
        ),
        (
            ", label_map: {a: b, c: d}",
            "",
            "line 2: data.label_map: applies to classes, not to the loss `binary_cross_entropy`",
        ),
        (
            "",
            "train: {label_smoothing_factor: 0.1}",
            "line 3: train.label_smoothing_factor: applies to classes and tokens, not to reranker",
        ),
        ("", "train: {loss: mse}", "line 3: train.loss: applies to labels, not to reranker"),
        (", prompts: {q: x}", "", "line 2: data.prompts: applies to embedding, not to reranker"),
    ] {
        check_task("reranker", data, rest, expect);
    }
    let labels = |loss: &str, num_labels: u32, expect: &str| {
        let model =
            format!("model: {{name_or_path: ./bert, task: reranker, num_labels: {num_labels}}}");
        check(&format!("{model}\ndata: {{train: a.jsonl}}\nreranker: {{loss: {loss}}}"), expect);
    };
    labels("cross_entropy", 3, "");
    labels("mse", 1, "");
    labels(
        "cross_entropy",
        1,
        "line 1: model.num_labels: must be at least 2 for the loss `cross_entropy`",
    );
    labels(
        "mse",
        3,
        "line 1: model.num_labels: must be 1 for the loss `mse`, which compares scores",
    );
    let expect = "line 3: reranker.loss: applies to reranker, not to masked-lm";
    check_task("masked-lm", "", "reranker: {loss: mse}", expect);
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

#[test]
fn keys_of_texts_to_write() {
    let check_task = |rest: &str, expect: &str| {
        let model = "model: {name_or_path: ./t5, task: seq2seq-lm}";
        check(&format!("{model}\n{rest}"), expect);
    };
    check_task("data: {train: a.csv, source_prefix: 'summarize: ', max_source_length: 64}", "");
    check_task(
        "data: {train: a.csv, source: text, target: text}",
        "line 2: data.target: column `text` is `data.source` already",
    );
    check_task("data: {train: a.csv, source_lang: en, target_lang: de, target: source}", "");
    check_task(
        "data: {train: a.csv, source_lang: en}",
        "line 2: data.source_lang: needs data.target_lang beside it",
    );
    check_task(
        "data: {train: a.csv, max_length: 64}",
        "line 2: data.max_length: applies to one text per row; seq2seq-lm has data.max_source_length",
    );
    check_task(
        "data: {train: a.csv, test: b.csv}\ntrain: {do_predict: true}",
        "line 3: train.do_predict: is true, but seq2seq-lm writes texts with train.predict_with_generate",
    );
    check_task(
        "data: {train: a.csv, test: b.csv}\n\
         train: {do_predict: true, predict_with_generate: true, generation_num_beams: 4}",
        "",
    );
    check_task(
        "data: {train: a.csv}\ntrain: {generation_max_length: 9}",
        "line 3: train.generation_max_length: needs train.predict_with_generate",
    );
    let generation = |settings: &str, more: &str| {
        format!("data: {{train: a.csv}}\ntrain: {{{more}generation_config: {{{settings}}}}}")
    };
    let writes = "predict_with_generate: true, ";
    for (settings, more, problem) in [
        ("length_penalty: -0.5, early_stopping: never, suppress_tokens: [1, 2]", writes, ""),
        ("top_k: 3", "", "top_k: needs train.predict_with_generate"),
        ("top_p: 2", writes, "top_p: must be at least 0 and at most 1, not 2"),
        ("early_stopping: 3", writes, "early_stopping: must be true, false or `never`, not 3"),
        (
            "no_repeat_ngrams: 3",
            writes,
            "no_repeat_ngrams: is not a known key; did you mean \
             `train.generation_config.no_repeat_ngram_size`?",
        ),
        (
            "do_sample: true",
            "predict_with_generate: true, generation_num_beams: 2, ",
            "do_sample: cannot be true with train.generation_num_beams above 1: beams are chosen, \
             not drawn",
        ),
        (
            "max_new_tokens: 4",
            "predict_with_generate: true, generation_max_length: 9, ",
            "max_new_tokens: cannot be combined with train.generation_max_length: remove one",
        ),
        ("min_new_tokens: 4, max_new_tokens: 4", writes, ""),
        (
            "min_new_tokens: 5, max_new_tokens: 4",
            writes,
            "min_new_tokens: is more than train.generation_config.max_new_tokens allows",
        ),
        ("min_length: 5, max_new_tokens: 4", writes, ""),
        (
            "min_length: 6, max_new_tokens: 4",
            writes,
            "min_length: is more than train.generation_config.max_new_tokens allows",
        ),
        (
            "min_new_tokens: 9",
            "predict_with_generate: true, generation_max_length: 9, ",
            "min_new_tokens: is more than train.generation_max_length allows",
        ),
    ] {
        let expect = match problem {
            "" => String::new(),
            problem => format!("line 3: train.generation_config.{problem}"),
        };
        check_task(&generation(settings, more), &expect);
    }
    check(
        "data: {train: a.csv}\ntrain: {predict_with_generate: true}",
        "line 2: train.predict_with_generate: applies to seq2seq-lm, not to sequence-classification",
    );
    check(
        "data: {train: a.csv, target_lang: de, max_source_length: 9}",
        "line 1: data.target_lang: applies to seq2seq-lm, not to sequence-classification
         line 1: data.max_source_length: applies to seq2seq-lm, not to sequence-classification",
    );
}

#[test]
fn fused_attention_needs_half_precision() {
    let job = |train: &str| {
        let model =
            "{name_or_path: ./llama, task: causal-lm, attn_implementation: flash_attention_2}";
        format!("model: {model}\ndata: {{train: a.csv, block_size: 8}}\ntrain: {train}")
    };
    for train in ["{bf16: true}", "{fp16: true}"] {
        check(&job(train), "");
    }
    check(
        &job("{tf32: true}"),
        "line 1: model.attn_implementation: is `flash_attention_2`, which needs train.bf16 or train.fp16",
    );
}

#[test]
fn keys_of_images() {
    let check_task = |rest: &str, expect: &str| {
        let model = "model: {name_or_path: ./vit, task: image-classification}";
        check(&format!("{model}\n{rest}"), expect);
    };
    check_task("data: {train: images, image: picture, augmentation: false}", "");
    check_task(
        "data: {train: images}\nresources: {cores: 2}\nparallel: {tensor: 2, sequence_parallel: true}",
        "",
    );
    check_task(
        "data: {train: images, image: label}",
        "line 2: data.label: column `label` is `data.image` already",
    );
    check_task(
        "data: {train: images, max_length: 64}",
        "line 2: data.max_length: applies to models of text, not to image-classification",
    );
    check(
        "data: {train: a.csv, augmentation: false}",
        "line 1: data.augmentation: applies to image-classification, not to sequence-classification",
    );
}

#[test]
fn splits_that_do_not_fit_each_other() {
    let validation = "data: {train: a.csv, validation: b.csv, validation_split: 0.1}";
    check(validation, "line 1: data.validation_split: cannot be combined with data.validation");
    check("data: {train: a.csv, validation_split: 0.1}\ntrain: {eval_strategy: epoch}", "");
    check("data: {train: a.csv, validation_split: 100}\ntrain: {eval_strategy: epoch}", "");
    check(
        "data: {train: a.csv, validation_split: 0}",
        "line 1: data.validation_split: must be above 0, not 0",
    );
    for split in [1.0, 2.5] {
        let expect = "must be a share below 1 or a number of rows of at least 2, not";
        check(
            &format!("data: {{train: a.csv, validation_split: {split}}}"),
            &format!("line 1: data.validation_split: {expect} {split}"),
        );
    }
    check(
        "data: {train: a.csv, validation: b.csv}\ntrain:\n  do_eval: false\n  eval_strategy: epoch",
        "line 4: train.eval_strategy: is `epoch`, but train.do_eval is false",
    );
    check(
        "data: {train: a.csv}\ntrain: {do_eval: true}",
        "line 2: train.do_eval: is true, but there is no data.validation",
    );
}

/// A job of a task, with more keys of the model and more sections.
fn of_task(task: &str, model: &str, more: &str) -> String {
    format!("model: {{name_or_path: ./bert, task: {task}{model}}}\n{more}")
}

#[test]
fn fields_that_do_not_fit_the_task() {
    for task in ["token-classification", "question-answering", "masked-lm", "causal-lm"] {
        check(&of_task(task, "", ""), "");
    }
    check(
        &of_task("question-answering", ", num_labels: 2", ""),
        "line 1: model.num_labels: applies to classification, not to question-answering",
    );
    check(
        &of_task("masked-lm", "", "data: {train: a.csv, label_map: [a, b]}"),
        "line 2: data.label_map: applies to classification, not to masked-lm",
    );
    check(
        &of_task("token-classification", ", problem_type: regression", ""),
        "line 1: model.problem_type: applies to one label per row, not to token-classification",
    );
    check(
        &of_task("token-classification", "", "data: {train: a.csv, tokens: x, labels: x}"),
        "line 2: data.labels: column `x` is `data.tokens` already",
    );
    check(&of_task("sequence-classification", ", problem_type: regression, num_labels: 3", ""), "");
    check(&of_task("sequence-classification", ", problem_type: regression", ""), "");
    check(
        &of_task(
            "sequence-classification",
            ", num_labels: 1",
            "train: {label_smoothing_factor: 0.1}",
        ),
        "line 2: train.label_smoothing_factor: applies to one class per row, \
         not to numbers or several classes",
    );
    check(
        &of_task(
            "sequence-classification",
            ", num_labels: 2",
            "data: {train: a.csv, block_size: 8}",
        ),
        "line 2: data.block_size: applies to masked-lm, replaced-token-detection and causal-lm, not to sequence-classification",
    );
    check(
        &of_task("causal-lm", "", "data: {train: a.csv, line_by_line: true}"),
        "line 2: data.line_by_line: applies to masked-lm and replaced-token-detection, not to causal-lm",
    );
}

#[test]
fn settings_of_an_optimizer_fit_it() {
    let said = |optim: &str, args: &str, expect: &str| {
        check(&format!("train: {{optim: {optim}, optim_args: {args}}}"), expect);
    };
    said("sgd", "{momentum: 0.9, nesterov: true}", "");
    said("sgd", "'momentum=0.9, nesterov=true'", "");
    said("rmsprop", "'alpha=0.9,centered=True'", "");
    let path = "line 1: train.optim_args";
    for (optim, args, expect) in [
        (
            "lion_32bit",
            "{momentum: 1}",
            ".momentum: is not an option of `lion_32bit`, which has none",
        ),
        ("adagrad", "{eps: 0}", ".eps: must be above 0, not 0"),
        ("sgd", "momentum", ": must be name=value, not `momentum`"),
        (
            "sgd",
            "'momentum=fast'",
            ".momentum: must be a number, true or false, not the text `fast`",
        ),
        ("sgd", "{nesterov: true}", ": `nesterov` needs a `momentum`, and no `dampening`"),
        ("sgd", "{momentum: [1]}", ".momentum: must be a number, true or false, not a list"),
        ("muon", "{ns_steps: 100}", ".ns_steps: must be at least 1 and at most 99, not 100"),
        ("muon", "{adjust_lr_fn: mean}", ".adjust_lr_fn: must be `original` or `match_rms_adamw`"),
        ("muon", "{ns_coefficients: [1, 2]}", ".ns_coefficients: must be a list of 3 numbers"),
        ("muon", "{ns_coefficients: 3}", ".ns_coefficients: must be a list of 3 numbers"),
        ("lion_32bit", "{mode: fast}", ".mode: is not an option of `lion_32bit`, which has none"),
    ] {
        said(optim, args, &format!("{path}{expect}"));
    }
    said("muon", "{momentum: 0.9, nesterov: false, ns_coefficients: [2, -1.5, 0.5]}", "");
    said("muon", "'momentum=0.9, adjust_lr_fn=match_rms_adamw'", "");
}

#[test]
fn groups_of_parameters_are_checked() {
    let said =
        |groups: &str, expect: &str| check(&format!("train: {{param_groups: {groups}}}"), expect);
    said(
        "[{match: head, learning_rate: 1e-3}, {match: '*.bias', weight_decay: 0, optim: sgd}]",
        "",
    );
    let path = "line 1: train.param_groups[0]";
    for (groups, expect) in [
        ("[{learning_rate: 1}]", ".match: is required"),
        ("[{match: head}]", ": changes nothing: give learning_rate, weight_decay or optim"),
        ("[{match: 'layer.(', optim: sgd}]", ".match: is no regular expression: unclosed group"),
        (
            "[{match: head, optim: sgd, learning_rate: -1}]",
            ".learning_rate: must be at least 0, not -1",
        ),
        ("[{match: head, optim: sgd, lr: 1}]", ".lr: is not a known key"),
        (
            "[{match: head, weight_decay: 1, optim_args: {momentum: 1}}]",
            ".optim_args: needs the `optim` that it is for",
        ),
        (
            "[{match: head, optim: sgd, optim_args: {alpha: 1}}]",
            ".optim_args.alpha: is not an option of `sgd`, which has `momentum`, `dampening`, `nesterov`",
        ),
    ] {
        said(groups, &format!("{path}{expect}"));
    }
    check(
        "train: {learning_rate: 0, param_groups: [{match: head, learning_rate: 1e-3}]}",
        &format!("{path}.learning_rate: follows train.learning_rate in proportion, which is 0"),
    );
}

#[test]
fn losses_and_weights_fit_the_labels() {
    let said = |task: &str, model: &str, train: &str, expect: &str| {
        check(&of_task(task, model, &format!("train: {{{train}}}")), expect);
    };
    let sequence = "sequence-classification";
    said(sequence, "", "loss: focal, loss_args: {gamma: 1}, class_weights: [1, 0.5]", "");
    said("causal-lm", "", "loss: focal, label_smoothing_factor: 0", "");
    said(sequence, ", problem_type: regression", "loss: smooth_l1, loss_args: {beta: 0.5}", "");
    let unfit = |loss: &str, kind| {
        let losses = Loss::ALL.iter().filter(|loss| loss.labels().contains(&kind));
        let names: Vec<String> = losses.map(|loss| format!("`{loss}`")).collect();
        format!("loss: is `{loss}`; these labels have {}", names.join(", "))
    };
    let [mse, l1] = ["mse", "l1"].map(|loss| unfit(loss, LabelsKind::Classes));
    let focal = unfit("focal", LabelsKind::Numbers);
    for (task, model, train, expect) in [
        (sequence, ", num_labels: 2", "loss: mse", mse.as_str()),
        (sequence, ", num_labels: 1", "loss: focal", focal.as_str()),
        (
            "question-answering",
            "",
            "loss: focal",
            "loss: applies to labels, not to question-answering",
        ),
        ("masked-lm", "", "loss: l1", l1.as_str()),
        (sequence, "", "loss_args: {gamma: 1}", "loss_args: needs the `loss` that it is for"),
        (
            sequence,
            "",
            "loss: focal, loss_args: {gamma: -1}",
            "loss_args.gamma: must be at least 0, not -1",
        ),
        (
            sequence,
            "",
            "loss: focal, label_smoothing_factor: 0.1",
            "label_smoothing_factor: is part of the loss `cross_entropy`, not of `focal`",
        ),
        (
            sequence,
            ", num_labels: 3",
            "class_weights: [1, 2]",
            "class_weights: has 2 numbers for 3 classes",
        ),
        (sequence, "", "class_weights: [1, -2]", "class_weights: must be numbers of at least 0"),
        (sequence, "", "class_weights: [0, 0]", "class_weights: must have a number above 0"),
        (
            "masked-lm",
            "",
            "class_weights: [1, 2]",
            "class_weights: applies to classification with one class per row or word",
        ),
    ] {
        said(task, model, train, &format!("line 2: train.{expect}"));
    }
    check(
        &of_task("causal-lm", "", "data: {train: a.csv, weight: w}"),
        "line 2: data.weight: applies to classification, not to causal-lm",
    );
    check(
        &of_task(sequence, "", "data: {train: a.csv, weight: label}"),
        "line 2: data.weight: column `label` is `data.label` already",
    );
}

#[test]
fn options_of_a_schedule_fit_it() {
    let said = |schedule: &str, kwargs: &str, expect: &str| {
        let train =
            format!("train: {{lr_scheduler_type: {schedule}, lr_scheduler_kwargs: {{{kwargs}}}}}");
        check(&train, expect);
    };
    said("cosine_with_restarts", "num_cycles: 4", "");
    said("polynomial", "lr_end: 0, power: 2", "");
    // JSON text, as on a command line.
    let given = |text: &str, expect: &str| {
        let kwargs = format!("lr_scheduler_kwargs: {text}");
        check(&format!("train: {{lr_scheduler_type: cosine_with_restarts, {kwargs}}}"), expect);
    };
    given(r#"'{"num_cycles": 2}'"#, "");
    let refused = "line 1: train.lr_scheduler_kwargs";
    given(
        r#"'{"power": 2}'"#,
        &format!(
            "{refused}.power: is not an option of `cosine_with_restarts`, which has `num_cycles`"
        ),
    );
    given(
        "'{num_cycles'",
        &format!("{refused}: is not JSON: key must be a string at line 1 column 2"),
    );
    let path = "line 1: train.lr_scheduler_kwargs";
    for (schedule, kwargs, expect) in [
        (
            "polynomial",
            "num_cycles: 2",
            "num_cycles: is not an option of `polynomial`, which has `lr_end`, `power`",
        ),
        ("linear", "power: 2", "power: is not an option of `linear`, which has none"),
        ("polynomial", "lr_end: 5e-5", "lr_end: must be below train.learning_rate"),
        ("inverse_sqrt", "timescale: 0", "timescale: must be above 0, not 0"),
        ("cosine", "num_cycles: many", "num_cycles: must be a number, not `many`"),
        ("cosine", "num_cycles: [2]", "num_cycles: must be a number, not a list"),
    ] {
        said(schedule, kwargs, &format!("{path}.{expect}"));
    }
}

#[test]
fn a_schedule_that_follows_evaluations_needs_some() {
    let said = |kwargs: &str, eval_strategy: &str, expect: &str| {
        check(
            &format!(
                "train: {{lr_scheduler_type: reduce_lr_on_plateau, eval_strategy: {eval_strategy}, \
                 lr_scheduler_kwargs: {{{kwargs}}}}}"
            ),
            expect,
        );
    };
    said("mode: max, threshold_mode: abs, patience: 2, factor: 0.5", "epoch", "");
    said(
        "",
        "'no'",
        "line 1: train.lr_scheduler_type: is `reduce_lr_on_plateau`, which needs evaluations, but \
         eval_strategy is `no`",
    );
    let path = "line 1: train.lr_scheduler_kwargs";
    said("mode: best", "epoch", &format!("{path}.mode: must be min or max, not `best`"));
    said("factor: 1", "epoch", &format!("{path}.factor: must be at least 0 and below 1, not 1"));
    said(
        "power: 2",
        "epoch",
        &format!(
            "{path}.power: is not an option of `reduce_lr_on_plateau`, which has `factor`, `patience`, \
         `threshold`, `cooldown`, `min_lr`, `eps`"
        ),
    );
}

#[test]
fn the_best_model_needs_evaluations_and_checkpoints_of_them() {
    let unfit = "needs a checkpoint of what is evaluated: eval_strategy and save_strategy must be \
                 the same, and save_steps a multiple of eval_steps";
    for (train, fits) in [
        ("eval_strategy: steps, eval_steps: 10, save_steps: 20", true),
        ("eval_strategy: steps, eval_steps: 0.1, save_steps: 0.3", true),
        ("eval_strategy: epoch, save_strategy: epoch", true),
        ("eval_strategy: steps, save_strategy: best", true),
        ("eval_strategy: steps, eval_steps: 10, save_steps: 15", false),
        ("eval_strategy: steps, eval_steps: 0.1, save_steps: 20", false),
        ("eval_strategy: epoch", false),
        ("save_strategy: epoch", false),
    ] {
        let field = "train.load_best_model_at_end";
        let expect = if fits { String::new() } else { format!("line 1: {field}: {unfit}") };
        check(&format!("train: {{load_best_model_at_end: true, {train}}}"), &expect);
    }
    check(
        "train: {save_strategy: best}",
        "line 1: train.save_strategy: is `best`, but eval_strategy is `no`",
    );
    check(
        "train: {early_stopping_patience: 2}",
        "line 1: train.early_stopping_patience: counts evaluations, but eval_strategy is `no`",
    );
    check(
        "train: {early_stopping_patience: 2, eval_strategy: epoch}",
        "line 1: train.early_stopping_patience: ends training early, and the model is then not \
         the best but the last; load_best_model_at_end takes the best",
    );
}

#[test]
fn a_metric_for_the_best_model_is_one_that_is_computed() {
    check(
        "data: {train: a.csv}\ntrain: {metric_for_best_model: f1}",
        "line 2: train.metric_for_best_model: is never computed: there is no data.validation",
    );
    check(
        "train: {metric_for_best_model: f1, do_eval: false}",
        "line 1: train.metric_for_best_model: is never computed: train.do_eval is false",
    );
    check("train: {metric_for_best_model: f1}", "");
}

#[test]
fn a_pipeline_fits_the_batch_and_the_task() {
    let of_pipeline = |settings: &str, more: &str| {
        format!("resources: {{cores: 4}}\nparallel: {{pipeline: 2{settings}}}\n{more}")
    };
    let rows = "train: {per_device_train_batch_size: 12}";
    check(&of_pipeline("", rows), "");
    check(&of_pipeline(", pipeline_interleave: 2, microbatches: 6", rows), "");
    check(
        &of_pipeline(", microbatches: 8", rows),
        "line 2: parallel.microbatches: does not divide the 12 rows of \
         train.per_device_train_batch_size; 6 does",
    );
    check(
        "parallel: {pipeline_interleave: 2}",
        "line 1: parallel.pipeline_interleave: divides the stages of a pipeline; set \
         parallel.pipeline too",
    );
    check(&of_pipeline("", "peft: {method: lora}"), "");
}

#[test]
fn uploads_to_the_hub_need_a_model_and_a_name() {
    check("train: {push_to_hub: true, hub_model_id: ann/tiny, hub_strategy: checkpoint}", "");
    check(
        "train: {push_to_hub: true, hub_model_id: ann/tiny/x, hub_revision: ../x}",
        "line 1: train.hub_model_id: `ann/tiny/x` is not a repository name such as `org/name`\n\
         line 1: train.hub_revision: is not a branch name",
    );
    check(
        "output_dir: \"a b\"\ntrain: {push_to_hub: true}",
        "line 2: train.hub_model_id: is required, since output_dir has no name that a repository \
         can have",
    );
    check(
        "data: {test: a.csv}\ntrain: {push_to_hub: true, do_train: false}",
        "line 2: train.push_to_hub: is true, but train.do_train is false",
    );
    check(
        "train: {hub_model_id: ann/tiny, hub_always_push: true}",
        "line 1: train.hub_model_id: has no effect without train.push_to_hub\n\
         line 1: train.hub_always_push: has no effect without train.push_to_hub",
    );
}

#[test]
fn notifications_name_states_and_places() {
    check("notify: {webhooks: [\"https://example.com/hook?a=b\"], command: [/bin/true, x]}", "");
    check(
        "notify: {states: [done], webhooks: [\"example.com\"], command: [\"true\"]}",
        "line 1: notify.states: `done` is not a job state; known are pending, starting, running, \
         cancelling, completed, failed, cancelled\n\
         line 1: notify.webhooks: `example.com` is not a URL such as https://example.com/hook\n\
         line 1: notify.command: must begin with the absolute path of a program",
    );
    check(
        "notify: {webhooks: [\"http://ann@b/\"]}",
        "line 1: notify.webhooks: `http://ann@b/` is not a URL such as https://example.com/hook",
    );
    let many = ["\"https://example.com\""; 17].join(", ");
    check(
        &format!("notify: {{webhooks: [{many}]}}"),
        "line 1: notify.webhooks: has 17 URLs; must be at most 16",
    );
    check(
        "notify: {secret_file: ./key}",
        "line 1: notify.secret_file: has no effect without notify.webhooks, whose requests it signs",
    );
}
