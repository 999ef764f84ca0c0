//! Floating-point operations of a forward pass, counting dots only, by which
//! utilization is measured. The backward pass has twice as many.

/// A vector of `inputs` times a matrix to `outputs`.
pub fn dot(inputs: f64, outputs: f64) -> f64 {
    2.0 * inputs * outputs
}

/// One layer of a transformer: four projections, of which those of keys and values may be narrower, scores, weighted
/// values and a feed-forward network.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// The width of hidden states.
    pub hidden_size: usize,
    /// The width inside the feed-forward network.
    pub intermediate_size: usize,
    /// The matrices of the feed-forward network: three where it is gated.
    pub feed_forward_matrices: usize,
    /// The joined width of all heads of queries.
    pub queries_size: usize,
    /// The joined width of all heads of keys, and of values.
    pub keys_size: usize,
    /// Whether the last layer projects the queries of tokens that are not read too, by one product with their keys and
    /// values.
    pub projects_at_once: bool,
}

impl Layer {
    /// A layer whose heads are together as wide as hidden states, with a feed-forward network of two matrices.
    pub fn plain(hidden_size: usize, intermediate_size: usize, projects_at_once: bool) -> Layer {
        Layer {
            hidden_size,
            intermediate_size,
            feed_forward_matrices: 2,
            queries_size: hidden_size,
            keys_size: hidden_size,
            projects_at_once,
        }
    }

    /// Operations of `layers` for one row of `positions`, of which the last one leaves out what is behind the attention
    /// for all tokens but those `read`.
    pub fn stack(&self, layers: usize, positions: usize, read: Option<usize>) -> f64 {
        let unread = read.map_or(0, |read| positions.saturating_sub(read)) as f64;
        // The products of queries, and of attended values.
        let lacking = if self.projects_at_once { 1.0 } else { 2.0 };
        let token = lacking * self.query() + self.feed_forward();
        layers as f64 * self.forward(positions) - unread * token
    }

    /// Operations of one row of `positions`.
    fn forward(&self, positions: usize) -> f64 {
        let positions = positions as f64;
        let key = dot(self.hidden_size as f64, self.keys_size as f64);
        let projections = 2.0 * (self.query() + key);
        let attention = 2.0 * dot(positions, self.queries_size as f64);
        positions * (projections + attention + self.feed_forward())
    }

    fn query(&self) -> f64 {
        dot(self.hidden_size as f64, self.queries_size as f64)
    }

    fn feed_forward(&self) -> f64 {
        let matrix = dot(self.hidden_size as f64, self.intermediate_size as f64);
        self.feed_forward_matrices as f64 * matrix
    }
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
