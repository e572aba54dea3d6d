//! The words of a container's command line, and the values of its options.
//!
//! `command` and `args` are read as one line. An item that is a shell script is split at blanks and operators.
//! Variables are replaced by the literal values of the container's environment; other variables are unknown.

use std::borrow::Cow;

use crate::steps;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;

/// Maximum number of bytes of a command line that are read. Scripts in manifests are shorter; Linux passes no argument of
/// 128 KiB to a process (`MAX_ARG_STRLEN`). Rules read a command line many times.
const MAX_LINE_BYTES: usize = 32 * 1024;
/// The names of shells.
pub(crate) const SHELLS: [&str; 5] = ["ash", "bash", "dash", "sh", "zsh"];
/// Steps for each word, which is a text of its own.
const STEPS_PER_WORD: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Word<'a> {
    /// The text, with known variables replaced.
    pub(crate) text: String,
    pub(crate) known: bool,
    /// The item of `command` or `args` that contains it.
    pub(crate) node: Node<'a>,
}

#[derive(Clone, Debug)]
pub(crate) enum OptionValue<'a> {
    Absent,
    Unknown,
    /// The value, and the item that contains it.
    Text(String, Node<'a>),
}

impl<'a> OptionValue<'a> {
    /// A whole number, or `default` if the option is absent. `None` if it is unknown.
    pub(crate) fn int_or(&self, default: i64) -> Option<i64> {
        match self {
            OptionValue::Absent => Some(default),
            OptionValue::Unknown => None,
            OptionValue::Text(text, _) => text.parse().ok(),
        }
    }

    pub(crate) fn is(&self, value: &str) -> bool {
        matches!(self, OptionValue::Text(text, _) if text == value)
    }

    pub(crate) fn node(&self) -> Option<Node<'a>> {
        match self {
            OptionValue::Text(_, node) => Some(node.clone()),
            _ => None,
        }
    }
}

/// The items of `command` and `args` with their texts, up to [`MAX_LINE_BYTES`]; the last text may be cut. Also returns
/// whether there is more.
pub(crate) fn items<'a>(container: &Node<'a>) -> (Vec<(&'a str, Node<'a>)>, bool) {
    let (mut found, mut left) = (Vec::new(), MAX_LINE_BYTES);
    for field in ["command", "args"] {
        for item in container.items_at(&[field]) {
            let Some(text) = item.raw_text() else { continue };
            let part = beginning(text, left);
            found.push((part, item));
            // Each item is a word of its own, however short it is.
            left = left.saturating_sub(part.len() + 1);
            if part.len() < text.len() || left == 0 {
                return (found, true);
            }
        }
    }
    (found, false)
}

/// All items of `command` and then of `args` of a container.
pub(crate) fn command_and_args<'a>(container: &Node<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    container.get("command").items().chain(container.get("args").items())
}

/// A script that a shell runs from its command line: `sh -ec SCRIPT NAME ARGUMENT…`.
pub(crate) struct ShellScript<'a> {
    /// The script.
    pub(crate) node: Node<'a>,
    /// The letters of the shell's short options.
    pub(crate) options: String,
    /// The items behind the script: its name for `$0`, and its arguments.
    pub(crate) arguments: Vec<Node<'a>>,
}

/// The script that a shell runs as the option `-c` in the items of a command. `None` for other commands, and if an
/// option is unknown.
pub(crate) fn shell_script<'a>(mut items: impl Iterator<Item = Node<'a>>) -> Option<ShellScript<'a>> {
    let shell = items.next()?;
    if !SHELLS.contains(&base_name(shell.raw_text()?)) {
        return None;
    }
    let mut options = String::new();
    loop {
        let item = items.next()?;
        let text = item.raw_text()?;
        match text.strip_prefix(['-', '+']) {
            None if options.contains('c') => {
                return Some(ShellScript { node: item, options, arguments: items.collect() });
            }
            None => return None,
            Some(long) if long.starts_with('-') => {}
            Some(letters) => {
                options.push_str(letters);
                // The name of a setting follows: `bash -euo pipefail -c SCRIPT`.
                if letters.contains(['o', 'O']) {
                    items.next()?;
                }
            }
        }
    }
}

