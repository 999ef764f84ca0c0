//! Shares of masked tokens that must fit the task and each other.

use crate::problems::Problems;
use crate::schema::JobFile;

/// Reports shares that are not read, and those that add up to more than 1.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    let (task, data) = (job.model.task, &job.data);
    let given = [
        ("data.mask_replace_prob", data.mask_replace_prob),
        ("data.random_replace_prob", data.random_replace_prob),
    ];
    for (field, _) in given.iter().filter(|(_, share)| share.is_some()) {
        if !task.masks_tokens() {
            let description =
                format!("applies to masked-lm and replaced-token-detection, not to {task}");
            problems.violation(field, description);
        } else if data.whole_word_mask {
            let description =
                "applies to single tokens; with data.whole_word_mask, all become the mask token";
            problems.violation(field, description);
        }
    }
    let [mask, random] = job.replaced_shares();
    if task.masks_tokens() && mask + random > 1.0 {
        let description = format!(
            "and data.random_replace_prob add up to {}, and must to 1 at most",
            mask + random
        );
        problems.violation("data.mask_replace_prob", description);
    }
}
