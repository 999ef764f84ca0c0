//! Fields whose values `traind-choices` lists.

use traind_choices::{
    DenseActivation, DpoLoss, Fsdp, LabelsKind, Loss, LrSchedulerType, Optim, PeftBias, PoolingMode,
};

use crate::spelled::spelled_field;

spelled_field!(DenseActivation);
spelled_field!(DpoLoss);
spelled_field!(Fsdp);
spelled_field!(LrSchedulerType);
spelled_field!(Optim);
spelled_field!(PeftBias);
spelled_field!(PoolingMode);
spelled_field!(Loss, losses_doc);

/// Labels, as the documentation of `loss` names them.
const LABELS: [(LabelsKind, &str); 3] = [
    (LabelsKind::Classes, "For one class per row or word, and for language models"),
    (LabelsKind::Flags, "for several classes per row"),
    (LabelsKind::Numbers, "for numbers"),
];

/// The losses for each kind of labels, and their settings.
fn losses_doc() -> String {
    let losses_for = |(kind, words): (LabelsKind, &str)| {
        let fitting = fitting(kind);
        let names: Vec<String> = fitting.iter().map(|loss| format!("`{loss}`")).collect();
        let (last, others) = names.split_last()?;
        Some(format!("{words}, {} or {last}", others.join(", ")))
    };
    let settings = Loss::ALL.iter().flat_map(|loss| {
        let settings = loss.settings().iter();
        settings.map(move |it| format!("`{}` ({}) for `{loss}`", it.name, it.default))
    });
    let losses: Vec<String> = LABELS.into_iter().filter_map(losses_for).collect();
    let settings: Vec<String> = settings.collect();
    format!("{}. Settings: {}.", losses.join("; "), settings.join("; "))
}

/// The losses that `kind` of labels may have.
pub(crate) fn fitting(kind: LabelsKind) -> Vec<Loss> {
    Loss::ALL.iter().copied().filter(|loss| loss.labels().contains(&kind)).collect()
}
