//! Work that goes on when its caller leaves, since a thread of it cannot be ended: limits must count it until then.

/// Does the work to its end, also where this future is dropped before.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and nobody waits for the answer.
            Err(_) => std::future::pending().await,
        },
    }
}
