//! Fields that must fit the task and each other: columns, labels, metrics.

use std::collections::BTreeMap;

use traind_wording::counted;

use super::{dpo, embedding, embedding_sets, masking, preferences, replaced_tokens, reranker};
use crate::problems::{FIELD_UNUSED, Problems, join};
use crate::schema::JobFile;
use crate::schema::model::{ProblemType, TaskName};
use crate::schema::train::Train;

/// Reports fields that do not fit the task.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    check_columns(job, problems);
    check_labels(job, problems);
    check_problem_type(job, problems);
    check_language_model(job, problems);
    check_seq2seq(job, problems);
    check_generation(job, problems);
    check_sft(job, problems);
    check_conversations(job, problems);
    dpo::check(job, problems);
    preferences::check(job, problems);
    masking::check(job, problems);
    replaced_tokens::check(job, problems);
    embedding::check(job, problems);
    embedding_sets::check(job, problems);
    reranker::check(job, problems);
    check_images(job, problems);
}

/// Columns that a task reads have one meaning each.
fn check_columns(job: &JobFile, problems: &mut Problems) {
    let mut meanings: BTreeMap<&str, &str> = BTreeMap::new();
    for (field, column) in columns(job) {
        if let Some(first) = meanings.insert(column, field) {
            problems.violation(field, format!("column `{column}` is `{first}` already"));
        }
    }
}

fn columns(job: &JobFile) -> Vec<(&'static str, &str)> {
    let data = &job.data;
    let weight = data.weight.as_deref().map(|column| ("data.weight", column));
    match job.model.task {
        TaskName::SequenceClassification => {
            let mut columns = vec![("data.text", data.text.as_str())];
            columns.extend(data.text_pair.as_deref().map(|column| ("data.text_pair", column)));
            columns.push(("data.label", &data.label));
            columns.extend(weight);
            columns
        }
        TaskName::ImageClassification => {
            let columns = [("data.image", data.image.as_str()), ("data.label", &data.label)];
            columns.into_iter().chain(weight).collect()
        }
        TaskName::TokenClassification => {
            let columns = [("data.tokens", data.tokens.as_str()), ("data.labels", &data.labels)];
            columns.into_iter().chain(weight).collect()
        }
        TaskName::QuestionAnswering => {
            let mut columns = vec![
                ("data.question", data.question.as_str()),
                ("data.context", &data.context),
                ("data.answers", &data.answers),
            ];
            columns.extend(data.id.as_deref().map(|column| ("data.id", column)));
            columns
        }
        TaskName::Seq2SeqLm if data.source_lang.is_some() => Vec::new(),
        TaskName::Seq2SeqLm => {
            vec![("data.source", data.source.as_str()), ("data.target", &data.target)]
        }
        TaskName::Sft => vec![
            ("data.messages", data.messages.as_str()),
            ("data.prompt", &data.prompt),
            ("data.completion", &data.completion),
        ],
        TaskName::Dpo | TaskName::Orpo | TaskName::Cpo => vec![
            ("data.prompt", data.prompt.as_str()),
            ("data.chosen", &data.chosen),
            ("data.rejected", &data.rejected),
        ],
        TaskName::Reward => vec![
            ("data.prompt", data.prompt.as_str()),
            ("data.chosen", &data.chosen),
            ("data.rejected", &data.rejected),
            ("data.margin", &data.margin),
        ],
        TaskName::Kto => vec![
            ("data.prompt", data.prompt.as_str()),
            ("data.completion", &data.completion),
            ("data.label", &data.label),
            ("data.chosen", &data.chosen),
            ("data.rejected", &data.rejected),
        ],
        TaskName::MaskedLm
        | TaskName::ReplacedTokenDetection
        | TaskName::CausalLm
        | TaskName::Embedding
        | TaskName::Reranker => Vec::new(),
    }
}

