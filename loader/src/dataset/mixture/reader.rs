//! Reads the rows of a mixture ahead, in its order.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::order::Order;
use super::part::SourcePart;
use super::{Mixing, Sources};
use crate::error::{Error, Result};
use crate::source::{Part, Records};
use crate::tasks::TaskSpec;

/// Rows of an interleaved set that are handed on at a time.
const ROWS_AT_A_TIME: usize = 2048;
/// Chunks that each of several sets reads ahead.
const CHUNKS_READY: usize = 1;

/// Rows of one file that follow each other.
#[derive(Clone)]
pub(in crate::dataset) struct Piece {
    /// The part that the row is from.
    pub(in crate::dataset) source: usize,
    pub(in crate::dataset) part: Part,
    pub(in crate::dataset) records: Arc<Records>,
    /// The rows of the records that belong to it.
    pub(in crate::dataset) rows: Range<usize>,
}

/// Pieces in order, or why there are no more.
type Chunk = Result<Vec<Piece>>;

/// Reads until the end, the first error, or until the receiver is dropped.
pub(in crate::dataset) fn read_ahead(
    sources: &Sources,
    task: &TaskSpec,
    sender: SyncSender<Chunk>,
) {
    let read = match sources.mixture.mixing {
        Mixing::Concatenate => (0..sources.mixture.sets.len()).try_for_each(|set| {
            let reader = SetReader { sources, task, set };
            reader.read(&mut |piece| send(&sender, vec![piece]))
        }),
        _ => interleave(sources, task, &sender),
    };
    if let Err(error) = read {
        // The receiver is gone only after an error of its own.
        let _ = sender.send(Err(error));
    }
}

fn send(sender: &SyncSender<Chunk>, pieces: Vec<Piece>) -> Result<()> {
    sender.send(Ok(pieces)).map_err(|_| Error::Abandoned)
}

/// Reads the rows of one set.
struct SetReader<'a> {
    sources: &'a Sources,
    task: &'a TaskSpec,
    set: usize,
}

impl SetReader<'_> {
    /// Hands on all rows of the set in order.
    fn read(&self, sink: &mut dyn FnMut(Piece) -> Result<()>) -> Result<()> {
        let mut left = self.sources.mixture.sets[self.set].limit.unwrap_or(u64::MAX);
        let own = self.sources.parts.iter().enumerate().filter(|(_, part)| part.set == self.set);
        for (number, _) in own {
            self.read_part(number, &mut left, sink)?;
        }
        Ok(())
    }

    /// Hands on the rows of a part of the set, at most `left`, which it reduces by them.
    fn read_part(
        &self,
        number: usize,
        left: &mut u64,
        sink: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        let SourcePart { source, .. } = &self.sources.parts[number];
        let (from, to) = self.sources.parts[number].rows(self.sources.counts.as_deref())?;
        let columns = self.task.columns_of_set(self.set, source.columns());
        let mut place = 0;
        for part in source.parts() {
            if place >= to || *left == 0 {
                break;
            }
            let mut is_done = false;
            let read = source.read(part, &columns, &mut |records| {
                let first = place;
                place += records.len() as u64;
                let within = |row: u64| row.clamp(first, place) - first;
                let start = within(from);
                let end = within(to).min(start.saturating_add(*left)).max(start);
                *left -= end - start;
                if start < end {
                    let (records, rows) = (Arc::new(records), start as usize..end as usize);
                    sink(Piece { source: number, part, records, rows })?;
                }
                is_done = place >= to || *left == 0;
                if is_done { Err(Error::Abandoned) } else { Ok(()) }
            });
            match read {
                Err(Error::Abandoned) if is_done => {}
                read => read.map(drop)?,
            }
        }
        Ok(())
    }

    /// The number of rows that it hands on; counts must be known.
    fn rows(&self) -> Result<u64> {
        let mut rows = 0;
        for part in self.sources.parts.iter().filter(|part| part.set == self.set) {
            let (from, to) = part.rows(self.sources.counts.as_deref())?;
            rows += to - from;
        }
        Ok(rows.min(self.sources.mixture.sets[self.set].limit.unwrap_or(u64::MAX)))
    }

    /// Hands on all rows, again and again if `repeats`.
    fn send_all(&self, repeats: bool, sender: SyncSender<Chunk>) {
        loop {
            match self.read(&mut |piece| send(&sender, vec![piece])) {
                Ok(()) if repeats => {}
                Ok(()) => return,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            }
        }
    }
}

/// Reads all sets at once, each by a thread, and hands on their rows in turns.
fn interleave(sources: &Sources, task: &TaskSpec, sender: &SyncSender<Chunk>) -> Result<()> {
    let mixture = &sources.mixture;
    let readers: Vec<SetReader<'_>> =
        (0..mixture.sets.len()).map(|set| SetReader { sources, task, set }).collect();
    let lengths = readers.iter().map(SetReader::rows).collect::<Result<Vec<u64>>>()?;
    let weights: Option<Vec<f64>> = mixture.sets.iter().map(|set| set.weight).collect();
    let order = Order::new(mixture.mixing, lengths, weights.as_deref(), mixture.seed)?;
    std::thread::scope(|scope| {
        let mut streams: Vec<Stream> = readers
            .iter()
            .map(|reader| {
                let (sender, chunks) = sync_channel(CHUNKS_READY);
                let repeats = mixture.mixing == Mixing::AllExhausted;
                scope.spawn(move || reader.send_all(repeats, sender));
                Stream { chunks, current: None }
            })
            .collect();
        let mut pieces: Vec<Piece> = Vec::new();
        for set in order {
            pieces.push(streams[set].next()?);
            if pieces.len() >= ROWS_AT_A_TIME {
                send(sender, std::mem::take(&mut pieces))?;
            }
        }
        if pieces.is_empty() { Ok(()) } else { send(sender, pieces) }
    })
}

/// The rows of one set, one at a time.
struct Stream {
    chunks: Receiver<Chunk>,
    current: Option<Piece>,
}

impl Stream {
    fn next(&mut self) -> Result<Piece> {
        loop {
            if let Some(piece) = &mut self.current
                && let Some(row) = piece.rows.next()
            {
                return Ok(Piece { rows: row..row + 1, ..piece.clone() });
            }
            // A set ends only after an error: the order asks for no more rows than it has.
            let chunk = self.chunks.recv().map_err(|_| Error::Abandoned)?;
            self.current = chunk?.into_iter().next();
        }
    }
}
