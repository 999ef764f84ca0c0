//! Fields of preference pairs that must fit the task and each other.

use traind_choices::DpoLoss;
use traind_wording::counted;

use super::unread;
use crate::problems::Problems;
use crate::schema::JobFile;
use crate::schema::model::TaskName;
use crate::schema::objectives::dpo::{Dpo, DpoDivergence};
use crate::section::given;

/// Reports fields of section `dpo` that do not fit.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    let dpo = &job.dpo;
    unread::check_section(TaskName::Dpo, dpo, job, problems);
    if job.model.task != TaskName::Dpo {
        return;
    }
    check_losses(dpo, problems);
    check_smoothing(dpo, problems);
    check_divergence(dpo, problems);
    check_training(job, problems);
}

fn check_losses(dpo: &Dpo, problems: &mut Problems) {
    let count = dpo.loss_type.len();
    if let Some(weights) = dpo.loss_weights.as_ref().filter(|weights| weights.len() != count) {
        let description = format!(
            "has {}, but dpo.loss_type has {}",
            counted(weights.len(), "weight"),
            counted(count, "loss")
        );
        problems.violation("dpo.loss_weights", description);
    }
    if let Some(loss) = dpo.loss_type.iter().find(|loss| loss.ranks() && dpo.use_weighting) {
        let description =
            format!("does not apply to the loss `{loss}`, which has pairs of ranks, not of rows");
        problems.violation("dpo.use_weighting", description);
    }
    let is_default = given(dpo, "dpo", problems).iter().all(|key| key != "discopop_tau");
    if !is_default && !dpo.loss_type.contains(&DpoLoss::Discopop) {
        let description = format!("applies to the loss `discopop`, not to `{}`", names(dpo));
        problems.violation("dpo.discopop_tau", description);
    }
}

fn check_smoothing(dpo: &Dpo, problems: &mut Problems) {
    const FIELD: &str = "dpo.label_smoothing";
    let smoothed = dpo.label_smoothing > 0.0;
    if smoothed && !dpo.loss_type.iter().any(|loss| loss.smooths()) {
        let description = format!(
            "applies to the losses `robust`, `exo_pair`, `aot` and `aot_unpaired`, not to `{}`",
            names(dpo)
        );
        problems.violation(FIELD, description);
    }
    if !smoothed && dpo.loss_type.contains(&DpoLoss::ExoPair) {
        problems.violation(FIELD, "must be above 0 for the loss `exo_pair`, such as 0.001");
    }
}

fn check_divergence(dpo: &Dpo, problems: &mut Problems) {
    let divergence = dpo.f_divergence_type;
    let other = dpo.loss_type.iter().find(|loss| !loss.takes_divergences());
    if let Some(loss) = other.filter(|_| divergence != DpoDivergence::ReverseKl) {
        let description = format!("must be reverse_kl for the loss `{loss}`, not {divergence}");
        problems.violation("dpo.f_divergence_type", description);
    }
    let key = "f_alpha_divergence_coef";
    let is_given = given(dpo, "dpo", problems).iter().any(|given| given == key);
    if is_given && divergence != DpoDivergence::AlphaDivergence {
        let description = format!("applies to alpha_divergence, not to {divergence}");
        problems.violation(&format!("dpo.{key}"), description);
    }
}

fn check_training(job: &JobFile, problems: &mut Problems) {
    if job.train.neftune_noise_alpha.is_some() {
        let description = "is not supported for dpo, whose reference has no noise";
        problems.violation("train.neftune_noise_alpha", description);
    }
}

fn names(dpo: &Dpo) -> String {
    let names: Vec<&str> = dpo.loss_type.iter().map(|loss| loss.as_str()).collect();
    names.join("`, `")
}