fn check_labels(job: &JobFile, problems: &mut Problems) {
    let task = job.model.task;
    let is_scored = matches!(task, TaskName::Embedding | TaskName::Reranker);
    if !job.data.ignored_labels.is_empty() && !task.is_classification() && !is_scored {
        let description =
            format!("applies to classification, embedding and reranker, not to {task}");
        problems.violation("data.ignored_labels", description);
    }
    if !task.is_classification() && task != TaskName::Reranker {
        let description = format!("applies to classification, not to {task}");
        if job.model.num_labels.is_some() {
            problems.violation("model.num_labels", description.clone());
        }
        if job.data.label_map.is_some() {
            problems.violation("data.label_map", description);
        }
        return;
    }
    let classes = job.data.label_map.as_ref().map(|map| map.classes().len());
    if let (Some(num_labels), Some(classes)) = (job.model.num_labels, classes)
        && num_labels as usize != classes
    {
        let description =
            format!("is {num_labels}, but data.label_map has {}", counted(classes, "class"));
        problems.violation("model.num_labels", description);
    }
    let is_multi_label = job.model.problem_type == Some(ProblemType::MultiLabelClassification);
    if classes == Some(1) && !is_multi_label {
        let description =
            "all labels are one class, and a classifier learns to tell two or more apart";
        problems.violation("data.label_map", description);
    }
}

fn check_problem_type(job: &JobFile, problems: &mut Problems) {
    let Some(problem_type) = job.model.problem_type else { return };
    let (task, num_labels) = (job.model.task, job.model.num_labels);
    if !matches!(task, TaskName::SequenceClassification | TaskName::ImageClassification) {
        let description = format!("applies to one label per row, not to {task}");
        problems.violation("model.problem_type", description);
    }
    match problem_type {
        ProblemType::Regression if job.data.label_map.is_some() => {
            problems.violation("data.label_map", "applies to classes, not to regression");
        }
        ProblemType::SingleLabelClassification if num_labels == Some(1) => {
            let description = "must be at least 2 for single_label_classification";
            problems.violation("model.num_labels", description);
        }
        _ => {}
    }
}

fn check_seq2seq(job: &JobFile, problems: &mut Problems) {
    let (task, data) = (job.model.task, &job.data);
    let languages =
        [("data.source_lang", &data.source_lang), ("data.target_lang", &data.target_lang)];
    if task != TaskName::Seq2SeqLm {
        let given = languages.map(|(field, language)| (field, language.is_some()));
        let lengths = ("data.max_source_length", data.max_source_length.is_some());
        let prefix = ("data.source_prefix", data.source_prefix.is_some());
        for (field, _) in given.into_iter().chain([lengths, prefix]).filter(|(_, given)| *given) {
            problems.violation(field, format!("applies to seq2seq-lm, not to {task}"));
        }
        return;
    }
    if job.train.neftune_noise_alpha.is_some() {
        let description = "applies to models of one stack; transformers adds no noise to a decoder and its encoder";
        problems.violation("train.neftune_noise_alpha", description);
    }
    if data.max_length.is_some() {
        let description = "applies to one text per row; seq2seq-lm has data.max_source_length";
        problems.violation("data.max_length", description);
    }
    match (&data.source_lang, &data.target_lang) {
        (Some(_), None) => {
            problems.violation("data.source_lang", "needs data.target_lang beside it")
        }
        (None, Some(_)) => {
            problems.violation("data.target_lang", "needs data.source_lang beside it")
        }
        _ => {}
    }
    if job.train.do_predict && !job.train.predict_with_generate {
        let description = "is true, but seq2seq-lm writes texts with train.predict_with_generate";
        problems.violation("train.do_predict", description);
    }
}

fn check_generation(job: &JobFile, problems: &mut Problems) {
    let (task, train) = (job.model.task, &job.train);
    if train.predict_with_generate && task != TaskName::Seq2SeqLm {
        let description = format!("applies to seq2seq-lm, not to {task}");
        problems.violation("train.predict_with_generate", description);
    }
    let settings = [
        ("train.generation_max_length", train.generation_max_length),
        ("train.generation_num_beams", train.generation_num_beams),
    ];
    for (field, _) in settings.iter().filter(|(_, value)| value.is_some()) {
        if !train.predict_with_generate {
            problems.violation(field, "needs train.predict_with_generate");
        }
    }
    check_generation_config(train, problems);
}

