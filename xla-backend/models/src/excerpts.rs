//! Excerpts of a model: chunks that lack most of their equal layers. Whatever a program takes is a linear
//! function of the number of its equal layers, or the largest of several. So two excerpts, one of which has
//! a layer more, say what the model takes, and are recorded in a fraction of the time.

use std::ops::Range;

use crate::chunks::Chunks;
use crate::model::Model;
use crate::parameters::{ParameterSpec, Stage};

/// The layers that remain of a run of equal ones: the first, the last and, in the longer excerpt, one
/// between them.
const KEPT: usize = 2;
/// The layers that remain where the first trained layer has no backward pass for its input: one between the first and
/// the last is in the shortest excerpt too.
const KEPT_BESIDE_FROZEN: usize = 3;
/// The layers that remain where parameters arrive one layer ahead: the first and the last layer run beside another one.
const KEPT_OF_SHARDED: usize = 3;

/// Excerpts of the chunks of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpts {
    /// The chunks without all layers that can be left out.
    pub shortest: Chunks,
    /// Excerpts with a further layer in each chunk that lacks some.
    pub longer: Vec<LongerExcerpt>,
}

/// An excerpt that has layers besides those of the shortest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongerExcerpt {
    /// The layers of each chunk.
    pub chunks: Chunks,
    /// The number of such layers that the shortest excerpt lacks, by chunk.
    pub missing: Vec<usize>,
}

/// The layers of a chunk that can be left out: the first ones of its first run of equal layers, and the
/// last ones of its last run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cut {
    front: usize,
    back: usize,
}

impl Excerpts {
    /// The excerpts of `chunks`; `None` where they would have hardly fewer layers. Chunks lack equally
    /// many layers with `is_uniform`, in a model all of whose layers are equal. With `is_sharded`, layers are gathered
    /// one ahead.
    pub fn of(
        model: &Model,
        chunks: &Chunks,
        is_uniform: bool,
        is_sharded: bool,
    ) -> Option<Excerpts> {
        let runs = runs_of_layers(model);
        let ranges = || (0..chunks.count()).map(|chunk| chunks.layers(chunk));
        let is_frozen = own_parameters(model).iter().flatten().any(|spec| !spec.trainable);
        let kept = match (is_sharded, is_frozen) {
            (true, _) => KEPT_OF_SHARDED,
            (false, true) => KEPT_BESIDE_FROZEN,
            (false, false) => KEPT,
        };
        let mut cuts: Vec<Cut> = ranges().map(|range| Cut::of(&runs, range, kept)).collect();
        if is_uniform {
            let least = cuts.iter().map(|cut| cut.front).min()?;
            if runs.len() > 1 {
                return None;
            }
            cuts.fill(Cut { front: least, back: 0 });
        }
        let with = |cuts: &[Cut]| {
            chunks.with_layers(ranges().zip(cuts).map(|(range, cut)| cut.apply(range)))
        };
        let longer = [Cut { front: 1, back: 0 }, Cut { front: 0, back: 1 }].map(|more| {
            let missing: Vec<usize> = cuts.iter().map(|cut| cut.count(more)).collect();
            let cuts: Vec<Cut> = cuts.iter().map(|cut| cut.without(more)).collect();
            LongerExcerpt { chunks: with(&cuts), missing }
        });
        let longer = longer.into_iter().filter(|it| it.missing.iter().any(|count| *count > 0));
        let found = Excerpts { shortest: with(&cuts), longer: longer.collect() };
        let layers = |chunks: &Chunks| -> usize {
            (0..chunks.count()).map(|chunk| chunks.layers(chunk).len()).sum()
        };
        let recorded = found.longer.iter().map(|it| layers(&it.chunks)).sum::<usize>();
        (layers(&found.shortest) + recorded < layers(chunks)).then_some(found)
    }
}

impl Cut {
    fn of(runs: &[Range<usize>], chunk: Range<usize>, kept: usize) -> Cut {
        let within = runs.iter().map(|run| run.start.max(chunk.start)..run.end.min(chunk.end));
        let lengths: Vec<usize> = within.map(|run| run.len()).filter(|it| *it > 0).collect();
        let surplus = |length: &usize| length.saturating_sub(kept);
        let front = lengths.first().map_or(0, surplus);
        Cut { front, back: lengths.get(1..).and_then(<[_]>::last).map_or(0, surplus) }
    }

    fn apply(self, chunk: Range<usize>) -> Range<usize> {
        chunk.start + self.front..chunk.end - self.back
    }

    /// Leaves out those layers of which `more` has one.
    fn without(self, more: Cut) -> Cut {
        let Cut { front, back } = self;
        Cut { front: front.saturating_sub(more.front), back: back.saturating_sub(more.back) }
    }

    /// The number of layers of the kind of which `more` has one.
    fn count(self, more: Cut) -> usize {
        self.front * more.front + self.back * more.back
    }
}

/// The runs of layers that trace the same operations on parameters of the same shapes.
pub fn runs_of_layers(model: &Model) -> Vec<Range<usize>> {
    let own = own_parameters(model);
    let is_like = |layer: usize, other: usize| {
        model.traces_alike(layer, other)
            && own[layer].len() == own[other].len()
            && own[layer].iter().zip(&own[other]).all(|(a, b)| are_alike(a, b))
    };
    let mut runs: Vec<Range<usize>> = Vec::new();
    for layer in 0..model.num_layers() {
        match runs.last_mut().filter(|run| is_like(run.start, layer)) {
            Some(run) => run.end = layer + 1,
            None => runs.push(layer..layer + 1),
        }
    }
    runs
}

/// The parameters that no other layer reads, by layer.
fn own_parameters(model: &Model) -> Vec<Vec<&ParameterSpec>> {
    let mut own = vec![Vec::new(); model.num_layers()];
    for spec in model.parameters() {
        if let [Stage::Layer(layer)] = spec.stages[..] {
            own[layer].push(spec);
        }
    }
    own
}

fn are_alike(a: &ParameterSpec, b: &ParameterSpec) -> bool {
    let figures = |spec: &ParameterSpec| (spec.role, spec.trainable, spec.partial_gradient);
    figures(a) == figures(b) && a.shape == b.shape && a.partitions == b.partitions
}
