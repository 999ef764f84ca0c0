//! Random numbers that tell processes apart.

/// A number that no other process has, most likely.
pub(crate) fn random_number() -> u64 {
    let mut bytes = [0; 8];
    // Time and process id still differ where the system has no random bytes.
    let _ = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = now.map_or(0, |now| now.as_nanos() as u64);
    u64::from_le_bytes(bytes) ^ nanoseconds ^ (u64::from(std::process::id()) << 40)
}
