//! The layout of a job's rows, for tasks with conversations.

use std::path::Path;

use traind_job_file::{Data, DataFiles, DataLayout, DataSet, ExcessLength, JobFile, TaskName};
use traind_loader::{
    ChatTemplate, LayoutEncoding, Layouts, PieceRule, PromptFormat, RowFields, RowLayout, TurnRule,
    bos_token,
};

use crate::error::RunResult;
use crate::recipe::rows;

/// Fields of a message that say whether its text is a target, unless the job names one.
const TRAINING: [&str; 2] = ["train", "weight"];
/// Roles as LLaMA-Factory names those of ShareGPT's messages.
const SHAREGPT_ROLES: [(&str, &str); 5] = [
    ("human", "user"),
    ("gpt", "assistant"),
    ("system", "system"),
    ("observation", "observation"),
    ("function_call", "function"),
];
/// Roles as LLaMA-Factory names those of messages with `role` and `content`.
const MESSAGE_ROLES: [(&str, &str); 6] = [
    ("user", "user"),
    ("assistant", "assistant"),
    ("system", "system"),
    ("tool", "observation"),
    ("observation", "observation"),
    ("function", "function"),
];
/// Roles as axolotl names them.
const TURN_ROLES: [(&str, &str); 6] = [
    ("human", "user"),
    ("user", "user"),
    ("assistant", "assistant"),
    ("gpt", "assistant"),
    ("system", "system"),
    ("tool", "tool"),
];

/// The chat template that renders a job's conversations; None where the model has none.
pub(super) fn template(data: &Data, folder: &Path) -> RunResult<Option<ChatTemplate>> {
    let eos_token = data.eos_token.as_deref();
    Ok(match choice(data) {
        Some(choice) => ChatTemplate::choose(folder, choice, eos_token)?,
        None => ChatTemplate::open(folder, eos_token)?,
    })
}

/// The text of the template that the job chose.
pub(super) fn chosen_template(data: &Data, folder: &Path) -> RunResult<Option<String>> {
    let template = match choice(data) {
        Some(_) => template(data, folder)?,
        None => None,
    };
    Ok(template.map(|template| template.source().to_owned()))
}

/// The chat template that the job names, or that its layout goes with.
fn choice(data: &Data) -> Option<&str> {
    let of_format = data.format == Some(DataLayout::Chatml) && data.template.is_none();
    data.chat_template.as_deref().or(of_format.then_some("chatml"))
}

/// The layouts of a split's rows; None where rows have TRL's columns.
pub(super) fn layouts(
    job: &JobFile,
    files: Option<&DataFiles>,
    folder: &Path,
) -> RunResult<Option<Layouts>> {
    let data = &job.data;
    let Some(format) = data.format.or_else(|| trains_by_turn(data).then_some(DataLayout::Messages))
    else {
        return Ok(None);
    };
    let sets = files.map_or(&[][..], |files| &files.sets);
    let mut layouts: Vec<RowLayout> =
        sets.iter().map(|set| layout(data, set.format.unwrap_or(format), Some(set))).collect();
    if layouts.is_empty() {
        layouts.push(layout(data, format, None));
    }
    Ok(Some(Layouts {
        layouts,
        encoding: encoding(job, format),
        bos_token: bos_token(folder)?,
        drops_long_rows: data.excess_length_strategy == ExcessLength::Drop,
    }))
}

/// Whether a key says which turns are targets.
fn trains_by_turn(data: &Data) -> bool {
    data.train_on_inputs.is_some()
        || data.roles_to_train.is_some()
        || data.message_field_training.is_some()
        || data.train_on_eos.is_some()
        || data.train_on_eot.is_some()
        || data.eot_tokens.is_some()
}

fn encoding(job: &JobFile, format: DataLayout) -> LayoutEncoding {
    let data = &job.data;
    let train_on_inputs = data.train_on_inputs.unwrap_or(false);
    if let Some(template) = &data.template {
        return LayoutEncoding::Pieces(PieceRule {
            template: template.clone(),
            train_on_inputs,
            mask_history: data.mask_history,
            enable_thinking: data.enable_thinking,
            default_system: data.default_system.clone(),
        });
    }
    let has_prompts = format == DataLayout::Alpaca && data.chat_template.is_none();
    if has_prompts && job.model.task == TaskName::Sft && !data.assistant_only_loss {
        return LayoutEncoding::Instructions { prompts: prompts(data), train_on_inputs };
    }
    match data.assistant_only_loss || job.model.task.is_of_preferences() {
        true => LayoutEncoding::Template,
        false => LayoutEncoding::Turns(turn_rule(data, train_on_inputs)),
    }
}

