//! Descriptions of events.

use std::collections::BTreeMap;

use traind_proto::v1::{self, Event, event::Kind};
use traind_wording::counted;

use super::{bytes, duration, indented, number, plain, state};

/// The most classes of a data set that a description lists.
const CLASSES_SHOWN: usize = 12;

/// Describes an event in one line, or if its message has several, in indented ones.
pub(crate) fn describe(event: &Event) -> String {
    indented(&description(event))
}

fn description(event: &Event) -> String {
    match &event.kind {
        Some(Kind::StateChanged(changed)) => state_changed(changed),
        Some(Kind::Waiting(waiting)) => format!("waiting: {}", waiting.reason),
        Some(Kind::Prepared(prepared)) => self::prepared(prepared),
        Some(Kind::Started(started)) => {
            format!("runner {} started on {} {:?}", started.pid, started.platform, started.cores)
        }
        Some(Kind::Warning(warning)) => format!("warning: {}", warning.message),
        Some(Kind::Log(log)) => {
            format!("{}: {}", plain(log.level().as_str_name(), "LOG_LEVEL_"), log.message)
        }
        Some(Kind::DataPrepared(data)) => data_prepared(data),
        Some(Kind::ModelLoaded(model)) => model_loaded(model),
        Some(Kind::Compiled(compiled)) => self::compiled(compiled),
        Some(Kind::Step(step)) => self::step(step),
        Some(Kind::Evaluated(evaluated)) => self::evaluated(evaluated),
        Some(Kind::Saved(saved)) => self::saved(saved),
        Some(Kind::Resumed(resumed)) => {
            format!("resumes from step {}, from {}", resumed.step, resumed.path)
        }
        Some(Kind::LossScaled(scaled)) => format!(
            "loss scale {} after step {}, {} skipped so far",
            number(scaled.scale),
            scaled.step,
            counted(scaled.skipped_steps, "step")
        ),
        Some(Kind::Fetched(fetched)) => self::fetched(fetched),
        Some(Kind::Uploaded(uploaded)) => self::uploaded(uploaded),
        Some(Kind::Finished(finished)) => self::finished(finished),
        None => "an event that this version does not support".to_owned(),
    }
}

fn state_changed(changed: &v1::StateChanged) -> String {
    let to = state(changed.to());
    if changed.reason.is_empty() { to } else { format!("{to}: {}", changed.reason) }
}

fn prepared(prepared: &v1::Prepared) -> String {
    let v1::Prepared { programs, compiled, seconds } = prepared;
    let counts = format!("{programs} programs, {compiled} of them compiled");
    format!("prepared in {} while it waited: {counts}", duration(*seconds))
}

fn data_prepared(data: &v1::DataPrepared) -> String {
    let cached = if data.cache_hit { ", cached" } else { "" };
    let (split, classes) = (self::split(data), classes(&data.classes));
    format!("{} data: {split}{classes} in {}{cached}", data.split, duration(data.seconds))
}

/// Describes the number of rows of a split, and their lengths.
pub(crate) fn split(data: &v1::DataPrepared) -> String {
    let lengths = data.lengths.as_ref().map(|lengths| {
        let v1::TokenLengths { p50, p90, p99, max, .. } = lengths;
        format!(", lengths p50 {p50} p90 {p90} p99 {p99} max {max}")
    });
    let cut = match data.truncated_rows {
        0 => String::new(),
        rows => format!(", {} truncated", counted(rows, "row")),
    };
    let (rows, tokens) = (counted(data.rows, "row"), counted(data.tokens, "token"));
    format!("{rows}, {tokens}{}{cut}", lengths.unwrap_or_default())
}

/// Describes the classes with their numbers of rows, only the most frequent ones if there are many.
fn classes(counts: &[v1::ClassCount]) -> String {
    let mut counts: Vec<&v1::ClassCount> = counts.iter().collect();
    let more = counts.len().saturating_sub(CLASSES_SHOWN);
    if more > 0 {
        counts.sort_by_key(|count| std::cmp::Reverse(count.rows));
    }
    let shown = counts.iter().take(CLASSES_SHOWN);
    let shown: Vec<String> = shown.map(|count| format!("{} {}", count.label, count.rows)).collect();
    match (shown.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(", classes {}", shown.join(", ")),
        (false, more) => format!(", classes {} and {more} more", shown.join(", ")),
    }
}

fn model_loaded(model: &v1::ModelLoaded) -> String {
    let mut text = format!(
        "model {}: {} parameters in {}",
        model.model_type,
        model.parameters,
        duration(model.seconds)
    );
    for (what, names) in [("initialized", &model.initialized), ("not used", &model.unexpected)] {
        if !names.is_empty() {
            text.push_str(&format!("; {what}: {}", names.join(", ")));
        }
    }
    text
}

