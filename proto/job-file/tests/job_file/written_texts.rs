//! Keys of models that write texts.

use crate::check;

fn check_task(rest: &str, expect: &str) {
    let model = "model: {name_or_path: ./t5, task: seq2seq-lm}";
    check(&format!("{model}\n{rest}"), expect);
}

#[test]
fn keys_of_texts_to_write() {
    check_task("data: {train: a.csv, source_prefix: 'summarize: ', max_source_length: 64}", "");
    // The default of transformers' scripts.
    check_task("data: {train: a.csv, source_prefix: ''}", "");
    check_task(
        "data: {train: a.csv, source: text, target: text}",
        "line 2: data.target: column `text` is `data.source` already",
    );
    check_task("data: {train: a.csv, source_lang: en, target_lang: de, target: source}", "");
    check_task(
        "data: {train: a.csv, source_lang: en}",
        "line 2: data.source_lang: needs data.target_lang beside it",
    );
    check_task(
        "data: {train: a.csv, max_length: 64}",
        "line 2: data.max_length: applies to one text per row; seq2seq-lm has data.max_source_length",
    );
    check_task(
        "data: {train: a.csv, test: b.csv}\ntrain: {do_predict: true}",
        "line 3: train.do_predict: is true, but seq2seq-lm writes texts with train.predict_with_generate",
    );
    check_task(
        "data: {train: a.csv, test: b.csv}\n\
         train: {do_predict: true, predict_with_generate: true, generation_num_beams: 4}",
        "",
    );
    check_task(
        "data: {train: a.csv}\ntrain: {generation_max_length: 9}",
        "line 3: train.generation_max_length: needs train.predict_with_generate",
    );
    check(
        "data: {train: a.csv}\ntrain: {predict_with_generate: true}",
        "line 2: train.predict_with_generate: applies to seq2seq-lm, not to sequence-classification",
    );
    check(
        "data: {train: a.csv, target_lang: de, max_source_length: 9}",
        "line 1: data.target_lang: applies to seq2seq-lm, not to sequence-classification
         line 1: data.max_source_length: applies to seq2seq-lm, not to sequence-classification",
    );
}

#[test]
fn settings_of_generation() {
    let generation = |settings: &str, more: &str| {
        format!("data: {{train: a.csv}}\ntrain: {{{more}generation_config: {{{settings}}}}}")
    };
    let writes = "predict_with_generate: true, ";
    for (settings, more, problem) in [
        ("length_penalty: -0.5, early_stopping: never, suppress_tokens: [1, 2]", writes, ""),
        ("top_k: 3", "", "top_k: needs train.predict_with_generate"),
        ("top_p: 2", writes, "top_p: must be at least 0 and at most 1, not 2"),
        ("early_stopping: 3", writes, "early_stopping: must be true, false or `never`, not 3"),
        (
            "no_repeat_ngrams: 3",
            writes,
            "no_repeat_ngrams: is not a known key; did you mean \
             `train.generation_config.no_repeat_ngram_size`?",
        ),
        (
            "do_sample: true",
            "predict_with_generate: true, generation_num_beams: 2, ",
            "do_sample: cannot be true with train.generation_num_beams above 1: beams are chosen, \
             not drawn",
        ),
        (
            "max_new_tokens: 4",
            "predict_with_generate: true, generation_max_length: 9, ",
            "max_new_tokens: cannot be combined with train.generation_max_length: remove one",
        ),
        ("min_new_tokens: 4, max_new_tokens: 4", writes, ""),
        (
            "min_new_tokens: 5, max_new_tokens: 4",
            writes,
            "min_new_tokens: is more than train.generation_config.max_new_tokens allows",
        ),
        ("min_length: 5, max_new_tokens: 4", writes, ""),
        (
            "min_length: 6, max_new_tokens: 4",
            writes,
            "min_length: is more than train.generation_config.max_new_tokens allows",
        ),
        (
            "min_new_tokens: 9",
            "predict_with_generate: true, generation_max_length: 9, ",
            "min_new_tokens: is more than train.generation_max_length allows",
        ),
    ] {
        let expect = match problem {
            "" => String::new(),
            problem => format!("line 3: train.generation_config.{problem}"),
        };
        check_task(&generation(settings, more), &expect);
    }
}