fn turn_rule(data: &Data, train_on_inputs: bool) -> TurnRule {
    let usual = TurnRule::of_assistant();
    let train_on_eos = data.train_on_eos.map_or(usual.train_on_eos, rows::train_on);
    TurnRule {
        roles_to_train: data.roles_to_train.clone().unwrap_or(usual.roles_to_train),
        train_on_inputs,
        train_on_eos,
        train_on_eot: data.train_on_eot.map_or(train_on_eos, rows::train_on),
        eot_tokens: data.eot_tokens.clone(),
    }
}

fn prompts(data: &Data) -> PromptFormat {
    let own = &data.prompt_template;
    let Some(format) = &own.format else {
        return PromptFormat::of_style(rows::prompt_style(data.prompt_style));
    };
    let no_input_format = own.no_input_format.clone();
    let system_prompt = own.system_prompt.clone().unwrap_or_default();
    PromptFormat {
        system_no_input_prompt: system_prompt.clone(),
        system_prompt,
        system_format: own.system_format.clone(),
        format: format.clone(),
        no_input_format: no_input_format.unwrap_or_else(|| "{instruction} ".to_owned()),
        reads_system: true,
    }
}

/// The layout of a set, whose own settings come before those of the job.
fn layout(data: &Data, format: DataLayout, set: Option<&DataSet>) -> RowLayout {
    let fields = set.and_then(|set| set.fields.as_ref()).unwrap_or(&data.fields);
    let messages = set.and_then(|set| set.messages.as_ref()).unwrap_or(&data.messages);
    RowLayout {
        format: rows::row_format(format),
        fields: RowFields {
            instruction: fields.instruction.clone(),
            input: fields.input.clone().unwrap_or_default(),
            output: fields.output.clone(),
            history: fields.history.clone().unwrap_or_default(),
            system: fields.system.clone().unwrap_or_default(),
            messages: messages.clone(),
            other_messages: (format == DataLayout::Sharegpt).then(|| "conversations".to_owned()),
            text: data.text.clone(),
            chosen: data.chosen.clone(),
            rejected: data.rejected.clone(),
        },
        roles: roles(data, format, set),
        message_fields: message_fields(data, format, set),
        training: match &data.message_field_training {
            Some(field) => vec![field.clone()],
            None => TRAINING.map(str::to_owned).to_vec(),
        },
        drops_system: data.drop_system_message,
    }
}

/// The names of roles in the data, each with its role.
fn roles(data: &Data, format: DataLayout, set: Option<&DataSet>) -> Vec<(String, String)> {
    let own = set.map(|set| &set.roles).filter(|roles| roles.iter().next().is_some());
    let given = own.unwrap_or(&data.roles).iter();
    let given: Vec<(String, String)> = given
        .flat_map(|(role, names)| names.iter().map(|name| (name.clone(), role.to_owned())))
        .collect();
    if !given.is_empty() {
        return given;
    }
    let usual: &[(&str, &str)] = match (&data.template, format) {
        (None, _) => &TURN_ROLES,
        (Some(_), DataLayout::Sharegpt) => &SHAREGPT_ROLES,
        (Some(_), _) => &MESSAGE_ROLES,
    };
    usual.iter().map(|(name, role)| ((*name).to_owned(), (*role).to_owned())).collect()
}

/// The fields of a template's messages, each with its name in the data.
fn message_fields(data: &Data, format: DataLayout, set: Option<&DataSet>) -> Vec<(String, String)> {
    let own = set.map(|set| &set.message_property_mappings);
    let own = own.filter(|fields| fields.iter().next().is_some());
    let given = own.unwrap_or(&data.message_property_mappings);
    let mut fields: Vec<(String, String)> =
        given.iter().map(|(to, from)| (to.to_owned(), from.clone())).collect();
    let usual = match format {
        DataLayout::Sharegpt => [("role", "from"), ("content", "value")],
        _ => [("role", "role"), ("content", "content")],
    };
    for (to, from) in usual {
        if !fields.iter().any(|(known, _)| known == to) {
            fields.push((to.to_owned(), from.to_owned()));
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use traind_job_file::{CHAT_TEMPLATES, TURN_TEMPLATES};
    use traind_loader::{named_templates, turn_template_names};

    #[test]
    fn the_job_file_knows_all_templates() {
        let sorted = |names: Vec<&'static str>| {
            let mut names = names;
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(named_templates().collect()), sorted(CHAT_TEMPLATES.to_vec()));
        assert_eq!(sorted(turn_template_names().collect()), sorted(TURN_TEMPLATES.to_vec()));
    }
}
