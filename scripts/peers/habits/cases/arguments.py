"""Training arguments."""

from case import case
from cases.bases import TEXTS
from rows import classified


@case
def state_of_the_trainer():
    counted = {"gradient_accumulation_steps": 3, "per_device_train_batch_size": 4, "logging_steps": 2}
    return {
        "max-steps": {**TEXTS, "train": {**counted, "max_steps": 7}},
        "epochs": {**TEXTS, "train": {**counted, "num_train_epochs": 2.4}},
        "evaluated": {**TEXTS, "train": {**counted, "max_steps": 7, "eval_strategy": "epoch"}},
    }


# Arguments with the names that transformers 5 gives them.
NEW_NAMES = {
    "warmup_ratio": {"warmup_ratio": None, "warmup_steps": 0.3},
    "evaluation": {
        "evaluation_strategy": None,
        "per_gpu_train_batch_size": None,
        "eval_strategy": "epoch",
        "per_device_train_batch_size": 4,
    },
}


@case
def arguments_of_training():
    classes = {**TEXTS}

    def given(refusal="", trained=True, arguments=None, **train):
        return {**classes, "train": train, "refusal": refusal, "trained": trained, "arguments": arguments or {}}

    steps = {"eval_strategy": "steps", "save_strategy": "steps"}
    return {
        "warmup-ratio": given(warmup_ratio=0.3, arguments=NEW_NAMES["warmup_ratio"]),
        "warmup-both": given(warmup_ratio=0.3, warmup_steps=2, trained=False, refusal="warmup"),
        "warmup-fraction": given(warmup_steps=0.3),
        "max-steps-unset": given(max_steps=-1),
        "max-steps-zero": given(max_steps=0, refusal="max_steps"),
        "epochs-zero": given(num_train_epochs=0, refusal="num_train_epochs"),
        "epochs-half": given(num_train_epochs=0.5),
        "epochs-over": given(num_train_epochs=1.3),
        "fractions-of-steps": given(eval_strategy="steps", eval_steps=0.25, logging_steps=0.2),
        "logging-zero": given(logging_steps=0, trained=False, refusal="logging_steps"),
        "logging-first": given(logging_steps=5, logging_first_step=True),
        "logging-by-epoch": given(logging_strategy="epoch"),
        "evaluated-first": given(eval_strategy="steps", eval_steps=4, eval_on_start=True),
        "evaluated-late": given(eval_strategy="steps", eval_steps=3, eval_delay=7),
        "evaluated-late-by-epoch": given(eval_strategy="epoch", eval_delay=2),
        "evaluated-as-logged": given(eval_strategy="steps", logging_steps=4),
        "old-names": given(
            evaluation_strategy="epoch",
            per_gpu_train_batch_size=4,
            per_device_train_batch_size=None,
            arguments=NEW_NAMES["evaluation"],
        ),
        "best-without-saving": given(
            load_best_model_at_end=True,
            trained=False,
            refusal="load_best_model_at_end",
            **{**steps, "save_strategy": "epoch"},
        ),
        "best-between-evaluations": given(
            load_best_model_at_end=True,
            eval_steps=4,
            save_steps=6,
            trained=False,
            refusal="load_best_model_at_end",
            arguments={"save_strategy": "steps"},
            **steps,
        ),
        "best-by-unknown-metric": given(
            metric_for_best_model="eval_f2",
            load_best_model_at_end=True,
            eval_steps=4,
            save_steps=4,
            trained=False,
            refusal="f2",
            arguments={"save_strategy": "steps"},
            **steps,
        ),
        "plateau": given(lr_scheduler_type="reduce_lr_on_plateau", eval_strategy="epoch"),
        "sqrt": given(lr_scheduler_type="inverse_sqrt", warmup_steps=3),
        # The Trainer drops rows of an evaluation too, where traind counts all: none are left over here.
        "drop-last": {**given(dataloader_drop_last=True), "evaluated": classified(12, 31)},
        "drop-all": given(
            dataloader_drop_last=True, per_device_train_batch_size=64, trained=False, refusal="dataloader_drop_last"
        ),
        "batch-of-all": given(per_device_train_batch_size=64),
        # Without the larger epsilon, Adam amplifies rounding where gradients nearly vanish.
        "smoothed": given(label_smoothing_factor=0.1, adam_epsilon=1e-3),
        "fused-optimizer": given(optim="adamw_torch_fused"),
        "old-optimizer": given(optim="adamw_hf", arguments={"optim": "adamw_torch"}),
        "reporting-to-another": given(report_to="comet_ml", arguments={"report_to": "none"}, refusal="report_to"),
        "rate-as-text": given(
            learning_rate="1e-3", arguments={"learning_rate": 1e-3}, refusal="must be a number, not the text"
        ),
        "no-clipping": given(max_grad_norm=0.0),
        "sizes-found": given(auto_find_batch_size=True),
    }
