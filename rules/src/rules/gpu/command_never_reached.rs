//! A command of a script does not return, so that the server after it never starts.
//!
//! # Why
//! `ray start --block` runs until its node of Ray ends, and so do `ollama serve`, a model server and
//! `sleep infinity`. A shell runs the commands of a script one after the other, whether a new line, `;` or `&&`
//! is between them: what is written behind such a command runs when it ends, which it does not. The container
//! is running, nobody listens on the port of the server, and its GPUs are idle until a probe restarts it.
//!
//! Only scripts of `sh -c` are read, and only commands outside of conditions and loops. Whatever follows is left
//! alone unless it starts a model server, a run of training, or asks Ollama for a model.
//!
//! # Fix
//! Leave out `--block` at the head of Ray, as the server keeps the container running. Start what does not return
//! last, or in the background with `&`, and wait until it answers.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: head}
//!  spec:
//!    containers:
//!      - name: vllm
//!        image: example.com/vllm:v0.11.0
//!        command: [bash, -c]
//!        args:
//! -        - "ray start --head --block && vllm serve Qwen/Qwen3-32B --tensor-parallel-size 8" # <-
//! +        - "ray start --head && vllm serve Qwen/Qwen3-32B --tensor-parallel-size 8"
//! ```
//!
//! # References
//! - <https://docs.ray.io/en/latest/cluster/cli.html#ray-start>
//! - <https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html>

use crate::rules::prelude::*;
use crate::workload::command::{Word, base_name, command_and_args, items, shell_script, words_of_text};
use crate::workload::server::server_at;

pub(crate) static RULE: Rule = Rule {
    id: "command-never-reached",
    docs: docs(include_str!("command_never_reached.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Gpu)
};

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for container in template.all_containers() {
        inspect(&container, ctx);
    }
    None
}

fn inspect(container: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if items(container).1 {
        return None;
    }
    let node = shell_script(command_and_args(container))?.node;
    let statements = statements(node.raw_text()?)?;
    let mut blocking: Option<(String, &'static str)> = None;
    for (at, statement) in statements.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &statements[before]);
        let words = words_of_text(statement.text, &node);
        let words = program_of(&words);
        if let Some((first, help)) = &blocking {
            let Some(unreached) = starts(words, first) else { continue };
            let message = format!("`{first}` does not return: `{unreached}` behind it is never run");
            ctx.report(&node, message).help(*help);
            return Some(());
        }
        let is_certain = statement.depth == 0 && !before.is_some_and(is_condition);
        if is_certain && matches!(statement.end, End::Next | End::And) {
            blocking = blocks(words);
        }
    }
    None
}

/// Whether the command behind a statement may not run: `[ "$RANK" = 0 ] && …`, `… || …`.
fn is_condition(before: &Statement<'_>) -> bool {
    let is_test = || before.text.starts_with('[') || before.text.split_whitespace().next() == Some("test");
    before.end == End::Or || before.end == End::And && is_test()
}

/// What ends a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A new line, `;`, or the end of the script.
    Next,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `&`, or a pipe of which another command is the end.
    Other,
}

/// A command of a script.
#[derive(Debug, PartialEq, Eq)]
struct Statement<'s> {
    text: &'s str,
    end: End,
    /// The number of conditions, loops and groups around it.
    depth: usize,
}

/// Words that begin and that end a compound command, and those that a command may follow.
const BEGINS: [&str; 6] = ["if", "while", "until", "for", "{", "("];
const ENDS: [&str; 4] = ["fi", "done", "}", ")"];
const INSIDE: [&str; 5] = ["then", "do", "else", "elif", "!"];

