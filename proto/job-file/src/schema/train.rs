//! `train`: Hugging Face's TrainingArguments, by their names and defaults.

use traind_choices::{Loss, LrSchedulerType, Optim};

use crate::schema::generation::GenerationConfig;
use crate::schema::optimizers::ParamGroup;
use crate::section::{above, above_to, section};
use crate::spelled::spelled;
use crate::values::{
    InputTokens, Mapping, OptimArgs, ReportTo, ResumeFrom, ScheduleKwargs, StepsOrRatio,
};

section! {
    /// Training settings, under the names of Hugging Face's TrainingArguments.
    pub struct Train {
        /// Train the model. Otherwise, the given model is only evaluated or used to predict.
        do_train: bool = true;
        /// Evaluate the model after training, and during training according to `eval_strategy`; by
        /// default, if there are rows to evaluate on.
        do_eval: Option<bool> = None;
        /// Write predictions for the rows of `data.test` to `predictions.parquet` in the output
        /// folder.
        do_predict: bool = false;
        /// Number of passes over the training rows; may be fractional.
        num_train_epochs: f64 = 3.0, in above_to(0.0, 1e9);
        /// Number of optimizer steps, overriding `num_train_epochs`; -1 means no such limit.
        max_steps: i64 = -1, in -1.0..;
        /// Training rows per core and batch. A step uses this many rows times the number of cores
        /// that see different rows, times `gradient_accumulation_steps`.
        per_device_train_batch_size: u32 = 8, in 1.0..=1_048_576.0;
        /// Lower `per_device_train_batch_size` by a tenth at a time until the job fits in a core's
        /// memory, as transformers does, but using the plan at submission. Other settings,
        /// including `gradient_accumulation_steps`, stay unchanged.
        auto_find_batch_size: bool = false;
        /// Evaluation rows per core and batch.
        per_device_eval_batch_size: u32 = 8, in 1.0..=1_048_576.0;
        /// Batches whose gradients are accumulated for one optimizer step. The step's loss is the
        /// mean over the labels of all of them, as for one large batch: per row, or per token if
        /// tokens have labels; with classifiers, the Trainer of transformers 5 adds up the batches'
        /// means instead. For preferences, it is the mean of the batches' means, as in TRL.
        gradient_accumulation_steps: u32 = 1, in 1.0..=1_048_576.0;
        /// Peak learning rate.
        learning_rate: f64 = 5e-5, in 0.0..;
        /// Weight decay, not applied to biases and layer norms. Decoupled from the gradient, except
        /// for `sgd`, `rmsprop` and `adagrad`, where it is part of it.
        weight_decay: f64 = 0.0, in 0.0..;
        /// Decay rate of Adam's mean of gradients, and Lion's first rate.
        adam_beta1: f64 = 0.9, in 0.0..1.0;
        /// Decay rate of Adam's mean of squared gradients, and Lion's second rate.
        adam_beta2: f64 = 0.999, in 0.0..1.0;
        /// Added to Adam's denominator.
        adam_epsilon: f64 = 1e-8, in above(0.0);
        /// Global norm to clip gradients to; 0 means no clipping.
        max_grad_norm: f64 = 1.0, in 0.0..;
        /// Optimizer.
        optim: Optim = Optim::AdamwTorch;
        /// Optimizer-specific settings, as a mapping or as text such as `momentum=0.9,
        /// nesterov=true`: `momentum`, `dampening` and `nesterov` for `sgd`; `alpha` (0.99), `eps`
        /// (1e-8), `momentum` and `centered` for `rmsprop`; `lr_decay` and `eps` (1e-10) for
        /// `adagrad`; `weight_lr_power` (2) and `r` (0) for `schedule_free_adamw`; `momentum` (0.95),
        /// `nesterov` (true), `ns_steps` (5), `ns_coefficients` ([3.4445, -4.775, 2.0315]), `eps`
        /// (1e-7) and `adjust_lr_fn` (`original`, or `match_rms_adamw`) for `muon`.
        optim_args: OptimArgs = OptimArgs::default();
        /// Parameters with settings of their own, as PyTorch's parameter groups: `[{match:
        /// classifier, learning_rate: 1e-3}, {match: "*.bias", weight_decay: 0.1, optim: sgd,
        /// optim_args: {momentum: 0.9}}]`. `match` is a regular expression that is found somewhere
        /// in a parameter's name or, if it begins with `*`, a glob for whole names. The first group
        /// that matches a trained parameter has it, and every group must have one. The schedule
        /// changes all learning rates in proportion. A group's `weight_decay` applies to all of its
        /// parameters, also biases and norms; its `optim` has the settings in its own `optim_args`.
        param_groups: Vec<ParamGroup> = Vec::new();
        /// Learning-rate schedule after warmup. `reduce_lr_on_plateau` lowers the rate when
        /// evaluations stop improving; its steps use a separate program for the update.
        lr_scheduler_type: LrSchedulerType = LrSchedulerType::Linear;
        /// Options of the schedule: `num_cycles` for `cosine`, `cosine_with_min_lr` and
        /// `cosine_warmup_with_min_lr` (0.5, in waves) and `cosine_with_restarts` (1, in half waves);
        /// `min_lr` or `min_lr_rate` for `cosine_with_min_lr` and `cosine_warmup_with_min_lr`, which
        /// also has `warmup_lr_rate` (the share of the rate to warm up from; by default, that of one
        /// step of warmup); `power` (1) and `lr_end` (1e-7) for `polynomial`; `timescale` for
        /// `inverse_sqrt` (the warmup steps, or 10000 without warmup); `num_decay_steps`,
        /// `num_stable_steps` (all that neither warmup nor decay has), `warmup_type` (`linear`,
        /// `cosine` or `1-sqrt`), `decay_type` (`cosine`, `linear` or `1-sqrt`), `min_lr_ratio` (0)
        /// and `num_cycles` (0.5) for `warmup_stable_decay`; `mode` (`min`, even for metrics where
        /// higher is better, as in transformers), `factor` (0.1), `patience` (10), `threshold`
        /// (1e-4), `threshold_mode` (`rel`), `cooldown` (0), `min_lr` (0) and `eps` (1e-8) for
        /// `reduce_lr_on_plateau`.
        lr_scheduler_kwargs: ScheduleKwargs = ScheduleKwargs::default();
        /// Steps over which the learning rate rises from 0; below 1, a fraction of all steps.
        warmup_steps: StepsOrRatio = StepsOrRatio::steps(0), in 0.0..;
        /// Loss; defaults to the task's own. The sum over the rows or tokens of a step, each times its
        /// weight, is divided by the sum of the weights.
        loss: Option<Loss> = None;
        /// Settings of the loss, as listed there.
        loss_args: Mapping<f64> = Mapping::default();
        /// Weight of each class in the order of their numbers, as PyTorch's `weight`: the loss of a
        /// row or word, and its weight, are multiplied by that of its class.
        class_weights: Option<Vec<f64>> = None;
        /// Fraction of each label that is spread over all classes.
        label_smoothing_factor: f64 = 0.0, in 0.0..1.0;
        /// Compute in bfloat16, keeping weights in float32.
        bf16: bool = false;
        /// Compute in float16 with dynamic loss scaling, keeping weights in float32.
        fp16: bool = false;
        /// Let NVIDIA GPUs round the operands of float32 dots to TensorFloat-32: faster, with three
        /// digits of precision.
        tf32: bool = false;
        /// Parameters to freeze: full names, or runs of their dotted parts, such as `[embeddings,
        /// encoder.layer.0]`. They have neither gradients nor optimizer state.
        freeze: Vec<String> = Vec::new();
        /// Noise on the embeddings of training rows (NEFTune): uniform, up to this value divided by
        /// the square root of the batch's padded length times the width, as in transformers.
        neftune_noise_alpha: Option<f64> = None, in 0.0..;
        /// Recompute activations in the backward pass instead of storing them.
        gradient_checkpointing: bool = false;
        /// Seed for new weights, dropout and, without `data_seed`, the order of rows.
        seed: u64 = 42, in 0.0..=4_294_967_295.0;
        /// Seed for the order of rows.
        data_seed: Option<u64> = None, in 0.0..=4_294_967_295.0;
        /// Order of training rows.
        train_sampling_strategy: TrainSamplingStrategy = TrainSamplingStrategy::Random;
        /// Drop the last batch of an epoch if it is incomplete.
        dataloader_drop_last: bool = false;
        /// Steps between log entries; below 1, a fraction of all steps. An entry has the mean loss
        /// since the previous one, and the step's gradient norm before clipping and learning rate.
        logging_steps: StepsOrRatio = StepsOrRatio::steps(500), in above(0.0);
        /// When to log: every `logging_steps`, at the end of each epoch, or only at the end.
        logging_strategy: LoggingStrategy = LoggingStrategy::Steps;
        /// Also log the first step.
        logging_first_step: bool = false;
        /// Count the tokens of training rows in `num_input_tokens_seen` in the log and in
        /// `trainer_state.json`: all of them, including a batch's padding, or only non-padding
        /// tokens.
        include_num_input_tokens_seen: InputTokens = InputTokens::No;
        /// Where to write metrics in addition to the job's events: `tensorboard`, files in `runs`
        /// in `output_dir`; `wandb`, an offline run in `wandb` there, which `wandb sync` uploads;
        /// `mlflow`, the server that `MLFLOW_TRACKING_URI` in the daemon's environment names, or
        /// without one a file store in `mlruns` in `output_dir`, which MLflow reads with
        /// `MLFLOW_ALLOW_FILE_STORE=true` or `mlflow migrate-filestore`; a list of these; or
        /// `none`.
        report_to: ReportTo = ReportTo::default();
        /// Name of the run for `wandb` and `mlflow`; defaults to `name`.
        run_name: Option<String> = None;
        /// Project of the run for `wandb` (default `huggingface`), and its experiment on an MLflow
        /// server (default `MLFLOW_EXPERIMENT_NAME` in the daemon's environment, or `Default`).
        project: Option<String> = None;
        /// When to evaluate during training.
        eval_strategy: EvalStrategy = EvalStrategy::No;
        /// Steps between evaluations; below 1, a fraction of all steps; defaults to
        /// `logging_steps`.
        eval_steps: Option<StepsOrRatio> = None, in above(0.0);
        /// Steps before the first evaluation, or epochs with `eval_strategy: epoch`.
        eval_delay: f64 = 0.0, in 0.0..;
        /// Evaluate before the first step.
        eval_on_start: bool = false;
        /// Compute only the loss in evaluations, and no other metric.
        prediction_loss_only: bool = false;
        /// Generate a text for each row that is evaluated or predicted (seq2seq-lm). Evaluations
        /// then report `rouge1`, `rouge2`, `rougeL`, `rougeLsum`, `bleu` and `gen_len`. The
        /// settings come from `generation_config` below, and otherwise from the model's
        /// `generation_config.json` or, without one, from its `config.json`.
        predict_with_generate: bool = false;
        /// Maximum length of a generated text in tokens, including the decoder's start token;
        /// defaults to the model's `max_length`, or 21.
        generation_max_length: Option<u32> = None, in 2.0..=1_048_576.0;
        /// Number of beams in the beam search for generated texts; defaults to the model's
        /// `num_beams`, or 1.
        generation_num_beams: Option<u32> = None, in 1.0..=1024.0;
        /// When to write a checkpoint, `checkpoint-<steps>` in `checkpoint_dir`. The trained model
        /// is always written to `output_dir`.
        save_strategy: SaveStrategy = SaveStrategy::Steps;
        /// Steps between checkpoints; below 1, a fraction of all steps.
        save_steps: StepsOrRatio = StepsOrRatio::steps(500), in above(0.0);
        /// Leave the optimizer and training state out of checkpoints. A restarted job then resumes
        /// only if it was asked to stop, in which case it saved everything.
        save_only_model: bool = false;
        /// Number of checkpoints to keep, including the newest and the best; defaults to all.
        save_total_limit: Option<u32> = None, in 1.0..;
        /// Commit the trained model with its model card to a repository on the Hugging Face hub,
        /// and checkpoints according to `hub_strategy`. Training does not wait for uploads; the end
        /// of the job does. The token is that of `HF_TOKEN` in the daemon's environment, and
        /// `HF_ENDPOINT` selects another hub.
        push_to_hub: bool = false;
        /// Repository to commit to, `ORG/NAME`; without `ORG`, it belongs to the token's account.
        /// Defaults to the name of `output_dir`. Created if it is not on the hub.
        hub_model_id: Option<String> = None;
        /// When to commit to the hub: `end`, at the end; `every_save`, the current model at each
        /// checkpoint; `checkpoint`, also the whole checkpoint, as `last-checkpoint`;
        /// `all_checkpoints`, also each checkpoint under its own name.
        hub_strategy: HubStrategy = HubStrategy::EverySave;
        /// Whether to create the repository as private or as public; defaults to the account's
        /// setting.
        hub_private_repo: Option<bool> = None;
        /// Branch to commit to; defaults to `main`. Created if the repository does not have it.
        hub_revision: Option<String> = None;
        /// Commit each saved checkpoint, even while the previous one is still uploading. Otherwise,
        /// it is skipped in that case.
        hub_always_push: bool = false;
        /// End with the best checkpoint instead of the last.
        load_best_model_at_end: bool = false;
        /// Evaluation metric that determines the best checkpoint, with or without the prefix
        /// `eval_`; defaults to `loss`. For classes, `accuracy`, `precision`, `recall`, `f1` (these
        /// last three also with `_macro`, `_micro`, `_weighted`) and `matthews_correlation` (with
        /// one class per row); for regression, `mse`, `mae`, `pearson` and `spearmanr`; for words,
        /// `precision`, `recall`, `f1` (of entities) and `accuracy`; for answers, `exact_match`
        /// (`exact` in version 2) and `f1`; for language models, `accuracy` and `perplexity`; for
        /// generated texts, `rouge1`, `rouge2`, `rougeL`, `rougeLsum` and `bleu`.
        metric_for_best_model: Option<String> = None;
        /// Whether a larger value of that metric is better; by default, true for all but losses.
        greater_is_better: Option<bool> = None;
        /// Number of consecutive evaluations without improvement of the metric after which training
        /// ends.
        early_stopping_patience: Option<u32> = None, in 1.0..;
        /// Improvement of the metric below which an evaluation counts toward
        /// `early_stopping_patience`.
        early_stopping_threshold: f64 = 0.0, in 0.0..;
        /// Checkpoint to resume from: its folder; the output folder of another job, for its newest
        /// checkpoint; the `s3://` URL of either; `true` for the newest in `checkpoint_dir`; or
        /// `auto` for the newest there if any, and otherwise the beginning. Settings may differ
        /// from the checkpoint's, except for the model and the optimizer. A restarted job always
        /// resumes from its own newest checkpoint.
        resume_from_checkpoint: Option<ResumeFrom> = None;
        /// Replace the model and the checkpoints that an earlier job has left in `output_dir` and
        /// `checkpoint_dir`. Without it, a job is refused if it would replace any file there.
        /// Other files stay in any case.
        overwrite_output_dir: bool = false;
        /// Restart from the first row of the epoch in which the checkpoint of
        /// `resume_from_checkpoint` was written, instead of continuing with the next row.
        ignore_data_skip: bool = false;
        /// Settings of generated texts.
        generation_config: GenerationConfig;
    }
}

