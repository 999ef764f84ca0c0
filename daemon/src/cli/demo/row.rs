//! A row of the demonstration's data.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub text: String,
    pub label: String,
}
