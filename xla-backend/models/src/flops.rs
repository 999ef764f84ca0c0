//! Floating-point operations of a forward pass, counting dots only, by which
//! utilization is measured. The backward pass has twice as many.

/// A vector of `inputs` times a matrix to `outputs`.
pub fn dot(inputs: f64, outputs: f64) -> f64 {
    2.0 * inputs * outputs
}

/// One layer of a transformer: four projections, scores, weighted values and a
/// feed-forward network.
#[derive(Clone, Copy, Debug)]
pub struct EncoderLayer {
    /// The width of hidden states.
    pub hidden_size: usize,
    /// The width inside the feed-forward network.
    pub intermediate_size: usize,
    /// Whether the last layer projects the queries of tokens that are not read too, by one product with their keys and
    /// values.
    pub projects_at_once: bool,
}

impl EncoderLayer {
    /// Operations of one row of `positions`.
    pub fn forward(&self, positions: usize) -> f64 {
        let (hidden, inner) = (self.hidden_size as f64, self.intermediate_size as f64);
        let positions = positions as f64;
        let projections = 4.0 * dot(hidden, hidden) + 2.0 * dot(hidden, inner);
        let attention = 2.0 * dot(positions, hidden);
        positions * (projections + attention)
    }

    /// Operations of `layers` for one row of `positions`, of which the last one leaves out what is behind the attention
    /// for all tokens but those `read`.
    pub fn stack(&self, layers: usize, positions: usize, read: Option<usize>) -> f64 {
        let (hidden, inner) = (self.hidden_size as f64, self.intermediate_size as f64);
        let token = queries(self.projects_at_once) * dot(hidden, hidden) + 2.0 * dot(hidden, inner);
        layers as f64 * self.forward(positions) - unread(positions, read) * token
    }
}

/// One layer of a decoder: four projections, of which keys and values may be narrower
/// than queries, scores, weighted values and a gated feed-forward network.
#[derive(Clone, Copy, Debug)]
pub struct DecoderLayer {
    /// The width of hidden states.
    pub hidden_size: usize,
    /// The width inside the feed-forward network.
    pub intermediate_size: usize,
    /// Whether the last layer projects the queries of tokens that are not read too, by one product with their keys and
    /// values.
    pub projects_at_once: bool,
    /// The joined width of all heads of queries.
    pub queries_size: usize,
    /// The joined width of all heads of keys, and of values.
    pub keys_size: usize,
}

impl DecoderLayer {
    /// Operations of one row of `positions`.
    pub fn forward(&self, positions: usize) -> f64 {
        let (hidden, inner) = (self.hidden_size as f64, self.intermediate_size as f64);
        let (queries, keys) = (self.queries_size as f64, self.keys_size as f64);
        let positions = positions as f64;
        let projections = 2.0 * (dot(hidden, queries) + dot(hidden, keys));
        let attention = 2.0 * dot(positions, queries);
        positions * (projections + 3.0 * dot(hidden, inner) + attention)
    }

    /// [`EncoderLayer::stack`].
    pub fn stack(&self, layers: usize, positions: usize, read: Option<usize>) -> f64 {
        let (hidden, inner) = (self.hidden_size as f64, self.intermediate_size as f64);
        let query = dot(hidden, self.queries_size as f64);
        let token = queries(self.projects_at_once) * query + 3.0 * dot(hidden, inner);
        layers as f64 * self.forward(positions) - unread(positions, read) * token
    }
}

fn unread(positions: usize, read: Option<usize>) -> f64 {
    read.map_or(0, |read| positions.saturating_sub(read)) as f64
}

/// The products of queries and of attended values that a token which is not read lacks.
fn queries(projects_at_once: bool) -> f64 {
    if projects_at_once { 1.0 } else { 2.0 }
}

/// Attention of `positions` of width `hidden` to `keys` of the same width: four projections,
/// of which two are of the keys, scores and weighted values. `inner` is the joined width of
/// the heads.
pub fn attention(positions: usize, keys: usize, hidden: usize, inner: usize) -> f64 {
    let (positions, keys) = (positions as f64, keys as f64);
    let (hidden, inner) = (hidden as f64, inner as f64);
    let projections = 2.0 * (positions + keys) * dot(hidden, inner);
    projections + 2.0 * positions * dot(keys, inner)
}

/// A training step: forward and backward.
pub fn training(forward: f64) -> f64 {
    3.0 * forward
}
