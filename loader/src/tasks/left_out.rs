//! Causes for which rows that have their texts make no example. Such rows are counted by cause, so that a set of which
//! nothing is left says what to change.

/// Why a row makes no example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// All that the loss counts is behind the longest row.
    TooLong,
    /// The loss counts no token of the row, however long it may be.
    NoTarget,
    /// Questions and answers do not take turns.
    NoTurns,
    /// The job leaves out rows of this label.
    Label,
}

impl LeftOut {
    /// The cause and its remedy, behind "have" or "has".
    pub(crate) fn problem(self) -> &'static str {
        match self {
            Self::TooLong => "nothing to train on within data.max_length, which must be larger",
            Self::NoTarget => {
                "no token that the loss counts: check the roles of turns, data.roles and data.roles_to_train, or the labels"
            }
            Self::NoTurns => {
                "no questions and answers in turns, which data.template needs: check the roles of turns and data.roles"
            }
            Self::Label => "a label of data.ignored_labels",
        }
    }
}
