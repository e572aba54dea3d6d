//! Cleans up after Ctrl-C and SIGTERM: removes temporary files and ends the programs that render.
//!
//! A run without temporary files and programs ends on a signal as every program does. Everything to clean up
//! is registered under one lock. The thread that waits for signals takes the lock and keeps it, so that
//! nothing is started after the clean-up has begun.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// The files and process groups to remove when a signal arrives.
struct Leftovers {
    paths: BTreeSet<PathBuf>,
    groups: BTreeSet<u32>,
}

static LEFTOVERS: Mutex<Leftovers> =
    Mutex::new(Leftovers { paths: BTreeSet::new(), groups: BTreeSet::new() });

fn leftovers() -> MutexGuard<'static, Leftovers> {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(listen);
    LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file or folder that is removed when this value is dropped, or when the program is interrupted.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    pub(crate) fn create<T>(
        path: PathBuf,
        create: impl FnOnce(&Path) -> io::Result<T>,
    ) -> io::Result<(Temporary, T)> {
        let mut all = leftovers();
        let made = create(&path)?;
        all.paths.insert(path.clone());
        Ok((Temporary(path), made))
    }

    pub(crate) fn file(path: PathBuf) -> io::Result<(Temporary, fs::File)> {
        Temporary::create(path, |path| fs::OpenOptions::new().write(true).create_new(true).open(path))
    }

    /// The path for a temporary file beside `target`, which it replaces once it is complete.
    pub(crate) fn beside(target: &Path) -> PathBuf {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        target.with_file_name(format!(".{name}.gpulint-{}", std::process::id()))
    }

    pub(crate) fn replace(self, target: &Path) -> io::Result<()> {
        // After a rename nothing is left to remove.
        fs::rename(&self.0, target)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        remove(&self.0);
        leftovers().paths.remove(&self.0);
    }
}

/// Removes a file, or a folder with its content. The path may not exist.
fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// The process group of a program. It is ended when gpulint is interrupted.
pub(crate) struct Group(u32);

impl Group {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<(Group, Child)> {
        let mut all = leftovers();
        let child = command.spawn()?;
        all.groups.insert(child.id());
        Ok((Group(child.id()), child))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        leftovers().groups.remove(&self.0);
    }
}

pub(crate) fn end_group(id: u32) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
        // This fails if no process of the group is left.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = id;
}

/// Ends all programs and removes all temporary files, before the process ends. Nothing is started afterwards: the lock is held
/// for good.
pub(crate) fn end_all() {
    let all = leftovers();
    all.groups.iter().for_each(|group| end_group(*group));
    all.paths.iter().for_each(|path| remove(path));
    std::mem::forget(all);
}

#[cfg(unix)]
fn listen() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            end_all();
            // The shell sees which signal it was.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    });
}

#[cfg(not(unix))]
fn listen() {}
