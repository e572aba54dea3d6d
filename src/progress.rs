//! Progress of a long run, shown on a terminal only.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::terminal;

/// Shows what is being done. The line appears after one second and is removed when this value is dropped.
pub(crate) struct Progress {
    done: Arc<AtomicUsize>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts counting files up to `total`; the line is only displayed if `shown` is true.
    pub(crate) fn counting(what: &str, total: usize, shown: bool) -> Progress {
        let what = what.to_owned();
        Progress::start(shown, move |done, _| format!("{what} {done} of {total} files"))
    }

    /// Shows for how long something has been running.
    pub(crate) fn waiting(what: &str, shown: bool) -> Progress {
        let what = what.to_owned();
        Progress::start(shown, move |_, since| format!("{what} ({} s)", since.as_secs()))
    }

    fn start(shown: bool, line: impl Fn(usize, Duration) -> String + Send + 'static) -> Progress {
        let done = Arc::new(AtomicUsize::new(0));
        let thread = (shown && terminal::stderr_is_terminal()).then(|| {
            let (stop, stopped) = channel();
            let count = Arc::clone(&done);
            let handle = std::thread::spawn(move || {
                let start = Instant::now();
                let mut wait = Duration::from_secs(1);
                let mut drawn = false;
                while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
                    wait = Duration::from_millis(100);
                    drawn = true;
                    draw(&line(count.load(Ordering::Relaxed), start.elapsed()));
                }
                if drawn {
                    draw("");
                }
            });
            (stop, handle)
        });
        Progress { done, thread }
    }

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