/// The statements of a script. `None` if it has what is not read: functions, `case`, texts between `<<` and its end.
fn statements(script: &str) -> Option<Vec<Statement<'_>>> {
    let mut found = Vec::new();
    let (mut start, mut depth, mut quote, mut nested) = (0, 0usize, None, 0usize);
    let mut characters = script.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => _ = characters.next(),
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '$') if script[at..].starts_with("$(") => {
                nested += 1;
                characters.next();
            }
            (None, '(') if nested > 0 => nested += 1,
            (None, ')') if nested > 0 => nested -= 1,
            (None, '<') if script[at..].starts_with("<<") && nested == 0 => return None,
            (None, '#') if script[..at].ends_with(char::is_whitespace) || at == 0 => {
                add(&script[start..at], End::Next, &mut depth, &mut found)?;
                while characters.next_if(|(_, c)| *c != '\n').is_some() {}
                start = characters.peek().map_or(script.len(), |(at, _)| *at);
            }
            (None, '\n' | ';' | '&' | '|') if nested == 0 => {
                let next = characters.peek().map(|(_, c)| *c);
                let end = match (c, next) {
                    // A part of a redirection: `2>&1`, `&>`.
                    ('&', _) if script[..at].ends_with(['>', '<']) => continue,
                    ('&', Some('>')) => continue,
                    ('&', Some('&')) => End::And,
                    ('|', Some('|')) => End::Or,
                    ('&' | '|', _) => End::Other,
                    _ => End::Next,
                };
                add(&script[start..at], end, &mut depth, &mut found)?;
                if matches!((c, next), ('&', Some('&')) | ('|', Some('|')) | (';', Some(';'))) {
                    characters.next();
                }
                start = characters.peek().map_or(script.len(), |(at, _)| *at);
            }
            _ => {}
        }
    }
    add(script.get(start..)?, End::Next, &mut depth, &mut found)?;
    (quote.is_none() && nested == 0).then_some(found)
}

/// Adds a statement without the words of the compound command that are before it.
fn add<'s>(text: &'s str, end: End, depth: &mut usize, found: &mut Vec<Statement<'s>>) -> Option<()> {
    let mut rest = text.trim();
    loop {
        let word = rest.split_whitespace().next().unwrap_or_default();
        if word == "case" || word == "function" || word.ends_with("()") || rest.starts_with("((") {
            return None;
        }
        // `(cd x` is a group as well.
        let word = if rest.starts_with('(') { "(" } else { word };
        if BEGINS.contains(&word) {
            *depth += 1;
        } else if ENDS.contains(&word) {
            *depth = depth.checked_sub(1)?;
        } else if !INSIDE.contains(&word) {
            break;
        }
        rest = rest[word.len()..].trim_start();
    }
    if let Some(inner) = rest.strip_suffix(')').filter(|_| !rest.contains('(')) {
        found.push(Statement { text: inner, end, depth: *depth });
        *depth = depth.checked_sub(1)?;
    } else if !rest.is_empty() {
        found.push(Statement { text: rest, end, depth: *depth });
    }
    Some(())
}

/// The words of a command without variables and programs that only start another one.
fn program_of<'w, 'a>(words: &'w [Word<'a>]) -> &'w [Word<'a>] {
    const STARTERS: [&str; 5] = ["exec", "nohup", "time", "sudo", "env"];
    let is_before = |word: &Word<'_>| {
        let is_variable = word.text.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        is_variable || STARTERS.contains(&word.text.as_str())
    };
    let start = words.iter().position(|word| !is_before(word)).unwrap_or(words.len());
    &words[start..]
}

