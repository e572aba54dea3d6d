//! Keeps background tasks running after panics. Otherwise a defect could stop the renewal of certificates unnoticed,
//! months before one expires.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use crate::metrics::Metrics;

/// Runs one iteration of a task. If it panics, the panic is logged and counted, and `None` is returned.
pub(crate) async fn catch_panic<T>(
    task: &'static str,
    metrics: &Metrics,
    work: impl Future<Output = T>,
) -> Option<T> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    if done.is_err() {
        metrics.panicked(task);
        tracing::error!(task, "a task panicked; it goes on");
    }
    done.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_counted_and_survived() {
        let metrics = Metrics::new();
        assert_eq!(catch_panic("sum", &metrics, async { 1 + 1 }).await, Some(2));
        let empty: Vec<u8> = Vec::new();
        let lost = catch_panic("sum", &metrics, async { empty[empty.len()] }).await;
        assert_eq!(lost, None);
        let text = metrics.text();
        assert!(text.contains("gpulint_task_panics_total{task=\"sum\"} 1"), "{text}");
    }
}