spelled! {
    /// The order of training rows.
    pub enum TrainSamplingStrategy {
        /// Shuffled each epoch.
        Random = "random",
        /// In the order of the files.
        Sequential = "sequential",
        /// Shuffled, with rows of similar length together.
        GroupByLength = "group_by_length",
    }
}

spelled! {
    /// When to log during training.
    pub enum LoggingStrategy {
        /// Never.
        No = "no",
        /// Every `logging_steps`.
        Steps = "steps",
        /// At the end of each epoch.
        Epoch = "epoch",
    }
}

spelled! {
    /// When to evaluate during training.
    pub enum EvalStrategy {
        /// Never.
        No = "no",
        /// Every `eval_steps`.
        Steps = "steps",
        /// At the end of each epoch.
        Epoch = "epoch",
    }
}

spelled! {
    /// When to write a checkpoint during training.
    pub enum SaveStrategy {
        /// Never.
        No = "no",
        /// Every `save_steps`.
        Steps = "steps",
        /// At the end of each epoch.
        Epoch = "epoch",
        /// Whenever the metric is the best so far.
        Best = "best",
    }
}

spelled! {
    /// When to commit to the hub.
    pub enum HubStrategy {
        /// At the end.
        End = "end",
        /// The model, at each checkpoint.
        EverySave = "every_save",
        /// The model and the newest checkpoint, at each checkpoint.
        Checkpoint = "checkpoint",
        /// The model and each checkpoint.
        AllCheckpoints = "all_checkpoints",
    }
}
