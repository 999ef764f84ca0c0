//! `train`: Hugging Face's TrainingArguments, by their names and defaults.

use crate::range::{Range, above};
use crate::section::section;
use crate::spelled::spelled;
use crate::values::{InputTokens, OptimArgs, ReportTo, ResumeFrom, ScheduleKwargs, StepsOrRatio};

section! {
    /// How to train, under the names of Hugging Face's TrainingArguments.
    pub struct Train {
        /// Train the model. Otherwise it is evaluated, or predicts, as it is given.
        do_train: bool = true;
        /// Evaluate the model after training, and during training by `eval_strategy`; by default
        /// if there are rows to evaluate on.
        do_eval: Option<bool> = None;
        /// Predict the rows of `data.test`, into `predictions.parquet` of the output folder.
        do_predict: bool = false;
        /// Passes over the training rows; may have a fraction.
        num_train_epochs: f64 = 3.0, in above(0.0);
        /// Optimizer steps, in place of `num_train_epochs`; -1 for no such limit.
        max_steps: i64 = -1, in -1.0..;
        /// Training rows per core and batch. A step takes this times the number of cores that see
        /// different rows, times `gradient_accumulation_steps`.
        per_device_train_batch_size: u32 = 8, in 1.0..=1_048_576.0;
        /// Lower `per_device_train_batch_size` by a tenth at a time until the job fits in the memory of a
        /// core, as transformers does, but by the plan when the job is submitted. Other settings stay
        /// as they are, `gradient_accumulation_steps` among them.
        auto_find_batch_size: bool = false;
        /// Evaluation rows per core and batch.
        per_device_eval_batch_size: u32 = 8, in 1.0..=1_048_576.0;
        /// Batches whose gradients are added up for one optimizer step. Its loss is the mean over
        /// the labels of all of them, as for one large batch: of rows, or of tokens if tokens
        /// have labels; the Trainer of transformers 5 adds up the batches' means with classifiers.
        gradient_accumulation_steps: u32 = 1, in 1.0..=1_048_576.0;
        /// Peak learning rate.
        learning_rate: f64 = 5e-5, in 0.0..;
        /// Weight decay; biases and layer norms have none. Decoupled from the gradient, but part
        /// of it with `sgd`, `rmsprop` and `adagrad`.
        weight_decay: f64 = 0.0, in 0.0..;
        /// Decay rate of Adam's mean of gradients, and Lion's first rate.
        adam_beta1: f64 = 0.9, in 0.0..1.0;
        /// Decay rate of Adam's mean of squared gradients, and Lion's second rate.
        adam_beta2: f64 = 0.999, in 0.0..1.0;
        /// Added to Adam's denominator.
        adam_epsilon: f64 = 1e-8, in above(0.0);
        /// Global norm that gradients are clipped to; 0 for no clipping.
        max_grad_norm: f64 = 1.0, in 0.0..;
        /// The optimizer.
        optim: Optim = Optim::AdamwTorch;
        /// Settings of the optimizer's own, a mapping or a text such as `momentum=0.9, nesterov=true`:
        /// `momentum`, `dampening` and `nesterov` of `sgd`; `alpha` (0.99), `eps` (1e-8), `momentum` and
        /// `centered` of `rmsprop`; `lr_decay` and `eps` (1e-10) of `adagrad`; `weight_lr_power` (2) and
        /// `r` (0) of `schedule_free_adamw`.
        optim_args: OptimArgs = OptimArgs::default();
        /// Schedule of the learning rate after warm-up. `reduce_lr_on_plateau` lowers the rate when
        /// evaluations stop to improve; its steps take a program of their own for the update.
        lr_scheduler_type: LrSchedulerType = LrSchedulerType::Linear;
        /// Options of the schedule: `num_cycles` of `cosine` (0.5: waves) and
        /// `cosine_with_restarts` (1: half waves), `min_lr` or `min_lr_rate` of
        /// `cosine_with_min_lr`, `power` (1) and `lr_end` (1e-7) of
        /// `polynomial`, `timescale` of `inverse_sqrt` (the steps of warm-up, 10000 without),
        /// `num_decay_steps`, `min_lr_ratio` (0) and `num_cycles` (0.5) of `warmup_stable_decay`; `mode`
        /// (`min`, also for metrics of which more is better, as in transformers), `factor` (0.1),
        /// `patience` (10), `threshold` (1e-4), `threshold_mode` (`rel`), `cooldown` (0), `min_lr` (0)
        /// and `eps` (1e-8) of `reduce_lr_on_plateau`.
        lr_scheduler_kwargs: ScheduleKwargs = ScheduleKwargs::default();
        /// Steps over which the learning rate rises from 0; below 1, a share of all steps.
        warmup_steps: StepsOrRatio = StepsOrRatio::steps(0), in 0.0..;
        /// Share of a label that is spread over all classes.
        label_smoothing_factor: f64 = 0.0, in 0.0..1.0;
        /// Compute in bfloat16, with weights in float32.
        bf16: bool = false;
        /// Compute in float16 with dynamic loss scaling, with weights in float32.
        fp16: bool = false;
        /// Let NVIDIA GPUs round the operands of float32 dots to TensorFloat-32: faster, with
        /// three digits.
        tf32: bool = false;
        /// Parameters that are not trained: full names, or runs of their dotted parts, such as
        /// `[embeddings, encoder.layer.0]`. They have neither gradients nor optimizer state.
        freeze: Vec<String> = Vec::new();
        /// Noise on the embeddings of training rows (NEFTune): uniform, up to this number divided by
        /// the root of the batch's padded length times the width, as in transformers.
        neftune_noise_alpha: Option<f64> = None, in 0.0..;
        /// Recompute activations in the backward pass instead of keeping them.
        gradient_checkpointing: bool = false;
        /// Seed of new weights, of dropout and, without `data_seed`, of the order of rows.
        seed: u64 = 42, in 0.0..=4_294_967_295.0;
        /// Seed of the order of rows.
        data_seed: Option<u64> = None, in 0.0..=4_294_967_295.0;
        /// Order in which training rows are seen.
        train_sampling_strategy: TrainSamplingStrategy = TrainSamplingStrategy::Random;
        /// Drop the last batch of an epoch if it is not full.
        dataloader_drop_last: bool = false;
        /// Steps between two entries of the log: the mean loss since the last one, the norm of the
        /// gradients before clipping and the learning rate of that step; below 1, a share of all
        /// steps.
        logging_steps: StepsOrRatio = StepsOrRatio::steps(500), in above(0.0);
        /// When to log: every `logging_steps`, at the end of each epoch, or not before the end.
        logging_strategy: LoggingStrategy = LoggingStrategy::Steps;
        /// Log the first step too.
        logging_first_step: bool = false;
        /// Count the tokens of training rows in `num_input_tokens_seen` of the log and of
        /// `trainer_state.json`: all, with the padding of a batch, or those that are no padding.
        include_num_input_tokens_seen: InputTokens = InputTokens::No;
        /// Where to write metrics besides the job's events: `tensorboard`, files in `runs` of
        /// `output_dir`; `mlflow`, a file store in `mlruns` there, which MLflow reads with
        /// `MLFLOW_ALLOW_FILE_STORE=true` or `mlflow migrate-filestore`; both in a list, or `none`.
        report_to: ReportTo = ReportTo::default();
        /// When to evaluate while training.
        eval_strategy: EvalStrategy = EvalStrategy::No;
        /// Steps between two evaluations; below 1, a share of all steps; `logging_steps` by
        /// default.
        eval_steps: Option<StepsOrRatio> = None, in above(0.0);
        /// Steps before the first evaluation, or epochs with `eval_strategy: epoch`.
        eval_delay: f64 = 0.0, in 0.0..;
        /// Evaluate before the first step.
        eval_on_start: bool = false;
        /// Compute no metric of evaluations but the loss.
        prediction_loss_only: bool = false;
        /// Generate a text for each row that is evaluated or predicted (seq2seq-lm). Evaluations then
        /// have `rouge1`, `rouge2`, `rougeL`, `rougeLsum`, `bleu` and `gen_len`. The settings are those of
        /// the model's `generation_config.json`, or of its `config.json` without one.
        predict_with_generate: bool = false;
        /// The most tokens of a generated text, that with which the decoder starts counted; by default
        /// the model's `max_length`, or 21.
        generation_max_length: Option<u32> = None, in 2.0..=1_048_576.0;
        /// Beams of a beam search for generated texts; by default the model's `num_beams`, or 1.
        generation_num_beams: Option<u32> = None, in 1.0..=1024.0;
        /// When to write a checkpoint, `checkpoint-<steps>` in `checkpoint_dir`. The trained model
        /// is written to `output_dir` in any case.
        save_strategy: SaveStrategy = SaveStrategy::Steps;
        /// Steps between two checkpoints; below 1, a share of all steps.
        save_steps: StepsOrRatio = StepsOrRatio::steps(500), in above(0.0);
        /// Leave the state of the optimizer and of training out of checkpoints. A job that is
        /// restarted then resumes only if it was asked to stop, and saved all of it.
        save_only_model: bool = false;
        /// Checkpoints to keep, the newest and the best among them; all by default.
        save_total_limit: Option<u32> = None, in 1.0..;
        /// Commit the trained model with its model card to a repository of the Hugging Face hub, and
        /// checkpoints by `hub_strategy`. Training does not wait for uploads; the end of the job
        /// does. The token is that of `HF_TOKEN` in the daemon's environment, and `HF_ENDPOINT` names
        /// another hub.
        push_to_hub: bool = false;
        /// Repository to commit to, `ORG/NAME`; without `ORG` it is that of the token's account. By
        /// default the name of `output_dir`. It is created if the hub has none of that name.
        hub_model_id: Option<String> = None;
        /// When to commit to the hub: at the `end`; at `every_save` of a checkpoint, the model of that
        /// step; with `checkpoint`, also the whole checkpoint, as `last-checkpoint`; with
        /// `all_checkpoints`, each of them under its own name.
        hub_strategy: HubStrategy = HubStrategy::EverySave;
        /// Create the repository as a private one, or as a public one; by default as the account's
        /// settings have it.
        hub_private_repo: Option<bool> = None;
        /// Branch to commit to, `main` by default. It is created if the repository has none of that
        /// name.
        hub_revision: Option<String> = None;
        /// Commit each saved checkpoint, also where the one before is still being uploaded. Otherwise it
        /// is left out then.
        hub_always_push: bool = false;
        /// End with the best checkpoint instead of the last.
        load_best_model_at_end: bool = false;
        /// Metric of the evaluations that determines the best checkpoint, with or without the
        /// prefix `eval_`; `loss` by default. For classes `accuracy`, `precision`,
        /// `recall`, `f1` (these three also with `_macro`, `_micro`, `_weighted`) and
        /// `matthews_correlation` (of one class per row); for regression `mse`, `mae`, `pearson`,
        /// `spearmanr`; for words `precision`, `recall`, `f1` (of entities) and `accuracy`; for
        /// answers `exact_match` (`exact` in version 2) and `f1`; for language models `accuracy`
        /// and `perplexity`; for generated texts `rouge1`, `rouge2`, `rougeL`, `rougeLsum` and `bleu`.
        metric_for_best_model: Option<String> = None;
        /// True if a larger value of that metric is better; by default for all but losses.
        greater_is_better: Option<bool> = None;
        /// Evaluations in a row without a better metric after which training ends.
        early_stopping_patience: Option<u32> = None, in 1.0..;
        /// Improvement of the metric below which an evaluation counts for
        /// `early_stopping_patience`.
        early_stopping_threshold: f64 = 0.0, in 0.0..;
        /// Checkpoint to resume from: its folder, the output folder of another job, whose newest
        /// checkpoint is taken, the `s3://` URL of either, `true` for the newest in `checkpoint_dir`, or
        /// `auto` for the newest there if any, and the beginning otherwise. Settings may differ from
        /// those that the checkpoint was made with, but for the model and the optimizer. A job that is
        /// restarted always resumes from its own newest checkpoint.
        resume_from_checkpoint: Option<ResumeFrom> = None;
        /// Start again with the first row of the epoch in which the checkpoint of
        /// `resume_from_checkpoint` was written, instead of continuing with the next row.
        ignore_data_skip: bool = false;
    }
}

