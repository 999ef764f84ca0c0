//! Fields of tasks of preferences, besides `dpo`, that must fit the task and each other.

use super::unread;
use crate::problems::Problems;
use crate::schema::JobFile;
use crate::schema::model::TaskName;
use crate::schema::objectives::preferences::{CpoLoss, KtoLoss};
use crate::section::given;

/// Reports fields that do not fit.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    check_sections(job, problems);
    match job.model.task {
        TaskName::Cpo => check_cpo(job, problems),
        TaskName::Kto => check_kto(job, problems),
        _ => {}
    }
}

/// Refuses the sections of other tasks.
fn check_sections(job: &JobFile, problems: &mut Problems) {
    unread::check_section(TaskName::Reward, &job.reward, job, problems);
    unread::check_section(TaskName::Orpo, &job.orpo, job, problems);
    unread::check_section(TaskName::Cpo, &job.cpo, job, problems);
    unread::check_section(TaskName::Kto, &job.kto, job, problems);
}

fn check_cpo(job: &JobFile, problems: &mut Problems) {
    let (cpo, loss) = (&job.cpo, job.cpo.loss_type);
    let read = [
        ("label_smoothing", loss.smooths() || cpo.label_smoothing == 0.0),
        ("simpo_gamma", loss.has_margin()),
        ("cpo_alpha", loss != CpoLoss::Alphapo || cpo.cpo_alpha == 0.0),
    ];
    let keys = given(cpo, "cpo", problems);
    unread::check_loss("cpo", &keys, &read, loss, problems);
}

fn check_kto(job: &JobFile, problems: &mut Problems) {
    if job.kto.loss_type == KtoLoss::Kto && job.train.per_device_train_batch_size < 2 {
        let description = "must be at least 2 for the loss `kto`, which reads each prompt with the completion of \
            another row; with 2 and half of train.gradient_accumulation_steps, a step has as many rows";
        problems.violation("train.per_device_train_batch_size", description);
    }
    if job.train.neftune_noise_alpha.is_some() {
        let description = "is not supported for kto, whose reference has no noise";
        problems.violation("train.neftune_noise_alpha", description);
    }
}