/// The name of a command that does not return, and what to write in its place.
fn blocks(words: &[Word<'_>]) -> Option<(String, &'static str)> {
    const BACKGROUND: &str = "start it in the background with `&`, and wait until it answers";
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    match (base_name(texts.first()?), texts.get(1..)?) {
        ("ray", ["start", options @ ..]) if options.contains(&"--block") => {
            let is_head = options.contains(&"--head");
            let help = if is_head {
                "leave out `--block`: what follows keeps the container running"
            } else {
                BACKGROUND
            };
            Some(("ray start --block".to_owned(), help))
        }
        ("sleep", ["infinity" | "inf"]) => {
            Some(("sleep infinity".to_owned(), "write it last, or leave it out"))
        }
        ("tail", ["-f" | "-F", "/dev/null"]) => {
            Some(("tail -f /dev/null".to_owned(), "write it last, or leave it out"))
        }
        _ => {
            let (server, length) = server_of_words(words)?;
            Some((words_shown(&texts, length, server), BACKGROUND))
        }
    }
}

/// The server that a command starts: its first words, or a module of Python.
fn server_of_words(words: &[Word<'_>]) -> Option<(&'static Server, usize)> {
    let first = base_name(&words.first()?.text);
    let at = if first.starts_with("python") && words.get(1)?.text == "-m" { 2 } else { 0 };
    server_at(words, at).map(|(server, length)| (server, at + length))
}

fn words_shown(texts: &[&str], length: usize, server: &Server) -> String {
    texts.get(..length).map_or_else(|| server.name.to_owned(), |own| own.join(" "))
}

/// The name of a command that people want to run, behind one that does not return.
fn starts(words: &[Word<'_>], first: &str) -> Option<String> {
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    if let Some((server, length)) = server_of_words(words) {
        let shown = words_shown(&texts, length, server);
        // The same server once more is another attempt.
        return (shown != first).then_some(shown);
    }
    let of_server = !matches!(first, "ray start --block" | "sleep infinity" | "tail -f /dev/null");
    match (base_name(texts.first()?), texts.get(1).copied()) {
        ("ollama", Some(command @ ("pull" | "run" | "create"))) if first == "ollama serve" => {
            Some(format!("ollama {command}"))
        }
        // What follows a server may clean up.
        _ if of_server => None,
        (name @ ("torchrun" | "deepspeed"), _) => Some(name.to_owned()),
        ("accelerate", Some("launch")) => Some("accelerate launch".to_owned()),
        ("ray", Some(command @ ("start" | "job"))) => Some(format!("ray {command}")),
        ("serve", Some(command @ ("run" | "deploy"))) => Some(format!("serve {command}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Statement, statements};

    #[test]
    fn scripts_have_statements_at_a_depth() {
        let of = |script: &str| {
            let found = statements(script)?;
            Some(found.iter().map(|one| (one.text.to_owned(), one.end, one.depth)).collect::<Vec<_>>())
        };
        let next = |text: &str, depth| (text.to_owned(), End::Next, depth);
        let other = |text: &str| (text.to_owned(), End::Other, 0);
        let or = |text: &str| (text.to_owned(), End::Or, 0);
        let and = |text: &str| (text.to_owned(), End::And, 0);
        for (script, expected) in [
            ("a --b && c", vec![and("a --b"), next("c", 0)]),
            ("a > x 2>&1 &\nb", vec![other("a > x 2>&1"), next("b", 0)]),
            ("a | tee b; c || d", vec![other("a"), next("tee b", 0), or("c"), next("d", 0)]),
            ("# n\na 'x; y' # m\nb", vec![next("a 'x; y'", 0), next("b", 0)]),
            ("if a; then\n b\nelse c; fi; d", vec![next("a", 1), next("b", 1), next("c", 1), next("d", 0)]),
            ("(a; b) && c", vec![next("a", 1), ("b".to_owned(), End::And, 1), next("c", 0)]),
            ("a $(b; c) \\\n  d\ne", vec![next("a $(b; c) \\\n  d", 0), next("e", 0)]),
            ("while true; do a; done; b", vec![next("true", 1), next("a", 1), next("b", 0)]),
        ] {
            assert_eq!(of(script).as_ref(), Some(&expected), "{script}");
        }
        for script in ["f() { a; }", "case $X in a) b;; esac", "cat <<EOF\na\nEOF", "a 'b"] {
            assert_eq!(statements(script), None::<Vec<Statement<'_>>>, "{script}");
        }
    }
}
