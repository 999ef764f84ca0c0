use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::batch::{Target, TargetPadding};
use crate::dataset::{DatasetOptions, TokenizedSet, prepare};
use crate::labels::{IGNORED_LABEL, LabelKind, LabelSpec, Labels};
use crate::tasks::tests::{
    check_error, prepared, question, questions, token_limits, tokenizer, words,
};
use crate::tasks::*;
use crate::testing::DataFolder;

const MAX_LENGTH: u32 = 32;

fn classes() -> LabelKind {
    LabelKind::Infer { num_labels: None }
}

fn texts(label: &str) -> TaskSpec {
    TaskSpec::SequenceClassification(SequenceClassification {
        text: "text".to_owned(),
        text_pair: Some("second".to_owned()),
        label: Some(LabelSpec {
            column: label.to_owned(),
            kind: classes(),
            weight: None,
            ignored: Vec::new(),
        }),
    })
}

fn seq2seq() -> TaskSpec {
    let column = |name: &str| TextColumn { column: name.to_owned(), field: None };
    TaskSpec::Seq2SeqLm(Seq2SeqLm {
        source: column("source"),
        target: Some(column("target")),
        source_prefix: "the ".to_owned(),
        max_target_length: 6,
        ignore_pad_token_for_loss: true,
        decoder_start: DecoderStart::Token(2),
    })
}

fn sft(max_length: u32) -> TaskSpec {
    TaskSpec::Sft(Sft {
        messages: "messages".to_owned(),
        prompt: "prompt".to_owned(),
        completion: "completion".to_owned(),
        text: "text".to_owned(),
        template: None,
        eos_token: None,
        max_length,
        assistant_only_loss: false,
        completion_only_loss: None,
        packing: None,
        layouts: None,
        position_ids: false,
    })
}

fn dpo() -> TaskSpec {
    TaskSpec::Dpo(Dpo {
        prompt: "prompt".to_owned(),
        chosen: "chosen".to_owned(),
        rejected: "rejected".to_owned(),
        template: None,
        eos_token: Some("[SEP]".to_owned()),
        layouts: None,
        max_length: 16,
    })
}

fn lines(rows: impl IntoIterator<Item = Json>) -> String {
    rows.into_iter().map(|row| format!("{row}\n")).collect()
}

/// The row of a set as `map` of `datasets` leaves it, padded to `padded` tokens, with more columns.
fn row(set: &TokenizedSet, row: usize, padded: usize, more: Json) -> Json {
    let ids = set.input_ids(row).unwrap();
    let types = set.token_type_ids(row).unwrap();
    let types = types.unwrap_or_else(|| vec![0; ids.len()]);
    let padding = padded.saturating_sub(ids.len());
    let mask = [vec![1; ids.len()], vec![0; padding]].concat();
    let (ids, types) = ([ids, vec![0; padding]].concat(), [types, vec![0; padding]].concat());
    let mut row = json!({"input_ids": ids, "token_type_ids": types, "attention_mask": mask});
    row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    row
}

/// The same rows twice: of texts, and tokenized as `tokens` returns them for the set of the texts.
fn check_same(task: &TaskSpec, texts: Vec<Json>, tokens: impl Fn(&TokenizedSet, usize) -> Json) {
    let of_texts = prepared(task, &lines(texts), MAX_LENGTH).unwrap();
    let rows = lines((0..of_texts.len()).map(|row| tokens(&of_texts, row)));
    let of_tokens = prepared(task, &rows, MAX_LENGTH).unwrap();
    assert!(of_tokens.is_pretokenized() && !of_texts.is_pretokenized());
    assert_eq!(of_tokens.labels(), of_texts.labels());
    assert_eq!(contents(&of_tokens), contents(&of_texts), "{rows}");
}

fn contents(set: &Arc<TokenizedSet>) -> Vec<String> {
    let row = |row| {
        let tokens = (set.input_ids(row).unwrap(), set.token_type_ids(row).unwrap());
        let targets = (set.token_labels(row).unwrap(), set.target_ids(row).unwrap());
        format!("{tokens:?} {targets:?} {:?}", set.masking(row).unwrap())
    };
    (0..set.len()).map(row).collect()
}

#[test]
fn classes_of_texts() {
    for (given, column) in [("label", "label"), ("label", "labels"), ("class", "class")] {
        let rows = vec![
            json!({"text": "the file", "second": "a list", given: 1}),
            json!({"text": "a file is", "second": "the", given: 0}),
        ];
        check_same(&texts(given), rows, |set, number| {
            row(set, number, 9, json!({column: 1 - number}))
        });
    }
}

