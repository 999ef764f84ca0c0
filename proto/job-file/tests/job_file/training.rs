//! Optimizers, losses, schedules and the best model.

use traind_choices::{LabelsKind, Loss};

use crate::{check, of_task};

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
        ("[{match: 'layer.(', optim: sgd}]", ".match: is not a regular expression: unclosed group"),
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
    said("cosine_warmup_with_min_lr", "min_lr: 1e-6, warmup_lr_rate: 0.1", "");
    let words = "num_decay_steps: 5, num_stable_steps: 0, warmup_type: cosine, decay_type: 1-sqrt";
    said("warmup_stable_decay", words, "");
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
        (
            "cosine",
            "decay_type: linear",
            "decay_type: is not an option of `cosine`, which has `num_cycles`",
        ),
        (
            "warmup_stable_decay",
            "num_decay_steps: 5, decay_type: sqrt",
            "decay_type: must be cosine, linear or 1-sqrt, not `sqrt`",
        ),
        (
            "warmup_stable_decay",
            "num_decay_steps: 5, warmup_type: 1",
            "warmup_type: must be linear, cosine or 1-sqrt, not 1",
        ),
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
         `threshold`, `cooldown`, `min_lr`, `eps`, `mode`, `threshold_mode`"
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
