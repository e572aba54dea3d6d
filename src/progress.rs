//! Progress of a long run, shown on a terminal only.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::terminal;

/// Counts files. The line appears after one second and is removed when this value is dropped.
pub(crate) struct Progress {
    done: Arc<AtomicUsize>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts counting up to `total`; the line is only displayed if `shown` is true.
    pub(crate) fn start(total: usize, shown: bool) -> Progress {
        let done = Arc::new(AtomicUsize::new(0));
        let thread = (shown && terminal::stderr_is_terminal()).then(|| {
            let (stop, stopped) = channel();
            let count = Arc::clone(&done);
            let handle = std::thread::spawn(move || {
                let mut wait = Duration::from_secs(1);
                let mut drawn = false;
                while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
                    wait = Duration::from_millis(100);
                    drawn = true;
                    draw(&format!("{} of {total} files", count.load(Ordering::Relaxed)));
                }
                if drawn {
                    draw("");
                }
            });
            (stop, handle)
        });
        Progress { done, thread }
    }

    /// Counts one file.
    pub(crate) fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, handle)) = self.thread.take() {
            drop(stop);
            let _ = handle.join();
        }
    }
}

fn draw(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "\r\x1b[K{text}");
    let _ = stderr.flush();
}
