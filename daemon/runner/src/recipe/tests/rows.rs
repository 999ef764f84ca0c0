//! Every value of the enumerations that the loader has too.

use traind_job_file::{
    CastType, DataLayout, LabelFormat, Mixing, OnBadLines, PackingStrategy, PromptStyle, TrainOn,
    TrainSamplingStrategy,
};

use super::{converted, words};
use crate::recipe::rows;

#[test]
fn settings_of_rows_are_those_of_the_job() {
    assert_eq!(converted(CastType::ALL, rows::cast_type), words(CastType::ALL));
    assert_eq!(converted(LabelFormat::ALL, rows::label_format), words(LabelFormat::ALL));
    assert_eq!(converted(OnBadLines::ALL, rows::on_bad_lines), words(OnBadLines::ALL));
    let packing = PackingStrategy::ALL;
    assert_eq!(converted(packing, rows::packing_strategy), words(packing));
    assert_eq!(converted(PromptStyle::ALL, rows::prompt_style), words(PromptStyle::ALL));
    assert_eq!(converted(TrainOn::ALL, rows::train_on), words(TrainOn::ALL));
    let sampling = TrainSamplingStrategy::ALL;
    assert_eq!(converted(sampling, rows::sampling_strategy), words(sampling));
    let found = DataLayout::ALL.iter().map(|layout| format!("{:?}", rows::row_format(*layout)));
    let expect =
        ["Alpaca", "Conversation", "Conversation", "Conversation", "Completion", "Pretokenized"];
    assert_eq!(found.collect::<Vec<_>>(), expect);
}

#[test]
fn sets_are_mixed_by_rows_or_by_batches() {
    for mixing in Mixing::ALL {
        let (of_rows, of_batches) = (rows::mixing(*mixing), rows::set_mixing(*mixing));
        assert_eq!(of_batches.is_some(), mixing.is_of_batches());
        let expect = match mixing {
            Mixing::AllExhaustedWithoutReplacement => "WithoutReplacement".to_owned(),
            Mixing::Proportional | Mixing::RoundRobin => "Concatenate".to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(format!("{of_rows:?}"), expect);
        assert!(of_batches.is_none_or(|it| format!("{it:?}") == format!("{mixing:?}")));
    }
}