spelled! {
    /// An optimizer.
    pub enum Optim {
        /// AdamW, as in PyTorch.
        AdamwTorch = "adamw_torch" | "adamw_torch_fused" | "adamw_torch_xla" | "adamw_torch_npu_fused"
            | "adamw_apex_fused" | "adamw_hf",
        /// Stochastic gradient descent.
        Sgd = "sgd",
        /// Adafactor.
        Adafactor = "adafactor",
        /// Adagrad, as in PyTorch.
        Adagrad = "adagrad",
        /// Lion.
        Lion = "lion_32bit" | "lion" | "paged_lion_32bit",
        /// RMSprop, as in PyTorch.
        RmsProp = "rmsprop" | "rmsprop_bnb" | "rmsprop_bnb_32bit",
        /// Schedule-free AdamW, as in the package `schedulefree`.
        ScheduleFreeAdamW = "schedule_free_adamw",
    }
}

impl Optim {
    /// The settings that `optim_args` may have, with their ranges.
    pub(crate) fn args(self) -> Vec<(&'static str, Range)> {
        let flag = Range::new(0.0..=1.0);
        match self {
            Self::Sgd => vec![
                ("momentum", Range::new(0.0..)),
                ("dampening", Range::new(0.0..)),
                ("nesterov", flag),
            ],
            Self::RmsProp => vec![
                ("alpha", Range::new(0.0..1.0)),
                ("eps", Range::new(above(0.0))),
                ("momentum", Range::new(0.0..)),
                ("centered", flag),
            ],
            Self::Adagrad => {
                vec![("lr_decay", Range::new(0.0..)), ("eps", Range::new(above(0.0)))]
            }
            Self::ScheduleFreeAdamW => {
                vec![("weight_lr_power", Range::new(0.0..)), ("r", Range::new(0.0..))]
            }
            Self::AdamwTorch | Self::Adafactor | Self::Lion => Vec::new(),
        }
    }
}