fn compiled(compiled: &v1::Compiled) -> String {
    let source = plain(compiled.source().as_str_name(), "COMPILE_SOURCE_");
    let late = if compiled.ahead { "" } else { ", delayed a step" };
    format!(
        "program {} for {} x {} tokens in {} ({source}{late})",
        compiled.program,
        compiled.batch,
        compiled.bucket_length,
        duration(compiled.seconds)
    )
}

fn step(step: &v1::Step) -> String {
    format!(
        "step {}/{} epoch {:.2} loss {} learning_rate {} grad_norm {} samples/s {:.1} eta {}",
        step.step,
        step.max_steps,
        step.epoch,
        number(step.loss),
        number(step.learning_rate),
        number(step.grad_norm),
        step.samples_per_second,
        duration(step.eta_seconds)
    )
}

fn evaluated(evaluated: &v1::Evaluated) -> String {
    format!(
        "{} at step {}: {} ({} in {})",
        evaluated.split,
        evaluated.step,
        metrics(&evaluated.metrics),
        counted(evaluated.rows, "row"),
        duration(evaluated.seconds)
    )
}

fn saved(saved: &v1::Saved) -> String {
    let mut text =
        format!("saved {} ({}) in {}", saved.path, bytes(saved.bytes), duration(saved.seconds));
    if saved.kind() == v1::SavedKind::Checkpoint {
        text.push_str(&format!(", training paused for {}", duration(saved.stall_seconds)));
    }
    text
}

fn fetched(fetched: &v1::Fetched) -> String {
    let v1::Fetched { name, bytes: there, bytes_total, seconds } = fetched;
    let (there, total, took) = (bytes(*there), bytes(*bytes_total), duration(*seconds));
    match fetched.bytes < *bytes_total {
        true => format!("fetching {name}: {there} of {total} after {took}"),
        false => format!("fetched {name}: {total} in {took}"),
    }
}

fn uploaded(uploaded: &v1::Uploaded) -> String {
    let v1::Uploaded { url, bytes: sent, seconds, .. } = uploaded;
    format!("uploaded {url} ({}) in {}", bytes(*sent), duration(*seconds))
}

fn finished(finished: &v1::Finished) -> String {
    let outcome = plain(finished.outcome().as_str_name(), "OUTCOME_");
    let (steps, time) = (counted(finished.steps, "step"), duration(finished.seconds));
    let mut text = format!("runner {outcome} after {steps}, {time}");
    if let Some(failure) = &finished.failure {
        text.push_str(&format!(": {}: {}", failure.reason, failure.message));
    }
    text
}

/// Describes metrics in the order of their names.
pub(crate) fn metrics(metrics: &BTreeMap<String, f64>) -> String {
    metrics
        .iter()
        .map(|(name, value)| format!("{name} {}", number(*value)))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod lines;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(classes: usize) -> Vec<v1::ClassCount> {
        let count = |rows: usize| v1::ClassCount { label: format!("c{rows}"), rows: rows as u64 };
        (0..classes).map(count).collect()
    }

    #[test]
    fn a_preparation_has_its_time_and_counts() {
        let prepared = v1::Prepared { programs: 3, compiled: 2, seconds: 12.0 };
        let event = Event { kind: Some(Kind::Prepared(prepared)), ..Event::default() };
        let expect = "prepared in 12s while it waited: 3 programs, 2 of them compiled";
        assert_eq!(describe(&event), expect);
    }

    #[test]
    fn a_download_has_its_progress() {
        let fetched = |bytes| {
            let (name, bytes_total) = ("s3://b/k".to_owned(), 4 << 20);
            self::fetched(&v1::Fetched { name, bytes, bytes_total, seconds: 12.0 })
        };
        assert_eq!(fetched(1 << 20), "fetching s3://b/k: 1.0 MiB of 4.0 MiB after 12s");
        assert_eq!(fetched(4 << 20), "fetched s3://b/k: 4.0 MiB in 12s");
    }

    #[test]
    fn a_data_set_has_its_classes_and_lengths() {
        let data = |classes| v1::DataPrepared {
            split: "train".to_owned(),
            rows: 3,
            tokens: 20,
            lengths: Some(v1::TokenLengths { mean: 6.7, p50: 6, p90: 8, p99: 9, max: 10 }),
            classes: counts(classes),
            truncated_rows: 1,
            seconds: 2.0,
            ..Default::default()
        };
        let lengths =
            "train data: 3 rows, 20 tokens, lengths p50 6 p90 8 p99 9 max 10, 1 row truncated";
        let text = data_prepared(&data(0));
        assert!(text.starts_with(&format!("{lengths} in ")), "{text}");
        let text = data_prepared(&data(3));
        assert!(text.starts_with(&format!("{lengths}, classes c0 0, c1 1, c2 2 in ")), "{text}");
        let text = data_prepared(&data(15));
        assert!(text.contains("classes c14 14, c13 13,"), "{text}");
        assert!(text.contains("c3 3 and 3 more in "), "{text}");
    }
}
