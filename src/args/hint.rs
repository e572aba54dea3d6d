//! What shells complete, and what was probably meant by arguments without a command.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory, Parser};
use gpulint_rules::{Group, RULES};

use super::{Args, Command};

/// Reads values as another parser does, and names values that shells complete. Others stay possible: what is wrong with a
/// value is said where it is used.
#[derive(Clone)]
pub(super) struct Hinted<P> {
    parser: P,
    values: fn() -> Vec<PossibleValue>,
}

/// A parser of text that names values.
pub(super) fn hinted<T, P>(values: fn() -> Vec<PossibleValue>, parser: P) -> Hinted<P>
where
    T: Clone + Send + Sync + 'static,
    P: TypedValueParser<Value = T>,
{
    Hinted { parser, values }
}

impl<P: TypedValueParser> TypedValueParser for Hinted<P>
where
    P::Value: Send + Sync + Clone,
{
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.values)().into_iter()))
    }
}

pub(super) fn rules_and_groups() -> Vec<PossibleValue> {
    let rules = RULES.iter().map(|rule| PossibleValue::new(rule.id).help(rule.summary()));
    let groups = Group::ALL.iter().map(|group| PossibleValue::new(group.name()).help(group.description()));
    groups.chain(rules).collect()
}

/// Rules, groups and the word for all of them.
pub(super) fn selectable() -> Vec<PossibleValue> {
    let mut values = rules_and_groups();
    values.push(PossibleValue::new("all").help("Every rule"));
    values
}

/// Names that other linters have for what gpulint calls otherwise: an option or a command, and its name here.
const ELSEWHERE: [(&str, &str); 21] = [
    ("--output", "--format"),
    ("-o", "--format"),
    ("--json", "--format json"),
    ("--sarif", "--format sarif"),
    ("--no-color", "--color never"),
    ("--colour", "--color"),
    ("--exclude", "--ignore RULE"),
    ("--skip", "--ignore RULE"),
    ("--disable", "--ignore RULE"),
    ("--enable", "--select RULE"),
    ("--only", "--select RULE"),
    ("--rule", "--select RULE"),
    ("--exit-zero", "--fail-on never"),
    ("--no-fail", "--fail-on never"),
    ("--strict", "--fail-on info"),
    ("--jobs", "--threads"),
    ("lint", "check"),
    ("scan", "check"),
    ("test", "check"),
    ("validate", "check"),
    ("version", "--version"),
];

/// The arguments of the process; ends it where they cannot be read, and help was asked for or a message of clap says why.
///
/// # Errors
/// What was probably meant, if a command is missing.
pub(crate) fn parse() -> Result<Args, String> {
    Args::try_parse().or_else(|error| {
        let given: Vec<OsString> = std::env::args_os().skip(1).collect();
        if let Some(meant) = check_was_meant(error.kind(), &given) {
            return Err(format!("there is no command; did you mean `{meant}`?"));
        }
        match named_elsewhere(&error, &given) {
            Some((name, "--ignore RULE")) => Err(format!(
                "there is no `{name}`; did you mean `--ignore RULE`, or for files, `ignore` in gpulint.yaml?"
            )),
            Some((name, meant)) => Err(format!("there is no `{name}`; did you mean `{meant}`?")),
            None => error.exit(),
        }
    })
}

/// An unknown option or command that other linters have, and its name here, if the given command has it.
fn named_elsewhere(error: &clap::Error, given: &[OsString]) -> Option<(&'static str, &'static str)> {
    let context = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let ContextValue::String(unknown) = error.get(context)? else { return None };
    let (name, meant) = ELSEWHERE.into_iter().find(|(name, _)| name == unknown)?;
    let known = Args::command();
    let Some(option) = meant.split(' ').next().and_then(|word| word.strip_prefix("--")) else {
        return Some((name, meant));
    };
    let command = known.get_subcommands().find(|command| given.iter().any(|word| command.get_name() == word));
    let has =
        |command: &clap::Command| command.get_arguments().any(|argument| argument.get_long() == Some(option));
    let is_known = option == "version" || has(&known) || command.is_some_and(has);
    is_known.then_some((name, meant))
}

/// `gpulint check …`, if that is what arguments without a command mean.
fn check_was_meant(kind: ErrorKind, given: &[OsString]) -> Option<String> {
    if !matches!(kind, ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) {
        return None;
    }
    let known = Args::command();
    let is_command = |text: &OsString| known.get_subcommands().any(|command| command.get_name() == text);
    if given.first().is_none_or(is_command) {
        return None;
    }
    let words = [OsStr::new("gpulint"), OsStr::new("check")].into_iter();
    let Command::Check(args) =
        Args::try_parse_from(words.chain(given.iter().map(OsString::as_os_str))).ok()?.command
    else {
        return None;
    };
    let is_path = |path: &Path| {
        let text = path.to_string_lossy();
        path.exists()
            || text == "-"
            || text.contains('/')
            || [".yaml", ".yml", ".json"].iter().any(|end| text.ends_with(end))
    };
    if !args.paths.iter().all(|path| is_path(path)) {
        return None;
    }
    let words = given.iter().map(|word| {
        let word = word.to_string_lossy();
        if word.contains([' ', '\'', '"', '*', '$']) { format!("'{word}'") } else { word.into_owned() }
    });
    Some(format!("gpulint check {}", words.collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser;
    use clap::error::ErrorKind;

    use super::{Args, check_was_meant, named_elsewhere};

    #[test]
    fn names_of_other_linters_are_translated() {
        let meant = |words: &[&str]| {
            let error = Args::try_parse_from([&["gpulint"][..], words].concat()).unwrap_err();
            let given: Vec<OsString> = words.iter().map(OsString::from).collect();
            named_elsewhere(&error, &given).map(|(_, meant)| meant)
        };
        assert_eq!(meant(&["check", "--output", "json", "."]), Some("--format"));
        assert_eq!(meant(&["check", "--output=json"]), Some("--format"));
        assert_eq!(meant(&["check", "-o", "json"]), Some("--format"));
        assert_eq!(meant(&["pools", "--no-color"]), Some("--color never"));
        assert_eq!(meant(&["lint", "."]), Some("check"));
        assert_eq!(meant(&["version"]), Some("--version"));
        assert_eq!(meant(&["pools", "--exit-zero"]), None);
        assert_eq!(meant(&["check", "--nonsense"]), None);
    }

    #[test]
    fn paths_without_a_command_are_to_be_checked() {
        let meant = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            check_was_meant(ErrorKind::InvalidSubcommand, &words)
        };
        assert_eq!(meant(&["./manifests"]).as_deref(), Some("gpulint check ./manifests"));
        assert_eq!(meant(&["src", "a b.yaml"]).as_deref(), Some("gpulint check src 'a b.yaml'"));
        assert_eq!(meant(&["--fix", "./x"]).as_deref(), Some("gpulint check --fix ./x"));
        assert_eq!(meant(&["chekc"]), None);
        assert_eq!(meant(&["check", "--nonsense"]), None);
        assert_eq!(meant(&["./x", "--nonsense"]), None);
    }
}
