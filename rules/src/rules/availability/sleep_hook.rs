//! The seconds that a preStop hook sleeps.

use crate::tree::node::Node;
use crate::workload::command::{base_name, shell_script};
use crate::workload::image::lacks_shell;

pub(super) struct Sleep<'a> {
    /// The number of seconds, or the command.
    pub node: Node<'a>,
    pub seconds: i64,
    /// Whether it is the `sleep` action of Kubernetes and not a command.
    pub is_action: bool,
}

/// The sleep of a container's preStop hook, if the hook certainly sleeps.
pub(super) fn sleep_of<'a>(container: &Node<'a>) -> Option<Sleep<'a>> {
    let hook = container.path(&["lifecycle", "preStop"]);
    let action = hook.path(&["sleep", "seconds"]);
    if let Some(seconds) = action.int() {
        return Some(Sleep { node: action, seconds, is_action: true });
    }
    sleep_of_command(container).filter(|_| !lacks_shell(container))
}

/// The sleep of the command of a preStop hook, which needs a program of the image.
pub(super) fn sleep_of_command<'a>(container: &Node<'a>) -> Option<Sleep<'a>> {
    let node = container.path(&["lifecycle", "preStop", "exec", "command"]);
    let words: Vec<&str> = node.items().map(|word| word.raw_text()).collect::<Option<_>>()?;
    let seconds = match shell_script(node.items()) {
        Some(script) => script_sleeps(script.node.raw_text()?)?,
        None => {
            let (_, rest) = words.split_first().filter(|(program, _)| base_name(program) == "sleep")?;
            sleep_seconds(rest.iter().copied())?
        }
    };
    Some(Sleep { node, seconds, is_action: false })
}

/// The seconds that the commands of a script sleep for certain, one after the other. `None` for scripts that may sleep less.
fn script_sleeps(script: &str) -> Option<i64> {
    const BRANCHES: [&str; 10] =
        ["if", "for", "while", "until", "case", "exit", "trap", "function", "exec", "timeout"];
    let mut seconds: i64 = 0;
    for line in script.replace("\\\n", " ").lines() {
        let line = line.trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        for command in line.replace("&&", ";").split(';') {
            // A command that runs in the background or under a condition may not sleep at all.
            if command.contains('|') && command.contains("sleep") || command.trim_end().ends_with('&') {
                return None;
            }
            let mut words = command.split_whitespace();
            let Some(first) = words.next() else { continue };
            if BRANCHES.contains(&first) || first.starts_with(['(', '{']) || first.ends_with("()") {
                return None;
            }
            if base_name(first) == "sleep" {
                seconds = seconds.checked_add(sleep_seconds(words)?)?;
            }
        }
    }
    (seconds > 0).then_some(seconds)
}

/// The sum of the arguments of `sleep`.
fn sleep_seconds<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<i64> {
    words.try_fold(0_i64, |sum, word| {
        let (number, unit) = match word.trim_matches(['"', '\'']) {
            text if text.ends_with('s') => (&text[..text.len() - 1], 1),
            text if text.ends_with('m') => (&text[..text.len() - 1], 60),
            text if text.ends_with('h') => (&text[..text.len() - 1], 3600),
            text => (text, 1),
        };
        let whole = number.split('.').next().unwrap_or(number);
        sum.checked_add(whole.parse::<u32>().ok().map(i64::from)?.checked_mul(unit)?)
    })
}

#[cfg(test)]
mod tests {
    use super::script_sleeps;

    #[test]
    fn scripts_sleep_for_what_is_certain() {
        for (script, seconds) in [
            ("sleep 15", Some(15)),
            ("/bin/sleep 15s", Some(15)),
            ("sleep 1m 30s", Some(90)),
            ("sleep 0.5", None),
            ("sleep 20; nginx -s quit", Some(20)),
            ("nginx -s quit && sleep 5\nsleep 5", Some(10)),
            ("# wait\ncurl -X POST localhost/drain\n# then\nsleep 90\n", Some(90)),
            ("sleep $DELAY", None),
            ("sleep $((5 * 2))", None),
            ("while pgrep x; do sleep 1; done", None),
            ("if [ -f x ]; then sleep 60; fi", None),
            ("sleep 60 & wait", None),
            ("test -f x || sleep 60", None),
            ("exit 0; sleep 60", None),
            ("timeout 5 sleep 60", None),
            ("kill -TERM 1", None),
            ("wait_for() { sleep 60; }", None),
        ] {
            assert_eq!(script_sleeps(script), seconds, "{script}");
        }
    }
}