/// The beginning of a text, of a maximum length in bytes.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// The words of a container's command line. `;` stands for each separator between two commands of a script.
pub(crate) fn words<'a>(container: &Node<'a>) -> Vec<Word<'a>> {
    let mut out = Vec::new();
    let mut environment = None;
    let (items, has_more) = items(container);
    for (text, item) in &items {
        let text = if text.contains('$') {
            let environment = environment.get_or_insert_with(|| literals(container));
            substitute(text, environment)
        } else {
            Cow::Borrowed(*text)
        };
        steps::take(1 + text.len() / 8);
        if text.contains(char::is_whitespace) && !is_quoted_value(&text) {
            split(&text, item, &mut out);
        } else {
            out.push(word(text.into_owned(), item));
        }
    }
    if let Some((_, last)) = items.last().filter(|_| has_more) {
        out.extend(unread(last));
    }
    steps::take(STEPS_PER_WORD * out.len());
    out
}

/// The words of a command line that is one text, such as the entrypoint of a RayJob.
pub(crate) fn words_of_line<'a>(node: &Node<'a>) -> Vec<Word<'a>> {
    node.raw_text().map(|text| words_of_text(text, node)).unwrap_or_default()
}

/// The words of a text that is a part of a node, such as a line of a script.
pub(crate) fn words_of_text<'a>(text: &str, node: &Node<'a>) -> Vec<Word<'a>> {
    let mut out = Vec::new();
    let part = beginning(text, MAX_LINE_BYTES);
    steps::take(1 + part.len() / 8);
    split(part, node, &mut out);
    if part.len() < text.len() {
        out.extend(unread(node));
    }
    steps::take(STEPS_PER_WORD * out.len());
    out
}

/// What stands for words that are not read: the first may be the value of an option, the second may be an option.
fn unread<'a>(node: &Node<'a>) -> [Word<'a>; 2] {
    [(); 2].map(|()| Word { text: String::new(), known: false, node: node.clone() })
}

/// Whether an item with blanks is one value and not a script: JSON, or an option with its value.
fn is_quoted_value(text: &str) -> bool {
    text.starts_with(['{', '['])
}

fn word<'a>(text: String, item: &Node<'a>) -> Word<'a> {
    let known = !(text.contains(['$', '`']) || item.may_hold_placeholder() && is_placeholder(&text));
    Word { text, known, node: item.clone() }
}

/// The environment variables of a container with a literal value.
fn literals<'a>(container: &Node<'a>) -> Vec<(&'a str, Cow<'a, str>)> {
    let variables = container.get("env").items();
    variables.filter_map(|v| Some((v.get("name").text()?, v.get("value").string_or_number()?))).collect()
}

