//! The lengths of texts that come from runners and clusters, whose words may be a user's.

use traind_proto::v1;

/// The longest message of a failure, and the longest other text of one.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
pub(super) const TEXT_BYTES_MAX: usize = 4096;

/// Bounds a failure, whose words may be those of a runner or of a cluster.
pub(super) fn limit_failure(failure: &mut v1::Failure) {
    clip(&mut failure.message, MESSAGE_BYTES_MAX);
    clip(&mut failure.reason, TEXT_BYTES_MAX);
    let v1::Failure { field, file, tensor, host, .. } = failure;
    [field, file, tensor, host].into_iter().flatten().for_each(|it| clip(it, TEXT_BYTES_MAX));
}

/// The beginning of a reason, which may be a cluster's words.
pub(super) fn limited_text(text: &str) -> String {
    let mut text = text.to_owned();
    clip(&mut text, TEXT_BYTES_MAX);
    text
}

/// Leaves the beginning of a text.
pub(super) fn clip(text: &mut String, bytes_max: usize) {
    text.truncate(text.floor_char_boundary(bytes_max));
}
