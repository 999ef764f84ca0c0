//! The bytes that a core sends in a program's collectives, by mesh axis.

use std::ops::{AddAssign, Mul};

use super::Collective;
use crate::graph::Participants;
use crate::mesh::{Axis, Mesh};

/// Bytes, or bytes per second, that a core sends to the others along each axis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SentBytes {
    /// The bytes to other cores of the `data` axis.
    pub data: f64,
    /// The bytes to other cores of the `tensor` axis.
    pub tensor: f64,
    /// The bytes to other stages of the `pipeline` axis.
    pub pipeline: f64,
    /// The bytes to the same core of other hosts.
    pub hosts: f64,
}

impl SentBytes {
    /// Sums the bytes of `collectives` of cores that form `mesh`. A collective along several axes counts for the first.
    pub fn of(collectives: &[Collective], mesh: &Mesh) -> SentBytes {
        let mut sent = SentBytes::default();
        for collective in collectives {
            let bytes = match (&collective.participants, collective.axis(mesh)) {
                (Participants::Hosts(_), _) => &mut sent.hosts,
                (_, Some(Axis::Data)) => &mut sent.data,
                (_, Some(Axis::Tensor)) => &mut sent.tensor,
                (_, Some(Axis::Pipeline)) => &mut sent.pipeline,
                (_, None) => continue,
            };
            *bytes += collective.sent_bytes();
        }
        sent
    }
}

impl AddAssign for SentBytes {
    fn add_assign(&mut self, other: SentBytes) {
        self.data += other.data;
        self.tensor += other.tensor;
        self.pipeline += other.pipeline;
        self.hosts += other.hosts;
    }
}

impl Mul<f64> for SentBytes {
    type Output = SentBytes;

    fn mul(self, factor: f64) -> SentBytes {
        SentBytes {
            data: self.data * factor,
            tensor: self.tensor * factor,
            pipeline: self.pipeline * factor,
            hosts: self.hosts * factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Placement;

    #[test]
    fn bytes_count_for_the_first_axis_along_which_the_cores_of_a_group_differ() {
        let mesh = Mesh::new(2, 4, 1, Placement::Cluster).unwrap();
        let collective = |operation, participants| Collective {
            operation,
            operand_bytes: 800,
            result_bytes: 3200,
            participants,
        };
        let along = |axes: &[Axis]| Participants::Groups(mesh.groups(axes).into());
        let sent = SentBytes::of(
            &[
                collective("all_reduce", along(&[Axis::Data])),
                collective("all_gather", along(&[Axis::Tensor])),
                collective("reduce_scatter", along(&[Axis::Tensor])),
                collective("all_reduce", along(&[Axis::Data, Axis::Tensor])),
                collective("all_reduce_hosts", Participants::Hosts(4)),
            ],
            &mesh,
        );
        let expect = SentBytes {
            data: 800.0 + 2.0 * 7.0 / 8.0 * 800.0,
            tensor: 0.75 * 3200.0 + 0.75 * 800.0,
            pipeline: 0.0,
            hosts: 1200.0,
        };
        assert_eq!(sent, expect);
    }
}