/// Replaces `$(NAME)`, `${NAME}` and `$NAME` by the values in the environment, up to [`MAX_LINE_BYTES`]: a long value may
/// be named many times.
fn substitute<'t>(text: &'t str, environment: &[(&str, Cow<'_, str>)]) -> Cow<'t, str> {
    if environment.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let (name, length) = match tail.as_bytes().first() {
            Some(b'(') => enclosed(tail, ')'),
            Some(b'{') => enclosed(tail, '}'),
            _ => {
                let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = tail.find(|c: char| !name(c)).unwrap_or(tail.len());
                (&tail[..end], end)
            }
        };
        steps::take(1 + environment.len());
        match environment.iter().rev().find(|(known, _)| *known == name) {
            Some((_, value)) if length > 0 && out.len() + value.len() <= MAX_LINE_BYTES => {
                out.push_str(value);
            }
            _ => out.push_str(&rest[at..=at + length]),
        }
        rest = &tail[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The name in brackets, and its length including the brackets; empty if they are not closed.
fn enclosed(tail: &str, close: char) -> (&str, usize) {
    tail.find(close).map_or(("", 0), |end| (&tail[1..end], end + 1))
}

/// Splits a script into words as a shell does, without expanding anything.
fn split<'a>(script: &str, item: &Node<'a>, out: &mut Vec<Word<'a>>) {
    let mut current = String::new();
    let mut quoted = false;
    let mut quote = None;
    let mut characters = script.chars().peekable();
    let end = |current: &mut String, quoted: &mut bool, out: &mut Vec<Word<'a>>| {
        if !current.is_empty() || *quoted {
            out.push(word(std::mem::take(current), item));
        }
        *quoted = false;
    };
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => match characters.next() {
                None | Some('\n') => {}
                Some(escaped) => current.push(escaped),
            },
            (Some(_), c) => current.push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                quoted = true;
            }
            (None, '#') if current.is_empty() => while characters.next_if(|c| *c != '\n').is_some() {},
            (None, '\n' | ';' | '&' | '|') => {
                end(&mut current, &mut quoted, out);
                out.push(Word { text: ";".to_owned(), known: true, node: item.clone() });
            }
            (None, c) if c.is_whitespace() => end(&mut current, &mut quoted, out),
            (None, c) => current.push(c),
        }
    }
    end(&mut current, &mut quoted, out);
}

/// The words from a position to the end of the command.
pub(crate) fn command_at<'w, 'a>(words: &'w [Word<'a>], start: usize) -> &'w [Word<'a>] {
    let words = &words[start.min(words.len())..];
    let end = words.iter().position(|word| word.text == ";").unwrap_or(words.len());
    &words[..end]
}

/// The last value of an option, under any of its names: `--x 1` and `--x=1`. Names are given without dashes, and with
/// `-` for `_`.
pub(crate) fn option<'a>(words: &[Word<'a>], names: &[&str]) -> OptionValue<'a> {
    let mut found = OptionValue::Absent;
    for (at, word) in words.iter().enumerate() {
        let Some(text) = word.text.strip_prefix('-') else { continue };
        let text = text.strip_prefix('-').unwrap_or(text);
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some((value, word))),
            None => (text, words.get(at + 1).map(|next| (next.text.as_str(), next))),
        };
        let is_known = |name: &str| names.iter().any(|known| is_same_name(known, name));
        if !is_known(name) {
            // `--hf-overrides.dtype=half`: a key of the JSON that the option has as its value.
            if name.split_once('.').is_some_and(|(name, _)| is_known(name)) {
                found = OptionValue::Unknown;
            }
            continue;
        }
        found = match value {
            Some((value, holder)) if holder.known && (text.contains('=') || !value.starts_with("--")) => {
                OptionValue::Text(value.trim_matches(['"', '\'']).to_owned(), holder.node.clone())
            }
            _ => OptionValue::Unknown,
        };
    }
    found
}

fn is_same_name(known: &str, written: &str) -> bool {
    known.len() == written.len()
        && known.bytes().zip(written.bytes()).all(|(a, b)| a == b || (a == b'-' && b == b'_'))
}

