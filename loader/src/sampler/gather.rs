//! Puts what the cores computed back into the order of the data set, each row counted once.

use super::{BatchPlan, SamplerError};

/// Collects one value a row from batches in any order.
#[derive(Debug)]
pub struct GatherInOrder<T> {
    values: Vec<Option<T>>,
}

impl<T> GatherInOrder<T> {
    /// Expects one value for each of `rows` rows.
    pub fn new(rows: usize) -> Self {
        Self { values: std::iter::repeat_with(|| None).take(rows).collect() }
    }

    /// Takes the values of one core's slots; those of empty slots are dropped.
    pub fn place(
        &mut self,
        plan: &BatchPlan,
        core: usize,
        slots: impl IntoIterator<Item = T>,
    ) -> Result<(), SamplerError> {
        let rows = plan.rows_of_core(core);
        let mut slots = slots.into_iter();
        for (slot, &row) in rows.iter().enumerate() {
            let value = slots.next();
            let value =
                value.ok_or(SamplerError::TooFewValues { found: slot, rows: rows.len() })?;
            let place = self.values.get_mut(row as usize);
            let place = place.ok_or(SamplerError::NoSuchRow { row: row as usize })?;
            if place.replace(value).is_some() {
                return Err(SamplerError::RowTwice { row: row as usize });
            }
        }
        Ok(())
    }

    /// All values in data set order; an error where a row has none.
    pub fn finish(self) -> Result<Vec<T>, SamplerError> {
        let numbered = self.values.into_iter().enumerate();
        numbered.map(|(row, value)| value.ok_or(SamplerError::NoValue { row })).collect()
    }
}