#[test]
fn classes_of_tokens() {
    let rows = vec![
        json!({"words": ["the", "file"], "tags": [0, 1]}),
        json!({"words": ["a"], "tags": [2]}),
    ];
    // The column of the words' tags may be there still.
    check_same(&words(classes()), rows, |set, number| {
        let labels = set.token_labels(number).unwrap().unwrap();
        let labels = [labels, vec![IGNORED_LABEL; 2]].concat();
        row(set, number, labels.len(), json!({"labels": labels, "tags": [7]}))
    });
}

#[test]
fn spans() {
    let context = "the file was a list";
    let rows = [
        question(context, r#"{"text": ["file"], "answer_start": [4]}"#),
        question(context, r#"{"text": [], "answer_start": []}"#),
    ];
    let rows = rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    check_same(&questions(2), rows, |set, number| {
        let Labels::Span { start_positions, end_positions } = set.labels() else { panic!() };
        let (start, end) = (start_positions[number], end_positions[number]);
        row(set, number, 0, json!({"start_positions": start, "end_positions": end}))
    });
}

#[test]
fn masked_tokens() {
    let task = TaskSpec::MaskedLm(MaskedLm { text: "text".to_owned(), block_size: None });
    check_same(&task, vec![json!({"text": "the file was a"})], |set, number| {
        row(set, number, 12, json!({"special_tokens_mask": [1]}))
    });
}

/// The lengths that texts are cut to do not concern rows of tokens, which are as long as the limits allow.
#[test]
fn rows_are_longer_than_texts() {
    let prepared = |task: &TaskSpec, row: &Json, limits| {
        let folder = DataFolder::new();
        let files = [folder.write("a.jsonl", lines([row.clone()]))].into_iter().collect();
        let (task, token_limits) = (task.clone(), limits);
        let options = DatasetOptions { files, task, token_limits, cache_dir: None };
        prepare(&options, &tokenizer(4)).map(|prepared| prepared.set)
    };
    let (ids, labels) = ([5; 9], [5; 8]);
    let row = json!({
        "input_ids": ids, "labels": labels, "start_positions": 8, "end_positions": 8, "class": 1,
    });
    let of_tokens = json!({"input_ids": ids, "labels": ids.map(|id| id % 2)});
    let block = MaskedLm { text: "text".to_owned(), block_size: Some(4) };
    let tasks = [
        (texts("class"), &row),
        (words(classes()), &of_tokens),
        (questions(2), &row),
        (TaskSpec::MaskedLm(block), &row),
        (TaskSpec::CausalLm(CausalLm { text: "text".to_owned(), block_size: 4 }), &of_tokens),
        (seq2seq(), &row),
    ];
    for (task, row) in &tasks {
        for limits in [TokenLimits::default(), token_limits(9, 8)] {
            let set = prepared(task, row, limits).unwrap();
            assert_eq!(set.lengths(), [9], "{task:?}");
            assert_eq!(
                set.target_lengths(),
                matches!(task, TaskSpec::Seq2SeqLm(_)).then_some(&[8][..])
            );
        }
        let error = prepared(task, row, token_limits(8, 8)).unwrap_err().to_string();
        let expect = "a.jsonl, row 0 (line 1): column \"input_ids\" has 9 tokens, and rows may have 8 \
                      (data.max_length)";
        assert!(error.ends_with(expect), "{error}");
    }
    let error = prepared(&seq2seq(), &row, token_limits(9, 7)).unwrap_err().to_string();
    assert!(error.ends_with("targets may have 7 (data.max_target_length)"), "{error}");
}

/// Padding before tokens, and tokens in the middle that none attends to, keep their places.
#[test]
fn padding_before_tokens() {
    let rows = [
        json!({"input_ids": [0, 0, 2, 9, 3], "attention_mask": [0, 0, 1, 1, 1], "label": 0}),
        json!({"input_ids": [0, 2, 9, 3, 0], "attention_mask": [0, 1, 0, 1, 0], "label": 1}),
        json!({"input_ids": [2, 9, 3, 0, 0], "attention_mask": [1, 1, 1, 0, 0], "label": 1}),
    ];
    let set = prepared(&texts("label"), &lines(rows), MAX_LENGTH).unwrap();
    let row = |row| (set.input_ids(row).unwrap(), set.unattended(row).unwrap().unwrap());
    assert_eq!(row(0), (vec![0, 0, 2, 9, 3], vec![1, 1, 0, 0, 0]));
    assert_eq!(row(1), (vec![0, 2, 9, 3], vec![1, 0, 1, 0]));
    assert_eq!(row(2), (vec![2, 9, 3], vec![0, 0, 0]));
}

/// The words of a row are those of transformers' `_calc_word_ids_and_prob_mask`: a gap or a special token ends a word.
#[test]
fn words_by_offsets() {
    let task = TaskSpec::MaskedLm(MaskedLm { text: "text".to_owned(), block_size: None });
    let ids = [2, 9, 8, 7, 1, 9, 9, 3, 0];
    let offsets =
        json!([[0, 0], [0, 3], [3, 5], [6, 9], [9, 10], [10, 12], [12, 13], [0, 0], [0, 0]]);
    let mask = [1, 1, 1, 1, 1, 1, 1, 1, 0];
    let row = json!({"input_ids": ids, "attention_mask": mask, "offset_mapping": offsets});
    let set = prepared(&task, &lines([row]), MAX_LENGTH).unwrap();
    assert!(set.knows_words());
    let (special, starts, continues) = (SPECIAL_TOKEN, STARTS_WORD, CONTINUES_WORD);
    let expect = [special, starts, continues, starts, special, starts, continues, special];
    assert_eq!(set.masking(0).unwrap(), expect);
    let set = prepared(&task, &lines([json!({"input_ids": ids})]), MAX_LENGTH).unwrap();
    assert!(!set.knows_words());
    let good = r#"{"input_ids": [9], "offset_mapping": [[0, 1]]}"#;
    for (bad, expect) in [
        ("null", "has no list of offsets"),
        ("[[0, 1], [1, 2]]", "has 2 values for 1 token"),
        ("[[0]]", "has an item that is not a pair of numbers"),
        ("[0]", "has an integer in its list of pairs of numbers"),
    ] {
        let bad = format!(r#"{{"input_ids": [9], "offset_mapping": {bad}}}"#);
        let expect = format!(" (line 2): column \"offset_mapping\" {expect}");
        check_error(&task, good, &bad, &expect);
    }
}

#[test]
fn texts_to_write() {
    let rows = vec![
        json!({"source": "file", "target": "a list"}),
        json!({"source": "the file was", "target": "the"}),
    ];
    check_same(&seq2seq(), rows, |set, number| {
        let target = set.target_ids(number).unwrap().into_iter().map(i64::from);
        let labels: Vec<i64> = target.chain([-100, -100]).collect();
        row(set, number, 9, json!({"labels": labels}))
    });
}

/// Labels may be none anywhere. The decoder reads padding there, behind the token that mBART takes for the last one.
#[test]
fn targets_without_some_labels() {
    let none = IGNORED_LABEL;
    let row = json!({"input_ids": [2, 9], "labels": [none, 5, none, 6, 7, none]});
    let check = |ignores: bool, start, labels: &[i32], inputs: &[i32]| {
        let TaskSpec::Seq2SeqLm(task) = seq2seq() else { unreachable!() };
        let ignore_pad_token_for_loss = ignores;
        let task = Seq2SeqLm { decoder_start: start, ignore_pad_token_for_loss, ..task };
        let set = prepared(&TaskSpec::Seq2SeqLm(task), &lines([row.clone()]), MAX_LENGTH).unwrap();
        assert_eq!(set.target_lengths(), Some(&[labels.len() as u32][..]));
        let target = set.target(0, TargetPadding { token_id: 1, length: labels.len() });
        let Target { labels: found, decoder_input_ids } = target.unwrap().unwrap();
        assert_eq!((&found[..], &decoder_input_ids[..]), (labels, inputs));
    };
    let first = DecoderStart::Token(2);
    check(true, first, &[none, 5, none, 6, 7], &[2, 1, 5, 1, 6]);
    check(true, DecoderStart::LastToken, &[none, 5, none, 6, 7], &[1, 1, 5, 1, 6]);
    // Padding behind the row would count, and what the row has there does not.
    check(false, first, &[none, 5, none, 6, 7, none], &[2, 1, 5, 1, 6, 7]);
}

/// Rows without a label count in no loss, and do not stop those beside them.
#[test]
fn targets_without_labels() {
    let rows = [json!([-100, -100, -100]), json!([]), json!([5, 6])];
    let rows = rows.map(|labels| json!({"input_ids": [2, 9], "labels": labels}));
    let set = prepared(&seq2seq(), &lines(rows), MAX_LENGTH).unwrap();
    assert_eq!(set.target_lengths(), Some(&[1, 1, 2][..]));
    for row in [0, 1] {
        let target = set.target(row, TargetPadding { token_id: 1, length: 2 });
        let Target { labels, decoder_input_ids } = target.unwrap().unwrap();
        assert_eq!((labels, decoder_input_ids), (vec![IGNORED_LABEL], vec![2, 1]));
    }
}

/// As in transformers, places beyond the row may be those of padding, and are not before the first token.
#[test]
fn answers_beyond_their_rows() {
    let rows = [(0, 5), (-3, 1_i64 << 40)].map(|(start, end)| {
        let mask = [1, 1, 1, 0, 0];
        json!({"input_ids": [2, 9, 3, 0, 0], "attention_mask": mask, "start_positions": start, "end_positions": end})
    });
    let set = prepared(&questions(2), &lines(rows), MAX_LENGTH).unwrap();
    let Labels::Span { start_positions, end_positions } = set.labels() else { panic!() };
    assert_eq!((&start_positions[..], &end_positions[..]), (&[0, 0][..], &[5, 1 << 30][..]));
    // The loss is taken over the padding too.
    assert_eq!(set.lengths(), [5, 5]);
    assert_eq!(set.unattended(0).unwrap(), Some(vec![0, 0, 0, 1, 1]));
}

/// A row is a block, however long, and padding tokens are no targets unless `labels` has them.
#[test]
fn blocks() {
    let task = TaskSpec::CausalLm(CausalLm { text: "text".to_owned(), block_size: 4 });
    let rows = [
        json!({"input_ids": [5, 6, 7, 0], "attention_mask": null, "labels": null}),
        json!({"input_ids": [5, 6], "attention_mask": null, "labels": [-100, 6]}),
        json!({"input_ids": [5, 6, 0], "attention_mask": [1, 1, 0], "labels": [5, 6, -100]}),
        json!({"input_ids": [5, 6, 7, 8, 9], "attention_mask": null, "labels": null}),
    ];
    let set = prepared(&task, &lines(rows), MAX_LENGTH).unwrap();
    let labels = |row| set.token_labels(row).unwrap().unwrap();
    assert_eq!(set.lengths(), [4, 2, 2, 5]);
    assert_eq!([labels(0), labels(1), labels(2)].concat(), [5, 6, 7, -100, -100, 6, 5, 6]);
    let good = r#"{"input_ids": [5], "attention_mask": [1], "labels": [5]}"#;
    let check = |bad: &str, expect: &str| {
        check_error(&task, good, bad, &format!(" (line 2): column {expect}"));
    };
    check(
        r#"{"input_ids": [5, 0], "attention_mask": [1, 0], "labels": [5, 0]}"#,
        r#""labels" has labels of padding; they must be -100"#,
    );
    check(
        r#"{"input_ids": [5], "labels": [-1]}"#,
        r#""labels" has the id -1, and the tokenizer has 290 tokens"#,
    );
}

fn supervised(ids: &[u32], labels: Json, completion_mask: Json, assistant_masks: Json) -> Json {
    json!({
        "input_ids": ids, "labels": labels, "completion_mask": completion_mask,
        "assistant_masks": assistant_masks, "attention_mask": [0],
    })
}

/// The targets are TRL's: `labels` where it is there, else the tokens that no mask leaves out. Rows are cut.
#[test]
fn supervised_rows() {
    let rows = [
        supervised(&[5, 6, 7, 8, 9], json!([-100, 6, 7, 8, 9]), json!(null), json!(null)),
        supervised(&[5, 6, 7], json!(null), json!([0, 1, 1]), json!([true, true, false])),
        supervised(&[5, 6], json!(null), json!(null), json!(null)),
        supervised(&[5, 6, 7, 8, 9], json!(null), json!(null), json!([0, 0, 0, 0, 1])),
    ];
    let set = prepared(&sft(4), &lines(rows), MAX_LENGTH).unwrap();
    let labels = |row| set.token_labels(row).unwrap().unwrap();
    assert_eq!(set.lengths(), [4, 3, 2]);
    assert_eq!(labels(0), [-100, 6, 7, 8]);
    assert_eq!(labels(1), [5, 6, -100]);
    assert_eq!(labels(2), [5, 6]);
}

/// A mask of completions counts as in TRL: where files have prompts and completions too, or where the
/// job says so.
#[test]
fn masks_of_completions() {
    let row = |more: Json| {
        let mut row = supervised(&[5, 6, 7], json!(null), json!([0, 1, 1]), json!(null));
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row
    };
    let plain = row(json!({}));
    let beside_texts = row(json!({"prompt": "a", "completion": "b"}));
    let check = |completion_only_loss, row: &Json, expect: [i32; 3]| {
        let TaskSpec::Sft(task) = sft(4) else { unreachable!() };
        let task = TaskSpec::Sft(Sft { completion_only_loss, ..task });
        let set = prepared(&task, &lines([row.clone()]), MAX_LENGTH).unwrap();
        assert_eq!(set.token_labels(0).unwrap().unwrap(), expect);
    };
    check(None, &plain, [5, 6, 7]);
    check(Some(true), &plain, [-100, 6, 7]);
    check(None, &beside_texts, [-100, 6, 7]);
    check(Some(false), &beside_texts, [5, 6, 7]);
}

/// Without a mask, all tokens would count.
#[test]
fn the_tokens_of_the_assistant_need_a_mask() {
    let TaskSpec::Sft(mut task) = sft(8) else { panic!() };
    task.assistant_only_loss = true;
    let task = TaskSpec::Sft(task);
    let masked = r#"{"input_ids": [5, 6], "assistant_masks": [0, 1]}"#;
    let set = prepared(&task, masked, MAX_LENGTH).unwrap();
    assert_eq!(set.token_labels(0).unwrap(), Some(vec![-100, 6]));
    let error = prepared(&task, r#"{"input_ids": [5, 6]}"#, MAX_LENGTH).unwrap_err();
    let expect = "data.assistant_only_loss needs the column \"assistant_masks\" or \"labels\"";
    assert!(error.contains(expect), "{error}");
}

#[test]
fn pairs() {
    let rows = [json!({"prompt": "the file", "chosen": " was a list", "rejected": " is"})];
    let of_texts = prepared(&dpo(), &lines(rows), MAX_LENGTH).unwrap();
    let (chosen, rejected) = (of_texts.input_ids(0).unwrap(), of_texts.target_ids(0).unwrap());
    let labels = of_texts.token_labels(0).unwrap().unwrap();
    let prompt = labels.iter().position(|label| *label != IGNORED_LABEL).unwrap();
    let row = json!({
        "prompt_ids": chosen[..prompt], "chosen_ids": chosen[prompt..], "rejected_ids": rejected[prompt..],
    });
    let of_tokens = prepared(&dpo(), &lines([row]), MAX_LENGTH).unwrap();
    assert_eq!(contents(&of_tokens), contents(&of_texts));
}

#[test]
fn wrong_rows_are_errors() {
    let good = r#"{"input_ids": [2, 9, 3], "attention_mask": [1, 1, 1], "label": 1}"#;
    let task = texts("label");
    let check = |bad: &str, expect: &str| {
        check_error(&task, good, bad, &format!(" (line 2): column {expect}"));
    };
    let ids = vec!["5"; 33].join(", ");
    check(
        &format!(r#"{{"input_ids": [{ids}], "label": 1}}"#),
        r#""input_ids" has 33 tokens, and rows may have 32 (data.max_length)"#,
    );
    check(
        r#"{"input_ids": [2, 9, 3], "attention_mask": [1, 1], "label": 1}"#,
        r#""attention_mask" has 2 values for 3 tokens"#,
    );
    check(r#"{"input_ids": null, "label": 1}"#, r#""input_ids" has no value"#);
    check(r#"{"input_ids": [], "label": 1}"#, r#""input_ids" has no tokens"#);
    check(
        r#"{"input_ids": [0], "attention_mask": [0], "label": 1}"#,
        r#""input_ids" has no tokens"#,
    );
    check(r#"{"input_ids": "2 3", "label": 1}"#, r#""input_ids" is text and no list of numbers"#);
    check(
        r#"{"input_ids": [2, 9.5], "label": 1}"#,
        r#""input_ids" has a float in its list of numbers"#,
    );
}

#[test]
fn targets_and_spans_are_checked() {
    let good = r#"{"input_ids": [2, 9], "labels": [5, -100]}"#;
    let check = |task: &TaskSpec, good: &str, bad: &str, expect: &str| {
        check_error(task, good, bad, &format!(" (line 2): column {expect}"));
    };
    let task = seq2seq();
    check(&task, good, r#"{"input_ids": [2], "labels": null}"#, r#""labels" has no tokens"#);
    check(
        &task,
        good,
        r#"{"input_ids": [2], "labels": [5, 5, 5, 5, 5, 5, 5]}"#,
        r#""labels" has 7 tokens, and targets may have 6 (data.max_target_length)"#,
    );
    check(
        &task,
        good,
        r#"{"input_ids": [2], "labels": [-1, 5]}"#,
        r#""labels" has the id -1, and the tokenizer has 290 tokens"#,
    );
    let good = r#"{"input_ids": [2, 9], "start_positions": 0, "end_positions": 1}"#;
    check(
        &questions(2),
        good,
        r#"{"input_ids": [2, 9], "start_positions": 0, "end_positions": "1"}"#,
        r#""end_positions" is text and no number"#,
    );
}