fn check_generation_config(train: &Train, problems: &mut Problems) {
    const PATH: &str = "train.generation_config";
    let config = &train.generation_config;
    if let (Some(key), false) = (config.given().keys().next(), train.predict_with_generate) {
        problems.violation(&join(PATH, key), "needs train.predict_with_generate");
    }
    if config.do_sample == Some(true) && train.generation_num_beams.is_some_and(|beams| beams > 1) {
        let description = "cannot be true with train.generation_num_beams above 1: beams are \
            chosen, not drawn";
        problems.violation(&join(PATH, "do_sample"), description);
    }
    if config.max_new_tokens.is_some() && train.generation_max_length.is_some() {
        let description = "cannot be combined with train.generation_max_length: remove one";
        problems.violation(&join(PATH, "max_new_tokens"), description);
    }
    // A text begins with the decoder's start token, which counts in lengths.
    let longest = [
        (
            join(PATH, "max_new_tokens"),
            config.max_new_tokens.map(|tokens| tokens.saturating_add(1)),
        ),
        ("train.generation_max_length".to_owned(), train.generation_max_length),
    ];
    let least = [
        ("min_new_tokens", config.min_new_tokens.map(|tokens| tokens.saturating_add(1))),
        ("min_length", config.min_length),
    ];
    for (key, least) in least {
        for (limit, longest) in &longest {
            if least.zip(*longest).is_some_and(|(least, longest)| least > longest) {
                problems.violation(&join(PATH, key), format!("is more than {limit} allows"));
            }
        }
    }
}

fn check_sft(job: &JobFile, problems: &mut Problems) {
    let (task, data) = (job.model.task, &job.data);
    if task == TaskName::Sft {
        if data.eval_packing.is_some_and(|packs| packs != data.packing)
            && data.validation_split.is_some()
        {
            let description = "differs from data.packing, but data.validation_split takes rows that are \
                packed already; data.validation names files";
            problems.violation("data.eval_packing", description);
        }
        return;
    }
    let given = [
        ("data.assistant_only_loss", data.assistant_only_loss),
        ("data.completion_only_loss", data.completion_only_loss == Some(false)),
        ("data.packing", data.packing),
        ("data.eval_packing", data.eval_packing.is_some()),
    ];
    for (field, _) in given.into_iter().filter(|(_, given)| *given) {
        problems.violation(field, format!("applies to sft, not to {task}"));
    }
}

fn check_conversations(job: &JobFile, problems: &mut Problems) {
    let task = job.model.task;
    if !task.is_of_conversations() {
        if job.data.eos_token.is_some() {
            problems.violation(
                "data.eos_token",
                format!("applies to sft and preferences, not to {task}"),
            );
        }
    } else if job.train.do_predict {
        let description = format!("is true, but {task} has nothing to predict per row");
        problems.violation("train.do_predict", description);
    }
}

/// Images have one size and no tokens.
fn check_images(job: &JobFile, problems: &mut Problems) {
    let (task, data) = (job.model.task, &job.data);
    if task != TaskName::ImageClassification {
        if !data.augmentation {
            let description = format!("applies to image-classification, not to {task}");
            problems.violation("data.augmentation", description);
        }
        return;
    }
    let of_texts = [
        ("data.text_pair", data.text_pair.is_some()),
        ("data.max_length", data.max_length.is_some()),
        ("data.pad_to_max_length", data.pad_to_max_length),
        ("data.pad_to_multiple_of", data.pad_to_multiple_of.is_some()),
        ("data.padded_lengths_max", data.padded_lengths_max.is_some()),
        ("train.neftune_noise_alpha", job.train.neftune_noise_alpha.is_some()),
    ];
    for (field, _) in of_texts.into_iter().filter(|(_, given)| *given) {
        problems.violation(field, format!("applies to models of text, not to {task}"));
    }
}

fn check_language_model(job: &JobFile, problems: &mut Problems) {
    let (task, data) = (job.model.task, &job.data);
    if job.train.do_predict && task.is_language_model() {
        let description = format!("is true, but {task} has nothing to predict per row");
        problems.violation("train.do_predict", description);
    }
    if data.line_by_line && !task.masks_tokens() {
        let description =
            format!("applies to masked-lm and replaced-token-detection, not to {task}");
        problems.violation("data.line_by_line", description);
    }
    if data.line_by_line && data.block_size.is_some() {
        let description = "has no effect where each text is a row (data.line_by_line)";
        problems.warning(FIELD_UNUSED, "data.block_size", description);
    }
    if data.block_size.is_some() && !task.is_language_model() {
        let description =
            format!("applies to masked-lm, replaced-token-detection and causal-lm, not to {task}");
        problems.violation("data.block_size", description);
    }
}
