//! The settings that an optimizer has of its own, against the list of `traind-choices`.

use std::collections::HashMap;

use traind_choices::Optim;

use super::Arg;
use crate::error::{Error, Result, check_setting};

/// Refuses a setting that the optimizer does not have, that is of another kind, or whose value the list excludes.
pub(super) fn check(optim: Optim, args: &HashMap<String, Arg>) -> Result<()> {
    check_kinds(optim, args)?;
    check_ranges(optim, args)?;
    check_words(optim, args)?;
    check_lengths(optim, args)
}

fn check_kinds(optim: Optim, args: &HashMap<String, Arg>) -> Result<()> {
    let kinds = kinds(optim);
    for (name, arg) in args {
        let Some((_, kind)) = kinds.iter().find(|(known, _)| known == name) else {
            return Err(Error::UnknownName {
                what: "optim_args",
                name: name.clone(),
                known: kinds.into_iter().map(|(known, _)| known).collect(),
            });
        };
        let found = match arg {
            Arg::Number(_) => NUMBER,
            Arg::Numbers(_) => NUMBERS,
            Arg::Word(_) => WORD,
        };
        if found != *kind {
            return Err(Error::OptimArg { name: name.clone(), expected: kind, found });
        }
    }
    Ok(())
}

fn check_ranges(optim: Optim, args: &HashMap<String, Arg>) -> Result<()> {
    for (name, range) in optim.args() {
        if let Some(Arg::Number(number)) = args.get(*name) {
            let fits = |number: f64| number.is_finite() && range.contains(number);
            check_setting(name, format!("a finite number {range}"), *number, fits)?;
        }
    }
    Ok(())
}

fn check_words(optim: Optim, args: &HashMap<String, Arg>) -> Result<()> {
    for (what, known) in optim.arg_words() {
        if let Some(Arg::Word(word)) = args.get(*what)
            && !known.contains(&word.as_str())
        {
            return Err(Error::UnknownName { what, name: word.clone(), known: known.to_vec() });
        }
    }
    Ok(())
}

fn check_lengths(optim: Optim, args: &HashMap<String, Arg>) -> Result<()> {
    for (name, length) in optim.arg_lists() {
        if let Some(Arg::Numbers(numbers)) = args.get(*name) {
            let expected = format!("{length} numbers");
            check_setting(name, expected, numbers.len() as f64, |found| found == *length as f64)?;
        }
    }
    Ok(())
}

const NUMBER: &str = "a number";
const NUMBERS: &str = "a list of numbers";
const WORD: &str = "a word";

/// The names of the optimizer's own settings, each with the kind of its value.
fn kinds(optim: Optim) -> Vec<(&'static str, &'static str)> {
    let numbers = optim.args().iter().map(|(name, _)| (*name, NUMBER));
    let words = optim.arg_words().iter().map(|(name, _)| (*name, WORD));
    let lists = optim.arg_lists().iter().map(|(name, _)| (*name, NUMBERS));
    numbers.chain(words).chain(lists).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, build};
    use super::*;

    #[test]
    fn settings_that_an_optimizer_does_not_have_are_refused_by_name() {
        let error = |optim: Optim, name: &str, arg: Arg| {
            let args = [(name.to_owned(), arg)].into();
            let settings = Settings { args, ..Settings::default() };
            build(optim.as_str(), &settings).err().map(|error| error.to_string())
        };
        for optim in Optim::ALL {
            let unknown = error(*optim, "momentums", Arg::Number(0.5)).unwrap();
            assert!(unknown.starts_with("optim_args momentums is unknown, "), "{optim}: {unknown}");
            for (name, kind) in kinds(*optim) {
                let other = if kind == WORD { Arg::Number(0.0) } else { Arg::Word("a".to_owned()) };
                let wrong = error(*optim, name, other).unwrap();
                assert!(
                    wrong.starts_with(&format!("optim_args.{name}: expected {kind}")),
                    "{wrong}"
                );
            }
            for (name, range) in optim.args() {
                let nan = error(*optim, name, Arg::Number(f64::NAN)).unwrap();
                assert!(nan.starts_with(&format!("{name}: expected")), "{optim} {range}: {nan}");
            }
        }
        assert_eq!(
            error(Optim::Sgd, "alpha", Arg::Number(0.5)).unwrap(),
            "optim_args alpha is unknown, known are momentum, dampening, nesterov"
        );
        assert_eq!(
            error(Optim::Lion, "mode", Arg::Number(0.5)).unwrap(),
            "optim_args mode is unknown, there are none"
        );
        let nesterov = error(Optim::Sgd, "nesterov", Arg::Number(1.0)).unwrap();
        assert_eq!(nesterov, "nesterov: expected 0 without momentum, found 1");
    }
}
