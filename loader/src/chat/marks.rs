//! `{% generation %}`, which says what of a conversation the assistant wrote.
//!
//! The tags become a filter around the same text. Where the places are asked for, the filter puts a
//! mark before and behind the text, and the rendered conversation is searched for the marks. They
//! are code points that no text may use.

use std::ops::Range;

use minijinja::State;

use super::RenderedChat;

/// The filter that stands for the tags.
pub(super) const FILTER: &str = "_generation";
/// The variable that is true where the filter sets marks.
pub(super) const VARIABLE: &str = "_marks_generation";

const BEGIN: char = '\u{fdd0}';
const END: char = '\u{fdd1}';

pub(super) fn is_mark(letter: char) -> bool {
    matches!(letter, BEGIN | END)
}

/// The filter of the text between the tags.
pub(super) fn filter(state: &State, text: &str) -> String {
    match state.lookup(VARIABLE) {
        Some(marks) if marks.is_true() => format!("{BEGIN}{text}{END}"),
        _ => text.to_owned(),
    }
}

/// Returns true if the template has the tags.
pub(super) fn has_tags(source: &str) -> bool {
    tags(source).next().is_some()
}

/// The template with a filter in place of the tags. As in Jinja2, what is set inside is not seen
/// outside.
pub(super) fn with_filters(source: &str) -> String {
    let (mut replaced, mut end) = (String::with_capacity(source.len()), 0);
    for tag in tags(source) {
        replaced.push_str(&source[end..tag.place.start]);
        let (first, last) = (tag.trims_before, tag.trims_behind);
        replaced.push_str(&match tag.is_end {
            false => format!("{{%{first} with %}}{{% filter {FILTER} {last}%}}"),
            true => format!("{{%{first} endfilter %}}{{% endwith {last}%}}"),
        });
        end = tag.place.end;
    }
    replaced.push_str(&source[end..]);
    replaced
}

/// The text without its marks, and what stood between them.
pub(super) fn without_marks(marked: &str) -> RenderedChat {
    let mut rendered = RenderedChat::default();
    let (mut place, mut begins) = (0, Vec::new());
    for letter in marked.chars() {
        match letter {
            BEGIN => begins.push(place),
            END => rendered.generated.extend(begins.pop().map(|begin| begin..place)),
            _ => {
                rendered.text.push(letter);
                place += 1;
            }
        }
    }
    rendered
}

/// One of the tags.
struct Tag<'source> {
    place: Range<usize>,
    is_end: bool,
    /// `-`, `+` or nothing at the two ends.
    trims_before: &'source str,
    trims_behind: &'source str,
}

/// The tags of a template, in order.
fn tags(source: &str) -> impl Iterator<Item = Tag<'_>> {
    source.match_indices("{%").filter_map(|(start, _)| tag_at(source, start))
}

fn tag_at(source: &str, start: usize) -> Option<Tag<'_>> {
    let inside = &source[start + 2..];
    let inside = &inside[..inside.find("%}")?];
    let is_sign = |letter| matches!(letter, '-' | '+');
    let body = inside.trim_start_matches(is_sign).trim_end_matches(is_sign);
    let is_end = match body.trim() {
        "generation" => false,
        "endgeneration" => true,
        _ => return None,
    };
    let before = &inside[..usize::from(inside.starts_with(is_sign))];
    let behind = &inside[inside.len() - usize::from(inside.ends_with(is_sign))..];
    let place = start..start + 2 + inside.len() + 2;
    Some(Tag { place, is_end, trims_before: before, trims_behind: behind })
}
