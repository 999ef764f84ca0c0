//! Several sets of trained values on one model, such as adapters of different tasks. What is frozen is on the cores
//! once, and so are the programs. One set is in training, the others wait on the cores.

use traind_xla::runtime::HostArray;

use super::{Place, Trainer};
use crate::error::{Error, Result};
use crate::session::TrainedValues;
use crate::state::TrainedStart;

/// The sets of a trainer.
#[derive(Debug)]
pub(super) struct Sets {
    /// The number of the set that is in training.
    selected: usize,
    /// The values of each set; `None` of the one in training, whose values are the session's.
    waiting: Vec<Option<WaitingSet>>,
}

#[derive(Debug)]
struct WaitingSet {
    values: TrainedValues,
    place: Place,
}

impl Default for Sets {
    /// The set that the trainer was made with.
    fn default() -> Sets {
        Sets { selected: 0, waiting: vec![None] }
    }
}

impl Trainer {
    /// Adds a set that starts from `parameters`, which are in the order of [`Trainer::parameters`], and selects it.
    /// Only trained ones belong to a set: frozen ones and the reference are those of all sets. Returns the number of
    /// the set; the one that the trainer was made with is 0.
    pub fn add_set(&mut self, parameters: Vec<HostArray>) -> Result<usize> {
        let parameters = self.session.trained_of_saved(parameters)?;
        let start = TrainedStart { parameters, ..TrainedStart::default() };
        let former = self.sets.selected;
        let number = self.sets.waiting.len();
        self.put_aside()?;
        self.sets.waiting.push(None);
        (self.sets.selected, self.place) = (number, Place::default());
        if let Err(error) = self.session.start_trained(&start) {
            self.take_back(former)?;
            self.sets.waiting.pop();
            return Err(error);
        }
        Ok(number)
    }

    /// Continues to train another set where it was left, even in the middle of a step.
    pub fn select_set(&mut self, number: usize) -> Result<()> {
        let sets = self.sets.waiting.len();
        match self.sets.waiting.get(number) {
            None => Err(Error::NoSuchSet { number, sets }),
            Some(None) => Ok(()),
            Some(Some(_)) => {
                self.put_aside()?;
                self.take_back(number)
            }
        }
    }

    /// The number of the set that is in training.
    pub fn set(&self) -> usize {
        self.sets.selected
    }

    /// Lets the set in training wait.
    fn put_aside(&mut self) -> Result<()> {
        let values = self.session.put_aside()?;
        self.sets.waiting[self.sets.selected] = Some(WaitingSet { values, place: self.place });
        Ok(())
    }

    /// Puts a waiting set in the place of one that has no values.
    fn take_back(&mut self, number: usize) -> Result<()> {
        let Some(set) = self.sets.waiting[number].take() else { return Ok(()) };
        (self.sets.selected, self.place) = (number, set.place);
        self.session.put_back(set.values)
    }
}