spelled! {
    /// The schedule of the learning rate after warm-up.
    pub enum LrSchedulerType {
        /// Linear decay to 0.
        Linear = "linear",
        /// Half a cosine, down to 0.
        Cosine = "cosine",
        /// As `cosine`, down to a last rate.
        CosineWithMinLr = "cosine_with_min_lr",
        /// As `cosine`, several times.
        CosineWithRestarts = "cosine_with_restarts",
        /// Polynomial decay.
        Polynomial = "polynomial",
        /// Constant, without warm-up.
        Constant = "constant",
        /// Constant after warm-up.
        ConstantWithWarmup = "constant_with_warmup",
        /// Decay with the inverse square root of the steps.
        InverseSqrt = "inverse_sqrt",
        /// Unchanged after warm-up, and down in the last steps.
        WarmupStableDecay = "warmup_stable_decay",
        /// Lower whenever evaluations have not improved for a while, as in PyTorch.
        ReduceLrOnPlateau = "reduce_lr_on_plateau",
    }
}

impl LrSchedulerType {
    /// The options that `lr_scheduler_kwargs` may have, with their ranges.
    pub(crate) fn kwargs(self) -> Vec<(&'static str, Range)> {
        match self {
            Self::Cosine | Self::CosineWithRestarts => vec![("num_cycles", Range::new(above(0.0)))],
            Self::CosineWithMinLr => vec![
                ("num_cycles", Range::new(above(0.0))),
                ("min_lr", Range::new(above(0.0))),
                ("min_lr_rate", Range::new(0.0..1.0)),
            ],
            Self::WarmupStableDecay => vec![
                ("num_decay_steps", Range::new(1.0..)),
                ("min_lr_ratio", Range::new(0.0..1.0)),
                ("num_cycles", Range::new(above(0.0))),
            ],
            Self::Polynomial => {
                vec![("lr_end", Range::new(0.0..)), ("power", Range::new(above(0.0)))]
            }
            Self::InverseSqrt => vec![("timescale", Range::new(above(0.0)))],
            Self::ReduceLrOnPlateau => vec![
                ("factor", Range::new(0.0..1.0)),
                ("patience", Range::new(0.0..)),
                ("threshold", Range::new(0.0..)),
                ("cooldown", Range::new(0.0..)),
                ("min_lr", Range::new(0.0..)),
                ("eps", Range::new(0.0..)),
            ],
            Self::Linear | Self::Constant | Self::ConstantWithWarmup => Vec::new(),
        }
    }
}

impl LrSchedulerType {
    /// The options of `lr_scheduler_kwargs` that are words, with the words that they may be.
    pub(crate) fn words(self) -> &'static [(&'static str, [&'static str; 2])] {
        match self {
            Self::ReduceLrOnPlateau => {
                &[("mode", ["min", "max"]), ("threshold_mode", ["rel", "abs"])]
            }
            _ => &[],
        }
    }

    /// Whether rates depend on evaluations.
    pub fn follows_evaluations(self) -> bool {
        self == Self::ReduceLrOnPlateau
    }
}

spelled! {
    /// The order in which training rows are seen.
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
    /// When to log while training.
    pub enum LoggingStrategy {
        /// Not at all.
        No = "no",
        /// Every `logging_steps`.
        Steps = "steps",
        /// At the end of each epoch.
        Epoch = "epoch",
    }
}

spelled! {
    /// When to evaluate while training.
    pub enum EvalStrategy {
        /// Not at all.
        No = "no",
        /// Every `eval_steps`.
        Steps = "steps",
        /// At the end of each epoch.
        Epoch = "epoch",
    }
}

spelled! {
    /// When to write a checkpoint while training.
    pub enum SaveStrategy {
        /// Not at all.
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
