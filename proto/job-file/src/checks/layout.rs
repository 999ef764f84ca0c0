//! Checks of layouts of rows, and of several sets.

use crate::problems::Problems;
use crate::schema::JobFile;
use crate::schema::data::Data;
use crate::schema::layout::{DataLayout, ExcessLength, Mixing, PromptStyle};
use crate::schema::model::TaskName;
use crate::section::given;
use crate::values::template_names::is_own_template;
use crate::values::{CHAT_TEMPLATES, TURN_TEMPLATES, is_chat_template};

/// Reports fields that do not fit the layout, the task or each other.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    check_task(job, problems);
    check_templates(&job.data, problems);
    check_prompts(job, problems);
    check_pieces(&job.data, problems);
    check_turns(&job.data, problems);
    check_sets(job, problems);
}

/// The keys about turns that are targets, with whether each is set.
fn turn_keys(data: &Data) -> [(&'static str, bool); 6] {
    [
        ("data.train_on_inputs", data.train_on_inputs.is_some()),
        ("data.roles_to_train", data.roles_to_train.is_some()),
        ("data.message_field_training", data.message_field_training.is_some()),
        ("data.train_on_eos", data.train_on_eos.is_some()),
        ("data.train_on_eot", data.train_on_eot.is_some()),
        ("data.eot_tokens", data.eot_tokens.is_some()),
    ]
}

/// Refuses all keys for tasks that have no conversations, and those about turns for preferences.
fn check_task(job: &JobFile, problems: &mut Problems) {
    let (task, data) = (job.model.task, &job.data);
    let of_sft = [
        ("data.excess_length_strategy", data.excess_length_strategy != ExcessLength::Truncate),
        ("data.mask_history", data.mask_history),
    ];
    if task != TaskName::Sft {
        for (field, _) in turn_keys(data).into_iter().chain(of_sft).filter(|(_, given)| *given) {
            problems.violation(field, format!("applies to sft, not to {task}"));
        }
    }
    if task.is_of_conversations() {
        return;
    }
    let both = [
        ("data.format", data.format.is_some()),
        ("data.chat_template", data.chat_template.is_some()),
        ("data.template", data.template.is_some()),
        ("data.message_property_mappings", data.message_property_mappings.iter().count() > 0),
        ("data.roles", data.roles.iter().count() > 0),
        ("data.drop_system_message", data.drop_system_message),
    ];
    for (field, _) in both.into_iter().filter(|(_, given)| *given) {
        problems.violation(field, format!("applies to sft and preferences, not to {task}"));
    }
}

/// A question for the most similar name, if one is similar.
fn nearest(name: &str, known: &[&str]) -> String {
    let similar = |other: &&&str| strsim::normalized_damerau_levenshtein(name, other);
    let best = known.iter().max_by(|one, other| similar(one).total_cmp(&similar(other)));
    match best.filter(|best| similar(best) >= 0.6) {
        Some(best) => format!(" (did you mean `{best}`?)"),
        None => String::new(),
    }
}

fn check_templates(data: &Data, problems: &mut Problems) {
    let is_unknown = |name: &&String| !is_own_template(name) && !is_chat_template(name);
    if let Some(name) = data.chat_template.as_ref().filter(is_unknown) {
        let nearest = nearest(name, CHAT_TEMPLATES);
        let description = format!(
            "`{name}` is neither a file, a template nor a known name{nearest}; known are \
             tokenizer_default, {}",
            CHAT_TEMPLATES.join(", ")
        );
        problems.violation("data.chat_template", description);
    }
    let is_unknown = |name: &&String| !TURN_TEMPLATES.contains(&name.as_str());
    if let Some(name) = data.template.as_ref().filter(is_unknown) {
        let nearest = nearest(name, TURN_TEMPLATES);
        let description =
            format!("`{name}` is not known{nearest}; known are {}", TURN_TEMPLATES.join(", "));
        problems.violation("data.template", description);
    }
    if data.template.is_some() && data.chat_template.is_some() {
        let description = "cannot be combined with data.chat_template: `template` is one of \
            LLaMA-Factory's, and tokenizes each turn by itself";
        problems.violation("data.template", description);
    }
    if data.template.is_some() && data.format.is_none() {
        let description = "needs data.format, such as alpaca, sharegpt or messages";
        problems.violation("data.template", description);
    }
}

/// Prompts belong to instructions that no template renders.
fn check_prompts(job: &JobFile, problems: &mut Problems) {
    let data = &job.data;
    let own = given(&data.prompt_template, "data.prompt_template", problems);
    let has_style = data.prompt_style != PromptStyle::Instruct;
    let fields: Vec<&str> =
        [("data.prompt_style", has_style), ("data.prompt_template", !own.is_empty())]
            .into_iter()
            .filter(|(_, given)| *given)
            .map(|(field, _)| field)
            .collect();
    let applies = data.format == Some(DataLayout::Alpaca)
        && data.chat_template.is_none()
        && data.template.is_none()
        && job.model.task == TaskName::Sft;
    for field in &fields {
        if !applies {
            let description = "applies to sft with data.format: alpaca, without data.chat_template \
                and data.template";
            problems.violation(field, description);
        }
    }
    if fields.len() == 2 {
        problems.violation("data.prompt_style", "cannot be combined with data.prompt_template");
    }
    if !own.is_empty() && data.prompt_template.format.is_none() {
        let description = "is required in this section, for example `{instruction}\\n{input}\\n`";
        problems.violation("data.prompt_template.format", description);
    }
}

/// Some keys are those of LLaMA-Factory alone, and some of axolotl's.
fn check_pieces(data: &Data, problems: &mut Problems) {
    if data.template.is_none() {
        let given = [
            ("data.default_system", data.default_system.is_some()),
            ("data.mask_history", data.mask_history),
            ("data.enable_thinking", !data.enable_thinking),
        ];
        for (field, _) in given.into_iter().filter(|(_, given)| *given) {
            problems.violation(field, "applies to data.template alone");
        }
        return;
    }
    let others = turn_keys(data).into_iter().filter(|(field, _)| *field != "data.train_on_inputs");
    let loss = [("data.assistant_only_loss", data.assistant_only_loss)];
    for (field, _) in others.chain(loss).filter(|(_, given)| *given) {
        problems.violation(field, "cannot be combined with data.template, which trains on answers");
    }
}

fn check_turns(data: &Data, problems: &mut Problems) {
    let turns = turn_keys(data).into_iter().filter(|(_, given)| *given).map(|(field, _)| field);
    if let (true, Some(field)) = (data.assistant_only_loss, turns.into_iter().next()) {
        let description = "cannot be combined with data.assistant_only_loss, by which the chat \
            template says what is trained on";
        problems.violation(field, description);
    }
    let makes_rows = |layout| [DataLayout::Completion, DataLayout::Pretokenized].contains(&layout);
    if data.format.is_some_and(makes_rows) && data.template.is_some() {
        problems.violation("data.template", "applies to conversations and instructions");
    }
}

fn check_sets(job: &JobFile, problems: &mut Problems) {
    let data = &job.data;
    if job.model.task == TaskName::QuestionAnswering {
        let given = [
            ("data.mixing", data.mixing != Mixing::Concatenate),
            ("data.max_samples", data.max_samples.is_some()),
        ];
        for (field, _) in given.into_iter().filter(|(_, given)| *given) {
            problems.violation(field, "is not supported for question-answering");
        }
    }
    let splits = [
        ("data.train", &data.train),
        ("data.validation", &data.validation),
        ("data.test", &data.test),
    ];
    for (field, files) in splits {
        let Some(files) = files else { continue };
        if job.model.task == TaskName::QuestionAnswering && !files.sets.is_empty() {
            let description = "has sets with keys of their own, which question-answering does not \
                support; give files with one split each";
            problems.violation(field, description);
        }
        let weights = files.sets.iter().filter(|set| set.weight.is_some()).count();
        if weights > 0 && data.mixing.is_of_batches() {
            let description =
                format!("has weights, which data.mixing: {} does not read", data.mixing);
            problems.violation(field, description);
        }
        if weights > 0 && data.mixing == Mixing::Concatenate {
            let description = "has weights, which data.mixing: first_exhausted and all_exhausted \
                read; without them, rows are concatenated";
            problems.violation(field, description);
        }
        if weights > 0 && weights < files.sets.len() {
            problems.violation(field, "needs a weight for each of its sets, or for none");
        }
        let layouts = files.sets.iter().filter(|set| set.format.is_some());
        if layouts.count() > 0 && !job.model.task.is_of_conversations() {
            let task = job.model.task;
            problems.violation(
                field,
                format!("has a format, which applies to sft and preferences, not to {task}"),
            );
        }
        if files.sets.iter().any(|set| set.format.is_some()) && data.format.is_none() {
            let description = "is required where sets have a format of their own; it is that of \
                the others";
            problems.violation("data.format", description);
        }
    }
}
