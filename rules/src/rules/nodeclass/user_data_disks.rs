//! Scripts in user data that format disks by their numbers.

use super::significant_lines;
use crate::tree::node::Node;
use crate::workload::command::{Word, base_name, words_of_text};

/// Parts of commands that look which disk it is, or what is on it.
const LOOKS: [&str; 23] = [
    "blkid",
    "lsblk",
    "by-id",
    "by-label",
    "by-path",
    "by-uuid",
    "nvme list",
    "id-ctrl",
    "ebsnvme-id",
    "/device/model",
    "/device/serial",
    "/sys/class/nvme",
    "udevadm",
    "file -s",
    "wipefs -n",
    "findmnt",
    "findfs",
    "/proc/mounts",
    "mountpoint ",
    "! mount ",
    "mount |",
    "dumpe2fs",
    "xfs_info",
];

/// Words before the program of a command.
const BEFORE: [&str; 13] =
    ["sudo", "if", "then", "else", "elif", "do", "while", "until", "!", "{", "(", "exec", "export"];

/// The first line that formats an NVMe device by its number, in a script that does not look at the disks before, and whether
/// it does so where a file system is already.
pub(super) fn formats_by_number<'t>(node: &Node<'_>, text: &'t str) -> Option<(&'t str, bool)> {
    if significant_lines(text).any(|line| LOOKS.iter().any(|word| line.contains(word))) {
        return None;
    }
    let mut variables: Vec<String> = Vec::new();
    let mut end: Option<&str> = None;
    significant_lines(text).find_map(|line| {
        if end.is_some() {
            end = end.filter(|word| *word != line);
            return None;
        }
        end = end_of_text(line);
        let words = words_of_text(line, node);
        let mut commands = words.split(|word| word.text == ";");
        commands.find_map(|command| formats(command, &mut variables)).map(|is_forced| (line, is_forced))
    })
}

/// The word that ends a text behind a line (`cat <<END`), unless a shell runs the text.
fn end_of_text(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("<<")?;
    let rest = rest.trim_start_matches('-').trim_start().trim_start_matches(['"', '\'']);
    let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let is_run = line.split_whitespace().any(|word| matches!(base_name(word), "bash" | "sh"));
    (rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !is_run).then_some(&rest[..length])
}

/// Whether a command formats a device by its number although a file system may be on it. `None` if it does not format one. The
/// variables are those with such a device.
fn formats(command: &[Word<'_>], variables: &mut Vec<String>) -> Option<bool> {
    let words = command.iter().map(|word| word.text.as_str());
    let words: Vec<&str> = words.skip_while(|word| BEFORE.contains(word) || word.starts_with('-')).collect();
    let (first, rest) = words.split_first()?;
    if let Some((name, value)) = first.split_once('=') {
        variables.retain(|other| other != name);
        if value.starts_with("/dev/nvme") {
            variables.push(name.to_owned());
        }
        return None;
    }
    let is_by_number = |word: &&str| {
        let name = word.strip_prefix('$').map(|name| name.trim_matches(['{', '}']));
        word.starts_with("/dev/nvme") || name.is_some_and(|name| variables.iter().any(|known| known == name))
    };
    if !rest.iter().any(is_by_number) {
        return None;
    }
    let program = base_name(first.trim_start_matches('('));
    let creates = |word: &&str| matches!(*word, "--create" | "-C");
    // It looks for some file systems alone.
    if program == "mdadm" && rest.iter().any(creates) {
        return Some(true);
    }
    // Without an option, XFS and Btrfs stop where a file system is. mke2fs asks only at a terminal.
    let is_careful = words.iter().any(|word| word.ends_with("xfs") || word.ends_with("btrfs"));
    let forces = |word: &&str| *word == "--force" || is_short_option(word, 'f');
    (program.starts_with("mkfs") || program == "mke2fs").then(|| !is_careful || rest.iter().any(forces))
}

/// Whether a word is a short option, or several of them with this one: `-f`, `-Kf`.
fn is_short_option(word: &str, letter: char) -> bool {
    word.strip_prefix('-').is_some_and(|letters| letters.len() < 3 && letters.contains(letter))
}
