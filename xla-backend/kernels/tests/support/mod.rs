//! Numbers to compute with, and how close results have to be.

/// Numbers that look random: SplitMix64.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns numbers between -1 and 1.
    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.next() >> 40) as f32 / 8_388_608.0 - 1.0).collect()
    }
}

pub(crate) fn check_close(what: &str, got: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
    for (index, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let off = (f64::from(got) - expected).abs();
        assert!(off <= tolerance * largest, "{what}[{index}]: {got}, expected {expected}");
    }
}
