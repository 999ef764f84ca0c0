//! Fields of ELECTRA's pre-training that must fit the task and each other.

use super::unread;
use crate::problems::{Problems, join};
use crate::schema::JobFile;
use crate::schema::model::TaskName;
use crate::section::given;

const SECTION: &str = "replaced_token_detection";
/// The keys that say how large a new generator is.
const SIZES: [&str; 2] = ["generator_hidden_size", "generator_layers"];

/// Reports fields of section `replaced_token_detection` that do not fit.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    let (task, settings) = (job.model.task, &job.replaced_token_detection);
    unread::check_section(TaskName::ReplacedTokenDetection, settings, job, problems);
    if task != TaskName::ReplacedTokenDetection {
        if job.model.generator.is_some() {
            let description =
                format!("applies to {}, not to {task}", TaskName::ReplacedTokenDetection);
            problems.violation("model.generator", description);
        }
        return;
    }
    if job.model.generator.is_some() {
        let given = given(settings, SECTION, problems);
        for key in given.iter().filter(|key| SIZES.contains(&key.as_str())) {
            let description = "is decided by the model of model.generator; remove one of the two";
            problems.violation(&join(SECTION, key), description);
        }
    }
    if settings.discriminator_weight + settings.generator_weight == 0.0 {
        problems.violation(
            &join(SECTION, "discriminator_weight"),
            "is 0 as generator_weight is: nothing is learned",
        );
    }
    check_adapters(job, problems);
}

/// Refuses adapters of embeddings: PEFT saves those of each model by itself.
fn check_adapters(job: &JobFile, problems: &mut Problems) {
    let (peft, task) = (&job.peft, job.model.task);
    let keys = [
        ("trainable_token_indices", peft.trainable_token_indices.is_some()),
        ("ensure_weight_tying", peft.ensure_weight_tying),
    ];
    for (key, _) in keys.iter().filter(|(_, is_given)| *is_given) {
        let description =
            format!("is not supported for {task}, whose two models read one embedding");
        problems.violation(&join("peft", key), description);
    }
}
