//! The Porter stemmer ("An algorithm for suffix stripping", M. F. Porter, 1980) with NLTK's extensions,
//! which `rouge_score` applies to English words. Words are lower-case ASCII letters and digits.

/// Words whose stems follow no rule.
const IRREGULAR: [(&str, &str); 16] = [
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

/// Endings and their replacements. The first one that a word has is the only one tried.
type Rules = &'static [(&'static str, &'static str)];

const DOUBLE_SUFFIXES: Rules = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
];

const SUFFIXES: Rules = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const ENDINGS: Rules = &[
    ("al", ""),
    ("ance", ""),
    ("ence", ""),
    ("er", ""),
    ("ic", ""),
    ("able", ""),
    ("ible", ""),
    ("ant", ""),
    ("ement", ""),
    ("ment", ""),
    ("ent", ""),
    ("ou", ""),
    ("ism", ""),
    ("ate", ""),
    ("iti", ""),
    ("ous", ""),
    ("ive", ""),
    ("ize", ""),
];

/// Returns the stem of a word.
pub(super) fn stem(word: &str) -> String {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(form, _)| *form == word) {
        return (*stem).to_owned();
    }
    if word.len() <= 2 {
        return word.to_owned();
    }
    let word = without_past(&without_plural(word));
    let word = replaced(&without_double_suffix(&with_final_i(word)), SUFFIXES, 1);
    let word = without_final_e(without_ending(&word));
    match word.strip_suffix('l') {
        Some(stem) if stem.ends_with('l') && measure(stem) > 1 => stem.to_owned(),
        _ => word,
    }
}

/// `caresses`, `ponies`, `ties`, `cats` to `caress`, `poni`, `tie`, `cat`.
fn without_plural(word: &str) -> String {
    if word.len() == 4 && word.ends_with("ies") {
        return word[..3].to_owned();
    }
    replaced(word, &[("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")], 0)
}

/// `died`, `spied`, `agreed`, `plastered`, `motoring` to `die`, `spi`, `agree`, `plaster`, `motor`.
fn without_past(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ied") {
        return format!("{stem}{}", if word.len() == 4 { "ie" } else { "i" });
    }
    if word.ends_with("eed") {
        return replaced(word, &[("eed", "ee")], 1);
    }
    let stems = ["ed", "ing"].into_iter().filter_map(|suffix| word.strip_suffix(suffix));
    match stems.into_iter().find(|stem| consonants(stem).contains(&false)) {
        Some(stem) => completed(stem),
        None => word.to_owned(),
    }
}

/// A stem without `ed` or `ing`: `conflat`, `hopp`, `fil` to `conflate`, `hop`, `file`.
fn completed(stem: &str) -> String {
    let lacks_e = ["at", "bl", "iz"].iter().any(|end| stem.ends_with(end));
    if !lacks_e && ends_with_double_consonant(stem) {
        let stays = stem.ends_with(['l', 's', 'z']);
        return stem[..stem.len() - usize::from(!stays)].to_owned();
    }
    let is_short = || measure(stem) == 1 && ends_with_short_syllable(stem);
    if lacks_e || is_short() { format!("{stem}e") } else { stem.to_owned() }
}

/// `happy` to `happi`, and `enjoy` as it is.
fn with_final_i(word: String) -> String {
    match word.strip_suffix('y') {
        Some(stem) if stem.len() > 1 && consonants(stem).ends_with(&[true]) => format!("{stem}i"),
        _ => word,
    }
}

/// `relational`, `radicalli`, `theologi` to `relate`, `radical`, `theolog`.
fn without_double_suffix(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("alli").filter(|stem| measure(stem) > 0) {
        return without_double_suffix(&format!("{stem}al"));
    }
    match word.strip_suffix('i') {
        Some(stem) if stem.ends_with("log") && measure(&stem[..stem.len() - 2]) > 0 => {
            stem.to_owned()
        }
        _ => replaced(word, DOUBLE_SUFFIXES, 1),
    }
}

/// `revival`, `adoption`, `effective` to `reviv`, `adopt`, `effect`.
fn without_ending(word: &str) -> String {
    match word.strip_suffix("ion") {
        Some(stem) if stem.ends_with(['s', 't']) && measure(stem) > 1 => stem.to_owned(),
        Some(_) => word.to_owned(),
        None => replaced(word, ENDINGS, 2),
    }
}

/// `probate`, `cease` to `probat`, `ceas`, and `rate` as it is.
fn without_final_e(word: String) -> String {
    let Some(stem) = word.strip_suffix('e') else { return word };
    match measure(stem) {
        0 => word,
        1 if ends_with_short_syllable(stem) => word,
        _ => stem.to_owned(),
    }
}

/// Replaces the first of the endings that the word has, if the measure of what remains is at least
/// `least`.
fn replaced(word: &str, rules: &[(&str, &str)], least: usize) -> String {
    let found = rules.iter().find_map(|(suffix, by)| Some((word.strip_suffix(suffix)?, by)));
    match found {
        Some((stem, by)) if measure(stem) >= least => format!("{stem}{by}"),
        _ => word.to_owned(),
    }
}

/// The number of times that a vowel is followed by a consonant.
fn measure(stem: &str) -> usize {
    consonants(stem).windows(2).filter(|pair| *pair == [false, true]).count()
}

/// Whether each letter is a consonant: a `y` is one at the start and behind a vowel.
fn consonants(word: &str) -> Vec<bool> {
    let mut consonants = Vec::with_capacity(word.len());
    for letter in word.bytes() {
        let is_consonant = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => consonants.last() != Some(&true),
            _ => true,
        };
        consonants.push(is_consonant);
    }
    consonants
}

fn ends_with_double_consonant(word: &str) -> bool {
    matches!(word.as_bytes(), [.., one, two] if one == two) && consonants(word).ends_with(&[true])
}

/// Whether a word ends with consonant, vowel and consonant, such as `hop`, or is a vowel and a
/// consonant.
fn ends_with_short_syllable(word: &str) -> bool {
    match consonants(word)[..] {
        [false, true] => true,
        [.., true, false, true] => !word.ends_with(['w', 'x', 'y']),
        _ => false,
    }
}