/// Whether the words may contain further, unknown options, because there is a variable in the position of an option.
pub(crate) fn may_have_more_options(words: &[Word<'_>]) -> bool {
    words.iter().enumerate().any(|(at, word)| {
        let value = at > 0 && words[at - 1].text.starts_with('-') && !words[at - 1].text.contains('=');
        !word.known && !word.text.starts_with('-') && !value
    })
}

/// The last part of a path.
pub(crate) fn base_name(text: &str) -> &str {
    text.rsplit('/').next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::Object;
    use crate::workload::template::templates;

    fn with_words(container: Value, test: impl FnOnce(&[Word<'_>])) {
        let object = Object::from_json(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]},
        }))
        .expect("an object");
        let templates = templates(&object);
        test(&words(&templates[0].containers().next().expect("a container")));
    }

    #[test]
    fn scripts_are_split_as_a_shell_does() {
        let script = "set -e # all\ntorchrun --nproc_per_node=4 \\\n  'my train.py' \"a b\" && echo done";
        with_words(json!({"command": ["sh", "-c", script]}), |words| {
            let texts: Vec<&str> = words.iter().map(|w| w.text.as_str()).collect();
            let start = texts.iter().position(|t| *t == "torchrun").expect("the launcher");
            assert_eq!(texts[..start], ["sh", "-c", "set", "-e", ";"]);
            let own: Vec<&str> = command_at(words, start).iter().map(|w| w.text.as_str()).collect();
            assert_eq!(own, ["torchrun", "--nproc_per_node=4", "my train.py", "a b"]);
        });
    }

    #[test]
    fn a_shell_runs_one_script() {
        for (command, expected) in [
            (json!(["sh", "-c", "a b", "c"]), Some(("a b", "c", 1))),
            (json!(["/bin/bash", "-l", "-c", "a"]), Some(("a", "lc", 0))),
            (json!(["bash", "-euo", "pipefail", "-c", "a", "x", "y"]), Some(("a", "euoc", 2))),
            (json!(["bash", "--login", "-ec", "a"]), Some(("a", "ec", 0))),
            (json!(["bash", "run.sh", "-c", "a"]), None),
            (json!(["python", "-c", "a"]), None),
            (json!(["sh", "-c"]), None),
        ] {
            let tree = crate::tree::Tree::from_json(&command);
            let found = shell_script(Node::new(&tree, 0).items());
            let found = found.as_ref().map(|found| {
                (found.node.raw_text().unwrap_or_default(), found.options.as_str(), found.arguments.len())
            });
            assert_eq!(found, expected, "{command}");
        }
    }

    #[test]
    fn of_a_long_command_line_the_beginning_is_read() {
        let long = "--pad x ".repeat(MAX_LINE_BYTES);
        with_words(json!({"args": [format!("serve --port 80 {long} --port 90")]}), |words| {
            assert!(words.len() < MAX_LINE_BYTES, "{}", words.len());
            assert!(option(words, &["port"]).is("80"));
            assert!(may_have_more_options(words));
        });
        with_words(json!({"args": vec!["--a"; 2 * MAX_LINE_BYTES]}), |words| {
            assert!(words.len() < MAX_LINE_BYTES && may_have_more_options(words), "{}", words.len());
        });
        let named =
            json!({"env": [{"name": "PAD", "value": "x".repeat(20_000)}], "args": ["$(PAD)".repeat(5000)]});
        with_words(named, |words| assert!(words[0].text.len() < 2 * MAX_LINE_BYTES));
    }

    #[test]
    fn options_have_two_spellings_and_variables() {
        let container = json!({
            "env": [{"name": "TP", "value": "4"}, {"name": "SECRET", "valueFrom": {}}],
            "args": [
                "--tensor_parallel_size", "$(TP)", "--port=${PORT}", "--model=m", "--quiet", "$MORE", "-tp", "2",
                "--hf-overrides.dtype=half",
            ],
        });
        with_words(container, |words| {
            assert_eq!(option(words, &["tensor-parallel-size"]).int_or(1), Some(4));
            assert_eq!(option(words, &["tp"]).int_or(1), Some(2));
            assert_eq!(option(words, &["port"]).int_or(1), None);
            assert_eq!(option(words, &["other"]).int_or(1), Some(1));
            assert!(option(words, &["model"]).node().is_some());
            assert!(matches!(option(words, &["hf-overrides"]), OptionValue::Unknown));
            assert!(!may_have_more_options(&words[..4]));
        });
        with_words(json!({"args": ["serve", "$MORE"]}), |words| assert!(may_have_more_options(words)));
    }
}
